"""One thread for each store file: many rooms write, one SQLite transaction serves them."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nbinline_agent.errors import JournalUnavailable

from . import store_tables as tables
from .journal_files import HeldSlot, Slot, prepare_directory, take_free_slot, try_slot

T = TypeVar("T")

WINDOW = 0.05
"""Seconds of updates that one transaction takes."""

IDLE = 6.0
"""Seconds without work after which the thread tidies up, and ends the next time; an update starts
it again."""

RETRY = 1.0
"""Seconds between attempts to write what the disk refused."""

MAX_UNWRITTEN = 64_000_000
"""Bytes kept in memory while the disk refuses; beyond it the histories are given up."""

FEW = 8
"""Updates of one document in a group up to which they are not merged at once."""

ROWS_TO_BUCKET = 80
"""New rows of one document after which its older ones are merged."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Update:
    path: str
    update: bytes
    metadata: bytes
    at: float
    whole: bool


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], object]
    result: Future[object]


class StoreWriter:
    """Commits updates in groups, in the order they came, and reads them back.

    The queue has no bound of its own: an update is a few bytes, already broadcast when it comes
    here, and the thread takes all that wait at once.

    Args:
        database: The SQLite file, or ``:memory:``.

    Attributes:
        keeps_marks: Whether documents that are closed from now on count as open; see
            ``keep_marks``.
    """

    def __init__(self, database: str) -> None:
        self.database = database
        self._queue: queue.SimpleQueue[_Update | _Job] = queue.SimpleQueue()
        self._urgent = threading.Event()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._unwritten: list[_Update] = []
        self._given_up: set[str] = set()
        self._seen: set[str] = set()
        self._first_rows: dict[str, int] = {}
        self._new_rows: dict[str, int] = {}
        self._slot: HeldSlot | None = None
        self._complained = False
        self._ending = False
        self.keeps_marks = False

    # -- called from any thread ---------------------------------------------------------------

    def put(self, path: str, update: bytes, metadata: bytes = b"", *, whole: bool = False) -> None:
        """Take an update; it is committed within ``WINDOW`` and a transaction's time.

        Args:
            path: The document's name in the store.
            update: The Y update.
            metadata: Stored beside it.
            whole: Whether the document holds just what its file holds after this update.
        """
        self._queue.put(_Update(path, update, metadata, time.time(), whole))
        self._ensure_thread()

    def call(self, work: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Do ``work`` in the thread, after all that was put before is committed."""
        return self._submit(lambda: work(self._open()))

    def load(self, path: str) -> Future[tables.History | None]:
        """Replay a document's history, including what could not be written yet."""
        return self._submit(lambda: self._load(path))

    def flush(self) -> Future[None]:
        """Done when all that was put before is committed."""
        return self._submit(lambda: None)

    def mark(self, path: str, token: str) -> None:
        """Note that this process has the document open from now on; see ``reconcile``."""
        self._submit(lambda: self._mark(path, token))

    def unmark(self, path: str, token: str) -> None:
        """Note that it is closed, with the next work; safe to call from a finalizer."""
        self._queue.put(_Job(lambda: self._unmark(path, token), Future()))

    def close(self, patience: float = 10.0) -> None:
        """Commit what waits and end the thread; blocks up to ``patience`` seconds."""
        if self._thread is not None or not self._queue.empty():
            # At the interpreter's end no thread starts any more; then only marks wait.
            with contextlib.suppress(RuntimeError):
                self._submit(self._end)
            thread = self._thread
            if thread is not None:
                thread.join(patience)
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    # -- the thread -----------------------------------------------------------------------------

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        result: Future[T] = Future()
        self._queue.put(_Job(work, result))  # type: ignore[arg-type]
        self._urgent.set()
        self._ensure_thread()
        return result

    def _ensure_thread(self) -> None:
        if self._thread is not None:
            return
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="nbinline-store", daemon=True
                )
                self._thread.start()

    def _serve(self) -> None:
        try:
            while True:
                try:
                    first = self._queue.get(timeout=RETRY if self._unwritten else IDLE)
                except queue.Empty:
                    if self._retry_or_rest():
                        return
                    continue
                self._take(first)
                if self._ending and self._rest():
                    return
        finally:
            with self._guard:
                if self._thread is threading.current_thread():
                    self._thread = None
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _retry_or_rest(self) -> bool:
        """With nothing to do: write what the disk refused, tidy up, else end the thread."""
        if self._unwritten:
            self._commit([])
            return False
        if self._new_rows:
            self._bucket(1)
            return False
        return self.database != ":memory:" and self._rest()

    def _rest(self) -> bool:
        with self._guard:
            self._thread = None
            if self._queue.empty():
                self._ending = False
                return True
            # Something came after the last look, and found the thread still there.
            self._thread = threading.current_thread()
            return False

    def _end(self) -> None:
        self._ending = True

    def _take(self, first: _Update | _Job) -> None:
        """Gather company for an update, and do jobs in their place."""
        items = [first]
        if isinstance(first, _Update):
            self._urgent.wait(WINDOW)
        self._urgent.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        for jobs, group in itertools.groupby(items, lambda item: isinstance(item, _Job)):
            if jobs:
                for job in group:
                    assert isinstance(job, _Job)
                    self._do(job)
            else:
                self._commit([item for item in group if isinstance(item, _Update)])

    def _do(self, job: _Job) -> None:
        if self._unwritten:
            self._commit([])
        if not job.result.set_running_or_notify_cancel():
            return
        try:
            job.result.set_result(job.work())
        except Exception as error:
            job.result.set_exception(error)
        except BaseException as error:  # pycrdt's panics are no Exception
            job.result.set_exception(ValueError(f"not Y updates: {error}"))

    def _commit(self, updates: list[_Update]) -> None:
        group = self._unwritten + [u for u in updates if u.path not in self._given_up]
        try:
            self._write(group)
        except sqlite3.Error as error:
            self._keep(group, error)
        else:
            self._unwritten = []
            self._complained = False
            self._bucket(ROWS_TO_BUCKET)

    def _write(self, group: list[_Update]) -> None:
        if not group:
            return
        connection = self._open()
        documents: dict[str, list[_Update]] = {}
        for update in group:
            documents.setdefault(update.path, []).append(update)
        with tables.transaction(connection):
            for path, updates in documents.items():
                # What the file held is a row of its own, to be compared with the file later.
                for whole, run in itertools.groupby(updates, lambda update: update.whole):
                    for part in _parts(list(run)):
                        row = _append(connection, path, part)
                        if whole or path not in self._first_rows:
                            self._first_rows[path] = row
                        self._new_rows[path] = self._new_rows.get(path, 0) + 1
                self._seen.add(path)

    def _keep(self, group: list[_Update], error: sqlite3.Error) -> None:
        """Keep what could not be written, in order: a later update without it would be a hole."""
        if _is_damage(error):
            self._unwritten = []
            self._start_afresh(error)
            return
        if not self._complained:
            self._complained = True
            log.error("The update store %s cannot be written: %s", self.database, error)
        self._unwritten = group
        if sum(len(update.update) for update in group) > MAX_UNWRITTEN:
            self._give_up({update.path for update in group})
            self._unwritten = []

    def _give_up(self, paths: set[str]) -> None:
        """Store no more of these documents until they are opened again: their files are whole."""
        self._given_up |= paths
        log.error("The update store lost the history of %d documents", len(paths))

    def _bucket(self, least: int) -> None:
        """Merge the older rows of documents that have at least so many new ones."""
        for path, count in list(self._new_rows.items()):
            if count < least:
                continue
            del self._new_rows[path]
            # The row that brought the document into the store stays by itself: it is what the
            # file held, which is how a restarted server knows that nobody else changed it.
            after = self._first_rows.get(path, 0)
            try:
                self._first_rows[path] = max(after, tables.bucket(self._open(), path, after) - 1)
            except BaseException as error:  # pycrdt's panics are no Exception
                log.warning("The update store was not tidied: %s", error)

    def _load(self, path: str) -> tables.History | None:
        connection = self._open()
        self._given_up.discard(path)
        held = [update.update for update in self._unwritten if update.path == path]
        history = tables.load(connection, path, held)
        self._first_rows.pop(path, None)
        self._new_rows.pop(path, None)
        if history is not None and not history.holed and not held:
            tables.squash(connection, path, history)
        return history

    # -- marks --------------------------------------------------------------------------------

    def _mark(self, path: str, token: str) -> None:
        owner = self._owner()
        if owner is not None:
            connection = self._open()
            tables.set_mark(connection, path, owner, token, tables.last_row(connection, path))

    def _unmark(self, path: str, token: str) -> None:
        if not self.keeps_marks:
            tables.clear_mark(self._open(), path, token)

    def _owner(self) -> int | None:
        """This process's number among the servers that share the file; held by a lock."""
        if self._slot is None and self.database != ":memory:":
            try:
                prepare_directory(self._owners)
                self._slot = take_free_slot(self._owners)
            except JournalUnavailable as error:
                log.warning("Open documents cannot be noted: %s", error)
                return None
            # The lock was free, so whoever made marks under this number is dead; they are
            # looked at before rooms open, and a mark left from then is of no use now.
        return None if self._slot is None else self._slot.slot.number

    @property
    def _owners(self) -> Path:
        return Path(f"{self.database}.owners")

    def dead_marks(self) -> Future[list[tables.Mark]]:
        """Marks that servers which do not live any more have left."""
        return self._submit(self._dead_marks)

    def _dead_marks(self) -> list[tables.Mark]:
        found = tables.marks(self._open())
        alive = {owner for owner in {mark.owner for mark in found} if self._is_alive(owner)}
        open_elsewhere = {mark.path for mark in found if mark.owner in alive}
        return [mark for mark in found if mark.path not in open_elsewhere]

    def _is_alive(self, owner: int) -> bool:
        if self._slot is not None and owner == self._slot.slot.number:
            return True
        try:
            prepare_directory(self._owners)
            held = try_slot(Slot(self._owners, owner))
        except JournalUnavailable:
            return True
        if held is None:
            return True
        held.release()
        return False

    # -- the file -------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = tables.open_database(self.database)
            except tables.NewerSchema:
                self._set_aside()
                self._connection = tables.open_database(self.database)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._start_afresh(error)
                self._connection = tables.open_database(self.database)
            except OSError as error:
                raise sqlite3.OperationalError(f"{self.database}: {error.strerror}") from error
        return self._connection

    def _start_afresh(self, error: sqlite3.Error) -> None:
        """Put a damaged file aside; open documents are stored again once they are re-opened."""
        log.error("The update store %s is damaged (%s); a new one is made", self.database, error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._set_aside()
        self._give_up(set(self._seen))

    def _set_aside(self) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        for companion in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.rename(
                    self.database + companion, f"{self.database}.set-aside-{stamp}{companion}"
                )


def _parts(updates: list[_Update]) -> list[list[_Update]]:
    """Few updates make up a row each: every state of the document can then be found again.

    A save may have taken any of them; see ``store_recovery``.
    """
    return [[update] for update in updates] if len(updates) <= FEW else [updates]


def _append(connection: sqlite3.Connection, path: str, updates: list[_Update]) -> int:
    last = updates[-1]
    return tables.append(
        connection, path, [update.update for update in updates], last.metadata, last.at
    )


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


_writers: dict[str, StoreWriter] = {}
_writers_guard = threading.Lock()


def writer_of(database: str) -> StoreWriter:
    """The one writer of this process for a file."""
    name = (
        database if database == ":memory:" or os.path.isabs(database) else os.path.abspath(database)
    )
    with _writers_guard:
        if name not in _writers:
            _writers[name] = StoreWriter(name)
        return _writers[name]


def keep_marks() -> None:
    """Let documents that are open now be compared with their files at the next start.

    For a server that stops: it may not get to save all of them.
    """
    with _writers_guard:
        for writer in _writers.values():
            writer.keeps_marks = True


def close_writers() -> None:
    """Commit what waits in every store of this process and end the threads; blocks."""
    with _writers_guard:
        closing = list(_writers.values())
        _writers.clear()
    for writer in closing:
        writer.close()


atexit.register(close_writers)
