"""Taking runs back on a real server: what the run did goes, what people wrote stays."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Map

from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

TOOLS = (
    "&`cell_str_replace` &`insert_code` &`insert_markdown` &`delete_cell` &`move_cell` "
    "&`set_cell_type` &`replace_cell`"
)


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, "idle_seconds": 0.3}
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Any, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def revert(asker: Asker, run_id: str, **body: Any) -> dict[str, Any]:
    status, told = await asker.request("POST", f"runs/{run_id}/revert", body)
    assert status == 200, told
    return told


def shared(document: Any, cell_id: str) -> Map[Any]:
    [found] = [cell for cell in document.ycells if cell["id"] == cell_id]
    return found


def types(document: Any, cell_id: str, at: str, words: str) -> None:
    """Somebody types behind a piece of a cell's text."""
    text = shared(document, cell_id)["source"]
    standing = str(text)
    place = len(standing[: standing.index(at) + len(at)].encode())
    with document.ydoc.transaction(origin="person"):
        text.insert(place, words)


async def test_an_answer_goes_and_a_dry_run_only_tells(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("Why?", text="Because."))
        run = await asker.ended(await asker.ask())
        document = await asker.document()
        answer = run["answer_cell_id"]
        expected = {"reverted": [answer], "kept": []}
        assert await revert(asker, run["run_id"], dry_run=True) == expected
        assert source_of(asker.answer(document)) == "Because."
        assert await revert(asker, run["run_id"]) == expected
        await until(lambda: asker.answer(document) is None)
        assert list(asker.cells(document)) == ["code", "p0"]
        await until(lambda: [cell["id"] for cell in asker.saved()] == ["code", "p0"])
        nothing: dict[str, Any] = {"reverted": [], "kept": []}
        assert await revert(asker, run["run_id"], dry_run=True) == nothing
        assert await revert(asker, run["run_id"]) == nothing
        _, page = await asker.request("GET", f"runs/{run['run_id']}/events")
        [told] = [event for event in page["events"] if event["type"] == "reverted"][:1]
        assert told["cell_ids"] == [answer]
        assert told["by"]


async def test_words_of_people_stay_and_the_answer_before_comes_back(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("Why?", text="The first answer."))
        first = await asker.ended(await asker.ask())
        document = await asker.document()
        answer = first["answer_cell_id"]
        types(document, answer, "first", " (my note)")
        mark = asker.cells(document)[answer]["metadata"]["nbinlineai"]
        second = await asker.ended(await asker.ask())
        assert second["answer_cell_id"] == answer
        assert source_of(asker.answer(document)) == "The first answer."
        types(document, answer, "The fir", "XYZ")

        kept = await revert(asker, first["run_id"])
        assert kept["reverted"] == []
        assert [each["cell_id"] for each in kept["kept"]] == [answer]
        assert "later run" in kept["kept"][0]["reason"]

        assert await revert(asker, second["run_id"]) == {"reverted": [answer], "kept": []}
        text = source_of(asker.answer(document))
        assert text.replace("XYZ", "") == "The first (my note) answer."
        assert text.count("XYZ") == 1
        assert asker.cells(document)[answer]["metadata"]["nbinlineai"] == mark

        told = await revert(asker, first["run_id"])
        assert told["reverted"] == [answer]
        assert "Others wrote" in told["kept"][0]["reason"]
        left = source_of(asker.cells(document)[answer])
        assert left.replace("XYZ", "").strip() == "(my note)"
        assert "nbinlineai" not in asker.cells(document)[answer]["metadata"]


async def test_everything_that_tools_did_after_other_runs_and_edits(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        turns = [
            {
                "tools": [
                    call("cell_str_replace", cell_id="code", old_str="1", new_str="2"),
                    call("insert_code", content="y = 3"),
                    call("insert_markdown", content="A remark.", after_cell_id="code"),
                    call("delete_cell", cell_id="gone", expected_source="# Goes away"),
                    call("move_cell", cell_id="moved", after_cell_id="index:0"),
                    call(
                        "set_cell_type", cell_id="typed", cell_type="code", expected_source="print"
                    ),
                ]
            },
            {"text": "Done."},
        ]
        file = asker.write(asker.vendor.prompt(f"Go. {TOOLS}", turns=turns), "Next?")
        extra = [
            {"cell_type": "markdown", "id": "gone", "source": "# Goes away", "metadata": {"k": 1}},
            {"cell_type": "raw", "id": "typed", "source": "print", "metadata": {}},
            {"cell_type": "markdown", "id": "moved", "source": "Here.", "metadata": {"tags": []}},
        ]
        add_cells(file, extra)
        document = await asker.document()
        before = asker.cells(document)
        run = await asker.ended(await asker.ask())
        assert run["error"] is None
        assert "gone" not in asker.cells(document)
        assert next(iter(asker.cells(document))) == "moved"
        assert asker.cells(document)["typed"]["cell_type"] == "code"

        other = await asker.ended(await asker.ask("p1"))
        types(document, "code", "x = ", "100 + ")
        types(document, "moved", "Here", " and there")
        made = {source_of(cell): key for key, cell in asker.cells(document).items()}
        types(document, made["A remark."], "remark", " of ours")

        told = await revert(asker, run["run_id"])
        cells = asker.cells(document)
        assert source_of(cells["code"]) == "x = 100 + 1"
        assert source_of(cells["gone"]) == "# Goes away"
        assert cells["gone"]["metadata"] == {"k": 1}
        assert source_of(cells["moved"]) == "Here and there."
        assert cells["typed"]["cell_type"] == "raw"
        assert made["y = 3"] not in cells
        assert source_of(cells[made["A remark."]]) == " of ours"
        assert run["answer_cell_id"] not in cells
        assert other["answer_cell_id"] in cells
        assert [key for key in cells if key in before] == list(before)
        assert [each["cell_id"] for each in told["kept"]] == [made["A remark."]]
        again = await revert(asker, run["run_id"])
        assert again == {"reverted": [], "kept": []}


def add_cells(file: Any, cells: list[dict[str, Any]]) -> None:
    import json

    content = json.loads(file.read_text())
    content["cells"] += cells
    file.write_text(json.dumps(content))


class TestRefusals:
    async def test_of_what_is_no_run_or_no_answer_to_the_question(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            status, told = await asker.request("POST", "runs/unknown/revert", {})
            assert (status, told["error"]["code"]) == (404, "unknown-run")
            asker.write(asker.vendor.prompt("Why?", text="Because."))
            run_id = await asker.ask()
            await asker.ended(run_id)
            route = f"runs/{run_id}/revert"
            status, told = await asker.request("POST", route, {"dry_run": "yes"})
            assert (status, told["error"]["code"]) == (400, "bad-request")

    async def test_of_a_run_that_goes_on(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            asker.write(asker.vendor.prompt("Why?", text="Because.", gate="open"))
            run_id = await asker.ask()
            await asker.reached(run_id, "preparing")
            status, told = await asker.request("POST", f"runs/{run_id}/revert", {})
            assert (status, told["error"]["code"]) == (409, "run-active")
            assert "Stop it first" in told["error"]["message"]
            await asker.request("DELETE", f"runs/{run_id}")
            await asker.ended(run_id)
            assert (await revert(asker, run_id))["kept"] == []

    async def test_of_what_somebody_else_asked(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            asker.write(asker.vendor.prompt("Why?", text="Because."))
            run_id = await asker.ask()
            await asker.ended(run_id)
            asker._cookies.clear()
            status, told = await asker.request("POST", f"runs/{run_id}/revert", {})
            assert (status, told["error"]["code"]) == (403, "not-yours")
            assert "revert" in told["error"]["message"]

    async def test_of_a_document_that_looks_emptied(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            asker.write(asker.vendor.prompt("Why?", text="Because."), "b", "c", "d", "e", "f")
            run_id = await asker.ask()
            await asker.ended(run_id)
            document = await asker.document()
            with document.ydoc.transaction(origin="person"):
                del document.ycells[2 : len(document.ycells)]
            status, told = await asker.request("POST", f"runs/{run_id}/revert", {})
            assert (status, told["error"]["code"]) == (409, "document-suspect")
