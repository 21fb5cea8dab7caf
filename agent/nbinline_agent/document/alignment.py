"""Where a text of ours ends in what stands in a cell now, after others have edited it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from os.path import commonprefix

TELLING = 16
"""Characters that agree before that is taken for more than chance."""

TELLING_WORDS = 8
"""The same for whole words in a row; all of a shorter rest will do."""

MOST_COMPARISONS = 250_000
"""Bound on the work of comparing the rest word by word."""

PROBE = 32
"""Characters that agree before two places in long texts are taken for the same."""

REACH = 8_192
"""Characters an edit of somebody else may have added or removed at one place."""

STEP = 4
"""Characters between two places that are tried."""

MOST_STEPS = 200
"""Places edited by others that are followed; what comes behind counts as missing."""


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
    if suffix == len(rest) or _is_telling(ours, suffix, len(rest)):
        return Alignment(len(standing), "", related=True)
    end, at, agreed = _last_agreement(rest, found)
    enough = min(TELLING, (min(len(ours), len(standing)) + 1) // 2)
    return Alignment(start + at, rest[end:], related=start + max(agreed, suffix) >= enough)


def _is_telling(ours: str, suffix: int, rest: int) -> bool:
    """Whether an end that agrees is long, and not one of several parts of ours that look alike."""
    end = ours[len(ours) - suffix :]
    return suffix >= max(TELLING, rest // 2) and ours.find(end) == ours.rfind(end)


def _last_agreement(ours: str, standing: str) -> tuple[int, int, int]:
    """End of the last agreeing part in either text, and how many characters agree in all."""
    end, at, agreed = _walk(ours, standing)
    more = _compare_words(ours[end:], standing[at:])
    return end + more[0], at + more[1], agreed + more[2]


def _walk(ours: str, standing: str) -> tuple[int, int, int]:
    """Go along both texts, over long agreeing parts and from each to the next one."""
    end = at = agreed = 0
    here, there = 0, 0
    for _ in range(MOST_STEPS):
        length = len(commonprefix([ours[here:], standing[there:]]))
        if length < max(PROBE, here - end):
            if here > end:
                break
        else:
            here, there = here + length, there + length
            end, at, agreed = here, there, agreed + length
        for ahead in range(here, min(len(ours) - PROBE, here + REACH) + 1, STEP):
            found = standing.find(ours[ahead : ahead + PROBE], there, there + REACH)
            if found >= 0:
                here, there = ahead, found
                break
        else:
            break
    return end, at, agreed


def _compare_words(ours: str, standing: str) -> tuple[int, int, int]:
    mine, theirs = _words(ours), _words(standing)
    if len(mine) * len(theirs) > MOST_COMPARISONS:
        return 0, 0, 0
    starts = [0, *accumulate(map(len, mine))]
    end = at = agreed = 0
    for block in SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks():
        start, stop = starts[block.a], starts[block.a + block.size]
        # A part of ours that was skipped was removed by somebody, or has never arrived and this
        # block agrees by chance: only a longer one tells.
        if stop - start >= max(min(TELLING_WORDS, len(ours)), start - end):
            end, at = stop, sum(map(len, theirs[: block.b + block.size]))
            agreed += stop - start
    return end, at, agreed


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)
