"""One prompt being answered: the state machine, and the loop from question to finished answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .context.budget import Limits
from .context.build import Built, build
from .context.choices import Choices
from .document.answer import AnswerCell, Pacer, RunMark
from .document.notebook import Notebook
from .document.peer import Membership
from .document.presence import AgentUser, Presence
from .errors import BadAnswer, CellGone, NbinlineError, RoomLost
from .ids import CellId, FileId, NotebookPath, RunId
from .journal import TRANSITIONS, Author, Journal, RunRecord, RunStatus
from .messages import (
    ConnectionInfo,
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
from .providers.base import Provider

TEXT_INTERVAL = 0.5
"""Seconds between two records of the answer's text in the journal."""

ENDING_DEADLINE = 1.5
"""Seconds that the last writes of a run may take once it was asked to end."""

SETTLING = 0.8
"""Seconds within which everybody should have the last words before the run counts as ended."""

log = structlog.get_logger(__name__)


class Connections(Protocol):
    """What the runtime knows of model services: names, limits, and how to open one."""

    @property
    def default(self) -> str:
        """Id of the connection taken where nobody chose one."""

    def infos(self) -> Mapping[str, ConnectionInfo]:
        """All connections by id, as a person may see them."""

    def limits(self, connection: str, model: str) -> Limits:
        """How much context the model takes."""

    def open(self, connection: str) -> AbstractAsyncContextManager[Provider]:
        """Open the connection for one run.

        Raises:
            NotConfigured: There is no key or address.
            ProviderError: The service, or the local engine, does not start.
        """


@dataclass(frozen=True, slots=True)
class Override:
    """Choices for one run only; None means: as the cell, the notebook or the server says."""

    connection: str | None = None
    model: str | None = None
    style: str | None = None
    effort: str | None = None
    context_mode: str | None = None
    acknowledge: bool = False


@dataclass(frozen=True, slots=True)
class StartRun:
    """A person's wish to have a prompt answered.

    Attributes:
        path: Notebook below the server root.
        cell_id: The question.
        author: Who asks, from the authenticated request.
        state_vector: Y state vector of the asker's document, or None.
        source_sha256: Lower-case hex digest of the question's source as the asker saw it, or None.
        override: Choices for this run only.
        continues: The run whose partial answer this one goes on from.
        client_request_id: The same id from the same person means the same run.
    """

    path: NotebookPath
    cell_id: CellId
    author: Author
    state_vector: bytes | None = None
    source_sha256: str | None = None
    override: Override = field(default_factory=Override)
    continues: RunId | None = None
    client_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run asks, decided when it was taken on."""

    file_id: FileId
    connection: str
    model: str
    choices: Choices
    limits: Limits
    secret: bytes


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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run borrows from its server.

    Attributes:
        journal: Where it is recorded.
        connections: Where models are.
        pacer: Shared coalescing window.
        user: How the agent shows itself.
    """

    journal: Journal
    connections: Connections
    pacer: Pacer
    user: AgentUser


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

    async def move(self, status: RunStatus, error: NbinlineError | None = None) -> bool:
        """Go to another status if that is a legal step, and journal it.

        Returns:
            Whether the status changed.
        """
        async with self._moving:
            if status not in TRANSITIONS[self.record.status]:
                return False
            now = time.time()
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
        with closing(_Stream(self)) as stream:
            async with anyio.create_task_group() as tasks:
                while True:
                    membership = await self._room(memberships)
                    if membership is None:
                        break
                    if await self._write_in(membership, stream, tasks):
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
        async with (
            self._answer_cell(membership, notebook) as answer,
            self._shown(membership, answer),
        ):
            try:
                with anyio.CancelScope() as here:
                    tasks.start_soon(_cancel_when, membership.lost, here)
                    outcome = await self._outcome(notebook, answer, stream, tasks)
                if here.cancelled_caught:
                    return False
            except anyio.get_cancelled_exc_class():
                outcome = Outcome(self._wish or RunStatus.INTERRUPTED)
                with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                    await self._end(membership, answer, outcome)
                raise
            return await self._end(membership, answer, outcome)

    def _answer_cell(
        self, membership: Membership, notebook: Notebook
    ) -> AbstractAsyncContextManager[AnswerCell]:
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
        async with membership.writing():
            try:
                await presence.show(
                    self.run_id,
                    self.record.status.value,
                    answer.id,
                    self.record.author.display_name,
                )
                yield
            finally:
                with anyio.move_on_after(1, shield=True):
                    await presence.hide()

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
                tasks.start_soon(self._keep_text)
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
        built = build(
            snapshot,
            self.record.prompt_cell_id,
            asker=self.record.author.username,
            choices=plan.choices,
            limits=plan.limits,
            secret=plan.secret,
            file_id=plan.file_id,
            continuing=self.answer_text or None,
        )
        self.record = replace(self.record, report=built.report.to_json())
        await self.around.journal.save(self.record)
        await self.note("context", {"request_sha256": built.report.request_sha256})
        return built

    async def _keep_text(self) -> None:
        kept = self.answer_text
        while True:
            await anyio.sleep(TEXT_INTERVAL)
            if self.answer_text != kept:
                kept = self.answer_text
                await self.around.journal.record_text(self.run_id, kept)

    async def _end(self, membership: Membership, answer: AnswerCell, outcome: Outcome) -> bool:
        """Say in the document, then in the journal, how the run ended.

        Returns:
            False if the room was replaced before it had the last words; the run goes on then.
        """
        error = outcome.error
        try:
            await answer.finish(
                outcome.status.in_document,
                error=(error.code, error.message) if error else None,
                ended_at=time.time(),
            )
        except CellGone as gone:
            error = error or gone
        settled = await membership.peer.settled(SETTLING)
        if not settled and membership.lost.is_set() and self._wish is None:
            return False
        self.answer_text = answer.text
        await self.around.journal.record_text(self.run_id, answer.text)
        await self.move(outcome.status, error)
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
        send, receive = anyio.create_memory_object_stream[ModelEvent | NbinlineError](64)
        self._send: MemoryObjectSendStream[ModelEvent | NbinlineError] = send
        self._receive: MemoryObjectReceiveStream[ModelEvent | NbinlineError] = receive

    def close(self) -> None:
        """Let go of the buffer."""
        self._send.close()
        self._receive.close()

    async def pump(self, request: ModelRequest) -> None:
        """Read the provider's events into the buffer; an error is its last item."""
        connections = self._run.around.connections
        async with self._send:
            try:
                async with (
                    connections.open(self._run.record.connection) as provider,
                    provider.stream(request) as events,
                ):
                    async for event in events:
                        await self._send.send(event)
            except NbinlineError as error:
                await self._send.send(error)
            except Exception:
                log.exception("provider failed", run=self._run.run_id)
                await self._send.send(BadAnswer())

    async def write_to(self, answer: AnswerCell) -> None:
        """Write what arrives until the turn has ended.

        Raises:
            ProviderError: The service failed, or sent nothing.
            CellGone: The answer cell was deleted.
        """
        run = self._run
        async for event in self._receive:
            match event:
                case TextDelta(text=text):
                    await run.move(RunStatus.STREAMING)
                    self._wrote = self._wrote or bool(text)
                    run.answer_text += text
                    await answer.write(text)
                case Usage():
                    run.record = replace(run.record, usage=run.record.usage + event)
                case Retrying():
                    await run.note(
                        "retrying",
                        {"attempt": event.attempt, "delay": event.delay, "code": event.code},
                    )
                case ToolCalled():
                    raise BadAnswer("The model called a tool that it was not offered. Run again.")
                case Thinking():
                    pass
                case TurnEnded():
                    if not self._wrote:
                        raise BadAnswer("The model sent an empty answer. Run the prompt again.")
                    return
                case NbinlineError():
                    raise event
        raise RoomLost if answer.closed else BadAnswer
