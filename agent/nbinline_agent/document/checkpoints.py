"""What a run changes in a notebook, noted so that it can be taken back later."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from pycrdt import Array, Assoc, Doc, Map, Subscription, Text, TextEvent, TransactionEvent

from nbinline_agent.ids import CellId, RunId

from .edits import as_file
from .index import METADATA_KEY, Entry
from .ledger import Ledger
from .notebook import Notebook, as_list, as_object, join_lines, read_json
from .operations import (
    Ranges,
    add_characters,
    born_deleted,
    merged,
    read_deletions,
    with_less_deleted,
    without_deletions,
)
from .peer import REPLAY, Peer

NEIGHBOURS = 20
"""Cells above and below that tell where a cell stood."""

INTERVAL = 0.5
"""Seconds between two notes of a text that grows, on a server that is not busy."""

MOST_SHADOWS = 8
"""Removals of one run whose cells are watched for what people type into them meanwhile."""

LARGEST_SHADOW = 8_000_000
"""Bytes of a document up to which that is done."""

WHOLE = CellId("")
"""Stands for the run itself among the cells it changed."""

ORDER = CellId("\0order")
"""The same for the order of the cells before the run removed or moved one."""

Values = dict[str, dict[str, Any]]
"""By key what stood ``before`` and ``after``; where there was nothing, that one is missing."""


@dataclass(eq=False)
class Checkpoint:
    """A cell that a run has changed.

    Attributes:
        before: The cell as its file held it; None if the run made it.
        above: Ids of the cells above it then, the nearest first.
        below: The same of those below.
        position: Where it stood.
        ledger: Who wrote what in its text.
        metadata: Values that the run changed.
        attachments: The same.
        kind: Its type after the last change of the run.
        outputs: Digest of what the run left below it; None if it did not touch outputs.
        deleted: Whether the run removed it.
        made_again: Whether the run removed it and put it back elsewhere, or with another type.
        neighbours: What stood right above and below it then.
        text_id: Names the shared text, so that it is known again.
    """

    before: dict[str, Any] | None
    above: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    position: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    metadata: Values = field(default_factory=dict)
    attachments: Values = field(default_factory=dict)
    kind: str = ""
    outputs: str | None = None
    deleted: bool = False
    made_again: bool = False
    neighbours: list[str | None] = field(default_factory=list)
    text_id: Any = None

    def stand(self, notebook: Notebook, cell_id: CellId) -> None:
        """Note where the cell stands now."""
        ids, position = notebook.ids(), notebook.position(cell_id)
        self.position = position
        self.above = list(reversed(ids[max(0, position - NEIGHBOURS) : position]))
        self.below = list(ids[position + 1 : position + 1 + NEIGHBOURS])

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        value = {name: getattr(self, name) for name in _PLAIN}
        return value | {"ledger": self.ledger.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Checkpoint:
        """From what :meth:`to_json` gave."""
        return cls(
            **{name: value[name] for name in _PLAIN if name in value},
            ledger=Ledger.from_json(value["ledger"]),
        )


_PLAIN = (
    "before",
    "above",
    "below",
    "position",
    "metadata",
    "attachments",
    "kind",
    "outputs",
    "deleted",
    "made_again",
    "neighbours",
    "text_id",
)


@dataclass(eq=False)
class _Followed:
    """A cell of the replica whose text is followed.

    Attributes:
        key: Cell and text, to notice when they are other ones.
        text: The text.
        subscription: To its changes.
    """

    key: tuple[Entry, int]
    text: Text
    subscription: Subscription


@dataclass(eq=False)
class _Shadow:
    """The document as if a removal had not happened, to see what people still type into it."""

    doc: Doc[Any]
    cells: set[CellId] = field(default_factory=set)
    held: list[Subscription] = field(default_factory=list)


class Recorder:
    """Notes what one run changes, in whatever replica it works.

    Those who change cells say so before each transaction, with :meth:`before` and
    :meth:`removing`; the rest comes from the changes themselves.

    Args:
        run_id: The run, which is the origin of its transactions.
        saved: What was noted so far, by an earlier server, as :meth:`take` gave it.
    """

    def __init__(self, run_id: RunId, saved: Mapping[CellId, Any] | None = None) -> None:
        self._run_id = run_id
        self._cells: dict[CellId, Checkpoint] = {}
        self._ids: Ranges = {}
        self._deletions: Ranges = {}
        self._state = b""
        self._order: list[str] | None = None
        for cell_id, value in (saved or {}).items():
            if cell_id == WHOLE:
                self._ids = read_ranges(value["ids"])
            elif cell_id == ORDER:
                self._order = value
            else:
                self._cells[cell_id] = Checkpoint.from_json(value)
        self._fresh: set[CellId] = set()
        self._dirty: set[CellId] = set()
        self._taken = float("-inf")
        self._pending: dict[CellId, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._followed: dict[CellId, _Followed] = {}
        self._shadows: list[_Shadow] = []
        self._notebook: Notebook | None = None
        self._subscription: Subscription
        self._origin: object = None
        self.late = anyio.Event()

    # Being in a replica

    @contextmanager
    def on(self, peer: Peer) -> Iterator[None]:
        """Note what happens in this replica while the block runs."""
        self.join(peer)
        try:
            yield
        finally:
            self.leave()

    def join(self, peer: Peer) -> None:
        """Note what happens in this replica from now on, until :meth:`leave`."""
        self.leave()
        self._notebook = Notebook(peer)
        self._subscription = peer.doc.observe(self._changed)
        peer.index.followers.append(self._cells_changed)
        peer.recorders[self._run_id] = self
        for cell_id in self._cells:
            self._follow(cell_id, ours=False)

    def leave(self) -> None:
        """Note nothing any more."""
        if self._notebook is None:
            return
        peer = self._notebook.peer
        for cell_id in list(self._followed):
            self._unfollow(cell_id)
        self._shadows.clear()
        self._pending.clear()
        peer.recorders.pop(self._run_id, None)
        peer.index.followers.remove(self._cells_changed)
        peer.doc.unobserve(self._subscription)
        self._notebook = None

    def replayed(self, updates: Sequence[bytes]) -> None:
        """Take updates of the run that an earlier server kept for what it wrote."""
        for update in updates:
            with suppress(ValueError):
                add_characters(self._ids, update)
        self._ids = merged(self._ids)
        self._dirty.add(WHOLE)

    @property
    def watches(self) -> bool:
        """Whether cells were removed into which people may just have been typing."""
        return bool(self._shadows)

    # What is about to change

    def before(self, cell_id: CellId) -> None:
        """Note a cell as it stands, before the run changes it, or makes it."""
        notebook = self._there()
        known = self._cells.get(cell_id)
        if known is None:
            known = self._cells[cell_id] = self._checkpoint(notebook, cell_id)
            self._fresh.add(cell_id)
        else:
            self._follow(cell_id, ours=False)
        self._dirty.add(cell_id)
        if notebook.has(cell_id):
            self._pending.setdefault(cell_id, _values(notebook, cell_id))
        else:
            self._pending.setdefault(cell_id, ({}, {}))

    def removing(self, cell_ids: Sequence[CellId]) -> None:
        """Note cells before they are removed, and watch what people type into them meanwhile."""
        notebook = self._there()
        if self._order is None:
            self._order = [*notebook.ids()]
            self._fresh.add(ORDER)
        for cell_id in cell_ids:
            self.before(cell_id)
        update = notebook.peer.doc.get_update()
        if len(update) > LARGEST_SHADOW:
            return
        doc: Doc[Any] = Doc()
        doc.apply_update(update)
        ycells = doc.get("cells", type=Array)
        shadow = _Shadow(doc)
        for cell_id in cell_ids:
            source = ycells[notebook.position(cell_id)]["source"] if notebook.has(cell_id) else None
            if isinstance(source, Text):
                self._follow_removed(shadow, cell_id, source)
        self._shadows.append(shadow)
        del self._shadows[:-MOST_SHADOWS]

    def left_outputs(self, cell_id: CellId) -> None:
        """Note what stands below a cell now as the run's."""
        checkpoint = self._cells.get(cell_id)
        notebook = self._there()
        if checkpoint is not None and notebook.has(cell_id):
            checkpoint.outputs = outputs_digest(notebook.entry(cell_id))
            self._dirty.add(cell_id)

    def _checkpoint(self, notebook: Notebook, cell_id: CellId) -> Checkpoint:
        if not notebook.has(cell_id):
            return Checkpoint(before=None)
        entry = notebook.entry(cell_id)
        before = as_file(entry)
        checkpoint = Checkpoint(
            before=before, ledger=Ledger(before["source"]), kind=before["cell_type"]
        )
        checkpoint.stand(notebook, cell_id)
        self._cells[cell_id] = checkpoint
        self._follow(cell_id, ours=False)
        return checkpoint

    # What has changed

    def _cells_changed(self, origin: object) -> None:
        # This comes before the event of the transaction, which does not tell the origin as such,
        # and in which nothing can be read.
        self._origin = origin
        if self._origin == self._run_id:
            pending, self._pending = self._pending, {}
            for cell_id, values in pending.items():
                self._settle(cell_id, *values)
            self._note_neighbours()

    def _changed(self, event: TransactionEvent) -> None:
        origin, self._origin = self._origin, None
        ours = origin == self._run_id
        if ours or origin == REPLAY:
            with suppress(ValueError):
                add_characters(self._ids, event.update)
        if self._shadows:
            self._shade(event, ours)

    def _settle(
        self, cell_id: CellId, metadata: dict[str, Any], attachments: dict[str, Any]
    ) -> None:
        notebook, checkpoint = self._there(), self._cells[cell_id]
        checkpoint.deleted = not notebook.has(cell_id)
        if checkpoint.deleted:
            self._unfollow(cell_id)
            return
        checkpoint.kind = notebook.kind(cell_id)
        if checkpoint.before is None and not checkpoint.above and not checkpoint.below:
            checkpoint.stand(notebook, cell_id)
        after = _values(notebook, cell_id)
        _note(checkpoint.metadata, metadata, after[0])
        _note(checkpoint.attachments, attachments, after[1])
        if self._follow(cell_id, ours=True):
            checkpoint.made_again = True

    def _note_neighbours(self) -> None:
        notebook = self._there()
        for cell_id, checkpoint in self._cells.items():
            if not checkpoint.made_again or not notebook.has(cell_id):
                continue
            ids, position = notebook.ids(), notebook.position(cell_id)
            checkpoint.neighbours = [
                ids[position - 1] if position else None,
                ids[position + 1] if position + 1 < len(ids) else None,
            ]
            self._dirty.add(cell_id)

    def _follow(self, cell_id: CellId, *, ours: bool) -> bool:
        """Follow the text that a cell has now; whether it was another one before."""
        notebook, checkpoint = self._there(), self._cells[cell_id]
        followed = self._followed.get(cell_id)
        if not notebook.has(cell_id):
            self._unfollow(cell_id)
            return False
        entry = notebook.entry(cell_id)
        key = (entry, entry.text_number)
        if followed is not None and followed.key == key:
            return False
        had_text = followed is not None or checkpoint.deleted
        self._unfollow(cell_id)
        text = entry.ycell.get("source") if isinstance(entry.ycell, Map) else None
        if not isinstance(text, Text):
            return False
        checkpoint.ledger.amend(str(text), ours=ours)

        def changed(event: TextEvent) -> None:
            origin = event.transaction.origin
            delta = event.delta  # type: ignore[attr-defined]
            checkpoint.ledger.follow(delta, ours=origin in (self._run_id, REPLAY))
            self._dirty.add(cell_id)

        self._followed[cell_id] = _Followed(key, text, text.observe(changed))
        return had_text

    def _unfollow(self, cell_id: CellId) -> None:
        followed = self._followed.pop(cell_id, None)
        if followed is not None:
            followed.text.unobserve(followed.subscription)

    def received(self, update: bytes) -> None:
        """Take note of what others typed into cells that the run has removed, in their replicas.

        The document does not keep that: it has nowhere to be. So this goes by the very update, as
        it came from the one who typed.
        """
        for shadow in self._shadows:
            with suppress(ValueError):
                # Replies to a handshake repeat what the run has deleted.
                shadow.doc.apply_update(with_less_deleted(update, self._deletions))

    def _shade(self, event: TransactionEvent, ours: bool) -> None:
        deletions = event.delete_set  # type: ignore[attr-defined]
        gone = read_deletions(deletions) if ours else born_deleted(event.update, deletions)
        for client, ranges in gone.items():
            self._deletions.setdefault(client, []).extend(ranges)
        self._deletions = merged(self._deletions)
        if not ours:
            return
        for shadow in self._shadows:
            shadow.doc.apply_update(without_deletions(event.update, deletions))

    def _follow_removed(self, shadow: _Shadow, cell_id: CellId, text: Text) -> None:
        """Only by its events: a text that somebody else deletes cannot be read any more."""

        def typed(event: TextEvent) -> None:
            checkpoint = self._cells[cell_id]
            if checkpoint.deleted and cell_id in shadow.cells:
                checkpoint.ledger.follow(event.delta, ours=False)  # type: ignore[attr-defined]
                self._dirty.add(cell_id)
                self.late.set()

        for earlier in self._shadows:
            earlier.cells.discard(cell_id)
        shadow.cells.add(cell_id)
        shadow.held.append(text.observe(typed))

    # Keeping

    def take(self, *, everything: bool = False, slowness: float = 1.0) -> dict[CellId, Any]:
        """What has to be kept now: new cells at once, the rest after a while.

        Args:
            everything: Whatever was not kept yet.
            slowness: How many times longer the while is, with many runs at once.
        """
        if everything and self._notebook is not None:
            for cell_id in self._cells:
                self._follow(cell_id, ours=False)
        now = anyio.current_time()
        due = everything or now - self._taken >= INTERVAL * slowness
        cells = (self._dirty | self._fresh) if due else self._fresh
        if due:
            self._taken = now
        for cell in filter(self._stands, cells & set(self._followed)):
            # Not when it is first followed: that may be in the middle of a transaction.
            self._cells[cell].text_id = text_id(self._followed[cell].text)
        rows: dict[CellId, Any] = {
            cell: self._cells[cell].to_json() for cell in cells if cell in self._cells
        }
        if ORDER in cells:
            rows[ORDER] = self._order
        if due and (cells or self._ids):
            rows[WHOLE] = self._whole()
        self._dirty -= cells
        self._fresh.clear()
        self.late = anyio.Event() if due and self.late.is_set() else self.late
        return rows

    def _stands(self, cell_id: CellId) -> bool:
        """Whether the text that is followed is still the cell's; pycrdt dies of asking another."""
        notebook = self._there()
        if not notebook.has(cell_id):
            return False
        entry = notebook.entry(cell_id)
        return self._followed[cell_id].key == (entry, entry.text_number)

    def _whole(self) -> dict[str, Any]:
        self._ids = merged(self._ids)
        if self._notebook is not None:
            self._state = self._notebook.peer.doc.get_state()
        return {
            "ids": {str(client): ranges for client, ranges in self._ids.items()},
            "state": base64.b64encode(self._state).decode(),
        }

    def _there(self) -> Notebook:
        assert self._notebook is not None, "the recorder is in no replica"
        return self._notebook


def read_ranges(value: Mapping[str, Sequence[Sequence[int]]]) -> Ranges:
    """Id ranges from JSON."""
    return {int(client): [(a, b) for a, b in ranges] for client, ranges in value.items()}


def text_id(text: Text) -> Any:
    """What names a shared text in its document."""
    return text.sticky_index(0, Assoc.BEFORE).to_json().get("type")


def flat(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata by key; our own part by its own keys."""
    ours = as_object(metadata.get(METADATA_KEY))
    rest = {key: value for key, value in metadata.items() if key != METADATA_KEY or not ours}
    return rest | {f"{METADATA_KEY}/{key}": value for key, value in ours.items()}


def deep(values: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse of :func:`flat`."""
    prefix = f"{METADATA_KEY}/"
    whole = {key: value for key, value in values.items() if not key.startswith(prefix)}
    ours = {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
    return whole | ({METADATA_KEY: ours} if ours else {})


def _values(notebook: Notebook, cell_id: CellId) -> tuple[dict[str, Any], dict[str, Any]]:
    ycell = notebook.entry(cell_id).ycell
    attachments = ycell.get("attachments") if isinstance(ycell, Map) else None
    if isinstance(attachments, Map):
        attachments = read_json(str(attachments))
    return flat(notebook.metadata(cell_id)), dict(as_object(attachments))


def _note(values: Values, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for key in {*before, *after}:
        if before.get(key) == after.get(key) and (key in before) == (key in after):
            continue
        change = values.get(key)
        if change is None or change.get("after") != before.get(key):
            # Somebody else has changed it since: that is what we go back to.
            change = values[key] = {"before": before[key]} if key in before else {}
        change.pop("after", None)
        if key in after:
            change["after"] = after[key]


def outputs_of(entry: Entry) -> list[Any]:
    """The outputs of a cell with printed text in one piece, however it is kept."""
    outputs = as_list(as_file(entry).get("outputs"))
    return [
        {**output, "text": join_lines(output["text"])} if "text" in output else output
        for output in outputs
    ]


def outputs_digest(entry: Entry) -> str:
    """A digest of what stands below a cell."""
    text = json.dumps(outputs_of(entry), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
