"""Changing cells of a shared notebook on behalf of a run: one transaction an intent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from os.path import commonprefix
from typing import Any, Literal
from uuid import uuid4

from pycrdt import Array, Map, Text

from nbinline_agent.errors import CellGone, SourceChanged
from nbinline_agent.ids import CellId

from .index import METADATA_KEY, Entry
from .notebook import Notebook, read_cell, read_source
from .peer import panics_as_errors

MOST_COMPARISONS = 250_000
"""Bound on the work of comparing two sources word by word; longer ones differ in one piece."""

SHORT_HASH = 12
"""Hex digits of a source's hash that stand for the source."""


def short_hash(source: str) -> str:
    """The form in which a read tells what it saw: ``sha256:`` and twelve hex digits."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256:{digest[:SHORT_HASH]}"


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """Several edits of a notebook that are made as one.

    Attributes:
        texts: New texts of cells that stay what they are.
        metadata: Values to set in the metadata of such cells, by key.
        attachments: Attachments to add to such cells.
        order: The notebook as it is to be: positions of cells as they stand now, and ids of those
            in ``made``. What is not among them is deleted. None leaves the order as it is.
        made: Cells that are new, or made again with another type or at another place.
    """

    texts: Mapping[CellId, str] = field(default_factory=dict)
    metadata: Mapping[CellId, Mapping[str, Any]] = field(default_factory=dict)
    attachments: Mapping[CellId, Mapping[str, Any]] = field(default_factory=dict)
    order: Sequence[int | CellId] | None = None
    made: Mapping[CellId, Mapping[str, Any]] = field(default_factory=dict)


class Editor:
    """Edits cells; each method is one transaction with the run as its origin.

    ``expected`` is what the caller saw when it read the cell: its exact source, or
    :func:`short_hash` of it. If something else stands there by now, nothing is written.

    Args:
        notebook: Where.
        origin: The run.
        signature: Who edits, as cells are to say of themselves; None leaves no trace in them.
    """

    def __init__(
        self, notebook: Notebook, origin: str, signature: Mapping[str, Any] | None = None
    ) -> None:
        self._notebook = notebook
        self._origin = origin
        self._signature = signature

    def insert(
        self,
        kind: Literal["markdown", "code", "raw"],
        source: str,
        *,
        after: str | None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CellId:
        """Insert a cell below another one, or at the very top with None.

        Raises:
            CellGone: The other cell is not in the notebook.
        """
        position = 0 if after is None else self._position(after) + 1
        cell_id = CellId(str(uuid4()))
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": cell_id,
            "metadata": self._signed(dict(metadata or {}), made=True),
            "source": source,
        }
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        with self._transaction(cell_id):
            self._put(position, cell)
        return cell_id

    def replace(self, cell_id: str, source: str, *, expected: str) -> None:
        """Make a cell's text another one, touching only what differs.

        Words that somebody types into the cell at the same time stay. A code cell loses its
        outputs and its count, which belong to the text it had.

        Raises:
            CellGone: The cell is not in the notebook, or has no text.
            SourceChanged: Something else than expected stands there.
        """
        self._expect(cell_id, expected)
        entry = self._text_entry(cell_id)
        if read_source(entry.ycell) == source:
            return
        with self._transaction(cell_id):
            _set_text(entry, source)
            self._sign(entry)
        self._cleared([cell_id])

    def delete(self, cell_id: str, *, expected: str) -> None:
        """Delete a cell.

        Raises:
            CellGone: The cell is not in the notebook.
            SourceChanged: Something else than expected stands there.
        """
        position = self._notebook.peer.index.position(self._expect(cell_id, expected))
        with self._transaction(removed=[cell_id]):
            del self._notebook.peer.ynotebook.ycells[position]

    def move(self, cell_id: str, *, after: str | None) -> None:
        """Move a cell below another one, or to the very top with None.

        Browsers know no move: the cell is deleted and made again with its id and all it has.

        Raises:
            CellGone: One of the cells is not in the notebook.
        """
        position = self._position(cell_id)
        target = 0 if after is None else self._position(after) + 1
        if target in (position, position + 1):
            return
        cell = as_file(self._entry(cell_id))
        with self._transaction(removed=[cell_id]):
            del self._notebook.peer.ynotebook.ycells[position]
            self._put(target - (target > position), cell)

    def rearrange(self, wanted: Rearrangement) -> None:
        """Make several edits as one: everybody sees all of them at once, or none.

        Raises:
            CellGone: One of the cells is not in the notebook, or has no text; nothing is written.
        """
        texts = [(self._text_entry(cell), source) for cell, source in wanted.texts.items()]
        metadata = [(self._entry(cell), values) for cell, values in wanted.metadata.items()]
        made = {cell: self._made(value) for cell, value in wanted.made.items()}
        attached = [(self._entry(cell), values) for cell, values in wanted.attachments.items()]
        ids = self._notebook.ids()
        order = range(len(ids)) if wanted.order is None else wanted.order
        removed = [ids[at] for at in sorted({*range(len(ids))} - {*order})]
        touched = {*wanted.texts, *wanted.metadata, *wanted.attachments, *wanted.made}
        with self._transaction(*touched, removed=removed):
            for entry, values in metadata:
                _add(entry.ycell, "metadata", values)
            for entry, source in texts:
                _set_text(entry, source)
                self._sign(entry)
            for entry, values in attached:
                _add(entry.ycell, "attachments", values)
            if wanted.order is not None:
                self._reorder(wanted.order, made)
        self._cleared([*wanted.texts, *wanted.made])

    def _reorder(
        self, order: Sequence[int | CellId], made: Mapping[CellId, Mapping[str, Any]]
    ) -> None:
        kept = {item for item in order if isinstance(item, int)}
        ycells = self._notebook.peer.ynotebook.ycells
        for position in range(len(self._notebook.ids()) - 1, -1, -1):
            if position not in kept:
                del ycells[position]
        for position, item in enumerate(order):
            if not isinstance(item, int):
                self._put(position, made[item])

    def _made(self, cell: Mapping[str, Any]) -> Mapping[str, Any]:
        """A cell that is made anew, signed unless it was only moved."""
        cell_id = cell["id"]
        if not self._notebook.has(cell_id):
            return {**cell, "metadata": self._signed(cell["metadata"], made=True)}
        standing = self._entry(cell_id).ycell
        same = (read_source(standing), standing.get("cell_type")) == (
            cell["source"],
            cell["cell_type"],
        )
        return cell if same else {**cell, "metadata": self._signed(cell["metadata"])}

    def _sign(self, entry: Entry) -> None:
        """Inside a transaction: let a cell say who has edited it."""
        if self._signature is not None:
            held = entry.ycell.get("metadata")
            mark = held.get(METADATA_KEY) if isinstance(held, Map | dict) else None
            mark = mark.to_py() if isinstance(mark, Map) else mark
            _add(entry.ycell, "metadata", self._signed({METADATA_KEY: mark}))

    def _signed(self, metadata: Mapping[str, Any], *, made: bool = False) -> dict[str, Any]:
        """Metadata that says who has edited the cell, and whether a model made it."""
        if self._signature is None:
            return dict(metadata)
        mark = metadata.get(METADATA_KEY)
        mark = dict(mark) if isinstance(mark, Mapping) else {}
        before = mark.get("editedBy")
        made = made or (isinstance(before, Mapping) and before.get("made") is True)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        mark["editedBy"] = {**self._signature, "at": at} | ({"made": True} if made else {})
        return {**metadata, METADATA_KEY: mark}

    def as_file(self, cell_id: str) -> dict[str, Any]:
        """A cell as its file would hold it.

        Raises:
            CellGone: The cell is not in the notebook.
        """
        return as_file(self._entry(cell_id))

    @contextmanager
    def _transaction(self, *changed: str, removed: Sequence[str] = ()) -> Iterator[None]:
        recorder = self._notebook.peer.recorders.get(self._origin)
        if recorder is not None:
            for cell_id in changed:
                recorder.before(CellId(cell_id))
            if removed:
                recorder.removing([CellId(cell_id) for cell_id in removed])
        with panics_as_errors(), self._notebook.peer.doc.transaction(origin=self._origin):
            yield

    def _cleared(self, cells: Iterable[str]) -> None:
        recorder = self._notebook.peer.recorders.get(self._origin)
        if recorder is None:
            return
        for cell_id in cells:
            if self._notebook.has(cell_id) and self._notebook.kind(cell_id) == "code":
                recorder.left_outputs(CellId(cell_id))

    def _put(self, position: int, cell: Mapping[str, Any]) -> None:
        ynotebook = self._notebook.peer.ynotebook
        ynotebook.ycells.insert(position, ynotebook.create_ycell(dict(cell)))

    def _entry(self, cell_id: str) -> Entry:
        if not self._notebook.has(cell_id):
            raise CellGone
        entry = self._notebook.entry(cell_id)
        if not isinstance(entry.ycell, Map):
            raise CellGone
        return entry

    def _text_entry(self, cell_id: str) -> Entry:
        entry = self._entry(cell_id)
        if not isinstance(entry.ycell.get("source"), Text):
            raise CellGone
        return entry

    def _position(self, cell_id: str) -> int:
        return self._notebook.peer.index.position(self._entry(cell_id))

    def _expect(self, cell_id: str, expected: str) -> Entry:
        entry = self._entry(cell_id)
        standing = read_source(entry.ycell)
        if expected not in (standing, short_hash(standing)):
            raise SourceChanged(expected_source=short_hash(standing))
        return entry


def differences(before: str, after: str) -> list[tuple[int, int, str]]:
    """What to replace in a text to make another one of it.

    Returns:
        Rising, disjoint ranges of characters of ``before``, each with what takes its place.
    """
    start = len(commonprefix([before, after]))
    ends = commonprefix([before[start:][::-1], after[start:][::-1]])
    mine, theirs = before[start : len(before) - len(ends)], after[start : len(after) - len(ends)]
    if not mine or not theirs:
        return [(start, start + len(mine), theirs)] if mine or theirs else []
    old, new = _words(mine), _words(theirs)
    if len(old) * len(new) > MOST_COMPARISONS:
        return [(start, start + len(mine), theirs)]
    places = [start]
    for word in old:
        places.append(places[-1] + len(word))
    return [
        (places[first], places[last], "".join(new[begin:end]))
        for tag, first, last, begin, end in SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s|[^\w\s]", text)


def _set_text(entry: Entry, source: str) -> None:
    """Inside a transaction: make a cell's text another one, touching only what differs."""
    text = entry.ycell["source"]
    standing = str(text)
    for start, stop, piece in reversed(differences(standing, source)):
        at = len(standing[:start].encode())
        if stop > start:
            del text[at : at + len(standing[start:stop].encode())]
        if piece:
            text.insert(at, piece)
    if standing != source and entry.ycell.get("cell_type") == "code":
        _clear_results(entry.ycell)


def _add(ycell: Map[Any], key: str, values: Mapping[str, Any]) -> None:
    """Inside a transaction: set keys of an object in a cell; its other keys stay."""
    held = ycell.get(key)
    if isinstance(held, Map):
        for name, value in values.items():
            held[name] = value
    else:
        # Attachments are kept as one plain value, and so is damaged metadata.
        ycell[key] = {**(held if isinstance(held, dict) else {}), **values}


def _clear_results(ycell: Map[Any]) -> None:
    outputs = ycell.get("outputs")
    if isinstance(outputs, Array):
        outputs.clear()
    ycell["execution_count"] = None


def as_file(entry: Entry) -> dict[str, Any]:
    """A shared cell as its file would hold it."""
    cell = read_cell(entry)
    value: dict[str, Any] = {
        "cell_type": cell.kind,
        "id": cell.id,
        "metadata": dict(cell.metadata),
        "source": cell.source,
    }
    if cell.kind == "code":
        value |= {
            "outputs": [dict(output) for output in cell.outputs],
            "execution_count": cell.execution_count,
        }
    if cell.attachments:
        value["attachments"] = dict(cell.attachments)
    return value
