"""Text of a stream as a terminal would show it: carriage returns and backspaces take effect."""

from __future__ import annotations

import re

_SEGMENTS = re.compile(r"[\r\b]|[^\r\b]+")


class ScreenText:
    """Text that grows at its end, whose last line may still be written over.

    Colours stay. Lines above the last one never change any more.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._column = 0
        self._given = 0
        self._given_line = ""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join((*self._lines, self._line))

    def feed(self, text: str) -> None:
        """Take the next piece of output."""
        *complete, last = text.replace("\r\n", "\n").split("\n")
        for part in complete:
            self._write(part)
            self._lines.append(f"{self._line}\n")
            self._line, self._column = "", 0
        self._write(last)

    def _write(self, part: str) -> None:
        if "\r" not in part and "\b" not in part and self._column == len(self._line):
            self._line += part
            self._column = len(self._line)
            return
        for segment in _SEGMENTS.findall(part):
            if segment == "\r":
                self._column = 0
            elif segment == "\b":
                self._column = max(0, self._column - 1)
            else:
                end = self._column + len(segment)
                self._line = self._line[: self._column] + segment + self._line[end:]
                self._column = end

    def change(self) -> tuple[int, str]:
        """What makes the text that was given last this one.

        Returns:
            Characters to delete at its end, and what to append then.
        """
        wanted = "".join((*self._lines[self._given :], self._line))
        same = _common(self._given_line, wanted)
        deleted = len(self._given_line) - same
        self._given, self._given_line = len(self._lines), self._line
        return deleted, wanted[same:]


def _common(before: str, after: str) -> int:
    """How many characters at the start are the same."""
    if after.startswith(before):
        return len(before)
    pairs = enumerate(zip(before, after, strict=False))
    return next(
        (at for at, (mine, theirs) in pairs if mine != theirs), min(len(before), len(after))
    )
