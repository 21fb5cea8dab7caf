"""Looking at files: where a path leads, what a folder holds, lines of a text file."""

from __future__ import annotations

import hashlib
import stat
import time
from fnmatch import fnmatch
from typing import Annotated

from pydantic import Field

from nbinline_agent.context.hiding import hide_in_place
from nbinline_agent.tools.base import Arguments, Tool, ToolContext, ToolError, ToolResult
from nbinline_agent.tools.catalog import description
from nbinline_rtc.jobs.below import Place, Refused, folder_at, lines_of, read, text_of
from nbinline_rtc.jobs.walking import MAX_ENTRIES, Walk, size_of

from .places import Path, in_thread, place_of

MAX_FILE = 1_000_000
"""Bytes of a text file."""

MAX_LINES = 80
"""Lines of one look at a file."""

MAX_LINE = 2_000
"""Characters of a line that is shown."""

Line = Annotated[int, Field(ge=1, le=10_000_000)]
Limit = Annotated[int, Field(ge=1, le=100)]
Pattern = Annotated[str, Field(min_length=1, max_length=200)]


class PathInfo(Arguments):
    """Of ``path_info``."""

    path: Path = "."


class ListFiles(Arguments):
    """Of ``list_files``."""

    path: Path = "."
    pattern: Pattern = "*"
    recursive: bool = False
    limit: Limit = 30


class ViewFile(Arguments):
    """Of ``view_file`` and ``view_file_hashes``."""

    path: Path
    start_line: Line = 1
    end_line: Line = 40


async def path_info(context: ToolContext, arguments: PathInfo) -> ToolResult:
    """What stands at a path."""
    place = await place_of(context, arguments.path)
    start = await place_of(context, ".")
    told = await in_thread(lambda: _info(place))
    return ToolResult(
        f"{place.shown}: {told}.\n"
        f"Relative paths start from {start.shown!r} below the server's folder."
    )


def _info(place: Place) -> str:
    with folder_at(place.parent) as folder:
        try:
            status = folder.status(place.name or ".")
        except OSError:
            return "there is nothing of that name"
    changed = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(status.st_mtime))
    if stat.S_ISDIR(status.st_mode):
        return f"a folder, changed {changed}"
    if stat.S_ISREG(status.st_mode):
        return f"a file of {status.st_size:,} bytes, changed {changed}"
    return "neither a file nor a folder"


async def list_files(context: ToolContext, arguments: ListFiles) -> ToolResult:
    """What a folder holds."""
    place = await place_of(context, arguments.path)
    walk = Walk(recursive=arguments.recursive)
    found = await in_thread(lambda: _listed(place, walk, arguments.pattern))
    lines = [f"{place.shown}:", *found[: arguments.limit]]
    if len(found) > arguments.limit:
        lines.append(f"[{len(found) - arguments.limit:,} more; raise limit or narrow pattern]")
    if not walk.complete:
        lines.append(f"[not everything was looked at: {MAX_ENTRIES:,} entries or 6 levels at most]")
    if not found:
        lines.append("nothing that fits")
    return ToolResult("\n".join(lines))


def _listed(place: Place, walk: Walk, pattern: str) -> list[str]:
    return [
        f"{entry.shown}/" if entry.is_folder else f"{entry.shown}  {size_of(entry):,} bytes"
        for entry in walk.through(place)
        if fnmatch(entry.name, pattern) or fnmatch(entry.shown, pattern)
    ]


async def view_file(context: ToolContext, arguments: ViewFile) -> ToolResult:
    """Numbered lines of a text file."""
    text, _, shown = await _read(context, arguments.path)
    return ToolResult(numbered(shown, text, arguments.start_line, arguments.end_line))


async def view_file_hashes(context: ToolContext, arguments: ViewFile) -> ToolResult:
    """The same, with the hash of the file."""
    text, key, shown = await _read(context, arguments.path)
    lines = numbered(shown, text, arguments.start_line, arguments.end_line)
    return ToolResult(f"sha256: {key}\n{lines}")


async def _read(context: ToolContext, path: str) -> tuple[str, str, str]:
    place = await place_of(context, path)

    def look() -> tuple[str, str]:
        data = read_text(place)
        text = text_of(data, place.shown)
        if context.policy.hide_solutions:
            text = hide_in_place(text)
        return text, hashlib.sha256(data).hexdigest()

    return *await in_thread(look), place.shown


def read_text(place: Place) -> bytes:
    """A text file's bytes.

    Raises:
        Refused: It is a notebook, too large, or cannot be read.
    """
    if place.name.endswith(".ipynb"):
        raise Refused("Notebooks are read with notebook_outline and read_notebook_cell.")
    return read(place, MAX_FILE).data


def numbered(shown: str, text: str, first: int, last: int) -> str:
    """Lines with their numbers, and which part of how much that is.

    Raises:
        ToolError: The range is empty, too large, or behind the end.
    """
    lines = lines_of(text)
    if last < first:
        raise ToolError("end_line must not be before start_line.")
    if last - first >= MAX_LINES:
        raise ToolError(f"At most {MAX_LINES} lines can be read at once.")
    if not lines:
        return f"{shown}: empty"
    if first > len(lines):
        raise ToolError(f"{shown!r} has only {len(lines):,} lines.")
    part = lines[first - 1 : last]
    width = len(str(first + len(part) - 1))
    head = f"{shown}, lines {first}-{first + len(part) - 1} of {len(lines):,}:"
    return "\n".join(
        [head, *(f"{first + at:>{width}}  {_short(line)}" for at, line in enumerate(part))]
    )


def _short(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]} [{len(line) - MAX_LINE:,} characters left out]"


TOOLS: tuple[Tool, ...] = (
    Tool("path_info", "files", description("path_info"), PathInfo, path_info),
    Tool("list_files", "files", description("list_files"), ListFiles, list_files),
    Tool("view_file", "files", description("view_file"), ViewFile, view_file),
    Tool("view_file_hashes", "files", description("view_file_hashes"), ViewFile, view_file_hashes),
)
