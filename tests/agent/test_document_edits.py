"""Edits are one transaction each, check what stood there, and touch only what differs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nbinline_agent.document.edits import Editor, Rearrangement, differences, short_hash
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import CellGone, SourceChanged
from nbinline_agent.ids import CellId
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


SIGNATURE = {"runId": "run-1", "author": "ann", "model": "m", "backend": "openai_api"}


class TestSigning:
    """Cells say who has edited them; what is only moved says nothing."""

    async def test_an_edit_is_signed_in_the_same_transaction(self) -> None:
        cells = [code("a = 1", "code"), markdown("b", "text", nbinlineai={"contextInclude": True})]
        async with open_notebook(cells) as (notebook, shared):
            _, updates = edited(notebook)
            editor = Editor(notebook, "run-1", SIGNATURE)
            editor.replace("text", "c", expected="b")
            assert len(updates) == 1
            await notebook.peer.settled()
            mark = shared.cell("text")["metadata"]["nbinlineai"]
            assert mark["contextInclude"] is True
            at = datetime.fromisoformat(mark["editedBy"].pop("at"))
            assert abs((datetime.now(UTC) - at).total_seconds()) < 60
            assert mark["editedBy"] == SIGNATURE
            assert shared.cell("code")["metadata"] == {}
            editor.replace("text", "c", expected="c")
            assert len(updates) == 1

    async def test_new_cells_say_that_they_are(self) -> None:
        async with open_notebook([code("a = 1", "code")]) as (notebook, shared):
            new = Editor(notebook, "run-1", SIGNATURE).insert("code", "x", after="code")
            later = Editor(notebook, "run-2", {**SIGNATURE, "runId": "run-2"})
            later.replace(new, "y", expected="x")
            await notebook.peer.settled()
            mark = shared.cell(new)["metadata"]["nbinlineai"]["editedBy"]
            assert (mark["runId"], mark["made"]) == ("run-2", True)

    async def test_a_rearrangement_signs_what_it_changes_and_not_what_it_moves(self) -> None:
        cells = [code("a", "one"), code("b", "two"), markdown("c", "three"), code("d", "four")]
        async with open_notebook(cells) as (notebook, shared):
            editor = Editor(notebook, "run-1", SIGNATURE)
            moved, other = editor.as_file("one"), editor.as_file("three")
            new = {"cell_type": "markdown", "id": "new", "metadata": {"k": 1}, "source": "n"}
            editor.rearrange(
                Rearrangement(
                    texts={CellId("two"): "B"},
                    metadata={CellId("two"): {"nbinlineai": {"toolsInclude": False}}},
                    order=[1, CellId("one"), CellId("three"), CellId("new"), 3],
                    made={
                        CellId("one"): moved,
                        CellId("three"): {**other, "cell_type": "raw"},
                        CellId("new"): new,
                    },
                )
            )
            await notebook.peer.settled()
            marks = {
                cell["id"]: cell["metadata"].get("nbinlineai", {}).get("editedBy", {})
                for cell in shared.cells
            }
            assert list(marks) == ["two", "one", "three", "new", "four"]
            signed = {cell for cell, mark in marks.items() if mark.get("runId") == "run-1"}
            assert signed == {"two", "three", "new"}
            assert [cell for cell, mark in marks.items() if mark.get("made")] == ["new"]
            assert shared.cell("two")["metadata"]["nbinlineai"]["toolsInclude"] is False
            assert shared.cell("new")["metadata"]["k"] == 1

    async def test_without_a_signature_nothing_is_said(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            Editor(notebook, "note-1").replace("title", "# T", expected="# Title")
            await notebook.peer.settled()
            assert shared.cell("title")["metadata"] == {}
