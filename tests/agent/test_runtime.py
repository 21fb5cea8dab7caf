"""What runs promise whoever starts, follows and stops them, on notebooks in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from nbinline_agent import runtime as runtime_module
from nbinline_agent.asking import Plan, StartRun, Surroundings
from nbinline_agent.context.budget import Limits
from nbinline_agent.context.choices import Choices
from nbinline_agent.desk import DeskLimits
from nbinline_agent.document.answer import Pacer
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.presence import AgentUser
from nbinline_agent.ids import CellId, FileId, RunId
from nbinline_agent.journal import Author, MemoryJournal, RunStatus
from nbinline_agent.messages import (
    ConnectionInfo,
    EndReason,
    ModelEvent,
    ModelRequest,
    TextDelta,
    TurnEnded,
)
from nbinline_agent.runtime import Runtime
from nbinline_agent.testing import PATH, MemoryRooms, SharedNotebook, prompt

pytestmark = pytest.mark.asyncio

ANN = Author("ann", "Ann")


class Model:
    """Implements ``Provider``, ``Connections`` and ``Planner``: it says two words.

    Attributes:
        hangs: Whether it then hangs, and cannot be cancelled.
        waits: Whether it then waits.
        thinks: Whether it waits before its first word.
        asked: How often it was asked.
    """

    default = "model"

    def __init__(self) -> None:
        self.hangs = False
        self.waits = False
        self.thinks = False
        self.asked = 0
        self.released = anyio.Event()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.asked += 1
        yield self._events()

    async def _events(self) -> AsyncIterator[ModelEvent]:
        if self.thinks:
            await self.released.wait()
        yield TextDelta("Two ")
        await anyio.lowlevel.checkpoint()
        if self.hangs:
            with anyio.CancelScope(shield=True):
                await self.released.wait()
        if self.waits:
            await self.released.wait()
        yield TextDelta("words.")
        yield TurnEnded(EndReason.COMPLETE)

    @asynccontextmanager
    async def open(self, connection: str) -> AsyncIterator[Model]:
        yield self

    def infos(self) -> Mapping[str, ConnectionInfo]:
        return {}

    def limits(self, connection: str, model: str) -> Limits:
        return Limits()

    def keeps(self, notebook: Notebook, prompt: CellId) -> bool:
        return False

    def plan(
        self, start: StartRun, notebook: Notebook, file_id: FileId, *, needs_key: bool = True
    ) -> Plan:
        return Plan(file_id, "model", "m", Choices("m"), Limits(), b"secret")


class Place:
    """A server's part: a notebook with two questions, a model, a runtime."""

    def __init__(self, rooms: MemoryRooms, shared: SharedNotebook, journal: MemoryJournal) -> None:
        self.rooms = rooms
        self.shared = shared
        self.journal = journal
        self.model = Model()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Runtime]:
        around = Surroundings(self.journal, self.model, Pacer(narrowest=0.0), AgentUser())
        async with Runtime(self.rooms, around, self.model, DeskLimits(idle=0.05)) as runtime:
            yield runtime

    def start(self, cell: str = "p", request: str | None = None, who: Author = ANN) -> StartRun:
        return StartRun(PATH, CellId(cell), who, client_request_id=request)


@asynccontextmanager
async def place(journal: MemoryJournal | None = None) -> AsyncIterator[Place]:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "p"), prompt("And then?", "q")])
        with anyio.fail_after(30):
            yield Place(rooms, shared, journal or MemoryJournal())


async def ended(runtime: Runtime, run_id: RunId) -> None:
    """Wait until a run has ended, by its events."""
    after = 0
    while True:
        page = await runtime.events(run_id, after, 10)
        after = page.events[-1].seq if page.events else after
        if any(RunStatus(str(e.data["status"])).ended for e in page.events if e.type == "status"):
            return


async def until(holds: Any) -> None:
    while not holds():  # noqa: ASYNC110
        await anyio.sleep(0.01)


class TestStartingOnce:
    async def test_the_same_wish_at_the_same_time_is_one_run(self) -> None:
        async with place() as at, at.served() as runtime:
            found: list[RunId] = []

            async def ask() -> None:
                found.append((await runtime.submit(at.start(request="r"))).run_id)

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask)
            assert len(set(found)) == 1
            await ended(runtime, found[0])
            assert at.model.asked == 1
            # Said again when it is over, it is still that run.
            again = await runtime.submit(at.start(request="r"))
            assert (again.run_id, at.model.asked) == (found[0], 1)
            assert not runtime._starting

    async def test_others_and_other_wishes_are_others(self) -> None:
        async with place() as at, at.served() as runtime:
            seen = set()
            for wish in (
                at.start(request="r"),
                at.start(request="s"),
                at.start(request="r", who=Author("bob", "Bob")),
                at.start(),
                at.start(),
            ):
                record = await runtime.submit(wish)
                await ended(runtime, record.run_id)
                seen.add(record.run_id)
            assert len(seen) == 5

    async def test_also_after_the_server_was_started_again(self) -> None:
        async with place() as at:
            at.model.waits = True
            async with at.served() as runtime:
                first = await runtime.submit(at.start(request="r"))
                await until(lambda: at.shared.source(str(first.answer_cell_id)) == "Two ")
                seen = (await runtime.events(first.run_id, 0)).last_seq
                at.journal = at.journal.successor()  # as a kill leaves it
            async with at.served() as runtime:
                await runtime.recover()
                again = await runtime.submit(at.start(request="r"))
                assert (again.run_id, again.status) == (first.run_id, RunStatus.INTERRUPTED)
                assert at.model.asked == 1
                # And whoever followed it goes on where they were.
                page = await runtime.events(first.run_id, seen)
                assert not page.gap
                assert [each.seq for each in page.events] == [
                    *range(seen + 1, seen + 1 + len(page.events))
                ]
                assert {"status", "restored"} == {each.type for each in page.events}

    async def test_a_wish_that_was_refused_may_be_said_again(self) -> None:
        async with place() as at, at.served() as runtime:
            at.model.waits = True
            await runtime.submit(at.start())
            with pytest.raises(Exception, match="answered already"):
                await runtime.submit(at.start(request="r"))
            at.model.released.set()
            await until(lambda: not runtime.live_count)
            record = await runtime.submit(at.start(request="r"))
            await ended(runtime, record.run_id)
            assert at.model.asked == 2


class TestEvents:
    async def test_a_gap_is_said(self) -> None:
        async with place(MemoryJournal(max_events_per_run=2)) as at, at.served() as runtime:
            record = await runtime.submit(at.start())
            await ended(runtime, record.run_id)
            page = await runtime.events(record.run_id, 0)
            assert (len(page.events), page.gap) == (2, True)
            page = await runtime.events(record.run_id, page.events[0].seq)
            assert not page.gap

    async def test_news_wakes_who_waits(self) -> None:
        async with place() as at, at.served() as runtime:
            at.model.waits = True
            record = await runtime.submit(at.start())
            await until(lambda: at.shared.source(str(record.answer_cell_id)) == "Two ")
            known = (await runtime.events(record.run_id, 0)).last_seq
            async with anyio.create_task_group() as tasks:

                async def follow() -> None:
                    page = await runtime.events(record.run_id, known, 20)
                    assert page.events[0].seq == known + 1

                tasks.start_soon(follow)
                await anyio.wait_all_tasks_blocked()
                at.model.released.set()
            await ended(runtime, record.run_id)


class TestStopping:
    async def test_what_does_not_end_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A part that cannot be cancelled holds up neither the stop nor the next question."""
        monkeypatch.setattr(runtime_module, "FORCED_AFTER", 0.5)
        async with place() as at, at.served() as runtime:
            at.model.hangs = True
            try:
                await self.check(at, runtime)
            finally:
                at.model.released.set()

    async def check(self, at: Place, runtime: Runtime) -> None:
        stuck = await runtime.submit(at.start())
        behind = await runtime.submit(at.start("q"))
        await until(lambda: at.shared.source(str(stuck.answer_cell_id)) == "Two ")
        record = await runtime.cancel(stuck.run_id)
        assert record.status is RunStatus.CANCELLED
        await until(lambda: at.shared.mark(str(stuck.answer_cell_id))["status"] == "cancelled")
        await until(lambda: not runtime.live(behind.run_id))
        left = await at.journal.run(behind.run_id)
        assert left is not None
        assert left.status is RunStatus.INTERRUPTED
        types = [each.type for each in (await runtime.events(stuck.run_id, 0)).events]
        assert "forced" in types

        at.model.hangs = False
        after = await runtime.submit(at.start("q"))
        await ended(runtime, after.run_id)
        assert at.shared.source(str(after.answer_cell_id)) == "Two words."
        # What hung wakes up at last, and harms nothing.
        at.model.released.set()
        again = await runtime.submit(at.start())
        await ended(runtime, again.run_id)
        assert at.shared.source(str(again.answer_cell_id)) == "Two words."
        assert at.shared.mark(str(again.answer_cell_id))["status"] == "done"


class TestRoomsThatAreReplaced:
    async def test_what_people_type_before_the_first_word_stays(self) -> None:
        async with place() as at, at.served() as runtime:
            at.model.thinks = True
            record = await runtime.submit(at.start())
            cell = str(record.answer_cell_id)
            await until(lambda: at.model.asked)
            position = [each["id"] for each in at.shared.cells].index(cell)
            with at.shared.ynotebook.ydoc.transaction(origin="person"):
                at.shared.ynotebook.ycells[position]["source"].insert(0, "<typed>")
            await at.rooms.replace(PATH)
            await until(lambda: at.shared.source(cell) == "<typed>")
            await anyio.sleep(0.3)  # the run is in the new room by then
            at.model.released.set()
            await ended(runtime, record.run_id)
            assert at.shared.source(cell) == "Two words.<typed>"
