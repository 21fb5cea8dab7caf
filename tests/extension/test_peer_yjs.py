"""What a browser's Yjs makes of what a peer writes: the same, with nothing pending."""

from collections.abc import Callable, Sequence
from typing import Any

from pycrdt import Text

from nbinline_agent.document.answer import AnswerCell, Pacer, RunMark
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.replay import apply_updates
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, SharedNotebook, answer, markdown, prompt

MARK = RunMark(RunId("run-1"), "ann", "model-1", "openai_api")
Q = CellId("q")
CELLS = [markdown("top", "top"), prompt("Why?", "q"), answer("old 👩‍🚀 words", "a", to="q")]
DELTAS = ["One ", "👨‍👩‍👧 two\u2028", "e\u0301 three ", "مرحبا ", "four"]


def record(shared: SharedNotebook, updates: list[bytes]) -> None:
    """Collect what the room sends to its pages from now on."""
    updates.append(shared.ynotebook.ydoc.get_update())
    shared.ynotebook.ydoc.observe(lambda event: updates.append(event.update))


def annotate(shared: SharedNotebook) -> None:
    """Somebody types at the start and at the end of the answer."""
    text = next(cell["source"] for cell in shared.ynotebook.ycells if cell["id"] == "a")
    assert isinstance(text, Text)
    for at_the_end in (False, True):
        with shared.ynotebook.ydoc.transaction(origin="person"):
            text.insert(len(text) if at_the_end else 0, "«😀»")


def same(report: Any, shared: SharedNotebook) -> bool:
    cells = [(cell["id"], cell["source"]) for cell in report["cells"]]
    return cells == [(cell["id"], cell["source"]) for cell in shared.cells]


async def test_a_streamed_answer(yjs_view: Callable[[Sequence[bytes]], Any]) -> None:
    updates: list[bytes] = []
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, CELLS)
        record(shared, updates)
        async with rooms.join(PATH) as membership:
            notebook = Notebook(membership.peer)
            async with AnswerCell.open(notebook, Q, MARK, pacer=Pacer(narrowest=0.0)) as opened:
                for delta in DELTAS:
                    await opened.write(delta)
                    await opened.flush()
                    await membership.peer.settled()
                    annotate(shared)
                    wanted = shared.source("a")
                    await notebook.changed_until(lambda text=wanted: notebook.source("a") == text)
                await opened.finish("done")
    report = yjs_view(updates)
    assert report["pending"] is None
    assert not report["pendingDeletions"]
    assert same(report, shared)
    people = "«😀»"
    assert shared.source("a").replace(people, "") == "".join(DELTAS)


async def test_an_answer_that_was_replayed_into_a_replaced_room(
    yjs_view: Callable[[Sequence[bytes]], Any],
) -> None:
    """The room comes back as it was before the answer: the kept updates bring it back."""
    kept: list[bytes] = []

    async def keep(updates: Sequence[bytes]) -> None:
        kept.extend(updates)

    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, CELLS)
        history = shared.ynotebook.ydoc.get_update()
        written = ""
        async with rooms.join(PATH) as membership:
            membership.peer.set_write_ahead(keep)
            async with AnswerCell.open(Notebook(membership.peer), Q, MARK) as opened:
                for delta in DELTAS[:3]:
                    await opened.write(delta)
                    await opened.flush()
                written = opened.text
                await membership.peer.settled()
                page = shared.ynotebook.ydoc.get_update()

        again = await rooms.add("again.ipynb", [])
        again.ynotebook.ycells.clear()
        again.ynotebook.ydoc.apply_update(history)
        updates: list[bytes] = [page]  # a page that saw the first part comes back with it
        record(again, updates)
        async with rooms.join(again.path) as membership:
            assert apply_updates(membership.peer, kept)
            resumed = AnswerCell.resume(
                Notebook(membership.peer), opened.id, MARK, text_so_far=written
            )
            async with resumed as going_on:
                assert going_on.missing_tail == ""
                for delta in DELTAS[3:]:
                    await going_on.write(delta)
                await going_on.finish("done")
    report = yjs_view(updates)
    assert report["pending"] is None
    assert again.source("a") == "".join(DELTAS)
    assert next(cell for cell in report["cells"] if cell["id"] == "a")["source"] == "".join(DELTAS)
