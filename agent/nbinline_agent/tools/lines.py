"""A cell's text as numbered lines, and changing some of them."""

from __future__ import annotations

import re

from .base import ToolError

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def lines_of(source: str) -> list[str]:
    """The lines with their ends; a text that ends in one has no further, empty line."""
    return _LINE.findall(source)


def numbered(source: str, start: int, end: int) -> str:
    """Lines ``start`` to ``end``, counted from 1, both included, each with its number."""
    width = len(str(end))
    shown = lines_of(source)[start - 1 : end]
    return "\n".join(
        f"{number:>{width}}| {line.rstrip(chr(10))}" for number, line in enumerate(shown, start)
    )


def insert_line(source: str, line: int, content: str) -> str:
    """The text with something before a line; the number of lines plus one is the end.

    Raises:
        ToolError: There is no such line.
    """
    lines = lines_of(source)
    if not 1 <= line <= len(lines) + 1:
        raise ToolError(
            f"The cell has {len(lines)} lines; line must be 1 to {len(lines) + 1}.",
            reason="line-range",
        )
    before, after = lines[: line - 1], lines[line - 1 :]
    if after and not content.endswith("\n"):
        content += "\n"
    if before and not before[-1].endswith("\n"):
        content = "\n" + content
    return "".join((*before, content, *after))


def replace_lines(source: str, start: int, end: int, content: str) -> str:
    """The text with a range of lines replaced, both ends included; nothing deletes them.

    Raises:
        ToolError: There is no such range.
    """
    lines = lines_of(source)
    if not 1 <= start <= end <= len(lines):
        raise ToolError(
            f"The cell has {len(lines)} lines; start_line and end_line must lie in 1 to "
            f"{len(lines)}, in order.",
            reason="line-range",
        )
    before, old, after = lines[: start - 1], lines[start - 1 : end], lines[end:]
    if content and old[-1].endswith("\n") and not content.endswith("\n"):
        content += "\n"
    if not content and not after and before and before[-1] != "\n":
        before[-1] = before[-1].removesuffix("\n")
    return "".join((*before, content, *after))


def split_at(source: str, line: int) -> tuple[str, str]:
    """The text in two: before a line, and from it on.

    Raises:
        ToolError: There is no such line, or nothing before it.
    """
    lines = lines_of(source)
    if not 2 <= line <= len(lines):
        raise ToolError(
            f"The cell has {len(lines)} lines; it can be split at line 2 to {len(lines)}."
            if len(lines) > 1
            else "The cell has only one line and cannot be split.",
            reason="line-range",
        )
    first = "".join(lines[: line - 1])
    return first.removesuffix("\n"), "".join(lines[line - 1 :])


def changed_lines(before: str, after: str) -> tuple[int, int]:
    """The first and the last line of ``after`` that differ, with one line around them.

    Returns:
        Numbers from 1; an empty range if ``after`` has no lines.
    """
    old, new = lines_of(before), lines_of(after)
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    return max(1, first), min(len(new), len(new) - last + 1)
