"""Which cells a question may point at: ids and positions only, never text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from nbinline_agent.document.notebook import Cell

from .marks import Role

_LIKELY = re.compile(r"^ {0,3}(?:#{1,6}(?:[ \t]|$)|[=-]+[ \t]*$)", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_NOT_A_PARAGRAPH = re.compile(r" {0,3}(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}(?:[ \t]|$)|$)|\s{4}")


class Sent(StrEnum):
    """How much of a landmark was sent."""

    FULL = "full"
    PARTIAL = "partial"
    OMITTED = "omitted"
    EXCLUDED = "excluded"
    NONE = "none"


_WIDTH = max(len(sent.value) for sent in Sent)
_PAIR_WIDTH = 4


@dataclass(frozen=True, slots=True)
class Landmark:
    """A named place; ``index`` is None when the notebook has no such cell."""

    name: str
    index: int | None


def find(cells: Sequence[Cell], roles: Sequence[Role], target: int) -> list[Landmark]:
    """The nearest cells above the question, by kind.

    Args:
        cells: The whole notebook.
        roles: What each cell is to the agent.
        target: Place of the question.
    """
    code = markdown = heading = None
    for index in range(target - 1, -1, -1):
        cell = cells[index]
        if cell.kind == "code":
            code = index if code is None else code
        elif cell.kind == "markdown" and roles[index] is Role.ORDINARY:
            markdown = index if markdown is None else markdown
            if heading is None and has_heading(cell.source):
                heading = index
        if code is not None and heading is not None:
            break
    return [
        Landmark("cell_above", target - 1 if target else None),
        Landmark("code_above", code),
        Landmark("note_above", markdown),
        Landmark("heading_above", heading),
    ]


def has_heading(source: str) -> bool:
    """Whether Markdown text has a heading, ``#`` or underlined, outside fences and code."""
    if _LIKELY.search(source) is None:
        return False
    fence = ""
    paragraph = False
    for line in source.splitlines():
        marker = _FENCE.match(line)
        if fence:
            closing = marker is not None and not marker[2].strip()
            if closing and marker is not None and marker[1].startswith(fence):
                fence = ""
            continue
        if marker is not None and not (marker[1][0] == "`" and "`" in marker[2]):
            fence, paragraph = marker[1], False
        elif _ATX.match(line) or (paragraph and _SETEXT.match(line)):
            return True
        else:
            # An indented line goes on with a paragraph, but does not begin one.
            lazily = paragraph and line.startswith("    ") and bool(line.strip())
            paragraph = lazily or not _NOT_A_PARAGRAPH.match(line)
    return False


def describe(
    cells: Sequence[Cell],
    target: int,
    found: Sequence[Landmark],
    sent: Mapping[int, Sent],
    pairs: Mapping[int, int],
) -> dict[str, dict[str, str | int]]:
    """The landmarks as JSON values whose serialised length does not depend on what was sent.

    Args:
        cells: The whole notebook.
        target: Place of the question.
        found: What ``find`` returned.
        sent: How much of each place was sent; places that are missing were excluded.
        pairs: Number of the earlier exchange, counted from 1, that a place went as.
    """
    listed: dict[str, dict[str, str | int]] = {
        "question": {"id": cells[target].id, "position": target + 1}
    }
    for landmark in found:
        index = landmark.index
        if index is None:
            listed[landmark.name] = {"sent": Sent.NONE.value.ljust(_WIDTH)}
            continue
        listed[landmark.name] = {
            "id": cells[index].id,
            "position": index + 1,
            "sent": sent.get(index, Sent.EXCLUDED).value.ljust(_WIDTH),
            "pair": str(pairs.get(index, "")).rjust(_PAIR_WIDTH),
        }
    heading = next((mark.index for mark in found if mark.name == "heading_above"), None)
    if heading is None:
        listed["section"] = {"sent": Sent.NONE.value.ljust(_WIDTH)}
    else:
        listed["section"] = {
            "from": heading + 1,
            "to": target,
            "sent": _whole_section(heading, target, sent).value.ljust(_WIDTH),
        }
    return listed


def _whole_section(first: int, target: int, sent: Mapping[int, Sent]) -> Sent:
    found = {sent.get(index, Sent.EXCLUDED) for index in range(first, target)}
    if len(found) == 1:
        return found.pop()
    if found <= {Sent.OMITTED, Sent.EXCLUDED}:
        return Sent.OMITTED
    return Sent.PARTIAL


def serialise(listed: Mapping[str, Mapping[str, str | int]]) -> str:
    """The landmarks as one line of JSON."""
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))
