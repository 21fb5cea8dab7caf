"""One notebook that somebody is asking about: its room, its queue, and when to leave."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskGroup

from .answering import SETTLING, execute
from .asking import Plan, StartRun, Surroundings
from .document.answer import AnswerCell
from .document.notebook import Notebook, Snapshot
from .document.peer import Membership, Rooms
from .document.replay import apply_updates
from .document.snapshots import Snapshots
from .errors import (
    AnswerKept,
    DocumentSuspect,
    EmptyPrompt,
    NbinlineError,
    NotAPrompt,
    NotCaughtUp,
    PromptTooLong,
    RoomLost,
    RunActive,
    TooManyRuns,
)
from .executing import settle_cells
from .ids import CellId, FileId, NotebookPath, RunId
from .journal import RunRecord, RunStatus
from .recovery import settle_marks
from .run import Run

PROMPT_LIMIT = 16_000
"""Characters a question may have."""

BARRIER = 5.0
"""Seconds the server waits to see what the asker saw."""

LATE = 30.0
"""Seconds after a run within which what people had typed into removed cells may come in."""

MIN_SUSPECT = 4
"""Cells a notebook must have had before their loss makes it suspect."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeskLimits:
    """Bounds of one notebook's desk.

    Attributes:
        idle: Seconds without a run after which the room is left.
        queue: Runs that may wait.
        rejoins: Times in a row that joining a replaced room may fail.
        pause: Seconds before the first repetition of a failed join; doubled each time.
    """

    idle: float = 30.0
    queue: int = 50
    rejoins: int = 5
    pause: float = 0.2


class Planner(Protocol):
    """Decides how a run asks, from the person's choices and the notebook's."""

    def keeps(self, notebook: Notebook, prompt: CellId) -> bool:
        """Whether a finished answer to the question is not to be replaced."""

    def plan(
        self, start: StartRun, notebook: Notebook, file_id: FileId, *, needs_key: bool = True
    ) -> Plan:
        """Choose connection, model, style and limits.

        Args:
            start: The person's wish.
            notebook: Where.
            file_id: The notebook's stable id.
            needs_key: Whether the connection must be ready to be used.

        Raises:
            UnknownConnection: No such connection.
            UnknownModel: The connection cannot use the model.
            NotConfigured: The connection has no key or address.
        """


@dataclass(eq=False)
class Desk:
    """Joins a notebook's room when somebody asks, answers in order, leaves when it is quiet."""

    path: NotebookPath
    file_id: FileId
    rooms: Rooms
    around: Surroundings
    planner: Planner
    limits: DeskLimits = field(default_factory=DeskLimits)
    closing: bool = False
    _membership: Membership | None = None
    _failure: NbinlineError | None = None
    _queue: deque[Run] = field(default_factory=deque)
    _active: dict[CellId, Run] = field(default_factory=dict)
    _answering: Run | None = None
    _users: int = 0
    _tasks: TaskGroup = field(init=False)
    _snapshots: Snapshots | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    # -- the room ---------------------------------------------------------------------------

    async def serve(self) -> None:
        """Hold the room until it is quiet; never raises, :meth:`current` tells what failed."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._work)
            try:
                await self._hold()
            finally:
                self.closing = True
                self._forget_snapshots()
                self._pulse()
            tasks.cancel_scope.cancel()

    async def _hold(self) -> None:
        failures = 0
        while True:
            try:
                async with self.rooms.join(self.path) as membership:
                    await self._arrive(membership)
                    failures = 0
                    idle = await self._stay(membership)
                    self._membership = None
                if idle:
                    return
            except Exception as error:
                if not isinstance(error, NbinlineError):
                    log.exception("room failed", notebook=self.path)
                failures += 1
                if not self._active or failures > self.limits.rejoins:
                    await self._give_up(error if isinstance(error, NbinlineError) else RoomLost())
                    return
            await anyio.sleep(self.limits.pause * 2**failures)

    async def _arrive(self, membership: Membership) -> None:
        self._forget_snapshots()
        notebook = Notebook(membership.peer)
        for run in self._active.values():
            run.recorder.leave()
            run.recorder.join(membership.peer)
        for run in self._active.values():
            if not run.answer_text:  # a run that writes replays its own, and looks at the outcome
                apply_updates(membership.peer, await self.around.journal.updates(run.run_id))
        membership.peer.set_write_ahead(self._write_ahead)
        await settle_marks(
            notebook, self.around.journal, alive={run.run_id for run in self._active.values()}
        )
        self._membership = membership
        self._pulse()

    async def _stay(self, membership: Membership) -> bool:
        """Wait until nobody needs the room (True) or it is gone (False)."""
        async with anyio.create_task_group() as tasks:

            async def until_lost() -> None:
                await membership.lost.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_lost)
            tasks.start_soon(self._settle_cells, membership)
            await self._until_idle()
            tasks.cancel_scope.cancel()
        return self.closing

    async def _settle_cells(self, membership: Membership) -> None:
        """Take back the marks of cells whose page or server went away while they ran."""
        if self.around.kernels is None:
            return
        kernel = self.around.kernels.of(membership.path)
        try:
            await settle_cells(kernel, Notebook(membership.peer), "settle")
        except NbinlineError as error:
            log.warning("cells not settled", notebook=self.path, code=error.code)

    async def _until_idle(self) -> None:
        while True:
            while self._users:
                await self._changed.wait()
            with anyio.move_on_after(self.limits.idle):
                while not self._users:
                    await self._changed.wait()
            if not self._users:
                self.closing = True
                return

    async def _give_up(self, error: NbinlineError) -> None:
        self._failure = error
        self.closing = True
        self._pulse()
        for run in list(self._active.values()):
            run.cancel(RunStatus.INTERRUPTED)
        while self._active:
            await self._changed.wait()

    async def current(self) -> Membership:
        """The joined room; waits while it is being joined.

        Raises:
            NbinlineError: Why it could not be joined.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            membership = self._membership
            if membership is not None and membership.alive:
                return membership
            if self.closing:
                raise RoomLost
            await self._changed.wait()

    async def _write_ahead(self, updates: Sequence[bytes]) -> None:
        for run in list(self._active.values()):
            # What it takes to revert a change is kept before anybody sees the change.
            await run.keep_checkpoints(everything=False)
            try:
                await self.around.journal.append_updates(run.run_id, updates)
            except NbinlineError as error:
                # The document goes on without its safety net rather than not at all.
                log.warning("updates not journalled", run=run.run_id, code=error.code)

    # -- people's wishes --------------------------------------------------------------------

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep the desk from leaving while somebody is about to ask."""
        self._users += 1
        self._pulse()
        try:
            yield
        finally:
            self._users -= 1
            self._pulse()

    async def submit(self, start: StartRun) -> Run:
        """Take on a run; returns once everybody can see that it is queued.

        Raises:
            RequestError: It cannot be done; nothing was written.
        """
        with self.using():
            membership = await self.current()
            notebook = Notebook(membership.peer)
            await self._barrier(membership, notebook, start)
            self._check_prompt(notebook, start)
            await self._let_end(start.cell_id)
            self._check_free(start.cell_id)
            if not start.override.acknowledge:
                await self.check_document(notebook)
            answers = notebook.answers_of(start.cell_id)
            if start.continues is None:
                self._check_kept(notebook, start.cell_id, answers)
            plan = self.planner.plan(start, notebook, self.file_id)
            self._check_free(start.cell_id)
            run = self._new_run(start, plan, membership.path)
            if start.continues is not None and answers:
                run.answer_text = notebook.source(answers[0])
            self._active[start.cell_id] = run
            try:
                await self._show_queued(run, notebook, membership)
            except BaseException:
                run.recorder.leave()
                self._forget(run)
                raise
            self._users += 1
            self._queue.append(run)
            self._pulse()
        return run

    async def read(self, start: StartRun) -> tuple[Snapshot, Plan]:
        """Check a wish as :meth:`submit` does, and write nothing; no key is needed.

        Cells that did not change since this was last called are not read again.

        Raises:
            RequestError: It cannot be done.
        """
        membership = await self.current()
        notebook = Notebook(membership.peer)
        await self._barrier(membership, notebook, start)
        self._check_prompt(notebook, start)
        plan = self.planner.plan(start, notebook, self.file_id, needs_key=False)
        if self._snapshots is None:
            self._snapshots = Snapshots(membership.peer.index)
        return await self._snapshots.take(notebook), plan

    async def has_text(self, answer: CellId) -> bool:
        """Whether an answer cell still stands in the notebook with text in it."""
        with self.using():
            membership = await self.current()
            notebook = Notebook(membership.peer)
            return notebook.has(answer) and bool(notebook.source(answer).strip())

    async def quiet(self) -> None:
        """Wait until no run of this desk is left and what they wrote was kept."""
        while self._users:
            await self._changed.wait()

    async def _barrier(self, membership: Membership, notebook: Notebook, start: StartRun) -> None:
        with anyio.move_on_after(BARRIER) as scope:
            if start.state_vector is not None:
                await membership.peer.caught_up(start.state_vector, timeout=BARRIER)
            if start.source_sha256 is not None:
                await notebook.changed_until(
                    lambda: (
                        notebook.has(start.cell_id)
                        and digest(notebook.source(start.cell_id)) == start.source_sha256
                    )
                )
        if scope.cancelled_caught:
            raise NotCaughtUp

    def _check_prompt(self, notebook: Notebook, start: StartRun) -> None:
        cell = notebook.cell(start.cell_id)
        if cell.kind != "markdown" or not cell.nbinline.get("isPromptCell"):
            raise NotAPrompt
        if not cell.source.strip():
            raise EmptyPrompt
        if len(cell.source) > PROMPT_LIMIT:
            raise PromptTooLong

    async def _let_end(self, prompt: CellId) -> None:
        """Wait for a run whose end the asker may have seen in the document already."""
        active = self._active.get(prompt)
        if active is not None and active.ending:
            with anyio.move_on_after(BARRIER):
                await active.ended.wait()

    def _check_free(self, prompt: CellId) -> None:
        active = self._active.get(prompt)
        if active is not None and not active.record.status.ended:
            raise RunActive(run_id=active.run_id, status=active.record.status.value)
        if len(self._queue) >= self.limits.queue:
            raise TooManyRuns

    async def check_document(self, notebook: Notebook) -> None:
        """Look whether the notebook is still the one that it was at the end of the last run.

        Raises:
            DocumentSuspect: It looks emptied or doubled.
        """
        if any(not run.record.status.ended for run in self.runs()):
            return
        before = await self.around.journal.last_cells(self.file_id)
        present = set(notebook.ids())
        lost = sum(cell not in present for cell in before)
        if len(before) >= MIN_SUSPECT and lost * 2 >= len(before) and lost >= MIN_SUSPECT:
            raise DocumentSuspect
        if len(present) >= 2 * max(MIN_SUSPECT, len(before)) and doubled(notebook):
            raise DocumentSuspect

    def _check_kept(self, notebook: Notebook, prompt: CellId, answers: Sequence[CellId]) -> None:
        if not self.planner.keeps(notebook, prompt):
            return
        for answer in answers:
            cell = notebook.cell(answer)
            if cell.nbinline.get("status") == "done" and cell.source.strip():
                raise AnswerKept(answer_cell_id=answer)

    def _new_run(self, start: StartRun, plan: Plan, path: NotebookPath) -> Run:
        record = RunRecord(
            run_id=start.run_id or RunId(uuid4().hex),
            path=path,
            file_id=self.file_id,
            prompt_cell_id=start.cell_id,
            answer_cell_id=None,
            status=RunStatus.QUEUED,
            author=start.author,
            connection=plan.connection,
            model=plan.model,
            created_at=time.time(),
            continues=start.continues,
        )
        return Run(record, plan, self.around)

    async def _show_queued(self, run: Run, notebook: Notebook, membership: Membership) -> None:
        await self.around.journal.save(run.record)
        idle = not self._queue and len(self._active) == 1
        run.recorder.join(membership.peer)
        answer = AnswerCell.prepare(
            notebook,
            run.record.prompt_cell_id,
            run.mark,
            status="running" if idle else "queued",
        )
        run.old_answer = notebook.source(answer)
        run.record = replace(run.record, answer_cell_id=answer)
        await self.around.journal.save(run.record)
        await run.note("status", {"status": run.record.status.value})

    async def cancel(self, run: Run, ending: RunStatus = RunStatus.CANCELLED) -> None:
        """End a run of this desk; returns when it has ended."""
        run.cancel(ending)
        if run in self._queue:
            self._queue.remove(run)
            await self._end_unstarted(run, ending)
        await run.ended.wait()

    async def left(self, run: Run) -> None:
        """Wait until nothing works on a run any more."""
        while self._answering is run:
            await self._changed.wait()

    async def abandon(self) -> None:
        """Give the desk up though a run of it does not end; another one may take its place.

        Its runs end here and now for everybody, whatever their tasks still do.
        """
        self._failure = self._failure or RoomLost()
        self.closing = True
        self._pulse()
        while self._queue:
            run = self._queue.popleft()
            run.cancel(RunStatus.INTERRUPTED)
            await self._end_unstarted(run, RunStatus.INTERRUPTED)
        for run in list(self._active.values()):
            await run.note("forced", {})
            if not run.record.status.ended:
                ending = run.wish or RunStatus.INTERRUPTED
                await self._mark_ended(run, ending)
                await run.move(ending)
            run.ended.set()

    async def _mark_ended(self, run: Run, ending: RunStatus) -> None:
        membership = self._membership
        if membership is None or run.record.answer_cell_id is None:
            return
        AnswerCell.mark_ended(
            Notebook(membership.peer), run.record.answer_cell_id, run.mark, ending.value
        )
        await membership.peer.settled(SETTLING)

    async def _end_unstarted(self, run: Run, ending: RunStatus) -> None:
        try:
            await self._mark_ended(run, ending)
            await run.keep_checkpoints()
            await run.move(ending)
        finally:
            run.recorder.leave()
            run.ended.set()
            self._forget(run)
            self._users -= 1
            self._pulse()

    # -- the queue --------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            while not self._queue:
                await self._changed.wait()
            run = self._queue.popleft()
            self._answering = run
            try:
                await execute(run, self)
                self._answering = None
                self._pulse()
                await self._keep(run)
                self._tasks.start_soon(self._watch_removed, run)
            finally:
                self._answering = None
                self._forget(run)
                self._users -= 1
                self._pulse()

    async def _watch_removed(self, run: Run) -> None:
        """Keep what people had typed into cells that the run removed, when it comes in late."""
        try:
            with anyio.move_on_after(LATE if run.recorder.watches else 0):
                while True:
                    await run.recorder.late.wait()
                    await run.keep_checkpoints()
        finally:
            run.recorder.leave()

    async def _keep(self, run: Run) -> None:
        """Bring what the run wrote onto the disk; then its updates need not be kept."""
        membership = self._membership
        if membership is None or membership.lost.is_set():
            return
        try:
            await self.around.journal.note_cells(self.file_id, Notebook(membership.peer).ids())
            saved = await membership.peer.settled() and await membership.save()
            if saved:
                await self.around.journal.forget_updates(run.run_id)
            else:
                await run.note("not-saved", {})
        except NbinlineError as error:
            log.warning("run not kept", run=run.run_id, code=error.code)

    def runs(self) -> Sequence[Run]:
        """Runs that have not ended, the current one first."""
        return list(self._active.values())

    def _forget_snapshots(self) -> None:
        if self._snapshots is not None:
            self._snapshots.close()
            self._snapshots = None

    def _forget(self, run: Run) -> None:
        if self._active.get(run.record.prompt_cell_id) is run:
            del self._active[run.record.prompt_cell_id]

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


def digest(source: str) -> str:
    """Lower-case hex SHA-256 of a source's UTF-8 bytes, as browsers send it."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def doubled(notebook: Notebook) -> bool:
    """Whether every source with text stands in the notebook at least twice."""
    counts = Counter(source for cell in notebook.ids() if (source := notebook.source(cell).strip()))
    return bool(counts) and min(counts.values()) >= 2
