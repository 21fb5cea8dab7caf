"""One prompt being answered, as the server holds it: its record and how that moves."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
import structlog

from .asking import Plan, Surroundings
from .document.answer import RunMark
from .document.checkpoints import Recorder
from .errors import JournalUnavailable, NbinlineError
from .ids import CellId, RunId
from .journal import TRANSITIONS, RunRecord, RunStatus
from .messages import JsonValue
from .provenance import Provenance
from .tools.approval import Approvals

log = structlog.get_logger(__name__)

Happened = tuple[str, Mapping[str, JsonValue]]
"""An event that is to be journalled: its kind and its data."""


@dataclass(eq=False)
class Run:
    """A run as the server holds it while it lives.

    Its record only moves along ``TRANSITIONS``; each move is journalled before anybody sees it.

    Attributes:
        record: Its row in the journal.
        plan: How it asks.
        around: What it borrows.
        ended: Set when nothing of it is left to do.
        news: Set, and replaced, whenever something was journalled.
        old_answer: What stood in the answer cell before; None until that was looked at.
        answer_text: What stands of the answer, as far as it is the agent's.
        ending: Whether its ending is being written.
        approvals: What it asked people.
        place: The cell it works on; the answer by default.
        activity: How far a call is, in a few words.
        provenance: What its answer is made from.
        scope: Cancelled to end it.
        wish: How it was asked to end.
        recorder: What it needs to be taken back later.
    """

    record: RunRecord
    plan: Plan
    around: Surroundings
    ended: anyio.Event = field(default_factory=anyio.Event)
    news: anyio.Event = field(default_factory=anyio.Event)
    old_answer: str | None = None
    answer_text: str = ""
    ending: bool = False
    approvals: Approvals = field(default_factory=Approvals)
    place: CellId | None = None
    activity: str = ""
    provenance: Provenance = field(default_factory=Provenance)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    wish: RunStatus | None = None
    recorder: Recorder = field(init=False)
    _moving: anyio.Lock = field(default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.record.run_id)

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
            author_name=self.record.author.display_name,
        )

    def cancel(self, ending: RunStatus = RunStatus.CANCELLED) -> None:
        """Ask the run to end; the first wish counts, an ended run takes none."""
        if self.wish is None and not self.record.status.ended:
            self.wish = ending
            self.scope.cancel()

    async def keep_checkpoints(self, *, everything: bool = True) -> None:
        """Journal what is needed to take the run back; without it the run goes on nevertheless.

        Args:
            everything: Also what may wait a little.
        """
        slowness = self.around.pacer.slowness
        rows = self.recorder.take(everything=everything, slowness=slowness)
        if not rows:
            return
        try:
            await self.around.journal.keep_checkpoints(self.run_id, self.record.file_id, rows)
        except JournalUnavailable as error:
            log.warning("checkpoints not kept", run=self.run_id, code=error.code)

    async def note(self, kind: str, data: Mapping[str, JsonValue]) -> None:
        """Journal one event and wake whoever waits for news."""
        await self.journalled([(kind, data)])

    async def journalled(self, events: Sequence[Happened]) -> None:
        """Journal events in one commit and wake whoever waits for news."""
        await self._journal(events, save=False)

    async def move(
        self,
        status: RunStatus,
        error: NbinlineError | None = None,
        *,
        at: float | None = None,
        also: Sequence[Happened] = (),
    ) -> bool:
        """Go to another status if that is a legal step, and journal it.

        Args:
            status: Where to.
            error: Why, if it failed.
            at: When it happened, in seconds since the epoch; now by default.
            also: What to journal before it, in the same commit.

        Returns:
            Whether the status changed.
        """
        async with self._moving:
            legal = status in TRANSITIONS[self.record.status]
            if legal:
                self.record = self._moved(status, error, time.time() if at is None else at)
            events = [*also]
            if legal:
                code = {"code": error.code} if error is not None else {}
                events.append(("status", {"status": status.value, **code}))
            await self._journal(events, save=legal)
        if legal and status.ended:
            self.ended.set()
        return legal

    def _moved(self, status: RunStatus, error: NbinlineError | None, now: float) -> RunRecord:
        return replace(
            self.record,
            status=status,
            started_at=now if status is RunStatus.PREPARING else self.record.started_at,
            ended_at=now if status.ended else None,
            error_code=error.code if error else None,
            error_message=error.message if error else None,
        )

    async def _journal(self, events: Sequence[Happened], *, save: bool) -> None:
        """Write row and events in their order; together they wait for one commit."""
        failures: list[Exception] = []

        async def kept(writing: Awaitable[object]) -> None:
            try:
                await writing
            except Exception as error:
                failures.append(error)

        journal = self.around.journal
        async with anyio.create_task_group() as tasks:
            if save:
                tasks.start_soon(kept, journal.save(self.record))
            for kind, data in events:
                tasks.start_soon(kept, journal.append(self.run_id, kind, data))
        if failures:
            raise failures[0]
        self.news.set()
        self.news = anyio.Event()
