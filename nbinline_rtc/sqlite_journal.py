"""The run journal in SQLite: append-only, group-committed, one file a server process.

::

    async with open_journal(Path(jupyter_data_dir()) / "nbinline" / "journal") as journal:
        for left in await journal.unfinished():
            ...

Each server process owns a numbered slot of the directory by an operating-system lock. The files of
servers that died are taken over; those of living servers are only read.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, Self, TypeAlias, TypeVar

import anyio
import anyio.to_thread
import structlog

from nbinline_agent.errors import JournalUnavailable
from nbinline_agent.ids import CellId, FileId, NotebookPath, RunId
from nbinline_agent.journal import EventPage, RunRecord, StoredEvent, UnfinishedRun
from nbinline_agent.messages import JsonValue

from . import journal_tables as tables
from .journal_files import (
    HeldSlot,
    Slot,
    forget_set_aside,
    other_slots,
    prepare_database,
    prepare_directory,
    remove_database,
    set_aside,
    take_free_slot,
    try_slot,
)
from .journal_writer import PATIENCE, GroupWriter, unavailable

T = TypeVar("T")
Query: TypeAlias = Callable[[sqlite3.Connection], T]

DAY = 86400.0
MAX_BYTES = 256 * 2**20
MAX_EVENTS_PER_RUN = 20_000
MAINTENANCE = 60.0
_log = structlog.get_logger(__name__)


class JournalListener(Protocol):
    """Hears what was committed, at once and in its order."""

    def saved(self, record: RunRecord) -> None:
        """A run's row was written."""

    def happened(self, run_id: RunId, event: StoredEvent) -> None:
        """An event was appended."""


class JournalFile:
    """The file of one slot and what happens when it is damaged; used from worker threads.

    Attributes:
        problems: What was found and mended, as sentences.
        generation: Counts the fresh starts, so that a reader knows when to open again.
    """

    def __init__(self, slot: Slot, max_bytes: int) -> None:
        self.slot = slot
        self.problems: list[str] = []
        self.generation = 0
        self._inode: int | None = None
        self._ceiling = 2 * max_bytes

    def open(self) -> sqlite3.Connection:
        """Open for writing; a damaged file is set aside and a fresh one started.

        Raises:
            JournalUnavailable: The disk does not allow it.
        """
        try:
            return self._connect()
        except sqlite3.Error as error:
            if not tables.is_damage(error):
                raise unavailable(error) from error
            self.report_damage(self.slot, error)
        try:
            return self._connect()
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def start_afresh(self, damaged: sqlite3.Connection) -> sqlite3.Connection:
        """Close and set aside what turned out damaged or removed, and open a fresh file.

        Raises:
            JournalUnavailable: The disk does not allow it.
        """
        damaged.close()
        self.generation += 1
        try:
            self.report_damage(self.slot, None)
        except OSError as error:
            raise JournalUnavailable(
                f"A damaged journal file cannot be set aside: {error.strerror}."
            ) from error
        return self.open()

    def check_in_place(self, connection: sqlite3.Connection) -> None:
        """See that what is written still goes to the file of that name.

        Raises:
            DamagedJournal: The file was removed or replaced while it was open.
        """
        try:
            found = self.slot.database.stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            found = None
        if found != self._inode:
            raise tables.DamagedJournal("the file was removed or replaced")

    def report_damage(self, slot: Slot, error: sqlite3.Error | None) -> None:
        """Set the slot's file aside, if it is still there, and say so."""
        target = set_aside(slot)
        if target is None:
            problem = f"The journal file {slot.database.name} was removed"
        else:
            problem = f"A damaged journal file was set aside as {target.name}"
        self.problems.append(f"{problem}; runs recorded in it are not listed any more.")
        _log.warning("journal lost", file=(target or slot.database).name, reason=str(error or ""))

    def _connect(self) -> sqlite3.Connection:
        prepare_directory(self.slot.directory)
        prepare_database(self.slot)
        connection = tables.connect(self.slot.database, max_bytes=self._ceiling)
        self._inode = self.slot.database.stat().st_ino
        return connection


class SqliteJournal:
    """A ``nbinline_agent.journal.Journal``; made by ``open_journal``.

    Attributes:
        instance: Id of this server process, kept with every run it saves.
        problems: What went wrong so far and was mended, as sentences for the status page.
    """

    def __init__(
        self,
        file: JournalFile,
        connection: sqlite3.Connection,
        *,
        max_age_days: float,
        max_bytes: int,
        max_events_per_run: int,
        clock: Callable[[], float],
        listener: JournalListener | None = None,
    ) -> None:
        self.instance = uuid.uuid4().hex
        self.problems = file.problems
        self._file = file
        self._max_age = max_age_days * DAY
        self._max_bytes = max_bytes
        self._max_events = max_events_per_run
        self._clock = clock
        self._listener = listener
        self._reader = _Reader(file)
        self._writer = GroupWriter(connection, file.start_afresh)

    async def save(self, record: RunRecord) -> None:
        """See ``Journal``."""
        await self._writer.write(lambda db: tables.save_run(db, record, self.instance))
        if self._listener is not None:
            self._listener.saved(record)

    async def append(self, run_id: RunId, type: str, data: Mapping[str, JsonValue]) -> int:
        """See ``Journal``."""
        at = self._clock()
        seq = await self._writer.write(
            lambda db: tables.append_event(db, run_id, at, type, data, keep=self._max_events)
        )
        if self._listener is not None:
            self._listener.happened(run_id, StoredEvent(seq, at, type, data))
        return seq

    async def remark(self, run_id: RunId, type: str, data: Mapping[str, JsonValue]) -> bool:
        """Append an event to a run of this very file; False if another server has the run.

        Raises:
            JournalUnavailable: It could not be committed.
        """
        if await self._read(lambda db: tables.read_run(db, run_id)) is None:
            return False
        await self.append(run_id, type, data)
        return True

    async def append_updates(self, run_id: RunId, updates: Sequence[bytes]) -> None:
        """See ``Journal``."""
        if updates:
            await self._writer.add_updates([(run_id, update) for update in updates])

    async def record_text(self, run_id: RunId, text: str) -> None:
        """See ``Journal``."""
        at = self._clock()
        await self._writer.write(lambda db: tables.record_text(db, run_id, text, at))

    async def forget_updates(self, run_id: RunId) -> None:
        """See ``Journal``."""
        await self._writer.write(lambda db: tables.forget_updates(db, run_id))

    async def note_cells(self, file_id: FileId, cells: Sequence[CellId]) -> None:
        """See ``Journal``."""
        at = self._clock()
        await self._writer.write(lambda db: tables.note_cells(db, file_id, cells, at))

    async def keep_checkpoints(
        self, run_id: RunId, file_id: FileId, rows: Mapping[CellId, JsonValue]
    ) -> None:
        """See ``Journal``."""
        if rows:
            await self._writer.write(lambda db: tables.keep_checkpoints(db, run_id, file_id, rows))

    async def mark_reverted(self, run_id: RunId, cells: Sequence[CellId]) -> None:
        """See ``Journal``."""
        at = self._clock()
        await self._writer.write(lambda db: tables.mark_reverted(db, run_id, cells, at))

    async def checkpoints(self, run_id: RunId) -> Mapping[CellId, JsonValue]:
        """See ``Journal``. Those of other servers on the same directory are found too."""
        return await self._first(lambda db: tables.read_checkpoints(db, run_id) or None) or {}

    async def reverted_since(self, file_id: FileId, at: float) -> Sequence[CellId]:
        """See ``Journal``."""
        found = await self._everywhere(lambda db: tables.read_reverted(db, file_id, at))
        return [cell for part in found for cell in part]

    async def run(self, run_id: RunId) -> RunRecord | None:
        """See ``Journal``. Runs of other servers on the same directory are found too."""
        found = await self._first(lambda db: tables.read_run(db, run_id))
        return None if found is None else found[0]

    async def text(self, run_id: RunId) -> str:
        """See ``Journal``."""
        return await self._first(lambda db: tables.read_text(db, run_id) or None) or ""

    async def events(self, run_id: RunId, after: int = 0, limit: int = 1000) -> EventPage:
        """See ``Journal``."""

        def query(db: sqlite3.Connection) -> EventPage | None:
            page = tables.read_events(db, run_id, after, limit)
            return page if page.last_seq else None

        return await self._first(query) or EventPage((), 0, False)

    async def updates(self, run_id: RunId) -> Sequence[bytes]:
        """See ``Journal``."""
        return await self._read(lambda db: tables.read_updates(db, run_id))

    async def runs(
        self, *, path: NotebookPath | None = None, username: str | None = None, limit: int = 200
    ) -> Sequence[RunRecord]:
        """See ``Journal``. Runs of other servers on the same directory are listed too."""
        found: dict[RunId, RunRecord] = {}
        for part in await self._everywhere(lambda db: tables.read_runs(db, path, username, limit)):
            for record in part:
                found.setdefault(record.run_id, record)
        newest = sorted(found.values(), key=lambda record: record.created_at, reverse=True)
        return newest[:limit]

    async def unfinished(self) -> Sequence[UnfinishedRun]:
        """See ``Journal``. Takes over the files of servers that died meanwhile."""
        await self.adopt()
        return await self._read(lambda db: tables.read_unfinished(db, self.instance))

    async def owner_alive(self, run_id: RunId) -> bool:
        """See ``Journal``."""
        await self.adopt()
        own = await self._read(lambda db: tables.read_run(db, run_id))
        if own is not None:
            return own[1] == self.instance and not own[0].status.ended
        theirs = await self.run(run_id)
        return theirs is not None and not theirs.status.ended

    async def last_cells(self, file_id: FileId) -> Sequence[CellId]:
        """See ``Journal``. The newest note wins, whichever server made it."""
        notes = await self._everywhere(lambda db: tables.read_cells(db, file_id))
        return max(notes, key=lambda note: note[0], default=(0.0, ()))[1]

    async def adopt(self) -> None:
        """Move what dead servers left into our own file.

        Raises:
            JournalUnavailable: Our own file cannot be written.
        """
        await self._writer.write(self._adopt, alone=True)

    def _adopt(self, db: sqlite3.Connection) -> None:
        for slot in other_slots(self._file.slot):
            held = try_slot(slot)
            if held is None:
                continue
            try:
                self._take_over(db, slot)
            finally:
                held.release()

    def _take_over(self, db: sqlite3.Connection, dead: Slot) -> None:
        prepare_database(dead)
        try:
            tables.adopt(db, dead.database)
        except sqlite3.DatabaseError as error:
            if not tables.is_damage(error):
                raise
            tables.check_whole(db)
            self._file.report_damage(dead, error)
        else:
            remove_database(dead)

    async def prune(self) -> None:
        """Delete ended runs, oldest first, until age and size are within bounds.

        Raises:
            JournalUnavailable: The file cannot be written.
        """
        await self._writer.write(self._file.check_in_place, alone=True)
        before = self._clock() - self._max_age

        def step(db: sqlite3.Connection) -> bool:
            return tables.prune_step(db, ended_before=before, max_bytes=self._max_bytes)

        pruned = False
        while await self._writer.write(step):
            pruned = True
        if pruned:
            await self._writer.write(tables.give_back, alone=True)
        await anyio.to_thread.run_sync(forget_set_aside, self._file.slot.directory, before)

    async def maintain(self, interval: float) -> None:
        """Adopt and prune at once and then every ``interval`` seconds."""
        while True:
            try:
                await self.adopt()
                await self.prune()
            except JournalUnavailable as error:
                _log.warning("journal maintenance failed", reason=error.message)
            await anyio.sleep(interval)

    async def __aenter__(self) -> Self:
        """Start writing."""
        await self._writer.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Write the rest and close the file."""
        with anyio.move_on_after(PATIENCE, shield=True):
            await self._reader.aclose()
        await self._writer.__aexit__(*exc_info)

    async def _read(self, query: Query[T]) -> T:
        try:
            return await self._reader.ask(query)
        except sqlite3.Error as error:
            if not tables.is_damage(error):
                raise unavailable(error) from error
        await self._writer.write(tables.check_whole, alone=True)
        try:
            return await self._reader.ask(query)
        except sqlite3.Error as error:
            raise unavailable(error) from error

    async def _first(self, query: Query[T | None]) -> T | None:
        found = await self._read(query)
        return found if found is not None else next(iter(await self._elsewhere(query)), None)

    async def _everywhere(self, query: Query[T]) -> list[T]:
        return [await self._read(query), *await self._elsewhere(query)]

    async def _elsewhere(self, query: Query[T | None]) -> list[T]:
        return await anyio.to_thread.run_sync(_ask_others, self._file.slot, query)


class _Reader:
    """The reading connection of one journal; one query at a time, in a worker thread."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._limiter = anyio.CapacityLimiter(1)
        self._connection: sqlite3.Connection | None = None
        self._generation = file.generation

    async def ask(self, query: Query[T]) -> T:
        return await anyio.to_thread.run_sync(self._ask, query, limiter=self._limiter)

    async def aclose(self) -> None:
        await anyio.to_thread.run_sync(self._close, limiter=self._limiter)

    def _ask(self, query: Query[T]) -> T:
        if self._generation != self._file.generation:
            self._close()
        if self._connection is None:
            self._generation = self._file.generation
            self._connection = tables.connect_to_read(self._file.slot.database)
        return query(self._connection)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _ask_others(mine: Slot, query: Query[T | None]) -> list[T]:
    answers: list[T] = []
    for slot in other_slots(mine):
        # The file may be taken over, or be damaged, while we look: its owner deals with that.
        with contextlib.suppress(sqlite3.Error, OSError):
            with contextlib.closing(tables.connect_to_read(slot.database)) as connection:
                answer = query(connection)
                if answer is not None:
                    answers.append(answer)
    return answers


@asynccontextmanager
async def open_journal(
    directory: Path,
    *,
    max_age_days: float = 90.0,
    max_bytes: int = MAX_BYTES,
    max_events_per_run: int = MAX_EVENTS_PER_RUN,
    maintenance: float | None = MAINTENANCE,
    clock: Callable[[], float] = time.time,
    listener: JournalListener | None = None,
) -> AsyncIterator[SqliteJournal]:
    """Own a slot of the directory and keep its journal open.

    Args:
        directory: Made private if needed; symbolic links are refused.
        max_age_days: Ended runs older than this are deleted.
        max_bytes: Beyond this size the oldest ended runs are deleted; at twice the size, which
            only unended runs can reach, writing is refused.
        max_events_per_run: Older events of a run are dropped beyond this many.
        maintenance: Seconds between two rounds of adopting and pruning, the first at once; None for
            no rounds.
        clock: Seconds since the epoch, UTC.
        listener: Hears what was committed.

    Raises:
        JournalUnavailable: The directory or the file cannot be used.
    """
    held: HeldSlot | None = None

    def own() -> tuple[JournalFile, sqlite3.Connection]:
        nonlocal held
        prepare_directory(directory)
        held = take_free_slot(directory)
        file = JournalFile(held.slot, max_bytes)
        return file, file.open()

    try:
        opened = None
        with anyio.move_on_after(PATIENCE):
            opened = await anyio.to_thread.run_sync(own, abandon_on_cancel=True)
        if opened is None:
            raise JournalUnavailable("The disk that holds the journal does not answer.")
        async with (
            SqliteJournal(
                *opened,
                max_age_days=max_age_days,
                max_bytes=max_bytes,
                max_events_per_run=max_events_per_run,
                clock=clock,
                listener=listener,
            ) as journal,
            _maintained(journal, maintenance),
        ):
            yield journal
    finally:
        if held is not None:
            held.release()


@asynccontextmanager
async def _maintained(journal: SqliteJournal, interval: float | None) -> AsyncIterator[None]:
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        if interval is not None:
            tasks.start_soon(journal.maintain, interval)
        try:
            yield
        except Exception as error:
            # Raised again below, so that a task group of ours does not wrap it.
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
