"""What the update store keeps in SQLite: rows of Y updates, and marks of open documents.

The tables ``yupdates`` and ``ycheckpoints`` are those of ``pycrdt.store.SQLiteYStore``, so that
either class can read the other's file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pycrdt
from pycrdt import Doc

SCHEMA_VERSION = 2
"""``user_version`` of the file; the stock store's too."""

BUCKET = 5.0
"""Seconds of a document's history that older rows are merged into."""

RECENT = 5.0
"""Seconds during which rows are left alone by bucketing."""

MANY_ROWS = 1_000
LARGE = 1_000_000
"""Bytes up to which a history is never squashed, and is replayed to be stored in fewer bytes."""

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS yupdates (
  path TEXT NOT NULL, yupdate BLOB, metadata BLOB, timestamp REAL NOT NULL);
CREATE INDEX IF NOT EXISTS idx_yupdates_path_timestamp ON yupdates (path, timestamp);
CREATE TABLE IF NOT EXISTS ycheckpoints (
  path TEXT NOT NULL, checkpoint BLOB NOT NULL, timestamp REAL NOT NULL, PRIMARY KEY(path));
CREATE TABLE IF NOT EXISTS nbinline_open (
  path TEXT NOT NULL, owner INTEGER NOT NULL, token TEXT NOT NULL, row INTEGER NOT NULL,
  PRIMARY KEY(path, owner));
PRAGMA user_version = {SCHEMA_VERSION};
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One stored update; ``row`` orders the updates of a document."""

    row: int
    update: bytes
    timestamp: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A document that a server had open; ``row`` is the last one stored when it was opened."""

    path: str
    owner: int
    row: int


@dataclass(frozen=True, slots=True)
class History:
    """A document's stored history, replayed.

    Attributes:
        update: The whole document as one update.
        state: Its state vector.
        rows: The rows it consists of.
        holed: Whether operations are missing in the middle, so that Yjs cannot integrate what
            comes after them (yrs can, which hides the fault on the server).
    """

    update: bytes
    state: bytes
    rows: Sequence[Row]
    holed: bool


class NewerSchema(Exception):
    """The file was written by a store with another table layout."""


def open_database(database: str) -> sqlite3.Connection:
    """Open the file, private to this account, and make the tables.

    Raises:
        NewerSchema: Another version's layout.
        sqlite3.Error: It cannot be used.
        OSError: It cannot be made.
    """
    if database != ":memory:":
        _make_private(Path(database))
    connection = sqlite3.connect(database, timeout=5.0, isolation_level=None)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise NewerSchema(version)
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # In WAL mode this survives a killed process; only a power cut can take the last group.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 4194304")
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit when the block ends well, roll back when not."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def append(
    connection: sqlite3.Connection, path: str, updates: Sequence[bytes], metadata: bytes, at: float
) -> int:
    """Store updates of one document as one row; the caller owns the transaction.

    Returns:
        The row's number.
    """
    try:
        update = merge(updates)
    except BaseException:
        # pycrdt panics on bytes that are no update; keep each as it came, to be looked at on load.
        row = 0
        for one in updates:
            row = append(connection, path, [one], metadata, at)
        return row
    cursor = connection.execute(
        "INSERT INTO yupdates (path, yupdate, metadata, timestamp) VALUES (?, ?, ?, ?)",
        (path, update, metadata, at),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def merge(updates: Sequence[bytes]) -> bytes:
    """One update with all that these hold, pending parts included."""
    return updates[0] if len(updates) == 1 else pycrdt.merge_updates(*updates)


def rows_of(connection: sqlite3.Connection, path: str, after: int = 0) -> list[Row]:
    """A document's rows in the order they were written."""
    found = connection.execute(
        "SELECT rowid, yupdate, timestamp FROM yupdates WHERE path = ? AND rowid > ? "
        "ORDER BY rowid",
        (path, after),
    )
    return [Row(*values) for values in found]


def _size(connection: sqlite3.Connection, path: str) -> int:
    """Bytes of a document's rows."""
    (size,) = connection.execute(
        "SELECT coalesce(sum(length(yupdate)), 0) FROM yupdates WHERE path = ?", (path,)
    ).fetchone()
    return int(size)


def last_row(connection: sqlite3.Connection, path: str) -> int:
    """Number of a document's newest row; 0 without one."""
    (row,) = connection.execute(
        "SELECT coalesce(max(rowid), 0) FROM yupdates WHERE path = ?", (path,)
    ).fetchone()
    return int(row)


def read(connection: sqlite3.Connection, path: str) -> list[tuple[bytes, bytes, float]]:
    """Update, metadata and time of every row, oldest first."""
    found = connection.execute(
        "SELECT yupdate, metadata, timestamp FROM yupdates WHERE path = ? ORDER BY rowid", (path,)
    )
    return [(update, metadata or b"", timestamp) for update, metadata, timestamp in found]


def load(
    connection: sqlite3.Connection, path: str, unwritten: Sequence[bytes] = ()
) -> History | None:
    """Replay a document's history; None when nothing is stored.

    A checkpoint of the stock store is taken over into a row.

    Args:
        connection: The store.
        path: The document's name.
        unwritten: Updates that could not be written yet.
    """
    _take_over_checkpoint(connection, path)
    rows = rows_of(connection, path)
    updates = [row.update for row in rows] + list(unwritten)
    return replay(updates, rows) if updates else None


def replay(updates: Sequence[bytes], rows: Sequence[Row] = ()) -> History:
    """Apply updates to a new document and look for holes.

    Raises:
        ValueError: They are not Y updates.
    """
    whole = merge(updates)
    doc: Doc[Any] = Doc()
    doc.apply_update(whole)
    state = doc.get_state()
    return History(doc.get_update(), state, rows, holed=bool(pycrdt.get_update(whole, state)[0]))


def _take_over_checkpoint(connection: sqlite3.Connection, path: str) -> None:
    found = connection.execute(
        "SELECT checkpoint, timestamp FROM ycheckpoints WHERE path = ?", (path,)
    ).fetchone()
    if found is None:
        return
    checkpoint, at = found
    rows = rows_of(connection, path)
    with transaction(connection):
        if not rows:
            append(connection, path, [checkpoint], b"", at)
        elif pycrdt.get_update(checkpoint, pycrdt.get_state(merge([r.update for r in rows])))[0]:
            first = rows[0]
            connection.execute(
                "UPDATE yupdates SET yupdate = ? WHERE rowid = ?",
                (merge([checkpoint, first.update]), first.row),
            )
        connection.execute("DELETE FROM ycheckpoints WHERE path = ?", (path,))


def forget(connection: sqlite3.Connection, path: str) -> None:
    """Remove all that is stored of a document; the caller has kept a copy."""
    with transaction(connection):
        connection.execute("DELETE FROM yupdates WHERE path = ?", (path,))
        connection.execute("DELETE FROM ycheckpoints WHERE path = ?", (path,))


def bucket(connection: sqlite3.Connection, path: str, after: int, now: float | None = None) -> int:
    """Merge rows that lie within the same five seconds; the newest rows are left alone.

    Every operation of the rows is in the merged one, which takes the place of the first of them.

    Args:
        connection: The store.
        path: The document's name.
        after: Rows up to this number are left alone.
        now: Seconds since the epoch; else the clock's.

    Returns:
        The last row that need not be looked at again.
    """
    horizon = (time.time() if now is None else now) - RECENT
    groups: list[list[Row]] = []
    for row in rows_of(connection, path, after):
        if row.timestamp >= horizon:
            break
        if groups and int(groups[-1][0].timestamp // BUCKET) == int(row.timestamp // BUCKET):
            groups[-1].append(row)
        else:
            groups.append([row])
    if not any(len(group) > 1 for group in groups):
        return after
    merged: Sequence[bytes] = [merge([row.update for row in group]) for group in groups]
    if _size(connection, path) <= LARGE:
        older = [row.update for row in rows_of(connection, path) if row.row <= after]
        merged = _join(older, merged)
    with transaction(connection):
        for group, update in zip(groups, merged, strict=True):
            _replace(connection, group, update)
    _give_back(connection)
    return groups[-1][0].row


def _join(older: Sequence[bytes], updates: Sequence[bytes]) -> Sequence[bytes]:
    """Join neighbouring operations inside each update: typed letters into a word.

    Args:
        older: The history before.
        updates: What follows, in order.

    Returns:
        The same history in fewer bytes, or ``updates`` themselves where it would not be the same.
    """
    doc: Doc[Any] = Doc()
    if older:
        doc.apply_update(merge(older))
    joined = []
    for update in updates:
        before = doc.get_state()
        doc.apply_update(update)
        joined.append(min(doc.get_update(before), update, key=len))
    # What waits for a later operation is in the update, but not in the document yet.
    return joined if replay([*older, *joined]) == replay([*older, *updates]) else updates


def squash(connection: sqlite3.Connection, path: str, history: History) -> None:
    """Replace the oldest part of a history that has grown far beyond its document.

    The newest rows stay, up to the size of the document, for the timeline.
    """
    size = sum(len(row.update) for row in history.rows)
    if len(history.rows) <= MANY_ROWS and size <= max(LARGE, 4 * len(history.update)):
        return
    kept, room = 0, len(history.update)
    for row in reversed(history.rows):
        room -= len(row.update)
        if room < 0 or kept >= MANY_ROWS // 4:
            break
        kept += 1
    old = history.rows[: len(history.rows) - kept]
    if len(old) < 2:
        return
    update = replay([row.update for row in old]).update
    newer = [row.update for row in history.rows[len(old) :]]
    # The first part of a history may wait for the rest (a deletion, say): then nothing is dropped.
    if replay([update, *newer]).update != history.update:
        update = merge([row.update for row in old])
    with transaction(connection):
        _replace(connection, old, update)
    _give_back(connection)


def _give_back(connection: sqlite3.Connection) -> None:
    """Shorten the file by the pages that are free; the pragma works a page a step."""
    connection.execute("PRAGMA incremental_vacuum").fetchall()


def _replace(connection: sqlite3.Connection, rows: Sequence[Row], update: bytes) -> None:
    if len(rows) < 2:
        return
    connection.execute(
        "UPDATE yupdates SET yupdate = ?, timestamp = ? WHERE rowid = ?",
        (update, rows[-1].timestamp, rows[0].row),
    )
    connection.executemany("DELETE FROM yupdates WHERE rowid = ?", [(row.row,) for row in rows[1:]])


def set_mark(connection: sqlite3.Connection, path: str, owner: int, token: str, row: int) -> None:
    """Note that a server has the document open."""
    connection.execute(
        "INSERT OR REPLACE INTO nbinline_open (path, owner, token, row) VALUES (?, ?, ?, ?)",
        (path, owner, token, row),
    )


def clear_mark(connection: sqlite3.Connection, path: str, token: str) -> None:
    """Note that it is closed, unless it was opened again since."""
    connection.execute("DELETE FROM nbinline_open WHERE path = ? AND token = ?", (path, token))


def marks(connection: sqlite3.Connection) -> list[Mark]:
    """All documents that are or were open, oldest rows first."""
    found = connection.execute("SELECT path, owner, row FROM nbinline_open ORDER BY path, row")
    return [Mark(*values) for values in found]


def clear_owner(connection: sqlite3.Connection, owners: Iterable[int]) -> None:
    """Forget the marks of servers that are dead."""
    connection.executemany("DELETE FROM nbinline_open WHERE owner = ?", [(o,) for o in owners])
