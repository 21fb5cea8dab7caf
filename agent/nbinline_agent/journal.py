"""The append-only record of runs: what happened, what was written, and what a crash left open."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from .ids import CellId, FileId, NotebookPath, RunId
from .messages import JsonValue, Usage


class RunStatus(StrEnum):
    """Where a run is: queued, preparing, streaming (with tools and approvals between), an end."""

    QUEUED = "queued"
    PREPARING = "preparing"
    STREAMING = "streaming"
    RUNNING_TOOL = "running-tool"
    WAITING_APPROVAL = "waiting-approval"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        """Whether no further event can follow."""
        return self in ENDINGS

    @property
    def in_document(self) -> str:
        """The word the answer cell's metadata carries for this status."""
        return self.value if self.ended or self is RunStatus.QUEUED else "running"


ENDINGS = frozenset({RunStatus.DONE, RunStatus.ERROR, RunStatus.CANCELLED, RunStatus.INTERRUPTED})

_LIVE = {RunStatus.STREAMING, RunStatus.RUNNING_TOOL, RunStatus.WAITING_APPROVAL}
TRANSITIONS: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.PREPARING} | (ENDINGS - {RunStatus.DONE})),
    RunStatus.PREPARING: frozenset(_LIVE | ENDINGS),
    RunStatus.STREAMING: frozenset((_LIVE - {RunStatus.STREAMING}) | ENDINGS),
    RunStatus.RUNNING_TOOL: frozenset((_LIVE - {RunStatus.RUNNING_TOOL}) | ENDINGS),
    RunStatus.WAITING_APPROVAL: frozenset((_LIVE - {RunStatus.WAITING_APPROVAL}) | ENDINGS),
    **{ending: frozenset() for ending in ENDINGS},
}


@dataclass(frozen=True, slots=True)
class Author:
    """Who asked, from the authenticated request."""

    username: str
    display_name: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One row of the journal: a run as it stands. Times are seconds since the epoch, UTC."""

    run_id: RunId
    path: NotebookPath
    file_id: FileId
    prompt_cell_id: CellId
    answer_cell_id: CellId | None
    status: RunStatus
    author: Author
    connection: str
    model: str
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    error_code: str | None = None
    error_message: str | None = None
    report: Mapping[str, JsonValue] | None = None
    continues: RunId | None = None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it is read back.

    Attributes:
        seq: 1 for the first event of the run, without holes unless the journal was pruned.
        at: Seconds since the epoch, UTC.
        type: One word, for example ``status`` or ``usage``.
        data: JSON values; never a secret and never prompt text.
    """

    seq: int
    at: float
    type: str
    data: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class EventPage:
    """A slice of a run's events; ``gap`` says that older ones were pruned."""

    events: Sequence[StoredEvent]
    last_seq: int
    gap: bool


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """What a dead server left: the run, the Y updates it had flushed, and its answer's text."""

    record: RunRecord
    updates: Sequence[bytes]
    text: str


class Journal(Protocol):
    """The seam to the run store. Every method returns once what it says is committed."""

    async def save(self, record: RunRecord) -> None:
        """Insert the run, or replace its row."""

    async def append(self, run_id: RunId, type: str, data: Mapping[str, JsonValue]) -> int:
        """Append one event and return its sequence number, counted from 1 within the run."""

    async def append_updates(self, run_id: RunId, updates: Sequence[bytes]) -> None:
        """Keep Y updates of this run; returns when they are committed (groups of at most 50 ms)."""

    async def record_text(self, run_id: RunId, text: str) -> None:
        """Keep the answer's text so far (called at most once a second and at the end)."""

    async def run(self, run_id: RunId) -> RunRecord | None:
        """The run as it stands, or None."""

    async def text(self, run_id: RunId) -> str:
        """The answer's text as last recorded; empty if there is none."""

    async def runs(
        self, *, path: NotebookPath | None = None, username: str | None = None, limit: int = 200
    ) -> Sequence[RunRecord]:
        """Runs, newest first."""

    async def events(self, run_id: RunId, after: int = 0, limit: int = 1000) -> EventPage:
        """The events of a run with a sequence number above ``after``."""

    async def updates(self, run_id: RunId) -> Sequence[bytes]:
        """The kept Y updates of a run, in order."""

    async def forget_updates(self, run_id: RunId) -> None:
        """Drop the kept Y updates of a run that is safely on disk."""

    async def keep_checkpoints(
        self, run_id: RunId, file_id: FileId, rows: Mapping[CellId, JsonValue]
    ) -> None:
        """Keep, or replace, what is needed to take back a run's changes of these cells."""

    async def checkpoints(self, run_id: RunId) -> Mapping[CellId, JsonValue]:
        """What was kept of a run, without the cells that were taken back."""

    async def mark_reverted(self, run_id: RunId, cells: Sequence[CellId]) -> None:
        """Note that a run's changes of these cells were taken back."""

    async def reverted_since(self, file_id: FileId, at: float) -> Sequence[CellId]:
        """Cells of a notebook in which any run was taken back after a time."""

    async def unfinished(self) -> Sequence[UnfinishedRun]:
        """Runs of dead servers that had not ended."""

    async def owner_alive(self, run_id: RunId) -> bool:
        """Whether a living server process, this one included, still owns the unended run."""

    async def last_cells(self, file_id: FileId) -> Sequence[CellId]:
        """The notebook's cell ids as last noted by ``note_cells``; empty if never."""

    async def note_cells(self, file_id: FileId, cells: Sequence[CellId]) -> None:
        """Note the notebook's cell ids at the end of a run."""


@dataclass(frozen=True, slots=True)
class _KeptCheckpoint:
    file_id: FileId
    data: str
    reverted_at: float | None


class MemoryJournal:
    """A ``Journal`` that lives and dies with the process.

    Args:
        max_events_per_run: Older events of a run are dropped beyond this many.
        clock: Seconds since the epoch, UTC.
    """

    def __init__(
        self, *, max_events_per_run: int = 20_000, clock: Callable[[], float] = time.time
    ) -> None:
        self._max_events = max_events_per_run
        self._clock = clock
        self._runs: dict[RunId, RunRecord] = {}
        self._inherited: set[RunId] = set()
        self._events: dict[RunId, list[StoredEvent]] = {}
        self._updates: dict[RunId, list[bytes]] = {}
        self._texts: dict[RunId, str] = {}
        self._cells: dict[FileId, tuple[CellId, ...]] = {}
        self._checkpoints: dict[tuple[RunId, CellId], _KeptCheckpoint] = {}

    def successor(self) -> MemoryJournal:
        """The journal as the next server finds it after this one has died."""
        heir = MemoryJournal(max_events_per_run=self._max_events, clock=self._clock)
        heir._runs = dict(self._runs)
        heir._inherited = set(self._runs)
        heir._events = {run_id: list(events) for run_id, events in self._events.items()}
        heir._updates = {run_id: list(kept) for run_id, kept in self._updates.items()}
        heir._texts = dict(self._texts)
        heir._cells = dict(self._cells)
        heir._checkpoints = dict(self._checkpoints)
        return heir

    async def save(self, record: RunRecord) -> None:
        """See ``Journal``."""
        self._runs[record.run_id] = record
        self._inherited.discard(record.run_id)

    async def append(self, run_id: RunId, type: str, data: Mapping[str, JsonValue]) -> int:
        """See ``Journal``."""
        events = self._events.setdefault(run_id, [])
        seq = events[-1].seq + 1 if events else 1
        events.append(StoredEvent(seq, self._clock(), type, dict(data)))
        del events[: -self._max_events]
        return seq

    async def append_updates(self, run_id: RunId, updates: Sequence[bytes]) -> None:
        """See ``Journal``."""
        self._updates.setdefault(run_id, []).extend(updates)

    async def record_text(self, run_id: RunId, text: str) -> None:
        """See ``Journal``."""
        self._texts[run_id] = text

    async def run(self, run_id: RunId) -> RunRecord | None:
        """See ``Journal``."""
        return self._runs.get(run_id)

    async def text(self, run_id: RunId) -> str:
        """See ``Journal``."""
        return self._texts.get(run_id, "")

    async def runs(
        self, *, path: NotebookPath | None = None, username: str | None = None, limit: int = 200
    ) -> Sequence[RunRecord]:
        """See ``Journal``."""
        found = [
            record
            for record in reversed(self._runs.values())
            if path in (None, record.path) and username in (None, record.author.username)
        ]
        found.sort(key=lambda record: record.created_at, reverse=True)
        return found[:limit]

    async def events(self, run_id: RunId, after: int = 0, limit: int = 1000) -> EventPage:
        """See ``Journal``."""
        events = self._events.get(run_id, [])
        if not events:
            return EventPage((), 0, False)
        page = tuple(event for event in events if event.seq > after)[:limit]
        return EventPage(page, events[-1].seq, events[0].seq > after + 1)

    async def updates(self, run_id: RunId) -> Sequence[bytes]:
        """See ``Journal``."""
        return tuple(self._updates.get(run_id, ()))

    async def forget_updates(self, run_id: RunId) -> None:
        """See ``Journal``."""
        self._updates.pop(run_id, None)

    async def keep_checkpoints(
        self, run_id: RunId, file_id: FileId, rows: Mapping[CellId, JsonValue]
    ) -> None:
        """See ``Journal``."""
        for cell, row in rows.items():
            # Not by reference: what is kept must not change with what it was made from.
            kept = _KeptCheckpoint(file_id, json.dumps(row), None)
            self._checkpoints[run_id, cell] = kept

    async def checkpoints(self, run_id: RunId) -> Mapping[CellId, JsonValue]:
        """See ``Journal``."""
        return {
            cell: json.loads(kept.data)
            for (run, cell), kept in self._checkpoints.items()
            if run == run_id and kept.reverted_at is None
        }

    async def mark_reverted(self, run_id: RunId, cells: Sequence[CellId]) -> None:
        """See ``Journal``."""
        for cell in cells:
            kept = self._checkpoints.get((run_id, cell))
            if kept is not None:
                self._checkpoints[run_id, cell] = replace(kept, reverted_at=self._clock())

    async def reverted_since(self, file_id: FileId, at: float) -> Sequence[CellId]:
        """See ``Journal``."""
        return [
            cell
            for (_, cell), kept in self._checkpoints.items()
            if kept.file_id == file_id and (kept.reverted_at or 0.0) > at
        ]

    async def unfinished(self) -> Sequence[UnfinishedRun]:
        """See ``Journal``."""
        return [
            UnfinishedRun(record, await self.updates(run_id), await self.text(run_id))
            for run_id, record in self._runs.items()
            if run_id in self._inherited and not record.status.ended
        ]

    async def owner_alive(self, run_id: RunId) -> bool:
        """See ``Journal``."""
        record = self._runs.get(run_id)
        return record is not None and not record.status.ended and run_id not in self._inherited

    async def last_cells(self, file_id: FileId) -> Sequence[CellId]:
        """See ``Journal``."""
        return self._cells.get(file_id, ())

    async def note_cells(self, file_id: FileId, cells: Sequence[CellId]) -> None:
        """See ``Journal``."""
        self._cells[file_id] = tuple(cells)
