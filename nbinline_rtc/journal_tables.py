"""The tables of one journal file and the statements on them; pure functions of a connection."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nbinline_agent.ids import CellId, FileId, NotebookPath, RunId
from nbinline_agent.journal import (
    Author,
    EventPage,
    RunRecord,
    RunStatus,
    StoredEvent,
    UnfinishedRun,
)
from nbinline_agent.messages import JsonValue, Usage

VERSION = 1
BUSY_TIMEOUT = 2.0

_SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, instance TEXT NOT NULL, path TEXT NOT NULL, file_id TEXT NOT NULL,
    prompt_cell_id TEXT NOT NULL, answer_cell_id TEXT, status TEXT NOT NULL,
    ended INTEGER NOT NULL, username TEXT NOT NULL, display_name TEXT NOT NULL,
    connection TEXT NOT NULL, model TEXT NOT NULL, created_at REAL NOT NULL, started_at REAL,
    ended_at REAL, usage TEXT NOT NULL, steps INTEGER NOT NULL, error_code TEXT,
    error_message TEXT, report TEXT, continues TEXT
);
CREATE INDEX runs_by_path ON runs (path, created_at);
CREATE INDEX runs_by_user ON runs (username, created_at);
CREATE INDEX runs_by_time ON runs (created_at);
CREATE INDEX runs_by_end ON runs (ended, ended_at);
CREATE TABLE events (
    run_id TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, type TEXT NOT NULL,
    data TEXT NOT NULL, PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE updates (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX updates_by_run ON updates (run_id);
CREATE TABLE texts (run_id TEXT PRIMARY KEY, text TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE cells (file_id TEXT PRIMARY KEY, cells TEXT NOT NULL, at REAL NOT NULL);
"""

_CHECKPOINTS = """
CREATE TABLE IF NOT EXISTS {0}checkpoints (
    run_id TEXT NOT NULL, cell_id TEXT NOT NULL, file_id TEXT NOT NULL, data BLOB NOT NULL,
    reverted_at REAL, PRIMARY KEY (run_id, cell_id)
);
CREATE INDEX IF NOT EXISTS {0}checkpoints_by_revert ON checkpoints (file_id, reverted_at)
    WHERE reverted_at IS NOT NULL;
"""
"""Came later than the other tables; files of the same version may lack it."""

_TABLES = ("runs", "events", "updates", "texts", "cells")
_RUN_COLUMNS = (
    "run_id, path, file_id, prompt_cell_id, answer_cell_id, status, username, display_name, "
    "connection, model, created_at, started_at, ended_at, usage, steps, error_code, "
    "error_message, report, continues"
)
_OF_A_RUN = ("events", "updates", "texts", "checkpoints")


class DamagedJournal(sqlite3.DatabaseError):
    """The file is not a whole journal of this version."""


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error says that the file's content cannot be trusted."""
    if isinstance(error, DamagedJournal):
        return True
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def connect(database: Path, *, max_bytes: int) -> sqlite3.Connection:
    """Open the file for writing and make its tables if it is new.

    Args:
        database: An existing file, empty or a journal.
        max_bytes: Hard ceiling of the file's size.

    Raises:
        sqlite3.Error: It is damaged, locked, full or read-only.
    """
    connection = _open(f"file:{_quoted(database)}?mode=rw")
    try:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        # Every checkpoint waits for the disk; the answers' texts alone are megabytes a second.
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        connection.execute("PRAGMA journal_size_limit=33554432")
        page_size = _number(connection, "PRAGMA page_size")
        connection.execute(f"PRAGMA max_page_count={max(max_bytes // page_size, 16)}")
        version = _number(connection, "PRAGMA user_version")
        if version == 0:
            connection.executescript(
                f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version={VERSION};COMMIT;"
            )
        elif version != VERSION:
            raise DamagedJournal(f"journal of version {version}, not {VERSION}")
        connection.executescript(_CHECKPOINTS.format(""))
        check_whole(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(database: Path) -> sqlite3.Connection:
    """Open the file for reading only.

    Raises:
        sqlite3.Error: It is gone, damaged or locked.
    """
    connection = _open(f"file:{_quoted(database)}?mode=ro")
    connection.execute("PRAGMA query_only=ON")
    return connection


def _open(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
    )


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def check_whole(connection: sqlite3.Connection, *, steps: int = 2000) -> None:
    """Look for damage, giving up quietly on a file too large to walk in about a second.

    Raises:
        DamagedJournal: The file is damaged.
    """
    left = steps

    def spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(spent, 10_000)
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        found = "ok"
    finally:
        connection.set_progress_handler(None, 0)
    if found != "ok":
        raise DamagedJournal("database disk image is malformed")
    present = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if not present.issuperset(_TABLES):
        raise DamagedJournal("tables are missing")


def save_run(connection: sqlite3.Connection, record: RunRecord, instance: str) -> None:
    """Insert the run, or replace its row; the place among the newest stays."""
    usage = record.usage
    values = {
        "run_id": record.run_id,
        "instance": instance,
        "path": _stored(record.path),
        "file_id": record.file_id,
        "prompt_cell_id": record.prompt_cell_id,
        "answer_cell_id": record.answer_cell_id,
        "status": record.status.value,
        "ended": record.status.ended,
        "username": record.author.username,
        "display_name": record.author.display_name,
        "connection": record.connection,
        "model": record.model,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "usage": json.dumps(
            [
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_input_tokens,
                usage.thinking_tokens,
            ]
        ),
        "steps": record.steps,
        "error_code": record.error_code,
        "error_message": _stored(record.error_message),
        "report": None if record.report is None else json.dumps(record.report),
        "continues": record.continues,
    }
    names = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name != "run_id")
    connection.execute(
        f"INSERT INTO runs ({names}) VALUES ({marks}) ON CONFLICT (run_id) DO UPDATE SET {changes}",
        values,
    )


def append_event(
    connection: sqlite3.Connection,
    run_id: RunId,
    at: float,
    type: str,
    data: Mapping[str, JsonValue],
    *,
    keep: int,
) -> int:
    """Append an event, drop those beyond the newest ``keep``, return the sequence number."""
    row = connection.execute("SELECT max(seq) FROM events WHERE run_id = ?", (run_id,)).fetchone()
    seq = (row[0] or 0) + 1
    connection.execute(
        "INSERT INTO events (run_id, seq, at, type, data) VALUES (?, ?, ?, ?, ?)",
        (run_id, seq, at, type, json.dumps(data)),
    )
    if seq > keep:
        connection.execute("DELETE FROM events WHERE run_id = ? AND seq <= ?", (run_id, seq - keep))
    return seq


def add_updates(connection: sqlite3.Connection, rows: Sequence[tuple[RunId, bytes]]) -> None:
    """Keep Y updates, in order.

    Many rows go in one statement: each statement lets go of Python's lock once, and taking it back
    from a busy event loop is what costs.
    """
    for start in range(0, len(rows), 256):
        part = rows[start : start + 256]
        marks = ", ".join(["(?, ?)"] * len(part))
        connection.execute(
            f"INSERT INTO updates (run_id, data) VALUES {marks}",
            [value for row in part for value in row],
        )


def record_text(connection: sqlite3.Connection, run_id: RunId, text: str, at: float) -> None:
    """Replace the answer's text."""
    connection.execute(
        "INSERT OR REPLACE INTO texts (run_id, text, at) VALUES (?, ?, ?)",
        (run_id, _stored(text), at),
    )


def note_cells(
    connection: sqlite3.Connection, file_id: FileId, cells: Sequence[CellId], at: float
) -> None:
    """Replace the noted cell ids of a file."""
    connection.execute(
        "INSERT OR REPLACE INTO cells (file_id, cells, at) VALUES (?, ?, ?)",
        (file_id, json.dumps(cells), at),
    )


def read_run(connection: sqlite3.Connection, run_id: RunId) -> tuple[RunRecord, str] | None:
    """The run and the instance that owns it."""
    row = connection.execute(
        f"SELECT {_RUN_COLUMNS}, instance FROM runs WHERE run_id = ?", (run_id,)
    ).fetchone()
    return None if row is None else (_record(row), row[-1])


def read_runs(
    connection: sqlite3.Connection, path: NotebookPath | None, username: str | None, limit: int
) -> list[RunRecord]:
    """Runs, newest first."""
    wanted: list[str] = []
    values: list[object] = []
    if path is not None:
        wanted.append("path = ?")
        values.append(_stored(path))
    if username is not None:
        wanted.append("username = ?")
        values.append(username)
    where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS} FROM runs {where} ORDER BY created_at DESC, rowid DESC LIMIT ?",
        [*values, limit],
    )
    return [_record(row) for row in rows]


def read_events(connection: sqlite3.Connection, run_id: RunId, after: int, limit: int) -> EventPage:
    """The run's events above ``after``."""
    first, last = connection.execute(
        "SELECT min(seq), max(seq) FROM events WHERE run_id = ?", (run_id,)
    ).fetchone()
    if last is None:
        return EventPage((), 0, False)
    rows = connection.execute(
        "SELECT seq, at, type, data FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (run_id, after, limit),
    )
    events = tuple(StoredEvent(seq, at, type, json.loads(data)) for seq, at, type, data in rows)
    return EventPage(events, last, first > after + 1)


def read_updates(connection: sqlite3.Connection, run_id: RunId) -> tuple[bytes, ...]:
    """The run's Y updates, in order."""
    rows = connection.execute("SELECT data FROM updates WHERE run_id = ? ORDER BY id", (run_id,))
    return tuple(row[0] for row in rows)


def forget_updates(connection: sqlite3.Connection, run_id: RunId) -> None:
    """Drop the run's Y updates."""
    connection.execute("DELETE FROM updates WHERE run_id = ?", (run_id,))


def read_text(connection: sqlite3.Connection, run_id: RunId) -> str:
    """The answer's text as last recorded."""
    row = connection.execute("SELECT text FROM texts WHERE run_id = ?", (run_id,)).fetchone()
    return "" if row is None else _loaded(row[0])


def keep_checkpoints(
    connection: sqlite3.Connection, run_id: RunId, file_id: FileId, rows: Mapping[CellId, JsonValue]
) -> None:
    """Keep, or replace, checkpoints of a run."""
    connection.executemany(
        "INSERT OR REPLACE INTO checkpoints (run_id, cell_id, file_id, data) VALUES (?, ?, ?, ?)",
        [
            (run_id, _stored(cell), file_id, zlib.compress(json.dumps(row).encode(), 1))
            for cell, row in rows.items()
        ],
    )


def read_checkpoints(connection: sqlite3.Connection, run_id: RunId) -> dict[CellId, JsonValue]:
    """The checkpoints of a run that were not taken back."""
    rows = connection.execute(
        "SELECT cell_id, data FROM checkpoints WHERE run_id = ? AND reverted_at IS NULL", (run_id,)
    )
    return {CellId(_loaded(cell)): json.loads(zlib.decompress(data)) for cell, data in rows}


def mark_reverted(
    connection: sqlite3.Connection, run_id: RunId, cells: Sequence[CellId], at: float
) -> None:
    """Note that checkpoints were taken back."""
    connection.executemany(
        "UPDATE checkpoints SET reverted_at = ? WHERE run_id = ? AND cell_id = ?",
        [(at, run_id, _stored(cell)) for cell in cells],
    )


def read_reverted(connection: sqlite3.Connection, file_id: FileId, at: float) -> list[CellId]:
    """Cells of a file in which something was taken back after a time."""
    rows = connection.execute(
        "SELECT DISTINCT cell_id FROM checkpoints WHERE file_id = ? AND reverted_at > ?",
        (file_id, at),
    )
    return [CellId(_loaded(row[0])) for row in rows]


def read_unfinished(connection: sqlite3.Connection, instance: str) -> list[UnfinishedRun]:
    """Unended runs that another instance than ``instance`` left, oldest first."""
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS} FROM runs WHERE ended = 0 AND instance != ? "
        "ORDER BY created_at, rowid",
        (instance,),
    ).fetchall()
    return [
        UnfinishedRun(
            record, read_updates(connection, record.run_id), read_text(connection, record.run_id)
        )
        for record in map(_record, rows)
    ]


def read_cells(connection: sqlite3.Connection, file_id: FileId) -> tuple[float, tuple[CellId, ...]]:
    """When the file's cell ids were noted, and the ids."""
    row = connection.execute("SELECT at, cells FROM cells WHERE file_id = ?", (file_id,)).fetchone()
    return (0.0, ()) if row is None else (row[0], tuple(map(CellId, json.loads(row[1]))))


def adopt(connection: sqlite3.Connection, database: Path) -> None:
    """Copy everything of a dead server's file into ours; runs that are here already stay.

    Raises:
        sqlite3.Error: The other file is damaged, or ours cannot be written. Nothing was copied.
    """
    connection.execute("ATTACH DATABASE ? AS dead", (f"file:{_quoted(database)}?mode=rw",))
    try:
        if _number(connection, "PRAGMA dead.user_version") != VERSION:
            raise DamagedJournal("not a journal of this version")
        connection.executescript(_CHECKPOINTS.format("dead."))
        connection.execute("BEGIN IMMEDIATE")
        new = "run_id NOT IN (SELECT run_id FROM main.runs)"
        for table, columns in (
            ("events", "run_id, seq, at, type, data"),
            ("updates", "run_id, data"),
            ("texts", "run_id, text, at"),
            ("checkpoints", "run_id, cell_id, file_id, data, reverted_at"),
            ("runs", f"{_RUN_COLUMNS}, instance, ended"),
        ):
            order = "ORDER BY id" if table == "updates" else ""
            connection.execute(
                f"INSERT INTO main.{table} ({columns}) "
                f"SELECT {columns} FROM dead.{table} WHERE {new} {order}"
            )
        connection.execute(
            "INSERT OR REPLACE INTO main.cells (file_id, cells, at) "
            "SELECT file_id, cells, at FROM dead.cells AS theirs WHERE NOT EXISTS "
            "(SELECT 1 FROM main.cells AS ours WHERE ours.file_id = theirs.file_id "
            "AND ours.at >= theirs.at)"
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("DETACH DATABASE dead")


def prune_step(connection: sqlite3.Connection, *, ended_before: float, max_bytes: int) -> bool:
    """Delete some of the oldest ended runs that are too old or too much.

    Returns:
        Whether there may be more to delete.
    """
    doomed = connection.execute(
        "SELECT run_id FROM runs WHERE ended = 1 AND coalesce(ended_at, created_at) < ? "
        "ORDER BY ended_at LIMIT 10",
        (ended_before,),
    ).fetchall()
    if not doomed:
        doomed = _oldest_beyond(connection, max_bytes)
    if not doomed:
        connection.execute("DELETE FROM cells WHERE at < ?", (ended_before,))
        return False
    for table in (*_OF_A_RUN, "runs"):
        connection.executemany(f"DELETE FROM {table} WHERE run_id = ?", doomed)
    return True


def _oldest_beyond(connection: sqlite3.Connection, max_bytes: int) -> list[Any]:
    if used_bytes(connection) <= max_bytes:
        return []
    return connection.execute(
        "SELECT run_id FROM runs WHERE ended = 1 "
        "ORDER BY coalesce(ended_at, created_at), rowid LIMIT 5"
    ).fetchall()


def used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of the file that hold something."""
    pages = _number(connection, "PRAGMA page_count") - _number(connection, "PRAGMA freelist_count")
    return pages * _number(connection, "PRAGMA page_size")


def give_back(connection: sqlite3.Connection) -> None:
    """Return free pages to the file system."""
    # Not `execute`, which stops after the first page.
    connection.executescript("PRAGMA incremental_vacuum(5000)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _record(row: Sequence[Any]) -> RunRecord:
    return RunRecord(
        run_id=row[0],
        path=NotebookPath(_loaded(row[1])),
        file_id=row[2],
        prompt_cell_id=row[3],
        answer_cell_id=row[4],
        status=RunStatus(row[5]),
        author=Author(row[6], row[7]),
        connection=row[8],
        model=row[9],
        created_at=row[10],
        started_at=row[11],
        ended_at=row[12],
        usage=Usage(*json.loads(row[13])),
        steps=row[14],
        error_code=row[15],
        error_message=None if row[16] is None else _loaded(row[16]),
        report=None if row[17] is None else json.loads(row[17]),
        continues=row[18],
    )


def _stored(text: str | None) -> str | bytes | None:
    # File names that are not UTF-8 reach us with lone surrogates, which SQLite's text cannot hold.
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _loaded(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
