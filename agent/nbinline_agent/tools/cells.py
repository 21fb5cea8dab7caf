"""Reading the cells of the live notebook, and the family of all tools on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from nbinline_agent.document.notebook import read_cell
from nbinline_agent.messages import JsonValue
from nbinline_agent.render.outputs import in_full

from .base import Arguments, Tool, ToolContext, ToolError, ToolResult
from .catalog import description
from .cell_edits import edit_tools
from .lines import lines_of, numbered
from .output_images import images_of
from .sight import Seen, find, see

PREVIEW = 160
"""Characters of a cell in a list."""

HIT = 120
"""Characters around a hit."""

MOST_LINES = 400
"""Lines of one read."""

MOST_CELLS = 20_000
"""Cells of one search."""

SLICE = 200
"""Cells looked at before the event loop gets its turn."""

CellRef = Annotated[str, Field(max_length=200)]


class ListCells(Arguments):
    """Of ``list_cells``."""

    start: int = Field(0, ge=0)
    limit: int = Field(20, ge=1, le=50)


class ReadCell(Arguments):
    """Of ``read_cell``."""

    cell_id: CellRef = Field(description="Id, or index:N.")
    start_line: int = Field(1, ge=1)
    end_line: int = Field(40, ge=1)


class FindCells(Arguments):
    """Of ``find_cells``."""

    query: str = Field(min_length=1, max_length=200)
    cell_type: Literal["", "code", "markdown", "raw"] = ""
    limit: int = Field(20, ge=1, le=50)


class ReadOutput(Arguments):
    """Of ``read_output``."""

    cell_id: CellRef = Field(description="Id, or index:N.")
    output: int | None = Field(None, ge=0, description="Only this one, counted from 0.")


async def list_cells(context: ToolContext, arguments: ListCells) -> ToolResult:
    """A page of the list of cells."""
    notebook, policy = context.notebook, context.policy
    ids = notebook.ids()
    end = min(len(ids), arguments.start + arguments.limit)
    cells: list[JsonValue] = [
        _listed(see(notebook, ids[at], at, policy))
        for at in range(arguments.start, end)
        if notebook.has(ids[at])
    ]
    page: dict[str, JsonValue] = {"total": len(ids), "cells": cells}
    if end < len(ids):
        page["next_start"] = end
    return ToolResult(_json(page))


async def read_cell_lines(context: ToolContext, arguments: ReadCell) -> ToolResult:
    """Numbered lines of a cell, and what an edit has to carry."""
    seen = find(context.notebook, arguments.cell_id, context.policy)
    await context.at(seen.id)
    total = len(lines_of(seen.source))
    first = arguments.start_line
    if first > max(1, total):
        raise ToolError(f"The cell has {total} lines.", reason="line-range")
    last = min(total, max(first, arguments.end_line), first + MOST_LINES - 1)
    if total == 0:
        return ToolResult(f"{seen.label}, empty, hash {seen.hash}", cells=(seen.id,))
    head = f"{seen.label}, lines {first}-{last} of {total}, hash {seen.hash}"
    if seen.redacted:
        head += "\n[part of it is hidden by the course; it cannot be edited]"
    outputs = _output_count(context, seen)
    tail = f"\n[{outputs} output{'s' if outputs != 1 else ''}: read_output]" if outputs else ""
    return ToolResult(f"{head}\n{numbered(seen.source, first, last)}{tail}", cells=(seen.id,))


async def find_cells(context: ToolContext, arguments: FindCells) -> ToolResult:
    """Cells whose text holds the query, upper and lower case alike."""
    notebook, policy = context.notebook, context.policy
    wanted = arguments.query.casefold()
    hits: list[JsonValue] = []
    ids = notebook.ids()
    more = False
    for at, cell_id in enumerate(ids[:MOST_CELLS]):
        if at % SLICE == SLICE - 1:
            await anyio.lowlevel.checkpoint()
        if not notebook.has(cell_id) or arguments.cell_type not in ("", notebook.kind(cell_id)):
            continue
        if wanted not in notebook.source(cell_id).casefold():
            continue
        seen = see(notebook, cell_id, at, policy)
        hit = _hit(seen, wanted)
        if hit is None:
            continue
        if len(hits) >= arguments.limit:
            more = True
            break
        hits.append(hit)
    found: dict[str, JsonValue] = {"query": arguments.query, "hits": hits}
    if more or len(ids) > MOST_CELLS:
        found["more"] = True
    return ToolResult(_json(found))


async def read_output(context: ToolContext, arguments: ReadOutput) -> ToolResult:
    """What stands below a code cell: text, errors, tables, pictures."""
    notebook = context.notebook
    seen = find(notebook, arguments.cell_id, context.policy)
    await context.at(seen.id)
    if seen.redacted:
        raise ToolError("The outputs of this cell are hidden by the course.", reason="hidden")
    outputs = read_cell(notebook.entry(seen.id)).outputs
    if arguments.output is not None:
        if arguments.output >= len(outputs):
            raise ToolError(f"The cell has {len(outputs)} outputs.", reason="bad-arguments")
        outputs = outputs[arguments.output : arguments.output + 1]
    if not outputs:
        return ToolResult(f"{seen.label} has no outputs.", cells=(seen.id,))
    # Long outputs take long to shorten.
    text = await anyio.to_thread.run_sync(in_full, outputs)
    images = await anyio.to_thread.run_sync(images_of, outputs)
    return ToolResult(f"{seen.label}, outputs:\n{text}", images=images, cells=(seen.id,))


def cell_tools() -> tuple[Tool, ...]:
    """All tools on the cells of the live notebook."""
    return (
        Tool("list_cells", "notebook", description("list_cells"), ListCells, list_cells),
        Tool("read_cell", "notebook", description("read_cell"), ReadCell, read_cell_lines),
        Tool("find_cells", "notebook", description("find_cells"), FindCells, find_cells),
        Tool(
            "read_output",
            "notebook",
            "Read what stands below a code cell: text, errors, tables, images.",
            ReadOutput,
            read_output,
        ),
        *edit_tools(),
    )


def _listed(seen: Seen) -> dict[str, JsonValue]:
    line = " ".join(seen.source[: 4 * PREVIEW].split())
    return {
        "index": seen.index,
        "id": seen.id,
        "type": seen.kind,
        **({"number": seen.count} if seen.count is not None else {}),
        **({"ai": seen.role} if seen.role else {}),
        **({"locked": True} if seen.locked else {}),
        "preview": line if len(line) <= PREVIEW else f"{line[: PREVIEW - 1]}…",
    }


def _hit(seen: Seen, wanted: str) -> dict[str, JsonValue] | None:
    lines = lines_of(seen.source)
    numbers = [number for number, line in enumerate(lines, 1) if wanted in line.casefold()]
    if not numbers and wanted not in seen.source.casefold():
        return None  # only what the course hides holds it
    line = lines[numbers[0] - 1].strip() if numbers else seen.source.strip()
    at = max(0, line.casefold().find(wanted) - HIT // 3)
    return {
        "index": seen.index,
        "id": seen.id,
        "type": seen.kind,
        **({"ai": seen.role} if seen.role else {}),
        "lines": list(numbers[:10]),
        "text": line[at : at + HIT],
        "hash": seen.hash,
    }


def _output_count(context: ToolContext, seen: Seen) -> int:
    if seen.kind != "code" or seen.redacted:
        return 0
    outputs: Any = context.notebook.entry(seen.id).ycell.get("outputs")
    return len(outputs) if outputs is not None else 0


def _json(value: Mapping[str, JsonValue]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"))
