"""What a question would send, what it sent, and what its answer was made from; over the routes."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from nbinline_agent.context.inputs import cell_hash, digest
from nbinline_agent.context.instructions import STYLES
from tests.extension import received
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

CONNECTIONS = ["openai_api", "anthropic_api", "openai_compatible"]
MODELS = {
    "openai_api": "gpt-6.2-sol",
    "anthropic_api": "claude-haiku-4-5",
    "openai_compatible": "house-model",
}


@pytest.fixture
def settings() -> dict[str, Any]:
    """Further settings of the extension; a test may override it."""
    return {}


@pytest.fixture
def keys() -> dict[str, str]:
    """Keys in the server's environment; a test may override it."""
    return {"OPENAI_API_KEY": "sk-test-0123456789", "ANTHROPIC_API_KEY": "sk-ant-0123456789"}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any],
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    settings: dict[str, Any],
    keys: dict[str, str],
) -> dict[str, Any]:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "account"))
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {
        "openai_base_url": vendor.v1,
        "anthropic_base_url": vendor.url,
        "compatible_base_url": vendor.v1,
        "compatible_models": ["house-model"],
        "compatible_images": True,
        "idle_seconds": 5.0,
        "silence_timeout": 20.0,
        **settings,
    }
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


def mark(**choices: Any) -> dict[str, Any]:
    return {"nbinlineai": choices}


def picture(width: int = 40, height: int = 20) -> str:
    written = io.BytesIO()
    Image.effect_noise((width, height), 50).save(written, "PNG")
    return base64.b64encode(written.getvalue()).decode()


def question(cell_id: str, source: str, **more: Any) -> Any:
    choices = more.pop("choices", {})
    metadata = mark(isPromptCell=True, **choices)
    return new_markdown_cell(source, id=cell_id, metadata=metadata, **more)


def answer(cell_id: str, to: str, source: str, **more: Any) -> Any:
    metadata = mark(isOutputCell=True, promptCellId=to, status="done", **more)
    return new_markdown_cell(source, id=cell_id, metadata=metadata)


def write(asker: Asker, *cells: Any, **defaults: Any) -> Path:
    metadata = mark(defaults=defaults) if defaults else {}
    file = asker.root / "a.ipynb"
    file.write_text(nbformat.writes(new_notebook(cells=list(cells), metadata=metadata)))
    return file


async def preview(asker: Asker, cell: str = "q", **fields: Any) -> dict[str, Any]:
    body = {"path": "a.ipynb", "cell_id": cell, **fields}
    status, told = await asker.request("POST", "context-preview", body)
    assert status == 200, told
    report: dict[str, Any] = told["report"]
    return report


FRAME = new_output("execute_result", {"text/plain": "   a\n0  1"}, execution_count=3)
RICH = [
    new_markdown_cell("# Größe 🙂\nText", id="title"),
    new_code_cell("x = 1\n\ny = '<<data'", id="code", execution_count=3, outputs=[FRAME]),
    question("q0", "Earlier?"),
    answer("a0", "q0", "It was\n\nso.", author="somebody-else"),
]


@pytest.mark.parametrize("connection", CONNECTIONS)
@pytest.mark.parametrize(
    "mode", ["default", "full-notebook", "all-above", "ten-above", "custom", "current-only"]
)
async def test_the_preview_is_what_the_vendor_receives(
    asker: Asker, connection: str, mode: str
) -> None:
    text = (
        f"What of &`read_cell` here?\n\n![](attachment:a.png)\n\n{asker.vendor.prompt(text='Yes.')}"
    )
    choices = {"backend": connection, "model": MODELS[connection]}
    cell = question(
        "q", text, choices=choices, attachments={"a.png": {"image/png": picture(3000, 1500)}}
    )
    below = new_code_cell("later = 1", id="below")
    async with stopping(asker.ydoc):
        write(asker, *RICH, cell, below, contextMode=mode, outputs="full")
        report = await preview(asker)
        assert await asker.vendor.requests() == []
        assert report["mode"] == mode
        assert report["tools_offered"] == ["read_cell"]
        [image] = report["images"]
        assert (image["width"], image["height"], image["scaled"]) == (1568, 784, True)

        run = await asker.ended(await asker.ask("q"))

        assert run["status"] == "done", run["error"]
        [request] = await asker.vendor.requests()
        assert received.sha256(request) == report["request_sha256"]
        assert run["report"]["request_sha256"] == report["request_sha256"]


@pytest.mark.parametrize("keys", [{}])
async def test_a_preview_needs_no_key_and_writes_nothing(
    asker: Asker, keys: dict[str, str]
) -> None:
    async with stopping(asker.ydoc):
        file = write(asker, *RICH, question("q", "Why?", choices={"backend": "openai_api"}))
        before = file.read_bytes()
        document = await asker.document()
        state = document.ydoc.get_state()

        report = await preview(asker)

        assert report["included"] == ["title", "code", "q0", "a0"]
        assert document.ydoc.get_state() == state
        assert not document.dirty
        assert file.read_bytes() == before
        status, told = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "q"})
        assert (status, told["error"]["code"]) == (409, "not-configured")
        assert await asker.vendor.requests() == []


async def test_a_preview_follows_every_edit(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        write(asker, *RICH, question("q", "Why?"))
        document = await asker.document()
        first = await preview(asker)
        assert (await preview(asker))["request_sha256"] == first["request_sha256"]

        text = document.ycells[1]["source"]
        text += "\nz = 3"
        edited = await preview(asker)
        assert edited["used"] > first["used"]

        document.ycells[0]["metadata"]["tags"] = ["any"]
        assert (await preview(asker))["request_sha256"] == edited["request_sha256"]

        moved = document.ycells[0].to_py()
        with document.ydoc.transaction():
            del document.ycells[0]
            document.ycells.append(document.create_ycell(moved))
        assert (await preview(asker))["included"] == ["code", "q0", "a0"]


async def test_the_outputs_that_a_notebook_chooses(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        for outputs, there in (("none", False), ("summaries", True), ("full", True)):
            asker.vendor.reset()
            write(asker, *RICH, question("q", "Why?"), outputs=outputs)
            await asker.vendor.script({"text": "So."})
            await asker.ended(await asker.ask("q"))
            [request] = await asker.vendor.requests()
            assert ("0  1" in json.dumps(request["body"])) is there
            await until(lambda: "So." in [source_of(cell) for cell in asker.saved()])
            await until(lambda: not asker.ydoc.ywebsocket_server.rooms, 20)
        write(asker, *RICH, question("q", "Why?"), outputs="some")
        status, told = await asker.request(
            "POST", "context-preview", {"path": "a.ipynb", "cell_id": "q"}
        )
        assert (status, told["error"]["code"]) == (400, "bad-request")


SECRET = """\
def square(x):
    ### BEGIN SOLUTION
    return x * x  # the-solution
    ### END SOLUTION"""


@pytest.mark.parametrize("settings", [{"hidden_tags": ["teacher"]}])
async def test_what_the_course_hides_is_in_no_preview_request_report_or_tool_result(
    asker: Asker, settings: dict[str, Any]
) -> None:
    tagged = new_code_cell("key = 'the-key'", id="tagged", metadata={"tags": ["teacher"]})
    shown = new_output("stream", text="printed-by-solution")
    call = {"name": "read_cell", "arguments": {"cell_id": "solution"}}
    script = {"turns": [{"tools": [call]}, {"text": "Done."}]}
    async with stopping(asker.ydoc):
        write(
            asker,
            new_code_cell(SECRET, id="solution", outputs=[shown]),
            tagged,
            question("q", f"&`read_cell` &`list_cells` {asker.vendor.prompt(**script)}"),
            contextMode="full-notebook",
            outputs="full",
        )
        report = await preview(asker)
        assert {"id": "tagged", "reason": "hidden-by-policy"} in report["ineligible"]

        run = await asker.ended(await asker.ask("q"))

        requests = await asker.vendor.requests()
        assert len(requests) == 2
        everything = json.dumps([report, run, [request["body"] for request in requests]])
        assert "def square" in everything
        for hidden in ("the-solution", "the-key", "printed-by-solution"):
            assert hidden not in everything


@pytest.mark.parametrize("settings", [{"context_budget_chars": 9_000}])
async def test_a_budget_in_characters_holds_for_every_model_and_the_answer_says_trimmed(
    asker: Asker, settings: dict[str, Any]
) -> None:
    long = new_code_cell("x = 1  # long\n" * 1_500, id="long")
    async with stopping(asker.ydoc):
        write(asker, long, question("q", asker.vendor.prompt(text="So.")))
        report = await preview(asker)
        assert (report["unit"], report["allowed"]) == ("characters", 9_000)
        assert (report["partial"], report["trimmed"]) == (["long"], True)

        run = await asker.ended(await asker.ask("q"))

        document = await asker.document()
        told = asker.answer(document, "q")
        assert told is not None
        assert told["metadata"]["nbinlineai"]["contextTrimmed"] is True
        assert run["report"]["trimmed"] is True


PINNED = {
    "backend": "anthropic_api",
    "model": "claude-haiku-4-5",
    "promptMode": "learning",
    "contextMode": "current-only",
    "keepAnswers": True,
}


@pytest.mark.parametrize("settings", [{"pinned": PINNED}])
async def test_what_the_server_prescribes_wins_and_is_told(
    asker: Asker, settings: dict[str, Any]
) -> None:
    own = {"backend": "openai_api", "model": "mine", "promptMode": "full", "keepAnswer": False}
    async with stopping(asker.ydoc):
        write(asker, *RICH, question("q", asker.vendor.prompt(text="So."), choices=own))
        _, status = await asker.request("GET", "status")
        assert status["policy"]["forced"] == PINNED

        override = {"promptMode": "compact", "contextMode": "full-notebook"}
        run = await asker.ended(await asker.ask("q", override=override))

        assert (run["connection"], run["model"]) == ("anthropic_api", "claude-haiku-4-5")
        assert (run["report"]["style"], run["report"]["mode"]) == ("learning", "current-only")
        code, told = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "q"})
        assert (code, told["error"]["code"]) == (409, "answer-kept")
        assert len(await asker.vendor.requests()) == 1


@pytest.mark.parametrize(
    ("own", "notebook", "kept"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False)],
)
async def test_a_kept_answer_makes_no_model_request(
    asker: Asker, own: bool | None, notebook: bool, kept: bool
) -> None:
    choices = {} if own is None else {"keepAnswer": own}
    async with stopping(asker.ydoc):
        write(
            asker,
            question("q", asker.vendor.prompt(text="New."), choices=choices),
            answer("a", "q", "Old."),
            keepAnswers=notebook,
        )
        status, told = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "q"})
        if kept:
            assert (status, told["error"]["code"]) == (409, "answer-kept")
            assert told["error"]["answer_cell_id"] == "a"
            assert await asker.vendor.requests() == []
        else:
            assert status == 202
            await asker.ended(told["run_id"])
            assert len(await asker.vendor.requests()) == 1


async def test_an_answer_says_what_it_was_made_from(asker: Asker) -> None:
    source = asker.vendor.prompt(text="So.")
    async with stopping(asker.ydoc):
        write(asker, *RICH, question("q", source))
        run = await asker.ended(await asker.ask("q"))
        run_id = run["run_id"]

        status, told = await asker.request("GET", "inputs", params={"run": run_id})

        assert status == 200
        expected = {
            "title": cell_hash("# Größe 🙂\nText"),
            "code": cell_hash("x = 1\n\ny = '<<data'", [dict(FRAME)]),
            "q0": cell_hash("Earlier?"),
            "a0": cell_hash("It was\n\nso."),
            "q": cell_hash(source),
        }
        assert told["inputs"][run_id] == expected
        document = await asker.document()
        cell = asker.answer(document, "q")
        assert cell is not None
        saved = cell["metadata"]["nbinlineai"]["inputsSha256"]
        assert saved == digest(expected) == run["report"]["inputs_sha256"]  # type: ignore[arg-type]
        _, page = await asker.request("GET", f"runs/{run_id}/events")
        assert [each["cells"] for each in page["events"] if each["type"] == "inputs"] == [5]


async def test_what_tools_read_and_wrote_are_inputs_as_they_are_then(asker: Asker) -> None:
    edit = {"cell_id": "code", "old_str": "y = '<<data'", "new_str": "y = 2"}
    turns = [
        {"tools": [{"name": "read_cell", "arguments": {"cell_id": "below"}}]},
        {"tools": [{"name": "cell_str_replace", "arguments": edit}]},
        {"text": "Done."},
    ]
    source = f"&`read_cell` &`cell_str_replace`\n\n{asker.vendor.prompt(turns=turns)}"
    async with stopping(asker.ydoc):
        write(asker, *RICH, question("q", source), new_code_cell("later = 1", id="below"))
        run = await asker.ended(await asker.ask("q"))
        assert run["status"] == "done", run["error"]
        document = await asker.document()
        cells = asker.cells(document)
        assert "y = 2" in cells["code"]["source"], run

        _, told = await asker.request("GET", "inputs", params={"run": run["run_id"]})

        inputs = told["inputs"][run["run_id"]]
        assert inputs["below"] == cell_hash("later = 1")
        assert inputs["code"].partition(".")[0] == cell_hash(cells["code"]["source"])


async def test_asking_for_inputs_nobody_has(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        status, told = await asker.request("GET", "inputs", params={"run": "0" * 32})
        assert (status, told) == (200, {"inputs": {}})
        for route in ("inputs", "inputs?run=../x", "inputs?" + "&".join(["run=a"] * 51)):
            path, _, query = route.partition("?")
            params = [tuple(each.split("=")) for each in query.split("&")] if query else None
            status, told = await asker.request("GET", path, params=params)
            assert (status, told["error"]["code"]) == (400, "bad-request"), route


async def test_a_model_that_takes_no_images_is_asked_without(asker: Asker) -> None:
    attached = {"a.png": {"image/png": picture()}}
    text = f"![](attachment:a.png)\n\n{asker.vendor.prompt(text='Blind.')}"
    async with stopping(asker.ydoc):
        write(asker, question("q", text, attachments=attached))
        _, status = await asker.request("GET", "status")
        assert status["connections"]["anthropic_api"]["images"]["claude-haiku-4-5"] is True
        assert status["connections"]["local"]["images"] == {"smollm2-135m-instruct": False}
        local = {"backend": "local"}
        report = await preview(asker, override=local)
        assert [each["problem"] for each in report["images"]] == ["model-takes-no-images"]
        assert report["trimmed"] is True


async def test_styles_are_worded_named_used_and_removed(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        _, told = await asker.request("GET", "settings/styles")
        assert {name: each["builtin"] for name, each in told["styles"].items()} == {
            "compact": True,
            "full": True,
            "learning": True,
        }
        pirate = {"name": "Pirate & parrot", "wording": "Style: pirate. Say arr."}
        status, told = await asker.request("PUT", "settings/styles", pirate)
        assert status == 200
        assert told["styles"]["Pirate & parrot"] == {
            "wording": pirate["wording"],
            "builtin": False,
            "own": True,
        }
        await asker.request("PUT", "settings/styles", {"name": "full", "wording": "Tell all."})
        _, known = await asker.request("GET", "status")
        assert known["styles"]["Pirate & parrot"] == pirate["wording"]
        assert known["styles"]["full"] == "Tell all."

        write(asker, question("q", asker.vendor.prompt(text="Arr.")), promptMode="Pirate & parrot")
        await asker.ended(await asker.ask("q"))
        [request] = await asker.vendor.requests()
        assert "Say arr." in request["body"]["instructions"]

        _, told = await asker.request("DELETE", "settings/styles", params={"name": "full"})
        assert told["styles"]["full"]["wording"] == STYLES["full"]
        _, told = await asker.request(
            "DELETE", "settings/styles", params={"name": "Pirate & parrot"}
        )
        assert "Pirate & parrot" not in told["styles"]
        status, told = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "q"})
        assert (status, told["error"]["code"]) == (400, "bad-request")
        assert "Pirate & parrot" in told["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"name": "a", "wording": "x" * 8_001},
        {"name": "a" * 41, "wording": "x"},
        {"name": " a", "wording": "x"},
        {"name": "a\nb", "wording": "x"},
        {"name": "a", "wording": "  "},
        {"name": "a"},
        {"wording": "x"},
        {"name": 3, "wording": "x"},
    ],
)
async def test_what_cannot_be_a_style_is_refused(asker: Asker, body: dict[str, Any]) -> None:
    async with stopping(asker.ydoc):
        status, told = await asker.request("PUT", "settings/styles", body)
        assert (status, told["error"]["code"]) == (400, "bad-request")
