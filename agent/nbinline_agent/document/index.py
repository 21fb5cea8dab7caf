"""Which cells a shared notebook has, kept up to date by the changes themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from pycrdt import Array, ArrayEvent, Map, TextEvent

from nbinline_agent.ids import CellId

from .position import Tail

METADATA_KEY = "nbinlineai"
"""Key of our own values in cell and notebook metadata; the earlier extension's as well."""

SLICE = 250
"""Cells read before the event loop gets its turn."""


class Entry:
    """A cell in the list.

    Attributes:
        ycell: Its shared map; anything at all in a damaged notebook.
        cell_id: Its id; empty in a damaged notebook, and until it is read.
        text_number: Goes up when the shared text of the source is replaced by another one.
    """

    __slots__ = ("_mark", "cell_id", "text_number", "ycell")

    def __init__(self, ycell: Any) -> None:
        self.ycell = ycell
        self.cell_id = CellId("")
        self.text_number = 0
        self._mark: Mapping[str, Any] | None = None

    @property
    def mark(self) -> Mapping[str, Any]:
        """Our own metadata of the cell, empty if it has none; kept until it changes."""
        if self._mark is None:
            metadata = self.ycell.get("metadata") if isinstance(self.ycell, Map) else None
            value = metadata.get(METADATA_KEY) if isinstance(metadata, Map | dict) else None
            if isinstance(value, Map):
                value = value.to_py()
            self._mark = value if isinstance(value, dict) else {}
        return self._mark

    def forget(self) -> None:
        """Read the metadata anew when it is next asked for."""
        self._mark = None


class CellIndex:
    """The cells of a notebook in order, without walking the shared array.

    Reading position ``i`` of a shared array costs O(i), so a look-up by walking is quadratic. The
    change events of the array carry the cells themselves: following them makes every look-up O(1).

    Attributes:
        tails: Texts of cells whose changes are followed before anybody writes to them.
        followers: Called with the origin of every change, once it is known here.
    """

    def __init__(self, ycells: Array[Any]) -> None:
        self._ycells = ycells
        self._entries: list[Entry] = [Entry(ycell) for ycell in ycells]
        self._unread: deque[Entry] = deque(self._entries)
        self.tails: dict[CellId, Tail] = {}
        self.followers: list[Callable[[object], None]] = []
        self._by_id: dict[CellId, list[Entry]] = {}
        self._positions: dict[Entry, int] | None = None
        self._watching: list[set[Entry]] = []
        self._subscription = ycells.observe_deep(self._changed)

    @property
    def entries(self) -> Sequence[Entry]:
        """The cells in order."""
        self._read_ids(len(self._unread))
        return self._entries

    def ids(self) -> tuple[CellId, ...]:
        """The cells' ids in order; a damaged notebook may hold one twice."""
        return tuple(entry.cell_id for entry in self.entries)

    def find(self, cell_id: CellId) -> Entry | None:
        """The first cell of that id, or None."""
        self._read_ids(len(self._unread))
        found = self._by_id.get(cell_id)
        if not found or not cell_id:
            return None
        return found[0] if len(found) == 1 else min(found, key=self.position)

    def position(self, entry: Entry) -> int:
        """Where the cell stands, counted from 0."""
        if self._positions is None:
            self._positions = {each: at for at, each in enumerate(self._entries)}
        return self._positions[entry]

    async def read_marks(self) -> None:
        """Read ids and metadata of all cells now, in slices, so that later look-ups are instant."""
        while self._unread:
            self._read_ids(SLICE)
            await anyio.lowlevel.checkpoint()
        for at in range(0, len(self._entries), SLICE):
            for entry in self._entries[at : at + SLICE]:
                _ = entry.mark
            await anyio.lowlevel.checkpoint()

    @contextmanager
    def touched(self) -> Iterator[set[Entry]]:
        """Collect the cells that change inside the block.

        Meant for short blocks: while one is open every change costs O(position) more.
        """
        touched: set[Entry] = set()
        self._watching.append(touched)
        try:
            yield touched
        finally:
            self._watching.remove(touched)

    def _changed(self, events: Sequence[Any]) -> None:
        # The event of the array itself comes first, so the paths of the others fit the new order.
        for event in events:
            if isinstance(event, TextEvent) and not self._watching:
                continue
            path = event.path
            if not path:
                self._reorder(event)
            elif isinstance(path[0], int) and path[0] < len(self._entries):
                keys = event.keys if len(path) == 1 else ()
                self._touch(self._entries[path[0]], keys)
        for follow in self.followers if events else ():
            follow(events[0].transaction.origin)

    def _reorder(self, event: ArrayEvent) -> None:
        at = 0
        delta: Sequence[Mapping[str, Any]] = event.delta  # type: ignore[attr-defined]
        for item in delta:
            if "retain" in item:
                at += int(item["retain"])
            elif "delete" in item:
                stop = at + int(item["delete"])
                self._read_ids(len(self._unread))
                for entry in self._entries[at:stop]:
                    self._drop(entry)
                del self._entries[at:stop]
            else:
                new = [Entry(ycell) for ycell in item["insert"]]
                self._entries[at:at] = new
                # Read when they are asked for: a whole notebook that comes in would block the loop.
                self._unread.extend(new)
                at += len(new)
        self._positions = None

    def _read_ids(self, most: int) -> None:
        for _ in range(min(most, len(self._unread))):
            entry = self._unread.popleft()
            entry.cell_id = read_id(entry.ycell)
            self._note(entry)

    def _touch(self, entry: Entry, keys: Collection[str]) -> None:
        entry.forget()
        entry.text_number += "source" in keys
        if "id" in keys:
            self._read_ids(len(self._unread))
            # jupyter_ydoc gives a new id to the second of two cells of one id when it saves.
            self._drop(entry)
            entry.cell_id = read_id(entry.ycell)
            self._note(entry)
        for touched in self._watching:
            touched.add(entry)

    def _note(self, entry: Entry) -> None:
        self._by_id.setdefault(entry.cell_id, []).append(entry)

    def _drop(self, entry: Entry) -> None:
        same = self._by_id[entry.cell_id]
        same.remove(entry)
        if not same:
            del self._by_id[entry.cell_id]


def read_id(ycell: object) -> CellId:
    """A cell's id; empty if it is damaged and has none."""
    found = ycell.get("id") if isinstance(ycell, Map) else None
    return CellId(found) if isinstance(found, str) else CellId("")
