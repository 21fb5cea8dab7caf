"""Joining a continued answer to the part that stands: what the model repeats is dropped."""

from __future__ import annotations

HELD = 200
"""Characters of the continuation that are held back until a repetition can be told."""
SHORTEST = 12
"""A repetition shorter than this may be chance, and stays."""


class Seam:
    """Passes the continuation on, without the repetition it may begin with.

    Args:
        before: The partial answer as it stands.
    """

    def __init__(self, before: str) -> None:
        self._before = before[-4 * HELD :]
        self._held = ""
        self._open = bool(before)

    def feed(self, delta: str) -> str:
        """Take the next piece; return what may be written now."""
        if not self._open:
            return delta
        self._held += delta
        if len(self._held) < HELD and self._may_still_repeat():
            return ""
        return self.end()

    def end(self) -> str:
        """Nothing more comes, or enough has come: return the rest that is held."""
        if not self._open:
            return ""
        self._open = False
        held, self._held = self._held, ""
        return held[self._repeated(held) :]

    def _may_still_repeat(self) -> bool:
        """Whether the whole of what is held stands somewhere in the text before."""
        return self._held in self._before

    def _repeated(self, held: str) -> int:
        """Length of the longest beginning of ``held`` that ends the text before."""
        for length in range(min(len(held), len(self._before)), SHORTEST - 1, -1):
            if self._before.endswith(held[:length]):
                return length
        return 0
