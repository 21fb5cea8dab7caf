"""Taking out what a course keeps from students: nbgrader's solutions and hidden tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

HIDDEN = "[left out: hidden by the course]"
_BEGIN = re.compile(r"\bBEGIN (SOLUTION|HIDDEN TESTS|MARK SCHEME)\b")


def hide_solutions(source: str) -> tuple[str, bool]:
    """The text without what stands between the marks, and whether anything was taken out.

    A mark that is never ended hides the rest of the cell.
    """
    if "BEGIN " not in source:
        return source, False
    kept: list[str] = []
    hidden = False
    for line, part in _parts(source):
        if part is _Part.BEGIN:
            hidden = True
            indent = line[: len(line) - len(line.lstrip())]
            kept.append(f"{indent}{HIDDEN}\n")
        elif part is _Part.SHOWN:
            kept.append(line)
    return "".join(kept), hidden


def hide_in_place(text: str) -> str:
    """The same for a file: every line keeps its number, since what is hidden leaves lines empty."""
    if "BEGIN " not in text:
        return text
    kept: list[str] = []
    for line, part in _parts(text):
        end = line[len(line.rstrip("\r\n")) :]
        if part is _Part.SHOWN:
            kept.append(line)
        elif part is _Part.BEGIN:
            kept.append(f"{line[: len(line) - len(line.lstrip())]}{HIDDEN}{end}")
        else:
            kept.append(end)
    return "".join(kept)


def hidden_lines(text: str) -> list[str]:
    """What is taken out, marks included."""
    if "BEGIN " not in text:
        return []
    return [line for line, part in _parts(text) if part is not _Part.SHOWN]


class _Part(Enum):
    SHOWN = auto()
    BEGIN = auto()
    HIDDEN = auto()


def _parts(text: str) -> Iterator[tuple[str, _Part]]:
    """Every line, and whether it is hidden or begins what is."""
    waiting_for = ""
    for line in text.splitlines(keepends=True):
        if waiting_for:
            yield line, _Part.HIDDEN
            if waiting_for in line:
                waiting_for = ""
        elif begin := _BEGIN.search(line):
            yield line, _Part.BEGIN
            waiting_for = f"END {begin[1]}"
        else:
            yield line, _Part.SHOWN


def nothing_left(source: str) -> bool:
    """Whether only our own notes and white space are left."""
    return not source.replace(HIDDEN, "").strip()
