"""Searching files and saved notebooks, in a process that is killed when its time is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from nbinline_agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from nbinline_agent.tools.catalog import description

from .files import Pattern
from .job_process import Found, about, find
from .places import Path, place_of

SECONDS = 1.5
"""Time limit of a search."""

Query = Annotated[str, Field(min_length=1, max_length=500)]
Limit = Annotated[int, Field(ge=1, le=50)]


class SearchFiles(Arguments):
    """Of ``search_files``."""

    query: Query
    path: Path = "."
    pattern: Pattern = "*"
    regex: bool = False
    limit: Limit = 20


class SearchNotebooks(Arguments):
    """Of ``search_notebooks``."""

    query: Query
    path: Path = "."
    limit: Limit = 20


async def search_files(context: ToolContext, arguments: SearchFiles) -> ToolResult:
    """Lines that match."""
    place = await place_of(context, arguments.path)
    found = await find(
        "search-files",
        {
            **about(place, context),
            "query": arguments.query,
            "pattern": arguments.pattern,
            "regex": arguments.regex,
        },
        seconds=SECONDS,
        most=arguments.limit + 1,
    )
    return _told(found, arguments.limit, _line, "lines")


async def search_notebooks(context: ToolContext, arguments: SearchNotebooks) -> ToolResult:
    """Cells that match."""
    place = await place_of(context, arguments.path)
    found = await find(
        "search-notebooks",
        {**about(place, context), "query": arguments.query},
        seconds=SECONDS,
        most=arguments.limit + 1,
    )
    return _told(found, arguments.limit, _cell, "cells")


def _line(hit: Mapping[str, Any]) -> str:
    return f"{hit['path']}:{hit['line']}: {hit['text']}"


def _cell(hit: Mapping[str, Any]) -> str:
    cell = hit["cell_id"] or f"index:{hit['index']}"
    return f"{hit['path']} cell {hit['index'] + 1} ({hit['kind']}, {cell}): {hit['text']}"


def _told(found: Found, limit: int, show: Any, noun: str) -> ToolResult:
    hits = [item for item in found.items if "text" in item]
    lines = [show(hit) for hit in hits[:limit]] or [f"No {noun} match."]
    if len(hits) > limit:
        lines.append(f"[more than {limit} {noun} match; narrow the search or raise limit]")
    elif not found.complete:
        lines.append(f"[stopped after {SECONDS} seconds; not everything was searched]")
    elif not all(item.get("complete", True) for item in found.items):
        lines.append("[not everything was searched: 2,000 entries or 6 levels at most]")
    return ToolResult("\n".join(lines))


TOOLS: tuple[Tool, ...] = (
    Tool("search_files", "files", description("search_files"), SearchFiles, search_files),
    Tool(
        "search_notebooks",
        "saved_notebooks",
        description("search_notebooks"),
        SearchNotebooks,
        search_notebooks,
    ),
)
