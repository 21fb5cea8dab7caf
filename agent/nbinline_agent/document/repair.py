"""Bringing back what people had seen in a cell and what stands there no longer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from os.path import commonprefix

from pycrdt import Text

from nbinline_agent.ids import CellId

from .edits import differences
from .notebook import Notebook
from .peer import panics_as_errors
from .replay import apply_updates

MOST_COMPARISONS = 250_000
"""Bound on the work of comparing word by word; longer texts are compared line by line."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done about a text.

    Attributes:
        replayed: Whether the very updates could be applied again.
        inserted: Characters that had to be written anew, 0 as a rule.
    """

    replayed: bool
    inserted: int


def replay_and_mend(
    notebook: Notebook, cell_id: CellId, updates: Sequence[bytes], seen: str, origin: str
) -> Mended:
    """Replay an answer's own updates, then see to it that all that people saw stands there once.

    A room that was loaded again from an older file has lost parts of a text for everybody. Updates
    replayed into it put words beside those that stand there anew; so if anything that was seen is
    missing after the replay, the text is made again from what stood there before it and what was
    seen, by insertion only. What was typed meanwhile stays where it is.

    Args:
        notebook: The joined notebook.
        cell_id: The answer cell; it may be missing before the replay, and after it.
        updates: The run's own, in order.
        seen: The text people had before their eyes.
        origin: Of the transaction.
    """
    before = notebook.source(cell_id) if notebook.has(cell_id) else ""
    replayed = apply_updates(notebook.peer, updates)
    if not notebook.has(cell_id):
        return Mended(replayed, 0)
    source = notebook.entry(cell_id).ycell.get("source")
    if not isinstance(source, Text) or not missing_pieces(str(source), seen):
        return Mended(replayed, 0)
    pieces = missing_pieces(before, seen)
    wanted = before
    for at, piece in reversed(pieces):
        wanted = wanted[:at] + piece + wanted[at:]
    _make(source, wanted, notebook, origin)
    return Mended(replayed, sum(len(piece) for _, piece in pieces))


def _make(source: Text, wanted: str, notebook: Notebook, origin: str) -> None:
    standing = str(source)
    with panics_as_errors(), notebook.peer.doc.transaction(origin=origin):
        for start, stop, piece in reversed(differences(standing, wanted)):
            first = len(standing[:start].encode())
            if stop > start:
                del source[first : first + len(standing[start:stop].encode())]
            if piece:
                source.insert(first, piece)


def missing_pieces(standing: str, seen: str) -> list[tuple[int, str]]:
    """Where something has to be inserted into ``standing`` so that all of ``seen`` is in it.

    Returns:
        Places in ``standing``, counted in characters and rising, each with what is missing there.
    """
    first = len(commonprefix([standing, seen]))
    last = len(commonprefix([standing[first:][::-1], seen[first:][::-1]]))
    if first + last == len(standing):
        # One part is missing, wherever it was cut; words need not be whole then.
        gap = seen[first : len(seen) - last]
        return [(first, gap)] if gap else []
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
