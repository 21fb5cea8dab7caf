"""Sections of documents: headings of Markdown, definitions of Python, and reading one of them."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbinline_agent.context.hiding import HIDDEN, hide_in_place

from .below import Place, Refused, lines_of, read, text_of

MAX_FILE = 1_000_000
"""Bytes of a document."""

SHORT_HASH = 12
"""Hex digits of the file's hash in an address."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_ADDRESS = re.compile(r"L(\d{1,7})-(\d{1,7})@([0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document.

    Attributes:
        level: 1 for the outermost.
        title: Heading or definition.
        first: Its first line, counted from 1.
        last: Its last line.
    """

    level: int
    title: str
    first: int
    last: int


def outline(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """Every section with its address."""
    text, key = _document(job)
    for section in _sections(text, job["parts"][-1]):
        yield {
            "level": section.level,
            "title": section.title,
            "address": f"L{section.first}-{section.last}@{key}",
        }


def section(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """The lines of one section; without an address those before the first."""
    text, key = _document(job)
    lines = lines_of(text)
    if not job["section"]:
        first, last = 1, _before(_sections(text, job["parts"][-1]), len(lines))
    else:
        found = _ADDRESS.fullmatch(job["section"])
        if found is None:
            raise Refused("That is not an address of document_outline; ask for the outline again.")
        if found[3] != key:
            raise Refused("The file changed since the outline was read; ask for the outline again.")
        first, last = int(found[1]), min(int(found[2]), len(lines))
    yield {"first": first, "lines": lines[first - 1 : last]}


def _before(sections: list[Section], total: int) -> int:
    return sections[0].first - 1 if sections else total


def _document(job: Mapping[str, Any]) -> tuple[str, str]:
    place = Place(Path(job["root"]), tuple(job["parts"]))
    data = read(place, MAX_FILE).data
    text = text_of(data, place.shown)
    key = hashlib.sha256(data).hexdigest()[:SHORT_HASH]
    return (hide_in_place(text) if job["hide_solutions"] else text), key


def _sections(text: str, name: str) -> list[Section]:
    suffix = name.rsplit(".", 1)[-1].lower()
    if suffix in ("md", "markdown", "mdown", "qmd", "rmd", "txt"):
        return _headings(text)
    if suffix in ("py", "pyi"):
        return _definitions(text.replace(HIDDEN, "pass"), name)
    raise Refused("Only Markdown and Python files have an outline; use view_file for others.")


def _headings(text: str) -> list[Section]:
    lines = lines_of(text)
    starts: list[tuple[int, int, str]] = []
    fence = ""
    for number, line in enumerate(lines, start=1):
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence) and not marker[2].strip():
                fence = ""
        elif marker:
            fence = marker[1]
        elif heading := _HEADING.match(line):
            starts.append((len(heading[1]), number, heading[2] or ""))
        elif underline := _UNDERLINE.match(line):
            above = lines[number - 2].strip() if number > 1 else ""
            if above and not above.startswith((">", "-", "*", "|", "#")):
                starts.append((1 if "=" in underline[1] else 2, number - 1, above))
    return [
        Section(level, title[:200], first, _end(starts, at, len(lines)))
        for at, (level, first, title) in enumerate(starts)
    ]


def _end(starts: list[tuple[int, int, str]], at: int, total: int) -> int:
    level = starts[at][0]
    following = (first for other, first, _ in starts[at + 1 :] if other <= level)
    return next(following, total + 1) - 1


def _definitions(text: str, name: str) -> list[Section]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        raise Refused(f"{name!r} is not valid Python, so it has no outline.") from None
    return list(_in_body(tree.body, 1, ""))


def _in_body(body: list[ast.stmt], level: int, prefix: str) -> Iterator[Section]:
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        word = "class" if isinstance(node, ast.ClassDef) else "def"
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        yield Section(level, f"{word} {prefix}{node.name}", first, node.end_lineno or node.lineno)
        if isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, level + 1, f"{prefix}{node.name}.")


JOBS = {"outline": outline, "section": section}
