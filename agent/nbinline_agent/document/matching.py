"""Which characters of a text are still there in a later state of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from os.path import commonprefix

MOST_CELLS = 160_000
"""Bound on comparing two pieces character by character: the product of their lengths."""

MOST_WORDS = 1_000_000
"""The same for comparing word by word; longer texts are compared line by line."""


def matching(before: str, after: str) -> list[tuple[int, int, int]]:
    """Find the characters that two states of one text have in common, in order.

    Returns:
        Rising blocks ``(place in before, place in after, length)``, none of them empty.
    """
    blocks: list[tuple[int, int, int]] = []
    for a, b, size in _blocks(before, after, 0, 0):
        if not size:
            continue
        if blocks and blocks[-1][0] + blocks[-1][2] == a and blocks[-1][1] + blocks[-1][2] == b:
            last = blocks[-1]
            blocks[-1] = (last[0], last[1], last[2] + size)
        else:
            blocks.append((a, b, size))
    return blocks


def _blocks(before: str, after: str, a: int, b: int) -> Iterator[tuple[int, int, int]]:
    start = len(commonprefix([before, after]))
    yield a, b, start
    before, after, a, b = before[start:], after[start:], a + start, b + start
    end = len(commonprefix([before[::-1], after[::-1]]))
    old, new = before[: len(before) - end], after[: len(after) - end]
    if old and new:
        if len(old) * len(new) <= MOST_CELLS:
            yield from _characters(old, new, a, b)
        else:
            yield from _parts(old, new, a, b)
    yield a + len(old), b + len(new), end


def _parts(old: str, new: str, a: int, b: int) -> Iterator[tuple[int, int, int]]:
    """Compare word by word, and what differs once more inside."""
    mine, theirs = re.findall(r"\w+|\s|[^\w\s]", old), re.findall(r"\w+|\s|[^\w\s]", new)
    if len(mine) * len(theirs) > MOST_WORDS:
        mine, theirs = old.splitlines(keepends=True), new.splitlines(keepends=True)
    for tag, first, last, begin, stop in SequenceMatcher(
        None, mine, theirs, autojunk=False
    ).get_opcodes():
        gone, come = "".join(mine[first:last]), "".join(theirs[begin:stop])
        if tag == "equal":
            yield a, b, len(gone)
        elif tag == "replace" and (len(gone) < len(old) or len(come) < len(new)):
            yield from _blocks(gone, come, a, b)
        a, b = a + len(gone), b + len(come)


def _characters(old: str, new: str, a: int, b: int) -> Iterator[tuple[int, int, int]]:
    """The longest common subsequence."""
    lengths: list[Sequence[int]] = [[0] * (len(new) + 1)]
    for character in reversed(old):
        below = lengths[-1]
        row = [0] * (len(new) + 1)
        for at in range(len(new) - 1, -1, -1):
            if character == new[at]:
                row[at] = below[at + 1] + 1
            else:
                row[at] = below[at] if below[at] > row[at + 1] else row[at + 1]
        lengths.append(row)
    i = j = 0
    while i < len(old) and j < len(new):
        here, below = lengths[len(old) - i], lengths[len(old) - i - 1]
        if old[i] == new[j]:
            yield a + i, b + j, 1
            i, j = i + 1, j + 1
        elif below[j] >= here[j + 1]:
            i += 1
        else:
            j += 1
