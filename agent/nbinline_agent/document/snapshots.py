"""Snapshots taken again and again: only cells that changed in between are read anew."""

from __future__ import annotations

from contextlib import AbstractContextManager

import anyio

from .index import SLICE, CellIndex, Entry
from .notebook import Cell, Notebook, Snapshot, read_cell


class Snapshots:
    """Takes snapshots of one replica and keeps what it has read.

    Args:
        index: The replica's cells; watched from now on until :meth:`close`.
    """

    def __init__(self, index: CellIndex) -> None:
        self._index = index
        self._cells: dict[Entry, Cell] = {}
        self._watch: AbstractContextManager[set[Entry]] = index.touched()
        self._touched = self._watch.__enter__()

    async def take(self, notebook: Notebook) -> Snapshot:
        """The whole notebook as it stands at the moment this returns.

        The event loop gets its turn between slices of cells.

        Args:
            notebook: A view on the same replica.
        """
        while True:
            missing = [entry for entry in self._index.entries if self._unread(entry)]
            if len(missing) <= SLICE:
                break
            for at in range(0, len(missing), SLICE):
                for entry in missing[at : at + SLICE]:
                    self._read(entry)
                await anyio.lowlevel.checkpoint()
        for entry in missing:
            self._read(entry)
        entries = self._index.entries
        if len(self._cells) > len(entries):
            self._cells = {entry: self._cells[entry] for entry in entries}
        return Snapshot(
            tuple(self._cells[entry] for entry in entries),
            notebook.notebook_metadata(),
            notebook.nbformat,
            notebook.nbformat_minor,
        )

    def close(self) -> None:
        """Watch no more."""
        self._cells.clear()
        self._watch.__exit__(None, None, None)

    def _unread(self, entry: Entry) -> bool:
        return entry in self._touched or entry not in self._cells

    def _read(self, entry: Entry) -> None:
        self._touched.discard(entry)
        self._cells[entry] = read_cell(entry)
