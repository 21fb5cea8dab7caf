"""What a dead server leaves: stored documents that are ahead of their files, or damaged.

jupyter-collaboration takes the file where the stored document differs from it. After a crash that
loses what people typed, and what the agent wrote, since the last save, although the store has it
and pages still show it. So before any room opens, each document that was open is compared with
its file: if nobody else changed the file since, the file is brought up to the stored document.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import nbformat
import pycrdt
from jupyter_core.paths import jupyter_data_dir
from jupyter_server.services.contents.fileio import path_to_intermediate
from jupyter_ydoc import YNotebook
from pycrdt import Doc

from . import store_tables as tables
from .store_writer import StoreWriter, writer_of

PATIENCE = 30.0
"""Seconds the store may take to answer at the server's start."""

EFFORT = 5.0
"""Seconds spent on finding out, for one document, that nobody else changed its file."""

NEWEST_ROWS = 64
OLDEST_ROWS = 3
"""Rows of a document, from either end, whose state is compared with the file."""

_NOTEBOOK = re.compile(r"\.notebook:(?P<file_id>.+)\.y")

log = logging.getLogger(__name__)


class Outcome(Enum):
    """What became of a document that was open when its server died."""

    IN_SYNC = "in-sync"
    WRITTEN = "written"
    RESCUED = "rescued"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Reconciled:
    """One document: its notebook's path, and what was done."""

    path: str
    outcome: Outcome


def reconcile(serverapp: Any, database: str) -> list[Reconciled]:
    """Compare each document that a dead server had open with its file; see ``store``.

    Args:
        serverapp: The ``ServerApp``, with its contents manager and file ids.
        database: The store's file.
    """
    try:
        writer = writer_of(database)
        marks = writer.dead_marks().result(PATIENCE)
        done = [_reconcile(serverapp, writer, mark) for mark in _latest(marks)]
        dead = {mark.owner for mark in marks}
        writer.call(lambda connection: tables.clear_owner(connection, dead)).result(PATIENCE)
    except Exception:
        log.exception("Stored documents could not be compared with their files")
        return []
    return done


def _latest(marks: Sequence[tables.Mark]) -> list[tables.Mark]:
    """One mark a document: the one made last."""
    return list({mark.path: mark for mark in sorted(marks, key=lambda mark: mark.row)}.values())


def _reconcile(serverapp: Any, writer: StoreWriter, mark: tables.Mark) -> Reconciled:
    found = _NOTEBOOK.fullmatch(mark.path)
    path = None
    try:
        if found is not None:
            path = serverapp.web_app.settings["file_id_manager"].get_path(found["file_id"])
        if path is None:
            return Reconciled(mark.path, Outcome.LEFT)
        outcome = _Comparison(serverapp, writer, mark, path).settle()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # pycrdt's panics are no Exception
        log.error("%s could not be compared with its stored document: %s", path, error)
        outcome = Outcome.LEFT
    if outcome is Outcome.WRITTEN:
        log.warning("%s: edits that were not saved when the server died are restored", path)
    return Reconciled(path or mark.path, outcome)


class _Comparison:
    """One stored notebook against its file."""

    def __init__(self, serverapp: Any, writer: StoreWriter, mark: tables.Mark, path: str) -> None:
        self._contents = serverapp.contents_manager
        self._writer = writer
        self._mark = mark
        self._path = path

    def settle(self) -> Outcome:
        """Write the file, or export the document, or leave both."""
        get_os_path = getattr(self._contents, "_get_os_path", None)
        if get_os_path is None:
            return Outcome.LEFT
        os_path = get_os_path(self._path)
        rows = self._writer.call(
            lambda connection: tables.rows_of(connection, self._mark.path)
        ).result(PATIENCE)
        if not rows or not os.path.isfile(os_path):
            return Outcome.LEFT
        updates = [row.update for row in rows]
        history = tables.replay(updates)
        notebook = _notebook_of(history.update)
        content = Path(os_path).read_bytes()
        copy = Path(path_to_intermediate(os_path))  # type: ignore[no-untyped-call]
        torn = _parse(content) is None and copy.is_file()
        if torn:
            # Killed while it saved: this is what the file held before.
            content = copy.read_bytes()
        on_disk = _as_document(content)
        if _alike(notebook.get(deduplicate=False), on_disk) and not torn:
            return Outcome.IN_SYNC
        if history.holed or not self._is_ancestor(content, on_disk, notebook, rows):
            rescue(rescued_folder(), self._mark.path, updates, Path(self._path).stem)
            log.warning("%s: somebody else changed the file, so it was left as it is", self._path)
            return Outcome.RESCUED
        self._write(os_path, notebook, history.state)
        if torn:
            copy.unlink(missing_ok=True)
        return Outcome.WRITTEN

    def _is_ancestor(
        self, content: bytes, on_disk: Any, notebook: YNotebook, rows: Sequence[tables.Row]
    ) -> bool:
        """Whether the file holds what the stored document held at some time since it was opened."""
        if self._digest(content) == notebook.ystate.get("hash"):
            return True
        deadline = time.monotonic() + EFFORT
        for state in _states(rows, self._mark.row):
            if _alike(state.get(deduplicate=False), on_disk):
                return True
            if time.monotonic() > deadline:
                return False
        return False

    def _write(self, os_path: str, notebook: YNotebook, state: bytes) -> None:
        """Write the file as jupyter-collaboration's own save does, and note its hash."""
        content = nbformat.from_dict(notebook.get())  # type: ignore[no-untyped-call]
        self._contents.check_and_sign(content, self._path)
        with self._contents.atomic_writing(os_path, encoding="utf-8") as file:
            nbformat.write(  # type: ignore[no-untyped-call]
                content, file, version=nbformat.NO_CONVERT
            )
        notebook.hash = self._digest(Path(os_path).read_bytes())
        notebook.dirty = False
        self._writer.put(self._mark.path, notebook.ydoc.get_update(state))
        self._writer.flush().result(PATIENCE)

    def _digest(self, content: bytes) -> str:
        """The hash that a save leaves in the document's state."""
        algorithm = getattr(self._contents, "hash_algorithm", "sha256")
        return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()


def _notebook_of(update: bytes) -> YNotebook:
    doc: Doc[Any] = Doc()
    notebook = YNotebook(doc)
    doc.apply_update(update)
    return notebook


def _states(rows: Sequence[tables.Row], opened: int) -> Iterator[YNotebook]:
    """The document as it was after the rows that are worth a comparison, oldest first."""
    since = next((i for i, row in enumerate(rows) if row.row > opened), len(rows))
    wanted = {since - 1, *range(since, min(since + OLDEST_ROWS, len(rows)))}
    wanted |= set(range(max(since, len(rows) - NEWEST_ROWS), len(rows)))
    doc: Doc[Any] = Doc()
    notebook = YNotebook(doc)
    for i, row in enumerate(rows):
        doc.apply_update(row.update)
        if i in wanted:
            yield notebook


def _parse(content: bytes) -> Any:
    """The file as the contents manager reads it; None when it is not a notebook."""
    try:
        return nbformat.reads(  # type: ignore[no-untyped-call]
            content.decode("utf-8"), as_version=4
        )
    except Exception:
        return None


def _as_document(content: bytes) -> Any:
    """The file as a room's document has it after loading; None when it is not a notebook."""
    on_disk = _parse(content)
    if on_disk is None:
        return None
    notebook = YNotebook()
    notebook.set(on_disk)
    return notebook.get(deduplicate=False) | {"empty": not on_disk["cells"]}


def _alike(document: Any, on_disk: Any) -> bool:
    """Whether both hold the same, but for what a file does not have."""
    if on_disk is None:
        return False
    # An empty file is given one cell, with an id of its own at each loading.
    without_ids = on_disk["empty"] and len(document["cells"]) == 1
    return all(document[key] == on_disk[key] for key in ("nbformat", "nbformat_minor")) and (
        _comparable(document, without_ids) == _comparable(on_disk, without_ids)
    )


def _comparable(notebook: Any, without_ids: bool) -> Any:
    cells = []
    for cell in notebook["cells"]:
        metadata = {k: v for k, v in cell["metadata"].items() if k != "trusted"}
        left_out = {"metadata", "id"} if without_ids else {"metadata"}
        cells.append(({k: v for k, v in cell.items() if k not in left_out}, metadata))
    return cells, {k: v for k, v in notebook["metadata"].items() if k != "orig_nbformat"}


def rescued_folder() -> Path:
    """Where documents are exported before they are forgotten or overruled."""
    return Path(jupyter_data_dir()) / "nbinline" / "rescued"


def rescue(folder: Path, path: str, updates: Sequence[bytes], stem: str = "") -> Path:
    """Export a stored document: its notebook, and every stored update as it is.

    Args:
        folder: Made private to this account.
        path: The document's name in the store.
        updates: Its rows.
        stem: First part of the file's name; else made from ``path``.

    Returns:
        The notebook's file, or the updates' where no notebook can be read from them.

    Raises:
        OSError: It cannot be written; then nothing must be forgotten.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]+", "_", stem or path).strip("._") or "document"
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime()) + f"-{time.time_ns() % 10**6:06d}"
    raw = folder / f"{stem}-{stamp}.yupdates"
    _write_private(raw, b"".join(pycrdt.write_message(update) for update in updates))
    notebook = raw.with_suffix(".ipynb")
    try:
        content = _notebook_of(tables.merge(updates)).get(deduplicate=False)
        copy = nbformat.from_dict(content)  # type: ignore[no-untyped-call]
        text = nbformat.writes(copy, version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
        _write_private(notebook, text.encode("utf-8"))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # pycrdt's panics are no Exception
        log.warning("No notebook can be made of the stored %s: %s", path, error)
    log.warning("A copy of %s was kept in %s", path, folder)
    return notebook if notebook.exists() else raw


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
