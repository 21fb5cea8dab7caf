"""Where we write in a text that others edit at the same time. Offsets are UTF-8 bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pycrdt import Subscription, Text, TextEvent

from .matching import matching

OLD = re.compile(rb"\x00+")
TYPED = b"\x01"


class Tail:
    """The place right behind the last character of ours in a shared text.

    It follows other people's edits: what they type before it pushes it on, what they type at it
    stays behind it. Where they have just removed our last characters, what they type there
    replaces those, so it counts as before it.

    Until the first :meth:`write` it also tells the characters that stood there at the start from
    those that people have typed since.

    Args:
        text: The shared text.
        offset: Where our last character ends, in UTF-8 bytes from the start.
        ours: Whether what stands there is ours to go on from; else it is old, and replaced by the
            first words.
        old: What stood there when it was first looked at, in a room that was replaced since: what
            is not from there was typed meanwhile. By default all of it is old.
        key: What the text belongs to, for those who hold a tail.
    """

    def __init__(
        self,
        text: Text,
        offset: int = 0,
        *,
        ours: bool = False,
        old: str | None = None,
        key: object = None,
    ) -> None:
        self._text = text
        self._length = len(text)
        self.key = key
        self.offset = min(offset, self._length)
        self._marks: bytearray | None = None if ours else bytearray(self._length)
        if self._marks is not None and old is not None:
            self._marks[:] = _marked(old, str(text))
        self._bitten = False
        self._writing = False
        self._subscription: Subscription | None = text.observe(self._changed)

    def close(self) -> None:
        """Stop following."""
        if self._subscription is not None:
            self._text.unobserve(self._subscription)
            self._subscription = None

    def write(self, words: str) -> None:
        """Write behind our last character; the first words of all replace what is old.

        Must be called inside a transaction, at most once in each, with at least one character.
        """
        self._writing = True  # the event comes when the transaction commits; it is to be skipped
        self._bitten = False
        for start, stop in reversed(self._old_ranges()):
            del self._text[start:stop]
        self._marks = None
        self._text.insert(self.offset, words)
        self.offset += len(words.encode())
        self._length = len(self._text)

    def _old_ranges(self) -> list[tuple[int, int]]:
        return [] if self._marks is None else [found.span() for found in OLD.finditer(self._marks)]

    def _changed(self, event: TextEvent) -> None:
        if self._writing:
            self._writing = False
            return
        self._follow(event.delta)  # type: ignore[attr-defined]
        self._length = len(self._text)
        self.offset = min(self.offset, self._length)

    def _follow(self, delta: Sequence[Mapping[str, Any]]) -> None:
        before = 0  # where we are in the text as it was
        after = 0  # and as it is
        offset = old_offset = self.offset
        for item in delta:
            if "retain" in item:
                before += int(item["retain"])
                after += int(item["retain"])
            elif "delete" in item:
                length = int(item["delete"])
                eaten = max(0, min(old_offset, before + length) - before)
                offset -= eaten
                if eaten and before + length >= old_offset:
                    self._bitten = True
                if self._marks is not None:
                    del self._marks[after : after + length]
                before += length
            else:
                length = len(item["insert"].encode()) if isinstance(item["insert"], str) else 1
                if before < old_offset or (before == old_offset and self._bitten):
                    offset += length
                if self._marks is not None:
                    self._marks[after:after] = TYPED * length
                after += length
        self.offset = offset


def _marked(old: str, standing: str) -> bytes:
    """A mark for each byte of a standing text: whether it is old, or typed."""
    marks = bytearray()
    at = 0
    for _, place, length in matching(old, standing):
        marks += TYPED * len(standing[at:place].encode())
        marks += bytes(len(standing[place : place + length].encode()))
        at = place + length
    return bytes(marks + TYPED * len(standing[at:].encode()))
