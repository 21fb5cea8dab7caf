"""One thread that writes the journal: many callers wait, one transaction serves them."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from nbinline_agent.errors import JournalUnavailable
from nbinline_agent.ids import RunId

from . import journal_tables as tables

T = TypeVar("T")

GATHER = 0.005
"""Seconds a transaction waits for company; with the commit well below 50 ms."""
PATIENCE = 5.0
"""Seconds after which a caller is told that the journal is unavailable."""
_LARGEST_GROUP = 5000


@dataclass(eq=False, slots=True)
class _Job:
    """Something to write and who waits for it.

    ``work`` runs inside the group's transaction unless ``alone``; ``rows`` are Y updates, which
    need no ``work``.
    """

    work: Callable[[sqlite3.Connection], object] | None = None
    rows: Sequence[tuple[RunId, bytes]] = ()
    alone: bool = False
    done: anyio.Event = field(default_factory=anyio.Event)
    given_up: bool = False
    result: object = None
    error: Exception | None = None


class GroupWriter:
    """Writes what is submitted, in order, in groups.

    The queue has no bound of its own: each entry has a caller that waits for it, and callers give
    up after ``PATIENCE``.

    Args:
        connection: The open journal; closed at the end.
        replace: Called in the writing thread with a damaged connection; returns a fresh one.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        replace: Callable[[sqlite3.Connection], sqlite3.Connection],
    ) -> None:
        self._connection = connection
        self._replace = replace
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._ended = anyio.Event()
        self._loop = anyio.lowlevel.current_token()

    async def __aenter__(self) -> Self:
        """Start the thread. It is no worker of the loop, so a dead disk cannot hold the loop up."""
        threading.Thread(target=self._serve, name="nbinline-journal", daemon=True).start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Take nothing more, wait until the rest is written and the connection is closed.

        After ``PATIENCE`` the thread is left to itself, for a disk that does not answer.
        """
        self._closed = True
        self._jobs.put(None)
        with anyio.move_on_after(PATIENCE, shield=True):
            await self._ended.wait()

    async def write(self, work: Callable[[sqlite3.Connection], T], *, alone: bool = False) -> T:
        """Do ``work`` in the next transaction (or, ``alone``, outside of any), and wait for it.

        Raises:
            JournalUnavailable: It could not be committed within ``PATIENCE``.
        """
        job = _Job(work, alone=alone)
        await self._wait(job)
        return job.result  # type: ignore[return-value]

    async def add_updates(self, rows: Sequence[tuple[RunId, bytes]]) -> None:
        """Write Y updates and wait for the commit.

        Raises:
            JournalUnavailable: They could not be committed within ``PATIENCE``.
        """
        await self._wait(_Job(rows=rows))

    async def _wait(self, job: _Job) -> None:
        if self._closed:
            raise JournalUnavailable("The journal is closed; the server is stopping.")
        self._jobs.put(job)
        with anyio.move_on_after(PATIENCE):
            await job.done.wait()
        if job.error is not None:
            raise job.error
        if not job.done.is_set():
            job.given_up = True
            raise JournalUnavailable("The disk that holds the journal does not answer.")

    def _serve(self) -> None:
        # The loop may be gone when the thread was left to itself.
        with contextlib.suppress(anyio.RunFinishedError):
            try:
                open_ended = True
                while open_ended:
                    group, open_ended = self._gather()
                    for part in _parts(group):
                        self._write(part)
                    if group:
                        anyio.from_thread.run_sync(_wake, group, token=self._loop)
            finally:
                self._connection.close()
                anyio.from_thread.run_sync(self._ended.set, token=self._loop)

    def _gather(self) -> tuple[list[_Job], bool]:
        first = self._jobs.get()
        if first is None:
            return [], False
        group = [first]
        time.sleep(GATHER)
        while len(group) < _LARGEST_GROUP:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return group, False
            group.append(job)
        return group, True

    def _write(self, jobs: list[_Job]) -> None:
        try:
            self._try(jobs)
        except sqlite3.ProgrammingError:
            # The connection is closed: an earlier fresh start failed.
            self._start_afresh(jobs)
        except sqlite3.Error as error:
            if tables.is_damage(error):
                self._start_afresh(jobs)
            else:
                _fail(jobs, unavailable(error))
        except JournalUnavailable as error:
            _fail(jobs, error)
        except OSError as error:
            _fail(jobs, JournalUnavailable(f"The journal cannot be used: {error.strerror}."))

    def _start_afresh(self, jobs: list[_Job]) -> None:
        try:
            self._connection = self._replace(self._connection)
            self._try(jobs)
        except sqlite3.Error as error:
            _fail(jobs, unavailable(error))
        except JournalUnavailable as error:
            _fail(jobs, error)

    def _try(self, jobs: list[_Job]) -> None:
        """Write the jobs; one that fails by its own fault is left out and the rest written."""
        waiting = [job for job in jobs if not job.given_up and job.error is None]
        while waiting:
            failed = self._commit(waiting)
            if failed is None:
                return
            waiting.remove(failed)

    def _commit(self, jobs: list[_Job]) -> _Job | None:
        connection = self._connection
        if jobs[0].alone:
            return _attempt(connection, jobs[0])
        connection.execute("BEGIN IMMEDIATE")
        try:
            failed = _do_all(connection, jobs)
            connection.execute("COMMIT" if failed is None else "ROLLBACK")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return failed


def _do_all(connection: sqlite3.Connection, jobs: Iterable[_Job]) -> _Job | None:
    rows: list[tuple[RunId, bytes]] = []
    for job in jobs:
        if job.work is None:
            rows.extend(job.rows)
            continue
        tables.add_updates(connection, rows)
        rows = []
        if _attempt(connection, job) is not None:
            return job
    tables.add_updates(connection, rows)
    return None


def _attempt(connection: sqlite3.Connection, job: _Job) -> _Job | None:
    assert job.work is not None
    try:
        job.result = job.work(connection)
    except (sqlite3.OperationalError, sqlite3.InternalError, OSError):
        raise
    except Exception as error:
        if isinstance(error, sqlite3.DatabaseError) and tables.is_damage(error):
            raise
        job.error = error
        return job
    return None


def _parts(group: list[_Job]) -> Iterable[list[_Job]]:
    part: list[_Job] = []
    for job in group:
        if job.alone:
            if part:
                yield part
            yield [job]
            part = []
        else:
            part.append(job)
    if part:
        yield part


def _fail(jobs: Iterable[_Job], error: JournalUnavailable) -> None:
    for job in jobs:
        if job.error is None:
            job.error = error


def _wake(group: Iterable[_Job]) -> None:
    for job in group:
        job.done.set()


def unavailable(error: sqlite3.Error) -> JournalUnavailable:
    """What SQLite says, as a sentence a person can act on."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    reason = {
        sqlite3.SQLITE_FULL: "The disk that holds the journal is full, or the journal is.",
        sqlite3.SQLITE_READONLY: "The journal's file is read-only.",
        sqlite3.SQLITE_BUSY: "Another program keeps the journal's file locked.",
        sqlite3.SQLITE_CANTOPEN: "The journal's file cannot be opened.",
        sqlite3.SQLITE_IOERR: "The disk that holds the journal reports an error.",
    }.get(code)
    return JournalUnavailable(reason or f"The journal cannot be used: {error}.")
