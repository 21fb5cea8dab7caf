"""Who wrote what in the text of one cell while a run changed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .matching import matching

OTHERS = "o"
"""Written by somebody else: what stood there at the start, and what others typed since."""

OURS = "a"
"""Written by the run."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of text.

    Attributes:
        who: ``OTHERS`` or ``OURS``.
        gone: Whether the run removed it; only others' text is kept then.
        text: UTF-8 bytes.
    """

    who: str
    gone: bool
    text: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece that the run removed, and where it stood.

    Attributes:
        at: Place in the visible text, counted in characters.
        text: What was removed.
    """

    at: int
    text: str


class Ledger:
    """The text of a cell with its authors, kept up to date by the changes themselves.

    Args:
        text: What stands there before the run changes anything.
    """

    def __init__(self, text: str = "") -> None:
        self._segments: list[Segment] = []
        if text:
            self._segments.append(Segment(OTHERS, False, text.encode()))

    # Following

    def follow(self, delta: Sequence[Mapping[str, Any]], *, ours: bool) -> None:
        """Apply a change of the shared text, whose offsets are UTF-8 bytes."""
        at = 0
        for item in delta:
            if "retain" in item:
                at += int(item["retain"])
            elif "delete" in item:
                self._delete(at, int(item["delete"]), ours)
            elif isinstance(item["insert"], str):
                words = item["insert"].encode()
                self._insert(at, Segment(OURS if ours else OTHERS, False, words))
                at += len(words)
        self._join()

    def amend(self, text: str, *, ours: bool) -> None:
        """Take a text that stands there now for one that was made by changing ours."""
        standing = self.visible
        if standing == text:
            return
        delta: list[dict[str, Any]] = []
        here = there = 0
        for a, b, size in [*matching(standing, text), (len(standing), len(text), 0)]:
            if a > here:
                delta.append({"delete": len(standing[here:a].encode())})
            if b > there:
                delta.append({"insert": text[there:b]})
            if size:
                delta.append({"retain": len(standing[a : a + size].encode())})
            here, there = a + size, b + size
        self.follow(delta, ours=ours)

    def _insert(self, at: int, new: Segment) -> None:
        self._segments.insert(self._cut(at), new)

    def _delete(self, at: int, length: int, ours: bool) -> None:
        first, last = self._cut(at), self._cut(at + length, behind=False)
        kept: list[Segment] = []
        for segment in self._segments[first:last]:
            if segment.gone:
                kept.append(segment)
            elif ours and segment.who == OTHERS:
                kept.append(replace(segment, gone=True))
        self._segments[first:last] = kept

    def _cut(self, at: int, *, behind: bool = True) -> int:
        """Make a segment begin at an offset of the visible text; its place among the segments.

        Args:
            at: The offset in bytes.
            behind: Whether the place is behind what was removed there, or before it.
        """
        offset = 0
        for number, segment in enumerate(self._segments):
            if segment.gone:
                continue
            if offset == at:
                return number if behind else self._before_gone(number)
            if offset + len(segment.text) > at:
                head, tail = segment.text[: at - offset], segment.text[at - offset :]
                self._segments[number : number + 1] = [
                    replace(segment, text=head),
                    replace(segment, text=tail),
                ]
                return number + 1
            offset += len(segment.text)
        count = len(self._segments)
        return count if behind else self._before_gone(count)

    def _before_gone(self, number: int) -> int:
        while number and self._segments[number - 1].gone:
            number -= 1
        return number

    def _join(self) -> None:
        joined: list[Segment] = []
        for segment in self._segments:
            last = joined[-1] if joined else None
            if last is not None and (last.who, last.gone) == (segment.who, segment.gone):
                joined[-1] = replace(last, text=last.text + segment.text)
            elif segment.text:
                joined.append(segment)
        self._segments = joined

    # Reading

    @property
    def visible(self) -> str:
        """The text as it stands."""
        return b"".join(each.text for each in self._segments if not each.gone).decode()

    @property
    def without_us(self) -> str:
        """The text as it would be if the run had never touched it."""
        return b"".join(each.text for each in self._segments if each.who == OTHERS).decode()

    @property
    def touched(self) -> bool:
        """Whether anything of the run is in it."""
        return any(each.gone or each.who == OURS for each in self._segments)

    def ours(self) -> list[tuple[int, int]]:
        """Ranges of the visible text that are the run's, counted in characters."""
        return [(start, stop) for start, stop, segment in self._places() if segment.who == OURS]

    def removed(self) -> list[Piece]:
        """What the run removed, in order."""
        return [
            Piece(start, segment.text.decode())
            for start, _, segment in self._places()
            if segment.gone
        ]

    def _places(self) -> Iterator[tuple[int, int, Segment]]:
        at = 0
        for segment in self._segments:
            length = 0 if segment.gone else len(segment.text.decode())
            yield at, at + length, segment
            at += length

    # Keeping

    def to_json(self) -> list[Any]:
        """As JSON values."""
        return [[each.who, each.gone, each.text.decode()] for each in self._segments]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Ledger:
        """From what :meth:`to_json` gave."""
        ledger = cls()
        ledger._segments = [Segment(who, gone, text.encode()) for who, gone, text in value]
        return ledger
