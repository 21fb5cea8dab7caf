"""One prompt being answered: the state machine, and the loop from question to finished answer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread
import structlog

from .asking import Plan, Surroundings
from .context.build import Built, build
from .context.continuation import Seam
from .document.answer import AnswerCell, RunMark
from .document.background import background
from .document.notebook import Notebook
from .document.peer import Membership
from .document.presence import Presence
from .document.repair import replay_and_mend
from .errors import BadAnswer, CellGone, NbinlineError, OutputTruncated, TimedOut
from .ids import CellId, RunId
from .journal import TRANSITIONS, RunRecord, RunStatus
from .messages import (
    JsonValue,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Thinking,
    ToolCalled,
    TurnEnded,
    Usage,
)

TEXT_INTERVAL = 0.5
"""Seconds between two records of the answer's text in the journal."""

ENDING_DEADLINE = 1.5
"""Seconds that the last writes of a run may take once it was asked to end."""

BACKLOG = 1_000
"""Events of a model that may wait to be written before its stream is read no further."""

SETTLING = 0.8
"""Seconds within which everybody should have the last words before the run counts as ended."""

AT_ONCE = 0.001
"""Seconds in which an event comes that had been received already."""

TOO_LONG = "The answer took longer than this server allows. Continue it to get the rest."
TOO_MUCH = "The answer is as long as this server allows. Continue it to get the rest."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ends."""

    status: RunStatus
    error: NbinlineError | None = None


class Memberships(Protocol):
    """Gives a run the room it writes to, also after that room was replaced."""

    async def current(self) -> Membership:
        """The joined room; waits while it is being joined again.

        Raises:
            RoomLost: It could not be joined again.
        """


@dataclass(eq=False)
class Run:
    """A run as the server holds it while it lives.

    Its record only moves along ``TRANSITIONS``; each move is journalled before anybody sees it.
    """

    record: RunRecord
    plan: Plan
    around: Surroundings
    ended: anyio.Event = field(default_factory=anyio.Event)
    news: anyio.Event = field(default_factory=anyio.Event)
    answer_text: str = ""
    _seen: str = ""
    ending: bool = False
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _wish: RunStatus | None = None
    _moving: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def run_id(self) -> RunId:
        """The run's id, also the origin of its transactions."""
        return self.record.run_id

    @property
    def mark(self) -> RunMark:
        """What the answer cell says about this run."""
        return RunMark(
            run_id=self.run_id,
            author=self.record.author.username,
            model=self.record.model,
            backend=self.record.connection,
        )

    def cancel(self, ending: RunStatus = RunStatus.CANCELLED) -> None:
        """Ask the run to end; the first wish counts, an ended run takes none."""
        if self._wish is None and not self.record.status.ended:
            self._wish = ending
            self._scope.cancel()

    async def note(self, kind: str, data: Mapping[str, JsonValue]) -> None:
        """Journal one event and wake whoever waits for news."""
        await self.around.journal.append(self.run_id, kind, data)
        self.news.set()
        self.news = anyio.Event()

    async def move(
        self, status: RunStatus, error: NbinlineError | None = None, *, at: float | None = None
    ) -> bool:
        """Go to another status if that is a legal step, and journal it.

        Args:
            status: Where to.
            error: Why, if it failed.
            at: When it happened, in seconds since the epoch; now by default.

        Returns:
            Whether the status changed.
        """
        async with self._moving:
            if status not in TRANSITIONS[self.record.status]:
                return False
            now = time.time() if at is None else at
            self.record = replace(
                self.record,
                status=status,
                started_at=now if status is RunStatus.PREPARING else self.record.started_at,
                ended_at=now if status.ended else None,
                error_code=error.code if error else None,
                error_message=error.message if error else None,
            )
            await self.around.journal.save(self.record)
        data: dict[str, JsonValue] = {"status": status.value}
        if error is not None:
            data["code"] = error.code
        await self.note("status", data)
        if status.ended:
            self.ended.set()
        return True

    async def execute(self, memberships: Memberships) -> None:
        """Answer the question; returns when the run has ended, however it ended.

        :meth:`cancel` ends it as asked. Cancelling from outside ends it as ``interrupted``. Either
        way the ending is still written into the document and the journal, for a bounded time.
        """
        try:
            with self._scope:
                await self._live(memberships)
        finally:
            if not self.record.status.ended:
                with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                    await self.move(self._wish or RunStatus.INTERRUPTED)
                self.ended.set()

    async def _live(self, memberships: Memberships) -> None:
        await self.move(RunStatus.PREPARING)
        stream = _Stream(self)
        async with anyio.create_task_group() as tasks:
            while True:
                membership = await self._room(memberships)
                if membership is None or await self._write_in(membership, stream, tasks):
                    break
            tasks.cancel_scope.cancel()

    async def _room(self, memberships: Memberships) -> Membership | None:
        try:
            return await memberships.current()
        except NbinlineError as error:
            await self.move(RunStatus.ERROR, error)
            return None

    async def _write_in(
        self, membership: Membership, stream: _Stream, tasks: anyio.abc.TaskGroup
    ) -> bool:
        """Write into one room; False if that room was replaced before the run had ended."""
        notebook = Notebook(membership.peer)
        if self._seen and self.record.answer_cell_id is not None:
            updates = await self.around.journal.updates(self.run_id)
            replay_and_mend(notebook, self.record.answer_cell_id, updates, self._seen, self.run_id)
        async with (
            self._answer_cell(notebook) as answer,
            self._shown(membership, answer),
        ):
            try:
                with anyio.CancelScope() as here:
                    tasks.start_soon(_cancel_when, membership.lost, here)
                    tasks.start_soon(self._keep_seen, notebook, answer.id, membership.lost)
                    outcome = await self._outcome(notebook, answer, stream, tasks)
                if here.cancelled_caught:
                    self._look(notebook, answer.id)
                    return False
            except anyio.get_cancelled_exc_class():
                outcome = Outcome(self._wish or RunStatus.INTERRUPTED)
                with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                    await self._end(membership, notebook, answer, outcome)
                raise
            return await self._end(membership, notebook, answer, outcome)

    def _answer_cell(self, notebook: Notebook) -> AbstractAsyncContextManager[AnswerCell]:
        if self.answer_text and self.record.answer_cell_id is not None:
            return AnswerCell.resume(
                notebook,
                self.record.answer_cell_id,
                self.mark,
                text_so_far=self.answer_text,
                pacer=self.around.pacer,
                prompt_id=self.record.prompt_cell_id,
            )
        return AnswerCell.open(
            notebook, self.record.prompt_cell_id, self.mark, pacer=self.around.pacer
        )

    @asynccontextmanager
    async def _shown(self, membership: Membership, answer: AnswerCell) -> AsyncIterator[None]:
        presence = Presence(membership.peer, self.around.user)

        async def follow() -> None:
            while not self.record.status.ended:
                news = self.news
                await presence.show(
                    self.run_id,
                    self.record.status.value,
                    answer.id,
                    self.record.author.display_name,
                )
                await news.wait()

        async with membership.writing():
            try:
                await membership.announce(
                    {
                        "user": self.around.user.shown(),
                        "current": f"notebook:{membership.path}",
                        "documents": [membership.path],
                    }
                )
                async with background(follow):
                    yield
            finally:
                with anyio.move_on_after(1, shield=True):
                    await presence.hide()
                    await membership.announce(None)

    async def _outcome(
        self,
        notebook: Notebook,
        answer: AnswerCell,
        stream: _Stream,
        tasks: anyio.abc.TaskGroup,
    ) -> Outcome:
        try:
            if not stream.started:
                await answer.set_status(RunStatus.PREPARING.in_document)
                built = await self._build(notebook)
                tasks.start_soon(stream.pump, built.request)
                stream.started = True
            await stream.write_to(answer)
        except CellGone as error:
            return Outcome(RunStatus.CANCELLED, error)
        except NbinlineError as error:
            return Outcome(RunStatus.ERROR, error)
        except Exception:
            log.exception("run failed", run=self.run_id)
            return Outcome(RunStatus.ERROR, NbinlineError())
        return Outcome(RunStatus.DONE)

    async def _build(self, notebook: Notebook) -> Built:
        snapshot = await notebook.snapshot()
        plan = self.plan
        # Pure, and too long for the loop where a large window takes a large notebook.
        built = await anyio.to_thread.run_sync(
            partial(
                build,
                snapshot,
                self.record.prompt_cell_id,
                asker=self.record.author.username,
                choices=plan.choices,
                limits=plan.limits,
                secret=plan.secret,
                file_id=plan.file_id,
                continuing=self.answer_text or None,
            )
        )
        self.record = replace(self.record, report=built.report.brief())
        await self.around.journal.save(self.record)
        await self.note("context", {"request_sha256": built.report.request_sha256})
        return built

    def _look(self, notebook: Notebook, answer: CellId) -> None:
        if notebook.has(answer):
            self._seen = notebook.source(answer)

    async def _keep_seen(self, notebook: Notebook, answer: CellId, lost: anyio.Event) -> None:
        """Journal what stands in the answer cell: what people see, their own words included."""
        kept = ""
        while not lost.is_set():
            with anyio.move_on_after(TEXT_INTERVAL):
                await lost.wait()
            if not self.answer_text:
                continue
            self._look(notebook, answer)
            if self._seen != kept and not lost.is_set():
                kept = self._seen
                await self.around.journal.record_text(self.run_id, kept)

    async def _end(
        self, membership: Membership, notebook: Notebook, answer: AnswerCell, outcome: Outcome
    ) -> bool:
        """Say in the document, then in the journal, how the run ended.

        Returns:
            False if the room was replaced before it had the last words; the run goes on then.
        """
        self.ending = True
        error = outcome.error
        ended_at = time.time()
        try:
            await answer.finish(
                outcome.status.in_document,
                error=(error.code, error.message) if error else None,
                ended_at=ended_at,
            )
        except CellGone as gone:
            error = error or gone
        await membership.peer.settled(SETTLING)
        # A room that was replaced may still answer: whatever it has is not what people see.
        if self.answer_text:
            self._look(notebook, answer.id)
        if not membership.alive and self._wish is None:
            return False
        if self.answer_text:
            await self.around.journal.record_text(self.run_id, self._seen)
        await self.move(outcome.status, error, at=ended_at)
        return True


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


class _Stream:
    """The model's events of one run; it outlives the rooms they are written to."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.started = False
        self._wrote = False
        self._written = 0
        self._seam = Seam(run.answer_text)
        self._events: deque[ModelEvent | NbinlineError | None] = deque()
        self._changed = anyio.Event()

    async def pump(self, request: ModelRequest) -> None:
        """Collect the provider's events; an error, or None, is the last of them."""
        connections = self._run.around.connections
        try:
            with anyio.fail_after(self._run.around.bounds.seconds):
                async with (
                    connections.open(self._run.record.connection) as provider,
                    provider.stream(request) as events,
                ):
                    asked = anyio.current_time()
                    async for event in events:
                        came_late = anyio.current_time() - asked > AT_ONCE
                        await self._put(event)
                        if came_late and (rest := self._run.around.pacer.rest):
                            await anyio.sleep(rest)
                        asked = anyio.current_time()
            await self._put(None)
        except TimeoutError:
            await self._put(TimedOut(TOO_LONG))
        except NbinlineError as error:
            await self._put(error)
        except Exception:
            log.exception("provider failed", run=self._run.run_id)
            await self._put(BadAnswer())

    async def _put(self, event: ModelEvent | NbinlineError | None) -> None:
        while len(self._events) >= BACKLOG:
            await self._change()
        self._events.append(event)
        self._changed.set()

    async def _change(self) -> None:
        # Made anew by whoever waits: one for each event would cost more than the event.
        if self._changed.is_set():
            self._changed = anyio.Event()
        await self._changed.wait()

    async def write_to(self, answer: AnswerCell) -> None:
        """Write what has arrived and arrives until the turn has ended.

        An event leaves the buffer in the same step that takes it to the answer: cancelling loses
        none and doubles none.

        Raises:
            ProviderError: The service failed, or sent nothing.
            CellGone: The answer cell was deleted.
        """
        while True:
            while not self._events:
                await self._change()
            text = isinstance(self._events[0], TextDelta)
            if text and self._run.record.status is not RunStatus.STREAMING:
                await self._run.move(RunStatus.STREAMING)
            event = self._events.popleft()
            self._changed.set()
            if await self._take(event, answer):
                return

    async def _take(self, event: ModelEvent | NbinlineError | None, answer: AnswerCell) -> bool:
        """Act on one event; True if it was the last."""
        run = self._run
        match event:
            case TextDelta(text=text):
                await self._add(answer, self._seam.feed(text))
            case Usage():
                run.record = replace(run.record, usage=run.record.usage + event)
            case Retrying(attempt=attempt, delay=delay, code=code):
                await run.note("retrying", {"attempt": attempt, "delay": delay, "code": code})
            case ToolCalled():
                raise BadAnswer("The model called a tool that it was not offered. Run again.")
            case Thinking():
                pass
            case TurnEnded():
                await self._add(answer, self._seam.end())
                if not self._wrote:
                    raise BadAnswer("The model sent an empty answer. Run the prompt again.")
                return True
            case NbinlineError():
                await self._add(answer, self._seam.end())
                raise event
            case None:
                raise BadAnswer
        return False

    async def _add(self, answer: AnswerCell, text: str) -> None:
        if not text:
            return
        room = self._run.around.bounds.characters - self._written
        if room > 0:
            self._wrote = True
            self._written += len(text[:room])
            self._run.answer_text += text[:room]
            await answer.write(text[:room])
        if len(text) > room:
            raise OutputTruncated(TOO_MUCH)
