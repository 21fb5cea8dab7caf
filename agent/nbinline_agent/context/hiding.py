"""Taking out what a course keeps from students: nbgrader's solutions and hidden tests."""

from __future__ import annotations

import re

HIDDEN = "[left out: hidden by the course]"
_BEGIN = re.compile(r"\bBEGIN (SOLUTION|HIDDEN TESTS|MARK SCHEME)\b")


def hide_solutions(source: str) -> tuple[str, bool]:
    """The text without what stands between the marks, and whether anything was taken out.

    A mark that is never ended hides the rest of the cell.
    """
    if "BEGIN " not in source:
        return source, False
    kept: list[str] = []
    waiting_for = ""
    hidden = False
    for line in source.splitlines(keepends=True):
        if waiting_for:
            if waiting_for in line:
                waiting_for = ""
            continue
        begin = _BEGIN.search(line)
        if begin is None:
            kept.append(line)
            continue
        hidden = True
        waiting_for = f"END {begin[1]}"
        indent = line[: len(line) - len(line.lstrip())]
        kept.append(f"{indent}{HIDDEN}\n")
    return "".join(kept), hidden


def nothing_left(source: str) -> bool:
    """Whether only our own notes and white space are left."""
    return not source.replace(HIDDEN, "").strip()
