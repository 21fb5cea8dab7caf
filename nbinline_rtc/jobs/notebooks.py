"""Reading saved notebooks: their cells without outputs, and without what the course hides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nbinline_agent.context.hiding import hide_solutions, nothing_left

from .below import Place, Refused, read

MAX_NOTEBOOK = 8_000_000
"""Bytes of a notebook's file."""

MAX_CELLS = 10_000


def read_notebook(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """Every cell of a notebook, in order."""
    place = Place(Path(job["root"]), tuple(job["parts"]))
    yield from cells_of(read(place, MAX_NOTEBOOK).data, job, place.shown)


def cells_of(data: bytes, job: Mapping[str, Any], shown: str) -> list[dict[str, Any]]:
    """Cells as ``{index, id, kind, source}``; those that are hidden whole are not among them.

    Args:
        data: The file's bytes.
        job: Its ``hide_solutions`` and ``hidden_tags`` say what is hidden.
        shown: How the file is called in an error.

    Raises:
        Refused: It is no notebook.
    """
    try:
        notebook = json.loads(data)
        cells = notebook["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Refused(f"{shown!r} is not a notebook that can be read.") from None
    if not isinstance(cells, list):
        raise Refused(f"{shown!r} is not a notebook that can be read.")
    kept = (_visible(index, cell, job) for index, cell in enumerate(cells[:MAX_CELLS]))
    return [cell for cell in kept if cell is not None]


def _visible(index: int, cell: Any, job: Mapping[str, Any]) -> dict[str, Any] | None:
    if not isinstance(cell, dict):
        return None
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    hidden = set(job["hidden_tags"])
    if isinstance(tags, list) and any(isinstance(tag, str) and tag in hidden for tag in tags):
        return None
    source = _text(cell.get("source"))
    if job["hide_solutions"]:
        source, took = hide_solutions(source)
        if took and nothing_left(source):
            return None
    return {
        "index": index,
        "id": _text(cell.get("id")),
        "kind": _text(cell.get("cell_type")) or "raw",
        "source": source,
    }


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


JOBS = {"read-notebook": read_notebook}
