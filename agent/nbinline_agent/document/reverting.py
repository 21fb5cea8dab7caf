"""Taking back what a run changed in a notebook, and nothing that people wrote."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pycrdt import Array, Doc, Map, Text

from nbinline_agent.ids import CellId, RunId

from .checkpoints import (
    ORDER,
    WHOLE,
    Checkpoint,
    Values,
    deep,
    flat,
    outputs_digest,
    outputs_of,
    read_ranges,
    text_id,
)
from .cursors import people_in
from .edits import Editor, Rearrangement
from .index import METADATA_KEY, Entry
from .ledger import Piece
from .locks import may_delete, may_edit
from .matching import matching
from .notebook import Notebook, as_object, read_integer, read_object
from .operations import Ranges, deletion
from .peer import panics_as_errors
from .vectors import covers, read_vector

RERUN = "A later run wrote this answer. Revert that one first."
LOCKED = "The cell is locked."
IN_USE = "{} has the cursor in this cell, so it is not removed or moved now."
PEOPLES = "Others wrote into this cell, so it stays with their text."
RUN_SINCE = "The cell has been run again since, so its outputs stay."
RUNNING = "The cell is running, so its outputs stay."
MOVED = "The cell has been moved again since, so it stays where it is."
RETYPED = "The cell has been given another type since."
VALUES = "Settings of the cell have been changed again since: {}."
ROLE = "The cell has become part of another question, so it stays."

Span = tuple[int, int]
"""First character, and behind the last one."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays as it is, and why."""

    cell_id: CellId
    reason: str


@dataclass(frozen=True, slots=True)
class Saved:
    """What was noted of a run.

    Attributes:
        run_id: The run.
        answer: Its answer.
        cells: Its checkpoints, without those that were taken back before.
        ids: Which characters it inserted.
        state: The state vector of the document at its end.
        order: The cells before the run removed or moved one.
        restored: Cells in which another run was reverted since, so that ids tell nothing.
        uncertain: Whether a server died while it took this run back.
    """

    run_id: RunId
    answer: CellId | None
    cells: Mapping[CellId, Checkpoint]
    ids: Ranges = field(default_factory=dict)
    state: bytes = b"\x00"
    order: Sequence[str] = ()
    restored: Collection[CellId] = ()
    uncertain: bool = False

    @classmethod
    def read(
        cls,
        run_id: RunId,
        answer: CellId | None,
        rows: Mapping[CellId, Any],
        restored: Collection[CellId],
        *,
        uncertain: bool = False,
    ) -> Saved:
        """From what a recorder gave."""
        whole = rows.get(WHOLE, {})
        return cls(
            run_id=run_id,
            answer=answer,
            cells={
                cell: Checkpoint.from_json(value)
                for cell, value in rows.items()
                if cell not in (WHOLE, ORDER)
            },
            order=rows.get(ORDER, ()),
            ids=read_ranges(whole.get("ids", {})),
            state=base64.b64decode(whole.get("state", "")) or b"\x00",
            restored=restored,
            uncertain=uncertain,
        )


@dataclass
class _Change:
    """What is done about one cell; what is None or empty stays as it is."""

    cuts: list[Span] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    attachments: dict[str, Any] = field(default_factory=dict)
    outputs: bool = False
    remove: bool = False
    kind: str | None = None
    move: bool = False
    restore: bool = False

    @property
    def anything(self) -> bool:
        return self != _Change()


ABSENT = object()
"""In a change of values: the key goes."""


class Reversal:
    """What reverting a run does to a notebook as it stands at this moment.

    Making one changes nothing. There must be no wait between making it and :meth:`write`.

    Args:
        notebook: Where.
        saved: What was noted of the run.

    Attributes:
        kept: What cannot be taken back.
    """

    def __init__(self, notebook: Notebook, saved: Saved) -> None:
        self._notebook = notebook
        self._saved = saved
        self.kept: list[Kept] = []
        self._changes: dict[CellId, _Change] = {}
        self._exact = _characters_of(notebook, saved)
        self._order = {cell_id: at for at, cell_id in reversed([*enumerate(saved.order)])}
        self._line = [*notebook.ids()]
        for cell_id in sorted(saved.cells, key=self._rank):
            change = self._plan(cell_id, saved.cells[cell_id])
            if change is not None and change.anything:
                self._changes[cell_id] = change

    @property
    def reverted(self) -> list[CellId]:
        """The cells in which something is taken back, in the order in which they stood."""
        return list(self._changes)

    def _rank(self, cell_id: CellId) -> tuple[int, int]:
        position = self._saved.cells[cell_id].position
        return self._order.get(cell_id, position), position

    def _target(self, order: Sequence[str], cell_id: CellId) -> int:
        """Where a cell goes among others: by what stood above it, else by what stood below."""
        checkpoint = self._saved.cells[cell_id]
        above, below = checkpoint.above, checkpoint.below
        if cell_id in self._order:
            at = self._order[cell_id]
            above, below = [*reversed(self._saved.order[:at])], [*self._saved.order[at + 1 :]]
        known = self._saved.cells
        places = {
            each: at
            for at, each in reversed([*enumerate(order)])
            # Where a cell of the run itself stands tells nothing.
            if each not in known or known[CellId(each)].before is not None
        }
        for other in above:
            if other in places:
                return places[other] + 1
        # Those that stood below may be about to move themselves.
        moved = {each for each, cell in known.items() if cell.made_again}
        for other in sorted(below, key=lambda each: each in moved):
            if other in places:
                return places[other]
        return min(checkpoint.position, len(order))

    # Planning

    def _plan(self, cell_id: CellId, checkpoint: Checkpoint) -> _Change | None:
        notebook = self._notebook
        if not notebook.has(cell_id):
            left = checkpoint.before is not None or checkpoint.ledger.without_us.strip()
            if not checkpoint.deleted or not left:
                return None
            self._line.insert(self._target(self._line, cell_id), cell_id)
            return _Change(restore=True)
        if cell_id == self._saved.answer and not self._is_ours(cell_id):
            self._keep(cell_id, RERUN)
            return None
        metadata = notebook.metadata(cell_id)
        change = _Change()
        if checkpoint.ledger.touched:
            if may_edit(metadata):
                self._plan_text(cell_id, checkpoint, change)
            else:
                self._keep(cell_id, LOCKED)
                return None
        if checkpoint.before is None:
            self._plan_removal(cell_id, metadata, change)
        if change.remove:
            self._line.remove(cell_id)
            return _Change(remove=True)
        self._plan_values(cell_id, checkpoint, change)
        if checkpoint.before is not None:
            self._plan_outputs(cell_id, checkpoint, change)
            if checkpoint.made_again:
                self._plan_place(cell_id, checkpoint, change)
        return change

    def _is_ours(self, cell_id: CellId) -> bool:
        return self._notebook.nbinline(cell_id).get("runId") == self._saved.run_id

    def _keep(self, cell_id: CellId, reason: str) -> None:
        self.kept.append(Kept(cell_id, reason))

    def _plan_text(self, cell_id: CellId, checkpoint: Checkpoint, change: _Change) -> None:
        standing = self._notebook.source(cell_id)
        ledger = checkpoint.ledger
        visible, ours = ledger.visible, ledger.ours()
        exact = self._exact.get(cell_id)
        if exact is None:
            pairs = matching(visible, standing)
            change.cuts = _through(pairs, ours)
        else:
            pairs = _apart(visible, ours, standing, exact)
            change.cuts = [*exact, *_back_again(visible, ours, standing, pairs)]
        change.pieces = _place(ledger.removed(), ours, pairs)
        if self._saved.uncertain:
            change.pieces = _not_there(change.pieces, standing, pairs)

    def _plan_removal(self, cell_id: CellId, metadata: Mapping[str, Any], change: _Change) -> None:
        """A cell that the run made goes, unless people have made something of it."""
        standing = self._notebook.source(cell_id)
        mark = as_object(metadata.get(METADATA_KEY))
        foreign = mark.get("isPromptCell") is True or (
            mark.get("isOutputCell") is True and not self._is_ours(cell_id)
        )
        people = people_in(self._notebook.peer, cell_id)
        if foreign:
            self._keep(cell_id, ROLE)
        elif not may_delete(metadata):
            self._keep(cell_id, LOCKED)
        elif _merged(standing, change).strip():
            self._keep(cell_id, PEOPLES)
        elif people:
            self._keep(cell_id, IN_USE.format(" and ".join(people)))
        else:
            change.remove = True

    def _plan_values(self, cell_id: CellId, checkpoint: Checkpoint, change: _Change) -> None:
        ycell = self._notebook.entry(cell_id).ycell
        attachments = ycell.get("attachments") if isinstance(ycell, Map) else None
        now = flat(self._notebook.metadata(cell_id))
        change.metadata, clashes = _back(checkpoint.metadata, now)
        change.attachments, more = _back(checkpoint.attachments, as_object(attachments))
        # Who edited the cell last is no setting that somebody chose.
        clashes = [name for name in clashes if name != f"{METADATA_KEY}/editedBy"]
        if clashes or more:
            names = (name.removeprefix(f"{METADATA_KEY}/") for name in (*clashes, *more))
            self._keep(cell_id, VALUES.format(", ".join(sorted(names))[:200]))

    def _plan_outputs(self, cell_id: CellId, checkpoint: Checkpoint, change: _Change) -> None:
        before = checkpoint.before or {}
        if checkpoint.outputs is None or self._notebook.kind(cell_id) != "code":
            return
        entry = self._notebook.entry(cell_id)
        if _outputs_as_before(entry, before):
            return
        if entry.ycell.get("execution_state") == "running":
            self._keep(cell_id, RUNNING)
        elif outputs_digest(entry) != checkpoint.outputs:
            self._keep(cell_id, RUN_SINCE)
        else:
            change.outputs = True

    def _plan_place(self, cell_id: CellId, checkpoint: Checkpoint, change: _Change) -> None:
        notebook, before = self._notebook, checkpoint.before or {}
        kind = notebook.kind(cell_id)
        if kind != before["cell_type"]:
            if kind == checkpoint.kind:
                change.kind = before["cell_type"]
            else:
                self._keep(cell_id, RETYPED)
        rest = [each for each in self._line if each != cell_id]
        target = self._target(rest, cell_id)
        if [*rest[:target], cell_id, *rest[target:]] != self._line:
            ids, position = notebook.ids(), notebook.position(cell_id)
            around = [
                ids[position - 1] if position else None,
                ids[position + 1] if position + 1 < len(ids) else None,
            ]
            if any(a == b for a, b in zip(around, checkpoint.neighbours, strict=False)):
                change.move = True
            else:
                self._keep(cell_id, MOVED)
        self._check_free(cell_id, change)
        if change.move:
            self._line = [*rest[:target], cell_id, *rest[target:]]

    def _check_free(self, cell_id: CellId, change: _Change) -> None:
        """A cell is made anew to be moved or to get another type; nobody may be in it then."""
        if change.kind is None and not change.move:
            return
        people = people_in(self._notebook.peer, cell_id)
        locked = not may_delete(self._notebook.metadata(cell_id))
        if people or locked:
            change.kind, change.move = None, False
            self._keep(cell_id, LOCKED if locked else IN_USE.format(" and ".join(people)))

    # Writing

    def write(self, origin: str) -> None:
        """Do it, as one transaction.

        Raises:
            RoomLost: The replica broke.
        """
        notebook = self._notebook
        editor = Editor(notebook, origin)
        arrangement = self._arrangement()
        with panics_as_errors(), notebook.peer.doc.transaction(origin=origin):
            for cell_id, change in self._changes.items():
                if cell_id in arrangement.made or change.remove:
                    continue
                self._write(cell_id, change)
            editor.rearrange(arrangement)

    def _write(self, cell_id: CellId, change: _Change) -> None:
        ycell = self._notebook.entry(cell_id).ycell
        text = ycell.get("source")
        if isinstance(text, Text):
            _write_text(text, change)
        if change.metadata:
            self._write_metadata(ycell, change.metadata)
        if change.attachments:
            held = _changed(as_object(ycell.get("attachments")), change.attachments)
            ycell["attachments"] = held
        if change.outputs:
            before = self._saved.cells[cell_id].before or {}
            _write_outputs(ycell, before)

    def _write_metadata(self, ycell: Map[Any], changes: Mapping[str, Any]) -> None:
        metadata = ycell.get("metadata")
        if not isinstance(metadata, Map):
            return
        held = dict(read_object(metadata))
        wanted = deep(_changed(flat(held), changes))
        for key in held:
            if key not in wanted:
                del metadata[key]
        for key, value in wanted.items():
            if key not in held or held[key] != value:
                metadata[key] = value

    def _arrangement(self) -> Rearrangement:
        """What the notebook becomes: cells that stay by their places, the others anew."""
        made = {
            cell_id: _restored(cell_id, self._saved.cells[cell_id])
            if change.restore
            else self._made_again(cell_id, change)
            for cell_id, change in self._changes.items()
            if change.restore or change.move or change.kind
        }
        ids = self._notebook.ids()
        places: dict[CellId, list[int]] = {}
        for at in range(len(ids) - 1, -1, -1):  # a damaged notebook may hold an id twice
            places.setdefault(ids[at], []).append(at)
        order = [each if each in made else places[each].pop() for each in self._line]
        return Rearrangement(order=order if made or len(order) != len(ids) else None, made=made)

    def _made_again(self, cell_id: CellId, change: _Change) -> Mapping[str, Any]:
        before = self._saved.cells[cell_id].before or {}
        value = Editor(self._notebook, "").as_file(cell_id)
        value["source"] = _merged(value["source"], change)
        value["metadata"] = deep(_changed(flat(value["metadata"]), change.metadata))
        if change.attachments:
            value["attachments"] = _changed(value.get("attachments", {}), change.attachments)
        if change.kind:
            value["cell_type"] = change.kind
            value.pop("outputs", None)
            value.pop("execution_count", None)
        if value["cell_type"] == "code" and (change.outputs or change.kind):
            value["outputs"] = before.get("outputs", [])
            value["execution_count"] = before.get("execution_count")
        if value["cell_type"] == "code":
            value.pop("attachments", None)
        elif change.kind and before.get("attachments") and not value.get("attachments"):
            value["attachments"] = before["attachments"]
        return value


def _characters_of(notebook: Notebook, saved: Saved) -> dict[CellId, list[Span]]:
    """Where the run's own characters stand now, for cells in which their ids tell."""
    if not saved.ids or not covers(notebook.peer.doc.get_state(), read_vector(saved.state)):
        return {}
    known = {
        cell_id: notebook.entry(cell_id)
        for cell_id, checkpoint in saved.cells.items()
        if notebook.has(cell_id)
        and not checkpoint.made_again
        and cell_id not in saved.restored
        and _same_text(notebook.entry(cell_id), checkpoint)
    }
    if not known:
        return {}
    # What deleting them would change in a copy is where they stand.
    copy: Doc[Any] = Doc()
    copy.apply_update(notebook.peer.doc.get_update())
    ycells = copy.get("cells", type=Array)
    found: dict[CellId, list[Span]] = {cell_id: [] for cell_id in known}
    held = []
    for cell_id in known:
        text = ycells[notebook.position(cell_id)]["source"]
        held.append((text, text.observe(_spans_into(found[cell_id], str(text)))))
    copy.apply_update(deletion(saved.ids))
    for text, subscription in held:
        text.unobserve(subscription)
    return found


def _same_text(entry: Entry, checkpoint: Checkpoint) -> bool:
    text = entry.ycell.get("source") if isinstance(entry.ycell, Map) else None
    return isinstance(text, Text) and text_id(text) == checkpoint.text_id


def _spans_into(spans: list[Span], standing: str) -> Any:
    data = standing.encode()

    def take(event: Any) -> None:
        at = 0
        for item in event.delta:
            if "retain" in item:
                at += int(item["retain"])
            elif "delete" in item:
                start = len(data[:at].decode())
                at += int(item["delete"])
                spans.append((start, len(data[:at].decode())))

    return take


def _through(pairs: Sequence[tuple[int, int, int]], spans: Sequence[Span]) -> list[Span]:
    """Where ranges of one text stand in another, as far as they do."""
    found: list[Span] = []
    for start, stop in spans:
        for a, b, size in pairs:
            first, last = max(start, a), min(stop, a + size)
            if first < last:
                found.append((b + first - a, b + last - a))
    return found


def _apart(
    before: str, mine: Sequence[Span], after: str, theirs: Sequence[Span]
) -> list[tuple[int, int, int]]:
    """Match what is ours in two texts, and what is not, each for itself."""
    pairs = [
        *_match_parts(before, mine, after, theirs),
        *_match_parts(before, _between(mine, len(before)), after, _between(theirs, len(after))),
    ]
    ordered: list[tuple[int, int, int]] = []
    for a, b, size in sorted(pairs):
        if not ordered or b >= ordered[-1][1] + ordered[-1][2]:
            ordered.append((a, b, size))
    return ordered


def _between(spans: Sequence[Span], length: int) -> list[Span]:
    edges = [0, *(edge for span in spans for edge in span), length]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def _match_parts(
    before: str, mine: Sequence[Span], after: str, theirs: Sequence[Span]
) -> Iterator[tuple[int, int, int]]:
    old = "".join(before[a:b] for a, b in mine)
    new = "".join(after[a:b] for a, b in theirs)
    first, second = _places(mine), _places(theirs)
    for a, b, size in matching(old, new):
        for offset in range(size):
            yield first[a + offset], second[b + offset], 1


def _places(spans: Sequence[Span]) -> list[int]:
    return [at for start, stop in spans for at in range(start, stop)]


def _back_again(
    before: str, ours: Sequence[Span], standing: str, pairs: Sequence[tuple[int, int, int]]
) -> list[Span]:
    """Words of ours that somebody removed and brought back by an undo, so that they are theirs."""
    found: list[Span] = []
    here = there = 0
    for a, b, size in [*pairs, (len(before), len(standing), 0)]:
        gap = before[here:a]
        if gap and gap == standing[there:b]:
            found += _through([(here, there, len(gap))], ours)
        here, there = a + size, b + size
    return found


def _place(
    removed: Sequence[Piece], ours: Sequence[Span], pairs: Sequence[tuple[int, int, int]]
) -> list[Piece]:
    """Where what the run removed goes in the text as it stands.

    By what the run wrote in its place; else right behind what stood before it.
    """
    starts = [a for a, _, _ in pairs]
    placed = []
    for piece in removed:
        found = [
            place + behind
            for character, behind in ((piece.at - 1, 1), (piece.at, 0))
            if (place := _now(character, pairs, starts)) is not None
        ]
        replaced = any(start == piece.at for start, _ in ours)
        at = (found[-1] if replaced else found[0]) if found else _behind(piece.at, pairs)
        placed.append(Piece(at, piece.text))
    return placed


def _not_there(
    pieces: Sequence[Piece], standing: str, pairs: Sequence[tuple[int, int, int]]
) -> list[Piece]:
    """Without those that stand there already."""
    fresh = _between(_covered(pairs), len(standing))
    gaps = [next((standing[a:b] for a, b in fresh if a <= piece.at <= b), "") for piece in pieces]
    return [piece for piece, gap in zip(pieces, gaps, strict=True) if piece.text not in gap]


def _covered(pairs: Sequence[tuple[int, int, int]]) -> list[Span]:
    spans: list[Span] = []
    for _, b, size in sorted(pairs, key=lambda pair: pair[1]):
        if spans and spans[-1][1] >= b:
            spans[-1] = (spans[-1][0], max(spans[-1][1], b + size))
        else:
            spans.append((b, b + size))
    return spans


def _now(
    character: int, pairs: Sequence[tuple[int, int, int]], starts: Sequence[int]
) -> int | None:
    """Where a character stands now; None if it is gone."""
    number = bisect_right(starts, character) - 1
    if number < 0:
        return None
    a, b, size = pairs[number]
    return b + character - a if a <= character < a + size else None


def _behind(at: int, pairs: Sequence[tuple[int, int, int]]) -> int:
    """Behind the last character before it that is still there."""
    found = [b + min(size, at - a) for a, b, size in pairs if a < at]
    return max(found, default=0)


def _steps(change: _Change) -> list[tuple[int, int, str]]:
    """All edits of a text from its end to its start: first, behind the last, what comes there."""
    grouped: dict[int, str] = {}
    for piece in change.pieces:
        grouped[piece.at] = grouped.get(piece.at, "") + piece.text
    steps = [(at, at, text) for at, text in grouped.items()]
    for start, stop in change.cuts:
        edges = [start, *sorted(at for at in grouped if start < at < stop), stop]
        steps += [(first, last, "") for first, last in pairwise(edges)]
    return sorted(steps, key=lambda step: (step[0], step[1]), reverse=True)


def _merged(text: str, change: _Change) -> str:
    at = len(text)
    parts: list[str] = []
    for start, stop, piece in _steps(change):
        parts += [text[stop:at], piece]
        at = start
    return "".join(reversed([*parts, text[:at]]))


def _write_text(text: Text, change: _Change) -> None:
    standing = str(text)
    for start, stop, piece in _steps(change):
        at = len(standing[:start].encode())
        if stop > start:
            del text[at : at + len(standing[start:stop].encode())]
        if piece:
            text.insert(at, piece)


def _write_outputs(ycell: Map[Any], before: Mapping[str, Any]) -> None:
    outputs = ycell.get("outputs")
    if not isinstance(outputs, Array):
        return
    outputs.clear()
    for output in before.get("outputs", []):
        if output.get("output_type") == "stream":
            text = output.get("text", "")
            whole = text if isinstance(text, str) else "".join(text)
            outputs.append(Map({**output, "text": Text(whole)}))
        else:
            outputs.append(Map(dict(output)))
    ycell["execution_count"] = before.get("execution_count")


def _outputs_as_before(entry: Entry, before: Mapping[str, Any]) -> bool:
    count = entry.ycell.get("execution_count") if isinstance(entry.ycell, Map) else None
    same_count = (read_integer(count, 0) or None) == before.get("execution_count")
    return same_count and outputs_of(entry) == before.get("outputs", [])


def _back(values: Values, now: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What has to be set again, and the keys that others have changed since."""
    changes: dict[str, Any] = {}
    clashes: list[str] = []
    for key, change in values.items():
        wanted, left = change.get("before", ABSENT), change.get("after", ABSENT)
        standing = now.get(key, ABSENT)
        if standing == wanted:
            continue
        if standing == left:
            changes[key] = wanted
        else:
            clashes.append(key)
    return changes, clashes


def _changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**values, **changes}
    return {key: value for key, value in merged.items() if value is not ABSENT}


def _restored(cell_id: CellId, checkpoint: Checkpoint) -> dict[str, Any]:
    value = checkpoint.before
    if value is None:  # somebody was typing into a cell that the run had made and took away
        value = {"cell_type": "markdown", "metadata": {}}
    return {**value, "id": cell_id, "source": checkpoint.ledger.without_us}
