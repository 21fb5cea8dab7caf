"""Edits are one transaction each, check what stood there, and touch only what differs."""

from typing import Any

import pytest

from nbinline_agent.document.edits import Editor, differences, short_hash
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import CellGone, SourceChanged
from nbinline_agent.testing import code, markdown, open_notebook, two_peers

pytestmark = pytest.mark.asyncio

STREAM = {"output_type": "stream", "name": "stdout", "text": "1\n"}
CELLS = [
    markdown("# Title", "title"),
    code("a = 1\nb = 2\n", "code", outputs=[STREAM], count=7),
    {
        **markdown("![x](attachment:x.png)", "picture"),
        "attachments": {"x.png": {"image/png": "eA=="}},
    },
]


def edited(notebook: Notebook) -> tuple[Editor, list[bytes]]:
    updates: list[bytes] = []
    notebook.peer.doc.observe(lambda event: updates.append(event.update))
    return Editor(notebook, "run-1"), updates


class TestInserting:
    @pytest.mark.parametrize(
        ("after", "position"), [(None, 0), ("title", 1), ("code", 2), ("picture", 3)]
    )
    async def test_below_a_cell_or_at_the_top(self, after: str | None, position: int) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            editor, updates = edited(notebook)
            cell_id = editor.insert("code", "c = 3", after=after, metadata={"tags": ["x"]})
            assert len(updates) == 1
            assert notebook.position(cell_id) == position
            await notebook.peer.settled()
            cell = shared.cells[position]
            assert cell["source"] == "c = 3"
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            assert cell["metadata"] == {"tags": ["x"]}

    async def test_below_a_cell_that_is_gone(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            editor, updates = edited(notebook)
            with pytest.raises(CellGone):
                editor.insert("markdown", "x", after="nowhere")
            assert updates == []


class TestReplacing:
    async def test_only_what_differs_is_touched(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            deltas: list[Any] = []
            text = notebook.entry("code").ycell["source"]
            text.observe(lambda event: deltas.append(event.delta))
            editor, updates = edited(notebook)
            editor.replace("code", "a = 1\nb = 20\n", expected="a = 1\nb = 2\n")
            assert len(updates) == 1
            assert deltas == [[{"retain": 11}, {"insert": "0"}]]
            await notebook.peer.settled()
            cell = shared.cell("code")
            assert cell["source"] == "a = 1\nb = 20\n"
            assert (cell["outputs"], cell["execution_count"]) == ([], None)

    async def test_what_somebody_types_at_the_same_time_stays(self) -> None:
        async with two_peers(CELLS) as (first, second, shared):
            text = Notebook(second).entry("code").ycell["source"]
            with second.doc.transaction(origin="person"):
                text.insert(3, "/* typed */")
            Editor(Notebook(first), "run-1").replace(
                "code", "alpha = 1\nbeta = 2\n", expected="a = 1\nb = 2\n"
            )
            await first.settled()
            await second.settled()
            assert shared.source("code") in (
                "alpha =/* typed */ 1\nbeta = 2\n",
                "alpha /* typed */= 1\nbeta = 2\n",
            )

    async def test_the_short_hash_will_do(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            editor, _ = edited(notebook)
            editor.replace("title", "# New", expected=short_hash("# Title"))
            assert notebook.source("title") == "# New"

    async def test_nothing_is_written_over_what_was_not_seen(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            editor, updates = edited(notebook)
            with pytest.raises(SourceChanged) as caught:
                editor.replace("title", "# New", expected="# Titel")
            assert caught.value.details == {"expected_source": short_hash("# Title")}
            with pytest.raises(CellGone):
                editor.replace("nowhere", "x", expected="")
            assert updates == []

    async def test_the_same_again_changes_nothing(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            editor, updates = edited(notebook)
            editor.replace("code", "a = 1\nb = 2\n", expected="a = 1\nb = 2\n")
            assert updates == []
            assert shared.cell("code")["execution_count"] == 7

    async def test_long_sources_differ_in_one_piece(self) -> None:
        before = "head " + "a b " * 2_000 + "tail"
        after = "head " + "c d " * 2_000 + "tail"
        [(start, stop, piece)] = differences(before, after)
        assert before[:start] + piece + before[stop:] == after
        assert before[:start] == "head "


class TestDeletingAndMoving:
    async def test_deleting(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            editor, updates = edited(notebook)
            with pytest.raises(SourceChanged):
                editor.delete("title", expected="something else")
            editor.delete("title", expected="# Title")
            assert len(updates) == 1
            with pytest.raises(CellGone):
                editor.delete("title", expected="# Title")
            await notebook.peer.settled()
            assert [cell["id"] for cell in shared.cells] == ["code", "picture"]

    @pytest.mark.parametrize(
        ("cell", "after", "order"),
        [
            ("title", "picture", ["code", "picture", "title"]),
            ("title", "code", ["code", "title", "picture"]),
            ("picture", None, ["picture", "title", "code"]),
            ("code", "picture", ["title", "picture", "code"]),
            ("code", "title", ["title", "code", "picture"]),
            ("code", "code", ["title", "code", "picture"]),
            ("title", None, ["title", "code", "picture"]),
        ],
    )
    async def test_moving_takes_everything_along(
        self, cell: str, after: str | None, order: list[str]
    ) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            before = {each["id"]: each for each in shared.cells}
            editor, updates = edited(notebook)
            editor.move(cell, after=after)
            await notebook.peer.settled()
            assert list(notebook.ids()) == [each["id"] for each in shared.cells] == order
            assert {each["id"]: each for each in shared.cells} == before
            assert len(updates) <= 1

    async def test_moving_to_or_from_nowhere(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            editor, updates = edited(notebook)
            with pytest.raises(CellGone):
                editor.move("nowhere", after=None)
            with pytest.raises(CellGone):
                editor.move("title", after="nowhere")
            assert updates == []
