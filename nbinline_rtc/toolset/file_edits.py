"""Changing text files: all or nothing, and only what is still as it was read."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from os.path import commonprefix
from typing import Annotated, Any

from pydantic import Field

from nbinline_agent.context.hiding import hidden_lines, hide_in_place
from nbinline_agent.tools.base import (
    Arguments,
    Preview,
    Tool,
    ToolContext,
    ToolResult,
)
from nbinline_agent.tools.catalog import description
from nbinline_rtc.jobs.below import (
    Content,
    Folder,
    Place,
    Refused,
    folder_at,
    identity,
    lines_of,
    read_from,
    sentence,
    text_of,
)

from .files import MAX_FILE, Line
from .places import Path, in_thread, place_of

MAX_TEXT = 32_000
"""Characters of one argument."""

MAX_REPLACEMENTS = 20
MAX_DIFF = 4_000
"""Characters of the difference that is told."""

MOST_COMPARISONS = 1_000_000
"""Bound on the work of finding that difference line by line."""

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Searched = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]

_CHANGING = threading.Lock()
"""Two calls of ours cannot come between each other's last look and replacement."""


class CreateFile(Arguments):
    """Of ``create_file``."""

    path: Path
    contents: Text


class StrReplace(Arguments):
    """Of ``file_str_replace``."""

    path: Path
    old_str: Searched
    new_str: Text
    expected_matches: Annotated[int, Field(ge=1, le=100)] = 1


class StrsReplace(Arguments):
    """Of ``file_strs_replace``."""

    path: Path
    old_strings: Annotated[list[Searched], Field(min_length=1, max_length=MAX_REPLACEMENTS)]
    new_strings: Annotated[list[Text], Field(min_length=1, max_length=MAX_REPLACEMENTS)]


class InsertLine(Arguments):
    """Of ``file_insert_line``."""

    path: Path
    line: Annotated[int, Field(ge=0, le=10_000_000)]
    new_str: Text


class ReplaceLines(Arguments):
    """Of ``file_replace_lines``."""

    path: Path
    start_line: Line
    end_line: Line
    new_content: Text


class ReplaceChecked(Arguments):
    """Of ``file_replace_checked``."""

    path: Path
    old_str: Searched
    new_str: Text
    expected_sha256: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]


Change = Callable[[str], str]
"""Makes the new text of the old one, or refuses."""

Work = Callable[[ToolContext, Any], Awaitable[ToolResult]]
Look = Callable[[ToolContext, Any], Awaitable[Preview]]


def str_replace(arguments: StrReplace) -> Change:
    """Replace a text that occurs as often as expected."""

    def change(text: str) -> str:
        found = _occurrences(text, arguments.old_str)
        if len(found) != arguments.expected_matches:
            raise Refused(
                f"old_str occurs {len(found):,} times, not {arguments.expected_matches}; "
                "nothing was changed."
            )
        return _replaced(text, [(*span, arguments.new_str) for span in found])

    return change


def strs_replace(arguments: StrsReplace) -> Change:
    """Replace several texts at once."""

    def change(text: str) -> str:
        old, new = arguments.old_strings, arguments.new_strings
        if len(old) != len(new):
            raise Refused("old_strings and new_strings must have the same length.")
        if len(set(old)) != len(old):
            raise Refused("old_strings must be different from each other.")
        spans: list[tuple[int, int, str]] = []
        for number, (before, after) in enumerate(zip(old, new, strict=True), start=1):
            found = _occurrences(text, before)
            if len(found) != 1:
                raise Refused(
                    f"Text {number} of old_strings occurs {len(found):,} times, not once; "
                    "nothing was changed."
                )
            spans.append((*found[0], after))
        spans.sort()
        if any(left[1] > right[0] for left, right in zip(spans, spans[1:], strict=False)):
            raise Refused("The texts overlap; nothing was changed.")
        return _replaced(text, spans)

    return change


def insert_line(arguments: InsertLine) -> Change:
    """Insert below a line."""

    def change(text: str) -> str:
        lines = _with_ends(text)
        if arguments.line > len(lines):
            raise Refused(f"The file has only {len(lines):,} lines.")
        end = _line_end(text)
        lines[arguments.line : arguments.line] = [_whole_lines(arguments.new_str, end)]
        before = arguments.line - 1
        if before >= 0 and not lines[before].endswith(("\n", "\r")):
            # The last line had no end; it gets one, and the new last line has none.
            lines[before] += end
            lines[arguments.line] = lines[arguments.line].removesuffix(end)
        return "".join(lines)

    return change


def replace_lines(arguments: ReplaceLines) -> Change:
    """Replace a range of lines."""

    def change(text: str) -> str:
        lines = _with_ends(text)
        first, last = arguments.start_line, arguments.end_line
        if last < first:
            raise Refused("end_line must not be before start_line.")
        if last > len(lines):
            raise Refused(f"The file has only {len(lines):,} lines.")
        end = _line_end(text)
        new = _whole_lines(arguments.new_content, end) if arguments.new_content else ""
        if new and last == len(lines) and not lines[-1].endswith(("\n", "\r")):
            new = new.removesuffix(end)
        lines[first - 1 : last] = [new]
        return "".join(lines)

    return change


def replace_checked(arguments: ReplaceChecked) -> Change:
    """Replace once, in exactly the file that was read."""

    def change(text: str) -> str:
        if hashlib.sha256(text.encode()).hexdigest() != arguments.expected_sha256.lower():
            raise Refused("The file changed since it was read; nothing was changed.")
        found = _occurrences(text, arguments.old_str)
        if len(found) != 1:
            raise Refused(f"old_str occurs {len(found):,} times, not once; nothing was changed.")
        return _replaced(text, [(*found[0], arguments.new_str)])

    return change


def _occurrences(text: str, wanted: str) -> list[tuple[int, int]]:
    """Where a text stands, without overlaps; any kind of line end fits any other."""
    pieces = re.split(r"\r\n|\n|\r", wanted)
    pattern = r"(?:\r\n|\n|\r)".join(map(re.escape, pieces))
    return [found.span() for found in re.finditer(pattern, text)]


def _replaced(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    end = _line_end(text)
    parts: list[str] = []
    position = 0
    for first, last, new in spans:
        parts += (text[position:first], _ended(new, end))
        position = last
    return "".join((*parts, text[position:]))


def _line_end(text: str) -> str:
    """The kind of line end that the file begins with."""
    found = re.search(r"\r\n|\n|\r", text)
    return found[0] if found else "\n"


def _ended(text: str, end: str) -> str:
    return re.sub(r"\r\n|\n|\r", end, text)


def _whole_lines(text: str, end: str) -> str:
    text = _ended(text, end)
    return text if text.endswith(end) else text + end


def _with_ends(text: str) -> list[str]:
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)


def _difference(shown: str, before: str, after: str) -> str:
    """What differs, with one line around it; what is hidden stays so."""
    old, new = (lines_of(hide_in_place(text)) for text in (before, after))
    start = len(commonprefix([old, new]))
    end = len(commonprefix([old[start:][::-1], new[start:][::-1]]))
    first = max(0, start - 1)
    mine, theirs = old[first : len(old) - end + 1], new[first : len(new) - end + 1]
    if len(mine) * len(theirs) > MOST_COMPARISONS:
        return f"{len(mine):,} lines of {shown} became {len(theirs):,}"
    text = "\n".join(_hunks(mine, theirs, first)) or "nothing differs"
    return text if len(text) <= MAX_DIFF else f"{text[:MAX_DIFF]}\n[the rest is left out]"


def _hunks(old: list[str], new: list[str], before: int) -> Iterator[str]:
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(1):
        first, last = group[0], group[-1]
        yield (
            f"@@ -{before + first[1] + 1},{last[2] - first[1]} "
            f"+{before + first[3] + 1},{last[4] - first[3]} @@"
        )
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[a:b])
            else:
                yield from (f"-{line}" for line in old[a:b])
                yield from (f"+{line}" for line in new[c:d])


def _open(folder: Folder, place: Place) -> Content:
    if place.name.endswith(".ipynb"):
        raise Refused("Notebooks are edited cell by cell, never as files.")
    return read_from(folder, place.name or ".", MAX_FILE)


def _changed(content: Content, place: Place, change: Change, hides: bool) -> tuple[str, str]:
    before = text_of(content.data, place.shown)
    after = change(before)
    # Nobody can edit well what they do not see.
    if hides and hidden_lines(before) != hidden_lines(after):
        raise Refused("This would change a part of the file that the course hides.")
    if len(after.encode()) > MAX_FILE:
        raise Refused(f"{place.shown!r} would be larger than {MAX_FILE:,} bytes.")
    if "\0" in after:
        raise Refused("A text file cannot have the character NUL in it.")
    return before, after


def write(place: Place, change: Change, hides: bool) -> str:
    """Change a file, or leave it exactly as it is; returns the difference.

    Raises:
        Refused: It cannot be changed so, or somebody changed it meanwhile.
    """
    with folder_at(place.parent) as folder, _sentences(place):
        content = _open(folder, place)
        before, after = _changed(content, place, change, hides)
        if after != before:
            with _new_file(folder, after.encode(), content.mode) as new, _CHANGING:
                if identity(folder.status(place.name)) != content.identity:
                    raise Refused(f"{place.shown!r} was changed meanwhile; read it again.")
                folder.replace(new, place.name)
        return _difference(place.shown, before, after)


def create(place: Place, contents: str) -> None:
    """Make a file that is not there yet, and the folders above it.

    Raises:
        Refused: It is there, or cannot be made.
    """
    if place.name.endswith(".ipynb"):
        raise Refused("A notebook cannot be made as a text file.")
    if not place.name or "\0" in contents:
        raise Refused("That is no text file that can be made.")
    with folder_at(place.parent, make=True) as folder, _sentences(place):
        # A second name can only be given if it is free; so nobody sees half of the file.
        with _new_file(folder, contents.encode(), None) as new:
            folder.link(new, place.name)


@contextlib.contextmanager
def _sentences(place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(sentence(place, error)) from None


@contextlib.contextmanager
def _new_file(folder: Folder, data: bytes, mode: int | None) -> Iterator[str]:
    """A file that is whole and on the disk, under a hidden name that is gone at the end."""
    name = f".{secrets.token_hex(8)}.nbinline"
    descriptor = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        yield name
    finally:
        folder.remove(name)


async def create_file(context: ToolContext, arguments: CreateFile) -> ToolResult:
    """Make a text file."""
    place = await place_of(context, arguments.path)
    await in_thread(lambda: create(place, arguments.contents))
    return ToolResult(f"Made {place.shown}, {len(arguments.contents.encode()):,} bytes.")


async def _preview_new(context: ToolContext, arguments: CreateFile) -> Preview:
    place = await place_of(context, arguments.path)
    return Preview(
        f"Create the file {place.shown}", diff=_difference(place.shown, "", arguments.contents)
    )


def _edit(make: Callable[[Any], Change]) -> tuple[Work, Look]:
    """The call and the preview of one way to edit."""

    async def work(context: ToolContext, arguments: Any) -> ToolResult:
        place = await place_of(context, arguments.path)
        change, hides = make(arguments), context.policy.hide_solutions
        difference = await in_thread(lambda: write(place, change, hides))
        return ToolResult(f"Changed {place.shown}:\n{difference}")

    async def look(context: ToolContext, arguments: Any) -> Preview:
        place = await place_of(context, arguments.path)
        change, hides = make(arguments), context.policy.hide_solutions

        def differing() -> str:
            with folder_at(place.parent) as folder, _sentences(place):
                return _difference(
                    place.shown, *_changed(_open(folder, place), place, change, hides)
                )

        return Preview(f"Change the file {place.shown}", diff=await in_thread(differing))

    return work, look


def _edit_tool(name: str, arguments: type[Arguments], make: Callable[[Any], Change]) -> Tool:
    work, look = _edit(make)
    return Tool(name, "files", description(name), arguments, work, writes=True, preview=look)


TOOLS: tuple[Tool, ...] = (
    Tool(
        "create_file",
        "files",
        description("create_file"),
        CreateFile,
        create_file,
        writes=True,
        preview=_preview_new,
    ),
    _edit_tool("file_str_replace", StrReplace, str_replace),
    _edit_tool("file_strs_replace", StrsReplace, strs_replace),
    _edit_tool("file_insert_line", InsertLine, insert_line),
    _edit_tool("file_replace_lines", ReplaceLines, replace_lines),
    _edit_tool("file_replace_checked", ReplaceChecked, replace_checked),
)
