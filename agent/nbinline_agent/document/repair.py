"""Bringing back what people had seen in a cell and what stands there no longer."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from os.path import commonprefix

from pycrdt import Map, Text

from nbinline_agent.ids import CellId

from .notebook import Notebook
from .peer import panics_as_errors

MOST_COMPARISONS = 4_000_000
"""Bound on the work of comparing word by word; longer texts are compared line by line."""


def bring_back(notebook: Notebook, cell_id: CellId, seen: str, origin: str) -> int:
    """Insert the parts of ``seen`` that a cell lacks; nothing that stands there is removed.

    A room that was loaded again from an older file has lost parts of a text for everybody. What
    was typed since stays where it is.

    Args:
        notebook: The joined notebook.
        cell_id: A cell that stands in it.
        seen: The text people had before their eyes.
        origin: Of the transaction.

    Returns:
        Characters that were inserted.
    """
    ycell = notebook.entry(cell_id).ycell
    source = ycell.get("source") if isinstance(ycell, Map) else None
    if not isinstance(source, Text):
        return 0
    standing = str(source)
    pieces = missing_pieces(standing, seen)
    if pieces:
        with panics_as_errors(), notebook.peer.doc.transaction(origin=origin):
            for at, piece in reversed(pieces):
                source.insert(len(standing[:at].encode()), piece)
    return sum(len(piece) for _, piece in pieces)


def missing_pieces(standing: str, seen: str) -> list[tuple[int, str]]:
    """Where something has to be inserted into ``standing`` so that all of ``seen`` is in it.

    Returns:
        Places in ``standing``, counted in characters and rising, each with what is missing there.
    """
    mine, theirs = _words(standing), _words(seen)
    start = len(commonprefix([mine, theirs]))
    end = len(commonprefix([mine[start:][::-1], theirs[start:][::-1]]))
    before, after = mine[start : len(mine) - end], theirs[start : len(theirs) - end]
    place = sum(map(len, mine[:start]))
    if not after:
        return []
    if not before:
        return [(place, "".join(after))]
    return [(place + at, piece) for at, piece in _compare(before, after)]


def _compare(mine: list[str], theirs: list[str]) -> list[tuple[int, str]]:
    if len(mine) * len(theirs) > MOST_COMPARISONS:
        mine = "".join(mine).splitlines(keepends=True)
        theirs = "".join(theirs).splitlines(keepends=True)
    offsets = [0]
    for word in mine:
        offsets.append(offsets[-1] + len(word))
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    return [
        # What was typed in place of a part stays, behind it.
        (offsets[first], "".join(theirs[begin:stop]))
        for tag, first, _, begin, stop in matcher.get_opcodes()
        if tag in ("insert", "replace")
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)
