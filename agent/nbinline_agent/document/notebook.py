"""A read view on the shared notebook, and the frozen values that pure code gets to see."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from pycrdt import Map, Text

from nbinline_agent.errors import UnknownCell
from nbinline_agent.ids import CellId, RunId

from .index import METADATA_KEY, SLICE, CellIndex, Entry
from .peer import Peer

ENDED = frozenset({"done", "error", "cancelled", "interrupted"})
"""Status words of an answer that nobody works on any more."""

EARLIER_WORDS: Mapping[str, str] = {
    # what the browser-driven extension wrote, and what each means here
    "complete": "done",
    "completed": "done",
    "finished": "done",
    "success": "done",
    "failed": "error",
    "failure": "error",
    "canceled": "cancelled",
    "stopped": "cancelled",
    "aborted": "cancelled",
}


def settled_status(value: object) -> str | None:
    """Translate a status word of any origin into one of ours that has ended.

    Returns:
        ``done``, ``error``, ``cancelled`` or ``interrupted``; None if the word says that somebody
        works on the answer, or says nothing known. No word at all counts as ``done``.
    """
    if value is None:
        return "done"
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    return word if word in ENDED else EARLIER_WORDS.get(word)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it stood at one moment. JSON values; not to be changed.

    Attributes:
        id: Its id; empty in a damaged notebook.
        kind: ``code``, ``markdown``, ``raw``, or whatever the notebook says.
        source: Its text.
        metadata: Its metadata; empty if what stands there is not an object.
        execution_count: The number people see beside a code cell, or None.
        outputs: Outputs as in nbformat, damaged ones left out.
        attachments: By file name, as in nbformat.
    """

    id: CellId
    kind: str
    source: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    execution_count: int | None = None
    outputs: Sequence[Mapping[str, Any]] = ()
    attachments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nbinline(self) -> Mapping[str, Any]:
        """Our own part of the metadata."""
        value = self.metadata.get(METADATA_KEY)
        return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole notebook as it stood at one moment."""

    cells: Sequence[Cell]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    nbformat: int = 4
    nbformat_minor: int = 5

    def index(self, cell_id: str) -> int:
        """Where the first cell of that id stands, counted from 0.

        Raises:
            UnknownCell: There is none.
        """
        for at, cell in enumerate(self.cells):
            if cell.id == cell_id:
                return at
        raise UnknownCell

    def cell(self, cell_id: str) -> Cell:
        """The first cell of that id.

        Raises:
            UnknownCell: There is none.
        """
        return self.cells[self.index(cell_id)]


@dataclass(frozen=True, slots=True)
class StaleMark:
    """An answer whose metadata says that somebody works on it.

    Attributes:
        cell_id: The answer cell.
        run_id: The run that wrote so; None for marks of the earlier extension.
        status: The word that stands there.
    """

    cell_id: CellId
    run_id: RunId | None
    status: str


class Notebook:
    """The notebook in a peer's replica, read cell by cell. Making one costs nothing."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._index: CellIndex = peer.index
        self._meta: Map[Any] = peer.doc.get("meta", type=Map)

    # Cells

    def ids(self) -> tuple[CellId, ...]:
        """The cells' ids in order; a damaged notebook may hold one twice."""
        return self._index.ids()

    def has(self, cell_id: str) -> bool:
        """Whether a cell of that id stands in the notebook."""
        return self._index.find(CellId(cell_id)) is not None

    def entry(self, cell_id: str) -> Entry:
        """The shared cell itself, for those who write.

        Raises:
            UnknownCell: There is none.
        """
        found = self._index.find(CellId(cell_id))
        if found is None:
            raise UnknownCell
        return found

    def position(self, cell_id: str) -> int:
        """Where the cell stands, counted from 0.

        Raises:
            UnknownCell: There is none.
        """
        return self._index.position(self.entry(cell_id))

    def cell(self, cell_id: str) -> Cell:
        """The cell as it stands now.

        Raises:
            UnknownCell: There is none.
        """
        return read_cell(self.entry(cell_id))

    def source(self, cell_id: str) -> str:
        """The cell's text.

        Raises:
            UnknownCell: There is none.
        """
        return read_source(self.entry(cell_id).ycell)

    def kind(self, cell_id: str) -> str:
        """``code``, ``markdown``, ``raw``, or whatever the cell says it is.

        Raises:
            UnknownCell: There is none.
        """
        ycell = self.entry(cell_id).ycell
        kind = ycell.get("cell_type") if isinstance(ycell, Map) else None
        return kind if isinstance(kind, str) else "unknown"

    def execution_count(self, cell_id: str) -> int | None:
        """The number people see beside a code cell, or None.

        Raises:
            UnknownCell: There is none.
        """
        ycell = self.entry(cell_id).ycell
        count = ycell.get("execution_count") if isinstance(ycell, Map) else None
        return read_integer(count, 0) or None

    def metadata(self, cell_id: str) -> Mapping[str, Any]:
        """The cell's metadata.

        Raises:
            UnknownCell: There is none.
        """
        ycell = self.entry(cell_id).ycell
        metadata = ycell.get("metadata") if isinstance(ycell, Map) else None
        return read_object(metadata)

    def nbinline(self, cell_id: str) -> Mapping[str, Any]:
        """Our own part of the cell's metadata.

        Raises:
            UnknownCell: There is none.
        """
        return self.entry(cell_id).mark

    def answers_of(self, prompt_id: str) -> list[CellId]:
        """The answer cells linked to a question, in order."""
        return [
            entry.cell_id
            for entry in self._index.entries
            if entry.mark.get("isOutputCell") is True
            and entry.mark.get("promptCellId") == prompt_id
            and entry.cell_id
        ]

    def stale_marks(self) -> list[StaleMark]:
        """The answers, linked or not, that claim to be in the making."""
        marks = []
        for entry in self._index.entries:
            if entry.mark.get("isOutputCell") is not True or not entry.cell_id:
                continue
            status = entry.mark.get("status")
            if settled_status(status) is None:
                run_id = entry.mark.get("runId")
                owner = RunId(run_id) if isinstance(run_id, str) and run_id else None
                marks.append(StaleMark(entry.cell_id, owner, str(status)))
        return marks

    def set_cell_metadata(
        self, cell_id: str, value: Mapping[str, Any], origin: str, *, key: str = METADATA_KEY
    ) -> None:
        """Set one key of a cell's metadata; the others stay.

        Raises:
            UnknownCell: There is none.
        """
        ycell = self.entry(cell_id).ycell
        self.before_change(cell_id, origin)
        with self.peer.doc.transaction(origin=origin):
            metadata = ycell.get("metadata")
            if not isinstance(metadata, Map):
                ycell["metadata"] = metadata = Map({})
            metadata[key] = dict(value)

    def before_change(self, cell_id: str, origin: str) -> None:
        """Let the checkpoints of a run, if it keeps any, see a cell before the run changes it."""
        recorder = self.peer.recorders.get(origin)
        if recorder is not None:
            recorder.before(CellId(cell_id))

    # The notebook as a whole

    def notebook_metadata(self) -> Mapping[str, Any]:
        """The notebook's own metadata."""
        return read_object(self._meta.get("metadata"))

    @property
    def nbinline_of_notebook(self) -> Mapping[str, Any]:
        """Our own part of the notebook's metadata."""
        ours = self.notebook_metadata().get(METADATA_KEY)
        return ours if isinstance(ours, Mapping) else {}

    def defaults(self) -> Mapping[str, Any]:
        """What the notebook prescribes for its questions."""
        defaults = self.nbinline_of_notebook.get("defaults")
        return defaults if isinstance(defaults, Mapping) else {}

    @property
    def nbformat(self) -> int:
        """Major version of the file format."""
        return read_integer(self._meta.get("nbformat"), 4)

    @property
    def nbformat_minor(self) -> int:
        """Minor version of the file format; cell ids are saved from 5 on."""
        return read_integer(self._meta.get("nbformat_minor"), 5)

    def raise_format(self, origin: str) -> bool:
        """Raise nbformat 4.0 to 4.4 to 4.5, so that cell ids, and with them links, are saved.

        Returns:
            Whether that changed anything.
        """
        if self.nbformat != 4 or self.nbformat_minor >= 5:
            return False
        with self.peer.doc.transaction(origin=origin):
            self._meta["nbformat_minor"] = 5
        return True

    async def snapshot(self) -> Snapshot:
        """Read the whole notebook as it stands at the moment this returns.

        The event loop gets its turn between slices of cells; what changed meanwhile is read again
        at the end, in one go.
        """
        index = self._index
        cells: dict[Entry, Cell] = {}
        with index.touched() as touched:
            at = 0
            while at < len(index.entries):
                for entry in index.entries[at : at + SLICE]:
                    cells[entry] = read_cell(entry)
                at += SLICE
                await anyio.lowlevel.checkpoint()
        whole = tuple(
            cells[entry] if entry in cells and entry not in touched else read_cell(entry)
            for entry in index.entries
        )
        return Snapshot(whole, self.notebook_metadata(), self.nbformat, self.nbformat_minor)

    async def changed_until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()`` is true; it is asked again after every change.

        Raises:
            RoomLost: The room went away before.
        """
        await self.peer.changed_until(holds)


def read_cell(entry: Entry) -> Cell:
    """Read a shared cell into a value; whatever is damaged in it comes out empty."""
    try:
        value = read_json(str(entry.ycell))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return Cell(entry.cell_id, "unknown", "")
    count = value.get("execution_count")
    return Cell(
        id=entry.cell_id,
        kind=value["cell_type"] if isinstance(value.get("cell_type"), str) else "unknown",
        source=join_lines(value.get("source")),
        metadata=as_object(value.get("metadata")),
        execution_count=count if isinstance(count, int) and not isinstance(count, bool) else None,
        outputs=tuple(
            output for output in as_list(value.get("outputs")) if isinstance(output, dict)
        ),
        attachments=as_object(value.get("attachments")),
    )


def read_source(ycell: object) -> str:
    """The text of a shared cell, empty if it has none."""
    source = ycell.get("source") if isinstance(ycell, Map) else None
    return str(source) if isinstance(source, Text) else join_lines(source)


def read_object(value: object) -> Mapping[str, Any]:
    """A shared or plain JSON object as a value, empty if it is something else."""
    if isinstance(value, Map):
        value = read_json(str(value))
    return as_object(value)


def read_json(text: str) -> Any:
    """Decode JSON of a shared type, keys sorted: theirs come in another order each time."""
    return json.loads(
        text, parse_float=read_number, object_pairs_hook=lambda pairs: dict(sorted(pairs))
    )


def read_number(text: str) -> int | float:
    """A JSON number; Yjs keeps all numbers as floating ones, so 3.0 is 3."""
    number = float(text)
    return int(number) if number.is_integer() else number


def read_integer(value: object, default: int) -> int:
    """A whole number that Yjs keeps as a floating one, or the default if it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        return int(value)
    return default


def join_lines(value: object) -> str:
    """A source as nbformat has it in files: a string or a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(line for line in as_list(value) if isinstance(line, str))


def as_object(value: object) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []
