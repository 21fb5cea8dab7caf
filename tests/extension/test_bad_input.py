"""Requests that cannot be met: a stable code, a sentence, and nothing written."""

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pycrdt import Doc

from tests.extension.conftest import stopping, until
from tests.extension.contents import LOCKED
from tests.vendor.plugin import Vendor

PROMPT = {"nbinlineai": {"isPromptCell": True}}
Post = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The server with our extension; two of its connections are configured."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["ServerApp"]["contents_manager_class"] = (
        "tests.extension.contents.LockingContents"
    )
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1}
    return jp_server_config


@pytest.fixture
def asked_of(jp_root_dir: Path) -> Path:
    """A notebook with a question and cells that are none."""
    cells = [
        new_markdown_cell("What?", id="ask", metadata=PROMPT),
        new_markdown_cell("Plain.", id="plain"),
        new_code_cell("1 + 1", id="code"),
        new_code_cell("1 + 1", id="flagged-code", metadata=PROMPT),
        new_markdown_cell("  \n ", id="empty", metadata=PROMPT),
        new_markdown_cell("x" * 16_001, id="long", metadata=PROMPT),
        new_markdown_cell(
            "Who?", id="elsewhere", metadata={"nbinlineai": {"isPromptCell": True, "backend": "no"}}
        ),
        new_markdown_cell("Damaged.", id="damaged", metadata={"nbinlineai": "prompt"}),
    ]
    path = jp_root_dir / "a.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    (jp_root_dir / "words.txt").write_text("no notebook")
    (jp_root_dir / "folder").mkdir()
    return path


@pytest.fixture
def post(jp_fetch: Callable[..., Awaitable[Any]]) -> Post:
    """Send a request; status and body, whatever they are."""

    async def post(
        body: Any, route: str = "runs", method: str = "POST"
    ) -> tuple[int, dict[str, Any]]:
        sent = body if isinstance(body, str | bytes) else json.dumps(body)
        answer = await jp_fetch(
            "nbinline", *route.split("/"), method=method, body=sent, raise_error=False
        )
        return answer.code, json.loads(answer.body)

    return post


def held(path: Path) -> bytes:
    """What the file holds."""
    return path.read_bytes()


def renamed(path: Path, name: str) -> Path:
    """The file under another name."""
    return path.rename(path.with_name(name))


async def open_room(ydoc: Any, path: str = "a.ipynb") -> Doc[Any]:
    """Open the notebook's room as a page does; its document."""
    document = await ydoc.get_document(
        path=path, content_type="notebook", file_format="json", copy=False, create=True
    )
    await until(lambda: len(document.ycells) > 0)
    doc: Doc[Any] = document.ydoc
    return doc


def ask(cell: str = "ask", **fields: Any) -> dict[str, Any]:
    """The body of a request that is right but for what ``fields`` change."""
    return {"path": "a.ipynb", "cell_id": cell, **fields}


BEHIND = base64.b64encode(bytes([1, 7, 9])).decode()
"""A state vector that asks for nine updates of a client that never wrote."""

REFUSALS = [
    ("unknown path", ask(path="none.ipynb"), 404, "unknown-notebook"),
    ("a folder", ask(path="folder"), 404, "unknown-notebook"),
    ("not a notebook", ask(path="words.txt"), 404, "unknown-notebook"),
    ("outside the root", ask(path="../a.ipynb"), 400, "bad-request"),
    ("no path", {"cell_id": "ask"}, 400, "bad-request"),
    ("path with NUL", ask(path="a\0.ipynb"), 400, "bad-request"),
    ("path that is a number", ask(path=7), 400, "bad-request"),
    ("unknown cell", ask("nothing"), 404, "unknown-cell"),
    ("no cell", {"path": "a.ipynb"}, 400, "bad-request"),
    ("cell that is a list", ask(["ask"]), 400, "bad-request"),
    ("not a prompt", ask("plain"), 400, "not-a-prompt"),
    ("a code cell", ask("code"), 400, "not-a-prompt"),
    ("a code cell flagged as prompt", ask("flagged-code"), 400, "not-a-prompt"),
    ("damaged mark", ask("damaged"), 400, "not-a-prompt"),
    ("empty prompt", ask("empty"), 400, "empty-prompt"),
    ("over-long prompt", ask("long"), 413, "prompt-too-long"),
    ("unknown connection in the cell", ask("elsewhere"), 400, "unknown-connection"),
    ("unknown connection", ask(override={"backend": "no"}), 400, "unknown-connection"),
    ("unconfigured connection", ask(override={"backend": "anthropic_api"}), 409, "not-configured"),
    ("unknown model", ask(override={"model": "m" * 199 + "\u2028"}), 400, "unknown-model"),
    ("model that is a number", ask(override={"model": 4}), 400, "bad-request"),
    ("unknown override", ask(override={"colour": "red"}), 400, "bad-request"),
    ("override that is a list", ask(override=["model"]), 400, "bad-request"),
    ("unknown context mode", ask(override={"contextMode": "psychic"}), 400, "bad-request"),
    ("unknown style", ask(override={"promptMode": "rhyme"}), 400, "bad-request"),
    ("state vector that is no base64", ask(state_vector="!!"), 400, "bad-request"),
    ("state vector that is no vector", ask(state_vector="/////w=="), 400, "bad-request"),
    ("hash that is none", ask(source_sha256="abc"), 400, "bad-request"),
    ("not JSON", "{", 400, "bad-request"),
    ("not UTF-8", b"\xff\xfe", 400, "bad-request"),
    ("nested without end", "[" * 200_000, 400, "bad-request"),
    ("a list", [], 400, "bad-request"),
    ("null", None, 400, "bad-request"),
]


@pytest.mark.parametrize("route", ["runs", "context-preview"])
async def test_refusals_write_nothing(
    ydoc: Any, asked_of: Path, post: Post, jp_fetch: Any, vendor: Vendor, route: str
) -> None:
    async with stopping(ydoc):
        doc = await open_room(ydoc)
        before, state = held(asked_of), doc.get_state()

        for name, body, status, code in REFUSALS:
            if route == "context-preview" and code == "not-configured":
                continue  # a preview needs no key
            answered, told = await post(body, route)
            assert (answered, told["error"]["code"]) == (status, code), name
            assert told["error"]["message"].endswith("."), name
            assert isinstance(told["error"]["retryable"], bool), name
            assert doc.get_state() == state, f"{name}: something was written"

        assert held(asked_of) == before
        assert await vendor.requests() == []
        answer = await jp_fetch("nbinline", "runs", params={"path": "a.ipynb"})
        assert json.loads(answer.body)["runs"] == []


async def test_a_document_the_asker_has_not_seen(ydoc: Any, asked_of: Path, post: Post) -> None:
    async with stopping(ydoc):
        doc = await open_room(ydoc)
        state = doc.get_state()
        wrong = hashlib.sha256(b"another question").hexdigest()

        for field in ({"state_vector": BEHIND}, {"source_sha256": wrong}):
            status, told = await post(ask(**field))
            assert (status, told["error"]["code"]) == (409, "not-caught-up")
            assert told["error"]["retryable"] is True

        assert doc.get_state() == state


async def test_a_read_only_notebook(ydoc: Any, asked_of: Path, post: Post) -> None:
    async with stopping(ydoc):
        locked = renamed(asked_of, LOCKED)
        before = held(locked)

        status, told = await post(ask(path=LOCKED))

        assert (status, told["error"]["code"]) == (403, "read-only")
        assert told["error"]["message"].endswith(".")
        assert held(locked) == before


async def test_a_missing_kernel_is_no_obstacle(
    ydoc: Any, asked_of: Path, post: Post, jp_fetch: Any, vendor: Vendor
) -> None:
    async with stopping(ydoc):
        content = nbformat.read(asked_of, as_version=4)
        content.metadata.kernelspec = {"name": "gone", "display_name": "Gone"}
        nbformat.write(content, asked_of)
        await vendor.script({"text": "An answer."})

        status, told = await post(ask())

        assert status == 202
        run = f"nbinline/runs/{told['run_id']}"
        await until_ended(jp_fetch, run)
        await until(lambda: b'"An answer."' in held(asked_of))


async def until_ended(jp_fetch: Any, run: str) -> None:
    """Wait until a run has ended well, by its journal."""
    after = 0
    while True:
        answer = await jp_fetch(*run.split("/"), "events", params={"after": after, "wait": 5})
        page = json.loads(answer.body)
        after = page["last_seq"]
        if any(event.get("status") == "done" for event in page["events"]):
            return


@pytest.mark.parametrize(
    ("method", "route", "body", "status", "code"),
    [
        ("GET", "runs/none", None, 404, "unknown-run"),
        ("GET", "runs/no%20id", None, 400, "bad-request"),
        ("GET", "runs/none/events", None, 404, "unknown-run"),
        ("DELETE", "runs/none", None, 404, "unknown-run"),
        ("POST", "runs/none/continue", "{}", 404, "unknown-run"),
        ("GET", "nowhere", None, 404, "not-found"),
        ("PUT", "settings/keys/nobody", '{"key": "k"}', 400, "unknown-connection"),
        ("PUT", "settings/keys/openai_api", "{}", 400, "bad-request"),
        ("PUT", "settings/keys/openai_api", '{"key": ""}', 400, "bad-request"),
        ("PUT", "settings/keys/openai_api", '{"key": 7}', 400, "bad-request"),
        ("DELETE", "settings/keys/nobody", None, 400, "unknown-connection"),
        ("PUT", "settings/default-connection", '{"connection": "no"}', 400, "unknown-connection"),
    ],
)
async def test_other_routes(
    ydoc: Any, jp_fetch: Any, method: str, route: str, body: str | None, status: int, code: str
) -> None:
    async with stopping(ydoc):
        answer = await jp_fetch(
            "nbinline", *route.split("/"), method=method, body=body, raise_error=False
        )
        told = json.loads(answer.body)
        assert (answer.code, told["error"]["code"]) == (status, code)
        assert told["error"]["message"].endswith(".")
