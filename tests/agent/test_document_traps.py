"""Traps of the CRDT library: what it does by itself, and that the document layer is past it."""

import pytest
from jupyter_ydoc import YNotebook
from pycrdt import Assoc, Text

from nbinline_agent.document.answer import AnswerCell, RunMark
from nbinline_agent.document.presence import end_cursor
from nbinline_agent.errors import CellGone
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import SharedNotebook, open_notebook, prompt

pytestmark = pytest.mark.asyncio

Q = CellId("q")
MARK = RunMark(RunId("run-1"), "ann", "model-1", "openai_api")
cured = pytest.mark.parametrize("cured", [False, True], ids=["fault", "cure"])


def text_in(shared: SharedNotebook, position: int) -> Text:
    text = shared.ynotebook.ycells[position]["source"]
    assert isinstance(text, Text)
    return text


@cured
async def test_offsets_are_bytes(cured: bool) -> None:
    """An index counted in characters lands elsewhere, also inside a character, without an error."""
    async with open_notebook([prompt("Why?", "q")]) as (notebook, shared):
        async with AnswerCell.open(notebook, Q, MARK) as opened:
            await opened.write("Héllo 🎉")
            await opened.flush()
            await notebook.peer.settled()
            if cured:
                await opened.write(" end")
            else:
                text = text_in(shared, 1)
                text.insert(len("Héllo 🎉"), " end")
            await opened.finish("done")
        await notebook.peer.settled()
        assert (shared.source(opened.id) == "Héllo 🎉 end") == cured


@cured
async def test_a_position_at_the_end_panics(cured: bool) -> None:
    """And the panic is no Exception, so that nothing which catches those is safe."""
    async with open_notebook([prompt("Why?", "q")]) as (notebook, shared):
        if cured:
            (cursor,) = end_cursor(notebook.peer.index, Q)
            assert cursor["head"]["item"] is None
            return
        text = text_in(shared, 0)
        with pytest.raises(BaseException) as caught:
            text.sticky_index(len(text), Assoc.AFTER)
        assert not isinstance(caught.value, Exception)


@cured
async def test_writing_into_a_deleted_cell_tells_nothing(cured: bool) -> None:
    async with open_notebook([prompt("Why?", "q")]) as (notebook, shared):
        lost = False
        try:
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("words")
                await opened.flush()
                await notebook.peer.settled()
                handle = text_in(shared, 1)
                with shared.ynotebook.ydoc.transaction(origin="person"):
                    del shared.ynotebook.ycells[1]
                await notebook.changed_until(lambda: not notebook.has(opened.id))
                if cured:
                    await opened.write(" more")
                    await opened.flush()
                else:
                    handle.insert(0, "more ")
        except CellGone:
            lost = True
        assert lost == cured
        assert "more" not in "".join(shared.source(cell) for cell in notebook.ids())


async def test_augmented_assignment_empties_a_cell() -> None:
    """What ``test_no_augmented_assignment_to_a_subscripted_text`` looks for in our source."""
    notebook = YNotebook()
    notebook.append_cell({"cell_type": "markdown", "source": "one", "metadata": {}, "id": "a"})
    exec("notebook.ycells[0]['source'] += ' two'")
    assert str(notebook.ycells[0]["source"]) == ""
    source = notebook.ycells[0]
    text = Text("one")
    source["source"] = text
    text += " two"
    assert str(source["source"]) == "one two"


async def test_observing_a_ynotebook_drops_other_observers() -> None:
    """What ``test_nobody_observes_a_ynotebook`` looks for in our source."""
    notebook, seen = YNotebook(), []
    notebook.observe(lambda *_: seen.append("first"))
    notebook.observe(lambda *_: seen.append("second"))
    notebook.append_cell({"cell_type": "markdown", "source": "one", "metadata": {}, "id": "a"})
    assert set(seen) == {"second"}
