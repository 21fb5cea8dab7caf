"""The cells of a notebook in nbformat's form, without what a course keeps from models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nbinline_agent.render.text import TextCell, cells_of

from .choices import Policy
from .hiding import hide_solutions, nothing_left


def visible_cells(notebook: Mapping[str, Any], policy: Policy) -> list[TextCell]:
    """The cells a model may see, with the numbers that they have in the notebook."""
    cells = notebook.get("cells")
    raw = cells if isinstance(cells, list) else []
    shown = (_visible(cell, raw[cell.number - 1], policy) for cell in cells_of(notebook))
    return [cell for cell in shown if cell is not None]


def _visible(cell: TextCell, raw: Mapping[str, Any], policy: Policy) -> TextCell | None:
    metadata = raw.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
    if isinstance(tags, list) and any(tag in policy.hidden_tags for tag in map(str, tags)):
        return None
    if not policy.hide_solutions:
        return cell
    source, took = hide_solutions(cell.source)
    if not took:
        return cell
    return None if nothing_left(source) else replace(cell, source=source)
