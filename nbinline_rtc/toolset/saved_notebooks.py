"""Notebooks as they are saved; the one that is asked in as it stands right now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from nbinline_agent.context.hiding import hide_solutions, nothing_left
from nbinline_agent.context.marks import tags
from nbinline_agent.tools.base import Arguments, Tool, ToolContext, ToolError, ToolResult
from nbinline_agent.tools.catalog import description
from nbinline_rtc.jobs.below import Place
from nbinline_rtc.jobs.walking import Walk

from .files import Limit, Line, numbered
from .job_process import about, find
from .places import Path, in_thread, place_of

SECONDS = 5.0
"""Time limit of reading a notebook."""

PREVIEW = 120
"""Characters of a cell's preview."""


@dataclass(frozen=True, slots=True)
class SavedCell:
    """A cell that may be seen.

    Attributes:
        index: Where it stands, counted from 0.
        id: Its id; empty in files of old formats.
        kind: ``code``, ``markdown`` or ``raw``.
        source: Its text without what is hidden.
    """

    index: int
    id: str
    kind: str
    source: str

    @property
    def head(self) -> str:
        """Number, id and kind, as listings begin a line."""
        return f"{self.index + 1}  {self.id or f'index:{self.index}'}  {self.kind}"


class NotebookOutline(Arguments):
    """Of ``notebook_outline``."""

    path: Path
    start: Annotated[int, Field(ge=0, le=100_000)] = 0
    limit: Annotated[int, Field(ge=1, le=50)] = 20


class ListNotebooks(Arguments):
    """Of ``list_notebooks``."""

    path: Path = "."
    limit: Limit = 30


class FindNotebookCells(Arguments):
    """Of ``find_notebook_cells``."""

    path: Path
    query: Annotated[str, Field(min_length=1, max_length=200)]
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class ReadNotebookCell(Arguments):
    """Of ``read_notebook_cell``."""

    path: Path
    cell_id: Annotated[str, Field(min_length=1, max_length=200)]
    start_line: Line = 1
    end_line: Line = 40


async def notebook_outline(context: ToolContext, arguments: NotebookOutline) -> ToolResult:
    """Cells with their first lines."""
    shown, cells = await _cells(context, arguments.path)
    part = cells[arguments.start : arguments.start + arguments.limit]
    lines = [f"{shown}, {len(cells):,} cells:", *(f"{each.head}  {_first(each)}" for each in part)]
    following = arguments.start + len(part)
    if following < len(cells):
        lines.append(f"[{len(cells) - following:,} more; next start is {following}]")
    return ToolResult("\n".join(lines))


async def list_notebooks(context: ToolContext, arguments: ListNotebooks) -> ToolResult:
    """Paths of notebooks."""
    place = await place_of(context, arguments.path)
    walk = Walk()
    found = await in_thread(lambda: _notebooks(place, walk))
    lines = found[: arguments.limit] or ["There is no notebook."]
    if len(found) > arguments.limit:
        lines.append(f"[{len(found) - arguments.limit:,} more]")
    if not walk.complete:
        lines.append("[not everything was looked at: 2,000 entries or 6 levels at most]")
    return ToolResult("\n".join(lines))


def _notebooks(place: Place, walk: Walk) -> list[str]:
    above = "" if place.shown == "." else f"{place.shown}/"
    return [
        f"{above}{entry.shown}"
        for entry in walk.through(place)
        if not entry.is_folder and entry.name.endswith(".ipynb")
    ]


async def find_notebook_cells(context: ToolContext, arguments: FindNotebookCells) -> ToolResult:
    """Cells that have a text in them."""
    shown, cells = await _cells(context, arguments.path)
    wanted = arguments.query.casefold()
    found = [each for each in cells if wanted in each.source.casefold()]
    lines = [f"{each.head}  {_around(each, wanted)}" for each in found[: arguments.limit]]
    if len(found) > arguments.limit:
        lines.append(f"[{len(found) - arguments.limit:,} more cells match]")
    return ToolResult("\n".join(lines) or f"No cell of {shown} has that text.")


async def read_notebook_cell(context: ToolContext, arguments: ReadNotebookCell) -> ToolResult:
    """Numbered lines of one cell."""
    shown, cells = await _cells(context, arguments.path)
    wanted = arguments.cell_id
    if wanted.startswith("index:"):
        found = [each for each in cells if f"index:{each.index}" == wanted]
    else:
        found = [each for each in cells if each.id == wanted]
    if not found:
        raise ToolError(f"There is no cell {wanted!r} in {shown}.")
    cell = found[0]
    head = f"{shown}, cell {cell.index + 1} ({cell.kind}, {cell.id or 'no id'})"
    return ToolResult(numbered(head, cell.source, arguments.start_line, arguments.end_line))


async def _cells(context: ToolContext, path: str) -> tuple[str, list[SavedCell]]:
    place = await place_of(context, path)
    if not place.name.endswith(".ipynb"):
        raise ToolError(f"{place.shown!r} is not a notebook.")
    if place.shown == context.path:
        return place.shown, await _live_cells(context)
    found = await find("read-notebook", about(place, context), seconds=SECONDS)
    if not found.complete:
        raise ToolError("Reading this notebook takes too long.")
    return place.shown, [_saved(each) for each in found.items]


def _saved(value: Any) -> SavedCell:
    return SavedCell(value["index"], value["id"], value["kind"], value["source"])


async def _live_cells(context: ToolContext) -> list[SavedCell]:
    policy = context.policy
    snapshot = await context.notebook.snapshot()
    cells: list[SavedCell] = []
    for index, cell in enumerate(snapshot.cells):
        source, took = (
            hide_solutions(cell.source) if policy.hide_solutions else (cell.source, False)
        )
        hidden = not policy.hidden_tags.isdisjoint(tags(cell))
        if not hidden and not (took and nothing_left(source)):
            cells.append(SavedCell(index, cell.id, cell.kind, source))
    return cells


def _first(cell: SavedCell) -> str:
    line = next((line.strip() for line in cell.source.splitlines() if line.strip()), "")
    return line[:PREVIEW]


def _around(cell: SavedCell, wanted: str) -> str:
    found = (line.strip() for line in cell.source.splitlines() if wanted in line.casefold())
    return next(found, _first(cell))[:PREVIEW]


TOOLS: tuple[Tool, ...] = (
    Tool(
        "notebook_outline",
        "saved_notebooks",
        description("notebook_outline"),
        NotebookOutline,
        notebook_outline,
    ),
    Tool(
        "list_notebooks",
        "saved_notebooks",
        description("list_notebooks"),
        ListNotebooks,
        list_notebooks,
    ),
    Tool(
        "find_notebook_cells",
        "saved_notebooks",
        description("find_notebook_cells"),
        FindNotebookCells,
        find_notebook_cells,
    ),
    Tool(
        "read_notebook_cell",
        "saved_notebooks",
        description("read_notebook_cell"),
        ReadNotebookCell,
        read_notebook_cell,
    ),
)
