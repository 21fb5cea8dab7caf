"""Cancelled at any await, a run leaves a consistent document and nobody behind."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from jupyter_ydoc import YNotebook
from pycrdt import Doc

from nbinline_agent.document.answer import AnswerCell, Pacer, RunMark
from nbinline_agent.document.background import background
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.presence import AgentUser, Presence
from nbinline_agent.errors import UnknownCell
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, SharedNotebook, answer, prompt

pytestmark = pytest.mark.asyncio

MARK = RunMark(RunId("run-1"), "ann", "model-1", "openai_api")
Q, A = CellId("q"), CellId("a")
DELTAS = ["one ", "two 👨‍👩‍👧 ", "three ", "four"]
OLD = "the previous answer"


class Steps:
    """Counts the turns of the event loop, and cancels a scope at one of them."""

    def __init__(self, cancel_at: int) -> None:
        self.scope = anyio.CancelScope()
        self.taken = 0
        self._cancel_at = cancel_at

    async def count(self) -> None:
        """Run beside what is to be cancelled."""
        while True:
            if self.taken == self._cancel_at:
                self.scope.cancel()
            self.taken += 1
            await anyio.lowlevel.checkpoint()


async def answer_a_question(rooms: MemoryRooms, kept: list[bytes]) -> None:
    async def keep(updates: Sequence[bytes]) -> None:
        await anyio.lowlevel.checkpoint()
        kept.extend(updates)

    async with rooms.join(PATH) as membership:
        membership.peer.set_write_ahead(keep)
        notebook = Notebook(membership.peer)
        presence = Presence(membership.peer, AgentUser())
        async with AnswerCell.open(notebook, Q, MARK, pacer=Pacer(narrowest=0.0)) as opened:
            try:
                await presence.show(MARK.run_id, "running", opened.id, "Ann")
                for delta in DELTAS:
                    await opened.write(delta)
                    await anyio.lowlevel.checkpoint()
                await opened.set_status("running", step=2)
                await opened.flush()
                await opened.finish("done")
            finally:
                with anyio.move_on_after(1, shield=True):
                    await presence.hide()
        await membership.peer.settled()
        await notebook.snapshot()


async def play(cancel_at: int) -> tuple[bool, SharedNotebook, list[bytes], bytes]:
    """Answer a question, cancelled at a turn of the loop; tells whether it came to its end."""
    steps, kept, ended = Steps(cancel_at), list[bytes](), False
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q"), answer(OLD, "a", to="q")])
        before = shared.ynotebook.ydoc.get_update()
        async with background(steps.count):
            with steps.scope:
                await answer_a_question(rooms, kept)
                ended = True
        assert shared.users == []
        assert not shared._members
    return ended, shared, kept, before


def check(shared: SharedNotebook, kept: list[bytes], before: bytes) -> str:
    assert [cell["id"] for cell in shared.cells] == ["q", "a"]
    text, mark = shared.source("a"), shared.mark("a")
    states = ["".join(DELTAS[:count]) for count in range(1, len(DELTAS) + 1)]
    assert text in (OLD, *states)
    assert mark["status"] in ("done", "interrupted")
    if mark["status"] == "interrupted":
        # Either the run never got to the answer, or it said how it ended.
        assert mark["runId"] == "run-1"
        assert "endedAt" in mark
    elif mark.get("runId") == "run-1":
        assert text == "".join(DELTAS)
    else:
        assert text == OLD
    # What people see was kept before, to the last update.
    again: Doc[Any] = Doc()
    again.apply_update(before)
    for update in kept:
        again.apply_update(update)
    assert YNotebook(again).get()["cells"] == shared.cells
    return f"{mark['status']} {text}"


async def test_cancelled_at_every_await() -> None:
    seen = set()
    with anyio.fail_after(100):
        for cancel_at in range(1, 1000):
            ended, shared, kept, before = await play(cancel_at)
            seen.add(check(shared, kept, before))
            if ended:
                break
        else:
            pytest.fail("it never came to its end")
    assert cancel_at > 20
    assert f"done {OLD}" in seen
    assert f"interrupted {OLD}" in seen
    assert len([state for state in seen if state.startswith("interrupted one")]) >= 2
    assert f"done {''.join(DELTAS)}" in seen


async def test_an_error_at_every_call_comes_out_and_leaves_it_consistent() -> None:
    """The same for an exception that is raised in the middle of a run."""
    for place in range(6):
        async with MemoryRooms() as rooms:
            shared = await rooms.add(PATH, [prompt("Why?", "q"), answer(OLD, "a", to="q")])
            with pytest.raises(UnknownCell):
                async with failing(rooms, place):
                    pass
            assert shared.users == []
            assert shared.mark("a")["status"] == ("done" if place == 0 else "interrupted")
            words = ["".join(DELTAS[:count]) for count in range(len(DELTAS) + 1)]
            assert shared.source("a") == (OLD if place < 2 else words[place - 1])


@asynccontextmanager
async def failing(rooms: MemoryRooms, place: int) -> AsyncIterator[None]:
    async with rooms.join(PATH) as membership:
        notebook = Notebook(membership.peer)
        if place == 0:
            raise UnknownCell
        async with AnswerCell.open(notebook, Q, MARK) as opened:
            for delta in DELTAS[: place - 1]:
                await opened.write(delta)
            raise UnknownCell
    yield
