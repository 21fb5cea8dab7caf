"""What an answer was made from: hashes of cells, from the question to the last tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .context.build import Built
from .context.inputs import cell_hash, digest
from .document.notebook import Notebook
from .ids import CellId, RunId
from .journal import Journal
from .messages import JsonValue

EVENT = "inputs"
"""Type of the journal's events that hold the hashes; of several the last counts."""


@dataclass
class Provenance:
    """The inputs of one run.

    Attributes:
        cells: Hash of each cell; see ``context/inputs.py``.
        trimmed: Whether something that could have gone along did not fit, in any round.
        secrets: How many keys and passwords were left out.
    """

    cells: dict[CellId, str] = field(default_factory=dict)
    trimmed: bool = False
    secrets: int = 0
    _noted: dict[CellId, str] = field(default_factory=dict)

    def built(self, built: Built, *, first: bool) -> None:
        """A request was built; the first holds the cells, later ones only leave some out."""
        if first:
            self.cells = dict(built.inputs)
            self.secrets += sum(built.report.secrets.values())
        self.trimmed = self.trimmed or built.report.trimmed

    def worked(self, notebook: Notebook, cells: Iterable[CellId], *, reads: bool) -> None:
        """A tool has read or changed cells: the answer is made from them as they are now.

        Args:
            notebook: Where.
            cells: What the tool named.
            reads: Whether it was one that only reads; what such a one saw counts from now on.
        """
        for cell_id in cells:
            known = self.cells.get(cell_id)
            if known is None and not reads:
                continue
            if not notebook.has(cell_id):
                self.cells.pop(cell_id, None)
                continue
            cell = notebook.cell(cell_id)
            shown = known is not None and "." in known
            self.cells[cell_id] = cell_hash(cell.source, cell.outputs if shown else None)

    def news(self) -> Mapping[str, JsonValue] | None:
        """What is to be journalled; None if that has been done."""
        if self.cells == self._noted:
            return None
        self._noted = dict(self.cells)
        return {"cells": {str(cell): value for cell, value in self.cells.items()}}

    def metadata(self) -> dict[str, str | bool | int]:
        """What the answer cell says of it."""
        if not self.cells:
            return {}
        told: dict[str, str | bool | int] = {"inputsSha256": digest(self.cells)}
        if self.trimmed:
            told["contextTrimmed"] = True
        if self.secrets:
            told["secretsLeftOut"] = self.secrets
        return told


async def inputs_of(journal: Journal, run_id: RunId) -> Mapping[str, JsonValue] | None:
    """The hashes of a run's cells; None if the journal does not know them.

    Raises:
        JournalUnavailable: It cannot be read.
    """
    found: Mapping[str, JsonValue] | None = None
    after = 0
    while True:
        page = await journal.events(run_id, after)
        for event in page.events:
            cells = event.data.get("cells")
            if event.type == EVENT and isinstance(cells, Mapping):
                found = cells
        if not page.events or page.events[-1].seq >= page.last_seq:
            return found
        after = page.events[-1].seq
