"""The server's side of it all: desks by notebook, starting, stopping and recovering runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from .answering import Memberships, choose_tools, look_up_values
from .asking import Override, StartRun, Surroundings
from .context.build import build
from .desk import Desk, DeskLimits, Planner
from .document.checkpoints import Recorder
from .document.notebook import Notebook
from .document.peer import Rooms
from .errors import (
    ApprovalAnswered,
    NbinlineError,
    NothingToContinue,
    NotYours,
    RunActive,
    TooManyRuns,
    UnknownApproval,
    UnknownRun,
)
from .ids import FileId, NotebookPath, RunId
from .journal import Author, EventPage, Journal, RunRecord, RunStatus, UnfinishedRun
from .messages import JsonValue
from .recovery import restore
from .revert import Reverted, revert
from .run import Run
from .tools.approval import ALLOWED, CANCELLED, DENIED
from .visiting import Visit

MAX_RUNS = 500
"""Runs that may be alive on one server."""

FORCED_AFTER = 8.0
"""Seconds a run that was told to stop has for it; then it ends without its tasks."""

ALL_EVENTS = 100_000
"""More events than a run can have."""

log = structlog.get_logger(__name__)


class Runtime:
    """Owns every desk and run of one server; an async context manager.

    Leaving it ends the runs that still live as ``interrupted``.
    """

    def __init__(
        self,
        rooms: Rooms,
        around: Surroundings,
        planner: Planner,
        limits: DeskLimits | None = None,
        on_end: Callable[[RunRecord], None] | None = None,
        while_live: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._rooms = rooms
        self._around = around
        self._planner = planner
        self._limits = limits or DeskLimits()
        self._on_end = on_end or _say_nothing
        self._while_live = while_live
        self._desks: dict[FileId, Desk] = {}
        self._runs: dict[RunId, tuple[Desk | Visit, Run]] = {}
        self._starting: dict[RunId, anyio.Lock] = {}
        self._stopping = False
        self._reverting = anyio.Lock()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._stopping = True
        self._tasks.cancel_scope.cancel()
        return await self._stack.__aexit__(kind, value, trace)

    @property
    def journal(self) -> Journal:
        """Where runs are recorded."""
        return self._around.journal

    # -- commands ---------------------------------------------------------------------------

    async def submit(self, start: StartRun) -> RunRecord:
        """Take on a run; a wish that was said before names the run it became.

        Raises:
            RequestError: It cannot be done; nothing was written.
        """
        run_id = start.run_id
        if run_id is None:
            return await self._start(start)
        async with self._alone(run_id):
            held = self._runs.get(run_id)
            known = held[1].record if held else await self.journal.run(run_id)
            # One that nobody ever saw in the notebook was not taken on.
            if known is not None and known.answer_cell_id is not None:
                return known
            return await self._start(start)

    @asynccontextmanager
    async def _alone(self, run_id: RunId) -> AsyncIterator[None]:
        lock = self._starting.setdefault(run_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._starting.pop(run_id, None)

    async def _start(self, start: StartRun) -> RunRecord:
        if self._stopping or len(self._runs) >= MAX_RUNS:
            raise TooManyRuns
        path, file_id = await self._rooms.resolve(start.path)
        desk = self._desk(path, file_id)
        run = await desk.submit(start)
        self._runs[run.run_id] = (desk, run)
        self._tasks.start_soon(self._watch, run)
        return run.record

    def adopt(self, visit: Visit) -> None:
        """Own the visit of an agent from outside, whose run is like any other from now on.

        Raises:
            TooManyRuns: The server is full, or about to stop.
        """
        if self._stopping or len(self._runs) >= MAX_RUNS:
            raise TooManyRuns
        self._runs[visit.run.run_id] = (visit, visit.run)
        self._tasks.start_soon(visit.live)
        self._tasks.start_soon(self._watch, visit.run)

    async def continue_run(
        self, run_id: RunId, author: Author, *, may_use_kernels: bool = True, owner: bool = False
    ) -> RunRecord:
        """Start a run that goes on from the partial answer of an ended one.

        Raises:
            UnknownRun: There is no such run.
            NothingToContinue: It ended well, or left no text.
            RunActive: Its prompt is being answered.
        """
        record = await self._record(run_id)
        if not record.status.ended:
            raise RunActive(run_id=run_id, status=record.status.value)
        if record.status is RunStatus.DONE or record.answer_cell_id is None:
            raise NothingToContinue
        path, file_id = await self._rooms.resolve(record.path)
        desk = self._desk(path, file_id)
        if not await desk.has_text(record.answer_cell_id):
            raise NothingToContinue
        return await self.submit(
            StartRun(
                path=record.path,
                cell_id=record.prompt_cell_id,
                author=author,
                override=Override(connection=record.connection, model=record.model),
                continues=run_id,
                may_use_kernels=may_use_kernels,
                owner=owner,
            )
        )

    async def resolve(self, path: NotebookPath) -> tuple[NotebookPath, FileId]:
        """A notebook's path as its room has it, and its stable id.

        Raises:
            UnknownNotebook: There is no such notebook.
        """
        return await self._rooms.resolve(path)

    async def revert(self, run_id: RunId, by: Author, *, dry_run: bool, owner: bool) -> Reverted:
        """Take back what an ended run changed in its notebook, and nothing that others wrote.

        Args:
            run_id: The run.
            by: Who wants it.
            dry_run: Only tell what would be taken back.
            owner: Whether the server is that person's own.

        Raises:
            UnknownRun: There is no such run.
            NotYours: Somebody else asked.
            RunActive: It has not ended.
            RequestError: The notebook is gone, read-only, or looks emptied or doubled.
            JournalUnavailable: What it changed is not known, or cannot be noted as taken back.
        """
        record = await self._record(run_id)
        if record.author.username != by.username and not owner:
            raise NotYours("Only the person who asked, or the owner of this server, can revert it.")
        if not record.status.ended or run_id in self._runs:
            raise RunActive("The run is still going on. Stop it first.", run_id=run_id)
        path, file_id = await self._rooms.resolve(record.path)
        desk = self._desk(path, file_id)
        async with self._reverting:
            with desk.using():
                membership = await desk.current()
                await desk.check_document(Notebook(membership.peer))
                return await revert(membership, self.journal, record, by, dry_run=dry_run)

    async def cancel(self, run_id: RunId, by: Author | None = None) -> RunRecord:
        """End a run as ``cancelled``; one that has ended stays as it is.

        Args:
            run_id: The run.
            by: Who ended it, for the record.

        Raises:
            UnknownRun: There is no such run.
        """
        held = self._runs.get(run_id)
        if held is None:
            return await self._record(run_id)
        place, run = held
        if by is not None and run.wish is None and not run.record.status.ended:
            name = {"username": by.username, "display_name": by.display_name}
            await run.note("stopped", name)
        with anyio.move_on_after(FORCED_AFTER):
            await place.cancel(run)
        if not run.record.status.ended:
            await self._force(place, run)
        return run.record

    async def _force(self, place: Desk | Visit, run: Run) -> None:
        """End a run whose task does not: it must hold up neither people nor other questions."""
        log.error("run forced to end", run=run.run_id)
        if self._desks.get(run.record.file_id) is place:
            del self._desks[run.record.file_id]
        await place.abandon()

    async def preview(self, start: StartRun) -> Mapping[str, JsonValue]:
        """What a run would send, built by the same code; calls no model and writes nothing.

        Raises:
            RequestError: The run could not be started either.
        """
        path, file_id = await self._rooms.resolve(start.path)
        desk = self._desk(path, file_id)
        with desk.using():
            snapshot, plan = await desk.read(start)
            box = await choose_tools(self._around, plan, path, snapshot, start.cell_id)
            source = snapshot.cell(start.cell_id).source
            values = await look_up_values(self._around, plan, path, source)
        # Pictures of values are made smaller on the way.
        built = await anyio.to_thread.run_sync(
            partial(
                build,
                snapshot,
                start.cell_id,
                asker=start.author.username,
                choices=plan.choices,
                limits=plan.limits,
                secret=plan.secret,
                file_id=file_id,
                policy=plan.policy,
                tools=box.specs,
                disabled=box.disabled,
                values=values,
            )
        )
        return built.report.to_json()

    async def approve(
        self,
        run_id: RunId,
        approval_id: str,
        by: Author,
        *,
        allow: bool,
        remember: bool,
        owner: bool,
    ) -> None:
        """Let a call that waits through, or not.

        Args:
            run_id: The run.
            approval_id: The question.
            by: Who answers.
            allow: Whether the call may be carried out.
            remember: Whether the same tool needs no further word from the person who asked in
                this notebook, as long as the server lives.
            owner: Whether the server is the answering person's own.

        Raises:
            UnknownRun: There is no such run.
            NotYours: Somebody else asked the question.
            UnknownApproval: The run asked no such thing.
            ApprovalAnswered: It was answered before, or its time was over.
        """
        record = await self._record(run_id)
        if record.author.username != by.username and not owner:
            raise NotYours
        held = self._runs.get(run_id)
        if held is None:
            asked = {each["approval_id"] for each in await self.approvals(run_id)}
            raise ApprovalAnswered if approval_id in asked else UnknownApproval
        run = held[1]
        approval = run.approvals.find(approval_id)
        if allow and remember:
            self._around.remembered.allow(run.plan.file_id, record.author.username, approval.tool)
        approval.settle(ALLOWED if allow else DENIED, by.username)

    @asynccontextmanager
    async def in_room(self, path: NotebookPath) -> AsyncIterator[Memberships]:
        """Be in a notebook's room, the same one that its runs write to.

        Raises:
            RequestError: There is no such notebook, or it cannot be written.
        """
        path, file_id = await self._rooms.resolve(path)
        desk = self._desk(path, file_id)
        with desk.using():
            yield desk

    # -- look-ups ---------------------------------------------------------------------------

    def live(self, run_id: RunId) -> bool:
        """Whether this server works on the run."""
        return run_id in self._runs

    @property
    def live_count(self) -> int:
        """Runs this server works on."""
        return len(self._runs)

    def activity(self, run_id: RunId) -> dict[str, JsonValue] | None:
        """Where a live run works and how far its call is; None for one that has ended."""
        held = self._runs.get(run_id)
        if held is None:
            return None
        return {"cell_id": held[1].place, "text": held[1].activity}

    async def approvals(self, run_id: RunId) -> Sequence[Mapping[str, JsonValue]]:
        """What a run asked people, oldest first; a question may be there more than once."""
        held = self._runs.get(run_id)
        if held is not None:
            return [approval.to_json() for approval in held[1].approvals]
        page = await self.journal.events(run_id, limit=ALL_EVENTS)
        asked = [event.data for event in page.events if event.type == "approval"]
        return [{**each, "answer": each.get("answer") or CANCELLED} for each in asked]

    async def events(self, run_id: RunId, after: int, wait: float = 0.0) -> EventPage:
        """A run's events after a sequence number; waits for news up to ``wait`` seconds."""
        page = await self.journal.events(run_id, after)
        held = self._runs.get(run_id)
        if page.events or held is None or wait <= 0:
            return page
        news = held[1].news
        page = await self.journal.events(run_id, after)
        if not page.events:
            with anyio.move_on_after(wait):
                await news.wait()
            page = await self.journal.events(run_id, after)
        return page

    # -- lifetimes --------------------------------------------------------------------------

    async def drain(self, deadline: float = 3.0) -> None:
        """End every run as ``interrupted`` and bring the notebooks onto the disk.

        Args:
            deadline: Seconds this may take.
        """
        self._stopping = True
        with anyio.move_on_after(deadline):
            async with anyio.create_task_group() as tasks:
                for desk, run in list(self._runs.values()):
                    tasks.start_soon(desk.cancel, run, RunStatus.INTERRUPTED)
            for desk in list(self._desks.values()):
                await desk.quiet()

    async def recover(self) -> None:
        """Settle what dead servers left: restore visible answers, mark them ``interrupted``."""
        for dead in await self.journal.unfinished():
            try:
                await self._recover(dead)
            except NbinlineError as error:
                log.warning("run not restored", run=dead.record.run_id, code=error.code)
                await self._close(dead.record, error)

    async def _recover(self, dead: UnfinishedRun) -> None:
        path, _ = await self._rooms.resolve(dead.record.path)
        async with self._rooms.join(path) as membership:
            recorder = Recorder(
                dead.record.run_id, await self.journal.checkpoints(dead.record.run_id)
            )
            with recorder.on(membership.peer):
                recorder.replayed(dead.updates)
                restored = await restore(membership, self.journal, dead)
                await membership.peer.settled()
                await self.journal.keep_checkpoints(
                    dead.record.run_id, dead.record.file_id, recorder.take(everything=True)
                )
            saved = await membership.save()
        await self._close(dead.record, None)
        await self.journal.append(
            dead.record.run_id,
            "restored",
            {"replayed": restored.replayed, "appended": restored.appended, "saved": saved},
        )
        if saved:
            await self.journal.forget_updates(dead.record.run_id)

    async def _close(self, record: RunRecord, error: NbinlineError | None) -> None:
        ended = replace(
            record,
            status=RunStatus.INTERRUPTED,
            ended_at=time.time(),
            error_code=error.code if error else None,
            error_message=error.message if error else None,
        )
        await self.journal.save(ended)
        await self.journal.append(record.run_id, "status", {"status": ended.status.value})

    def _desk(self, path: NotebookPath, file_id: FileId) -> Desk:
        desk = self._desks.get(file_id)
        if desk is None or desk.closing:
            desk = Desk(path, file_id, self._rooms, self._around, self._planner, self._limits)
            self._desks[file_id] = desk
            self._tasks.start_soon(self._serve, desk)
        return desk

    async def _serve(self, desk: Desk) -> None:
        try:
            await desk.serve()
        finally:
            if self._desks.get(desk.file_id) is desk:
                del self._desks[desk.file_id]

    async def _watch(self, run: Run) -> None:
        with self._while_live():
            await run.ended.wait()
        place, _ = self._runs.pop(run.run_id)
        self._on_end(run.record)
        with anyio.move_on_after(FORCED_AFTER) as patience:
            await place.left(run)
        if patience.cancelled_caught:
            await self._force(place, run)

    async def _record(self, run_id: RunId) -> RunRecord:
        held = self._runs.get(run_id)
        record = held[1].record if held else await self.journal.run(run_id)
        if record is None:
            raise UnknownRun
        return record


def _say_nothing(record: RunRecord) -> None:
    """Nobody wants to hear of ended runs."""
