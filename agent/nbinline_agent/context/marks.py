"""What a cell is to the agent, by its metadata; damaged metadata makes an ordinary cell."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from nbinline_agent.document.notebook import Cell

_NOTHING: Mapping[str, Any] = {}


class Role(StrEnum):
    """What a cell is to the agent."""

    ORDINARY = "ordinary"
    QUESTION = "question"
    ANSWER = "answer"


def marks(cell: Cell) -> Mapping[str, Any]:
    """The agent's own metadata of a cell; empty if there is none or it is damaged."""
    metadata = cell.metadata
    if not metadata or not isinstance(metadata, (dict, Mapping)):
        return _NOTHING
    found = metadata.get("nbinlineai")
    return found if isinstance(found, (dict, Mapping)) else _NOTHING


def role(cell: Cell, mark: Mapping[str, Any]) -> Role:
    """What the cell is; only Markdown cells can be questions and answers."""
    if not mark or cell.kind != "markdown":
        return Role.ORDINARY
    if mark.get("isOutputCell") is True:
        return Role.ANSWER
    return Role.QUESTION if mark.get("isPromptCell") is True else Role.ORDINARY


def tags(cell: Cell) -> frozenset[str]:
    """The cell's tags."""
    metadata = cell.metadata
    found = metadata.get("tags") if isinstance(metadata, Mapping) else None
    if not isinstance(found, (list, tuple)):
        return frozenset()
    return frozenset(tag for tag in found if isinstance(tag, str))
