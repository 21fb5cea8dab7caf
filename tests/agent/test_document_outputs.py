"""Outputs reach the shared document in few changes, as JupyterLab has them, and within bounds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.outputs import OutputArea, OutputBounds, running_cells, settle
from nbinline_agent.document.terminal import ScreenText
from nbinline_agent.ids import CellId
from nbinline_agent.testing import SharedNotebook, code, markdown, open_notebook

pytestmark = pytest.mark.asyncio

OLD = {"output_type": "stream", "name": "stdout", "text": "old\n"}
CELLS = [markdown("# T", "title"), code("run()", "cell", outputs=[OLD], count=3)]


def area_of(notebook: Notebook, **bounds: int) -> OutputArea:
    return OutputArea(lambda: notebook, CellId("cell"), "run-1", OutputBounds(**bounds))


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"type": "stream", "content": {"name": name, "text": text}}


def display(text: str, display_id: str | None = None, kind: str = "display_data") -> dict[str, Any]:
    transient = {"display_id": display_id} if display_id else {}
    content = {"data": {"text/plain": text}, "metadata": {}, "transient": transient}
    return {"type": kind, "content": content}


def state(shared: SharedNotebook) -> str:
    """What files do not hold."""
    return str(shared.ynotebook.ycells[1]["execution_state"])


async def texts(notebook: Notebook, shared: SharedNotebook) -> list[str]:
    await notebook.peer.settled()
    found = []
    for output in shared.cell("cell")["outputs"]:
        text = output.get("text")
        found.append("".join(text) if text is not None else output["data"]["text/plain"])
    return found


class TestWriting:
    async def test_a_run_from_its_queue_to_its_number(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.queue()
            await notebook.peer.settled()
            cell = shared.cell("cell")
            assert (state(shared), cell["execution_count"]) == ("running", 3)
            assert [output["text"] for output in cell["outputs"]] == ["old\n"]
            area.begin()
            await notebook.peer.settled()
            cell = shared.cell("cell")
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            area.take(stream("a\n"))
            result = display("2", kind="execute_result")
            result["content"]["execution_count"] = 4
            area.take(result)
            area.finish(4)
            await notebook.peer.settled()
            cell = shared.cell("cell")
            assert (state(shared), cell["execution_count"]) == ("idle", 4)
            assert cell["outputs"] == [
                {"output_type": "stream", "name": "stdout", "text": "a\n"},
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": "2"},
                    "metadata": {},
                    "execution_count": 4,
                },
            ]
            assert area.outputs() == cell["outputs"]

    async def test_a_thousand_pieces_are_one_change(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            updates: list[bytes] = []
            notebook.peer.doc.observe(lambda event: updates.append(event.update))
            for number in range(1_000):
                area.take(stream(f"line {number} ✓\n"))
            area.flush()
            assert len(updates) == 1
            area.take(stream("and more"))
            area.flush()
            [text] = await texts(notebook, shared)
            assert text == "".join(f"line {n} ✓\n" for n in range(1_000)) + "and more"

    async def test_streams_stay_apart_and_in_order(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            for message in (stream("a"), stream("b", "stderr"), stream("c"), display("d")):
                area.take(message)
                area.flush()
            area.take(stream("e"))
            area.finish(1)
            assert await texts(notebook, shared) == ["a", "b", "c", "d", "e"]

    async def test_an_error_and_a_widget_as_they_are(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            error = {"ename": "E", "evalue": "\ud800", "traceback": ["a", "b"]}
            area.take({"type": "error", "content": error})
            view = {"application/vnd.jupyter.widget-view+json": {"model_id": "m"}}
            area.take({"type": "display_data", "content": {"data": view, "metadata": {}}})
            area.finish(1)
            await notebook.peer.settled()
            first, second = shared.cell("cell")["outputs"]
            assert first == {
                "output_type": "error",
                "ename": "E",
                "evalue": "\ufffd",
                "traceback": ["a", "b"],
            }
            assert second["data"] == view


class TestChanging:
    async def test_displays_are_updated_in_place(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            for message in (stream("x"), display("1", "a"), display("2", "b"), display("3", "a")):
                area.take(message)
            area.flush()
            area.take(display("new", "a", "update_display_data"))
            area.take(display("lost", "unknown", "update_display_data"))
            area.flush()
            assert await texts(notebook, shared) == ["x", "new", "2", "new"]

    async def test_output_is_cleared_at_once_or_with_the_next(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            area.take(stream("first"))
            area.flush()
            area.take({"type": "clear_output", "content": {"wait": True}})
            area.flush()
            assert await texts(notebook, shared) == ["first"]
            area.take(display("second"))
            area.flush()
            assert await texts(notebook, shared) == ["second"]
            area.take({"type": "clear_output", "content": {"wait": False}})
            area.flush()
            assert await texts(notebook, shared) == []
            area.take(stream("third"))
            area.finish(1)
            assert await texts(notebook, shared) == ["third"]

    async def test_a_progress_bar_stays_one_line(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            for number in range(101):
                area.take(stream(f"\r{number:3}% {'█' * (number // 10):10}", "stderr"))
                if number % 7 == 0:
                    area.flush()
            area.take(stream("\ndone\r\n", "stderr"))
            area.finish(1)
            assert await texts(notebook, shared) == [f"100% {'█' * 10}\ndone\n"]


class TestOthers:
    async def test_a_deleted_cell_does_not_matter(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            area.take(stream("a"))
            area.flush()
            with shared.ynotebook.ydoc.transaction(origin="person"):
                del shared.ynotebook.ycells[1]
            await notebook.peer.settled()
            area.take(stream("b"))
            area.finish(1)
            assert area.abandoned
            assert area.outputs()[0]["text"] == "ab"

    async def test_who_clears_or_runs_the_cell_has_it(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            area.take(stream("ours"))
            area.flush()
            await notebook.peer.settled()
            ycell = shared.ynotebook.ycells[1]
            with shared.ynotebook.ydoc.transaction(origin="person"):
                ycell["outputs"].clear()
                ycell["execution_count"] = 9
            await notebook.peer.settled()
            area.take(stream("late"))
            area.finish(4)
            await notebook.peer.settled()
            cell = shared.cell("cell")
            assert (cell["outputs"], cell["execution_count"]) == ([], 9)

    async def test_words_of_others_in_the_cell_stay(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook)
            area.begin()
            area.take(stream("a"))
            area.flush()
            ycell = shared.ynotebook.ycells[1]
            with shared.ynotebook.ydoc.transaction(origin="person"):
                source = ycell["source"]
                source.insert(0, "# typed\n")
            await notebook.peer.settled()
            area.take(stream("b"))
            area.finish(1)
            await notebook.peer.settled()
            assert shared.source("cell") == "# typed\nrun()"
            assert await texts(notebook, shared) == ["ab"]


class TestBounds:
    async def test_a_long_stream_keeps_head_and_tail(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook, stream=1_000, tail=100)
            area.begin()
            for number in range(10_000):
                area.take(stream(f"line {number}\n"))
            area.finish(1)
            [text] = await texts(notebook, shared)
            assert text.startswith("line 0\nline 1\n")
            assert text.endswith("line 9999\n")
            assert "lines left out" in text
            assert len(text) < 1_200

    async def test_large_and_many_outputs_are_left_out(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area = area_of(notebook, one=1_000, total=2_500, count=6)
            area.begin()
            area.take(display("x" * 1_001))
            area.take({**display("cut"), "refused": 50_000_000})
            for _ in range(3):
                area.take(display("y" * 900))
            for number in range(10):
                area.take(display(f"{number}"))
            area.finish(1)
            found = await texts(notebook, shared)
            assert "0.0 MB was left out" in found[0]
            assert "50.0 MB was left out" in found[1]
            assert found[2:4] == ["y" * 900] * 2
            assert "left out" in found[4]
            assert found[5:] == ["0", "[9 more outputs left out]"]


class TestStale:
    async def test_cells_that_only_claim_to_run_are_found_and_settled(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            area_of(notebook).queue()
            assert await running_cells(notebook) == ["cell"]
            assert settle(notebook, ["cell", "gone"], "host") == 1
            await notebook.peer.settled()
            cell = shared.cell("cell")
            assert (state(shared), cell["execution_count"]) == ("idle", 3)
            assert await running_cells(notebook) == []


PIECES = st.text(alphabet="ab \n\r\b🙂", max_size=8)


@given(st.lists(st.tuples(PIECES, st.booleans()), max_size=12))
async def test_changes_always_make_the_text(pieces: list[tuple[str, bool]]) -> None:
    screen, text = ScreenText(), ""
    for piece, look in pieces:
        screen.feed(piece)
        if look:
            deleted, more = screen.change()
            text = text[: len(text) - deleted] + more
            assert text == screen.text
    assert "\r" not in screen.text
    assert "\b" not in screen.text


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["abc\rX"], "Xbc"),
        (["abc", "\r", "XY"], "XYc"),
        (["abc\r\ndef"], "abc\ndef"),
        (["ab\b\bXY"], "XY"),
        (["a\n", "\rb"], "a\nb"),
        (["12345\r\rab\n6"], "ab345\n6"),
    ],
)
async def test_a_terminal_shows(pieces: list[str], text: str) -> None:
    screen = ScreenText()
    for piece in pieces:
        screen.feed(piece)
    assert screen.text == text
