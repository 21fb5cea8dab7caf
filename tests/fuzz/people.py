"""People of a random schedule, and a model of what each must find again at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from jupyter_ydoc import YNotebook
from pycrdt import Provider, Text, UndoManager

from nbinline_agent.testing import PATH, MemoryRooms, markdown
from tests.properties.unicode import PEOPLE

ALPHABETS = ("α🦊ש", "β𝄞ל", "γו\u0301", "ם\u200f")
"""What each of them types, and nobody else: together the alphabet of people."""

assert set("".join(ALPHABETS)) == set(PEOPLE)

Step = tuple[str, Any]
"""What one undo takes back: text typed or erased, a cell inserted, removed or moved."""


@dataclass
class Person:
    """Somebody with a browser: document and undo outlive the connections.

    Attributes:
        number: Picks the alphabet.
        typed: How often each character of theirs must stand in the notebook.
        cells: Ids of cells of theirs that must be there.
        all_cells: Ids of cells that they ever made.
        steps: What undo takes back, newest last.
    """

    number: int
    rooms: MemoryRooms
    tasks: TaskGroup
    notebook: YNotebook = field(default_factory=YNotebook)
    connected: bool = False
    typed: Counter[str] = field(default_factory=Counter)
    cells: set[str] = field(default_factory=set)
    all_cells: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    _leave: anyio.Event = field(default_factory=anyio.Event)
    _left: anyio.Event = field(default_factory=anyio.Event)
    _undo: UndoManager | None = None

    async def connect(self) -> None:
        if not self.connected:
            self._leave, self._left = anyio.Event(), anyio.Event()
            await self.tasks.start(self._live)
            self.connected = True
        if self._undo is None:
            # As JupyterLab: one step a change, over the cells, own changes only.
            self._undo = UndoManager(scopes=[self.notebook.ycells], capture_timeout_millis=0)
            self._undo.include_origin(self.origin)

    async def _live(self, *, task_status: TaskStatus[None]) -> None:
        async with self.rooms.connect(PATH) as channel:
            async with Provider(self.notebook.ydoc, channel) as provider:
                await provider.synced.wait()
                task_status.started()
                await self._leave.wait()
        self._left.set()

    async def drop(self) -> None:
        if self.connected:
            self._leave.set()
            await self._left.wait()
            self.connected = False

    @property
    def origin(self) -> str:
        return f"person-{self.number}"

    @property
    def alphabet(self) -> str:
        return ALPHABETS[self.number]

    def _position(self, cell_id: str) -> int | None:
        ids = [ycell["id"] for ycell in self.notebook.ycells]
        return ids.index(cell_id) if cell_id in ids else None

    def _text(self, cell_id: str) -> Text | None:
        position = self._position(cell_id)
        return None if position is None else self.notebook.ycells[position]["source"]

    def type_into(self, cell_id: str, part: float, letters: list[int]) -> None:
        """Type somewhere into a cell, if it is here."""
        text = self._text(cell_id)
        if text is None:
            return
        what = "".join(self.alphabet[letter % len(self.alphabet)] for letter in letters)
        standing = str(text)
        place = len(standing[: round(part * len(standing))].encode())
        with self.notebook.ydoc.transaction(origin=self.origin):
            text.insert(place, what)
        self.typed.update(what)
        self.steps.append(("typed", what))

    def erase(self, cell_id: str, part: float) -> None:
        """Delete one of the characters of theirs in a cell."""
        text = self._text(cell_id)
        standing = "" if text is None else str(text)
        mine = [at for at, letter in enumerate(standing) if letter in self.alphabet]
        if text is None or not mine:
            return
        at = mine[min(len(mine) - 1, int(part * len(mine)))]
        place = len(standing[:at].encode())
        with self.notebook.ydoc.transaction(origin=self.origin):
            del text[place : place + len(standing[at].encode())]
        self.typed.subtract(standing[at])
        self.steps.append(("erased", standing[at]))

    def insert_cell(self, part: float) -> None:
        cell_id = f"{self.origin}-cell-{len(self.all_cells)}"
        cell = self.notebook.create_ycell(markdown("", cell_id))
        with self.notebook.ydoc.transaction(origin=self.origin):
            self.notebook.ycells.insert(round(part * len(self.notebook.ycells)), cell)
        self.all_cells.append(cell_id)
        self.cells.add(cell_id)
        self.steps.append(("inserted", cell_id))

    def remove_cell(self, part: float) -> None:
        """Delete a cell of theirs."""
        cell_id = self._own(part)
        position = None if cell_id is None else self._position(cell_id)
        if cell_id is None or position is None:
            return
        with self.notebook.ydoc.transaction(origin=self.origin):
            del self.notebook.ycells[position]
        self.cells.discard(cell_id)
        self.steps.append(("removed", cell_id))

    def move_cell(self, part: float) -> None:
        """Move a cell of theirs as browsers do: delete it and make it again."""
        cell_id = self._own(part)
        if cell_id is not None and self.move(cell_id, part):
            self.steps.append(("moved", cell_id))

    def move(self, cell_id: str, part: float) -> bool:
        """Move any cell."""
        position = self._position(cell_id)
        if position is None:
            return False
        cell = self.notebook.ycells[position].to_py()
        target = round(part * (len(self.notebook.ycells) - 1))
        with self.notebook.ydoc.transaction(origin=self.origin):
            del self.notebook.ycells[position]
            self.notebook.ycells.insert(target, self.notebook.create_ycell(cell))
        return True

    def _own(self, part: float) -> str | None:
        mine = sorted(self.cells)
        return mine[min(len(mine) - 1, int(part * len(mine)))] if mine else None

    def undo(self) -> None:
        """Ctrl+Z."""
        if self._undo is None or not self.steps:
            return
        kind, what = self.steps.pop()
        assert self._undo.undo(), f"nothing to undo for {kind}"
        match kind:
            case "typed":
                self.typed.subtract(what)
            case "erased":
                self.typed.update(what)
            case "inserted":
                self.cells.discard(what)
            case "removed":
                self.cells.add(what)
