"""Where a text of ours ends in what stands in a cell now, after others have edited it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from os.path import commonprefix

TELLING_SUFFIX = 16
"""Characters at the end that agree before that is taken for more than chance."""

MOST_COMPARISONS = 250_000
"""Bound on the work of comparing word by word."""

PROBE = 24
"""Characters that are looked for where comparing word by word would take too long."""

PROBES = 400


@dataclass(frozen=True, slots=True)
class Alignment:
    """How our text lies in a standing one.

    Attributes:
        end: Index into the standing text right behind the last character of ours in it.
        missing: The end of our text that does not stand there.
        related: Whether the standing text is ours at all, edited or cut as it may be.
    """

    end: int
    missing: str
    related: bool


def align(ours: str, standing: str) -> Alignment:
    """Find out where our text goes on in a text that may be older, cut, or edited by others.

    What others typed behind our last character stays behind it. If in doubt whether the end of our
    text was removed by somebody or has never arrived, it counts as missing: better twice than lost.
    """
    start = len(commonprefix([ours, standing]))
    rest, found = ours[start:], standing[start:]
    if not rest:
        return Alignment(start, "", related=True)
    if not found:
        return Alignment(start, rest, related=True)
    suffix = len(commonprefix([rest[::-1], found[::-1]]))
    if suffix == len(rest) or suffix >= max(TELLING_SUFFIX, len(rest) // 2):
        return Alignment(len(standing), "", related=True)
    end, at, agreed = _last_agreement(rest, found)
    smaller = min(len(ours), len(standing))
    return Alignment(start + at, rest[end:], related=(start + max(agreed, suffix)) * 2 >= smaller)


def _last_agreement(ours: str, standing: str) -> tuple[int, int, int]:
    """End of the last agreeing part in either text, and how many characters agree in all."""
    mine, theirs = _words(ours), _words(standing)
    if len(mine) * len(theirs) > MOST_COMPARISONS:
        return _last_probe(ours, standing)
    blocks = [
        block
        for block in SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        if "".join(mine[block.a : block.a + block.size]).strip()
    ]
    if not blocks:
        return 0, 0, 0
    agreed = sum(len(word) for each in blocks for word in mine[each.a : each.a + each.size])
    last = blocks[-1]
    end = sum(map(len, mine[: last.a + last.size]))
    at = sum(map(len, theirs[: last.b + last.size]))
    return end, at, agreed


def _last_probe(ours: str, standing: str) -> tuple[int, int, int]:
    step = max(1, len(ours) // PROBES)
    for end in range(len(ours), PROBE - 1, -step):
        at = standing.rfind(ours[end - PROBE : end])
        if at >= 0:
            return end, at + PROBE, min(end, at + PROBE)
    return 0, 0, 0


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)
