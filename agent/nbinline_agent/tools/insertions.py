"""Where new cells go, so that what is inserted again and again keeps its order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbinline_agent.errors import CellGone
from nbinline_agent.ids import CellId

TOP = "index:0"
"""Stands for the place above the first cell."""

Mark = Callable[[CellId], Mapping[str, Any]]
"""Our own metadata of a cell."""


class Insertions:
    """What a run has inserted, by the place it was asked to insert at.

    Args:
        answer: The run's answer, the place taken by default.
        question: Stands in for an answer that is gone.
    """

    def __init__(self, answer: CellId, question: CellId) -> None:
        self.answer = answer
        self._question = question
        self._below: dict[str, list[CellId]] = {}

    def below(self, order: Sequence[CellId], after: str, mark: Mark) -> CellId | None:
        """The cell that a new one has to follow; None for the very top.

        Args:
            order: The cells as they stand.
            after: A cell, ``index:0``, or an empty string for the answer.
            mark: Tells what a cell is.

        Raises:
            CellGone: There is no such cell.
        """
        places = {cell: at for at, cell in enumerate(order)}
        anchor = after or self._default(places)
        start = -1 if anchor == TOP and TOP not in places else places.get(CellId(anchor))
        if start is None:
            raise CellGone(f"There is no cell {anchor[:100]!r} to insert below.")
        mine = [places[cell] for cell in self._below.get(anchor, ()) if cell in places]
        at = next((place for place in reversed(mine) if place > start), start)
        while 0 <= at < len(order) - 1 and _answers(mark(order[at + 1]), order[at]):
            at += 1
        return None if at < 0 else order[at]

    def note(self, after: str, cell: CellId) -> None:
        """Remember what was inserted at a place."""
        self._below.setdefault(after or self.answer, []).append(cell)

    def _default(self, places: Mapping[CellId, int]) -> str:
        return self.answer if self.answer in places else self._question


def _answers(mark: Mapping[str, Any], question: CellId) -> bool:
    return mark.get("isOutputCell") is True and mark.get("promptCellId") == question
