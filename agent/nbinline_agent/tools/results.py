"""The one place where results of tools are bounded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nbinline_agent.messages import Image, JsonValue

from .base import ToolResult

TAIL_SHARE = 0.3
"""Share of a cut text that is kept of its ending."""

WORTH_NAMING = 600
"""Characters from which a result that was sent before is named instead of sent again."""

NOTHING = "(nothing)"


@dataclass(frozen=True, slots=True)
class ResultBounds:
    """How much one result may hold.

    Attributes:
        characters: Of text, all told.
        images: How many.
        image_bytes: Of one image; a larger one is left out.
    """

    characters: int = 16_000
    images: int = 3
    image_bytes: int = 3_500_000


Fit = Callable[[Image], Image | None]
"""Makes an image small enough for a model; None if it cannot be."""


class Results:
    """Turns what tools give into what a model is told, for one run.

    Args:
        bounds: How much one result may hold.
        takes_images: Whether the model takes images.
        fit: Makes images small enough; it may block, so it is called in worker threads only.
    """

    def __init__(self, bounds: ResultBounds, *, takes_images: bool, fit: Fit) -> None:
        self._bounds = bounds
        self._takes_images = takes_images
        self._fit = fit
        self._texts: dict[str, str] = {}
        self._images: set[str] = set()

    def text(self, result: ToolResult, *, extra: str = "") -> str:
        """A result's text within the bound.

        Args:
            result: What the tool gave.
            extra: What must be said behind it, counted as well.
        """
        whole = result.text
        if result.data is not None:
            data = json.dumps(result.data, ensure_ascii=False, separators=(",", ":"))
            whole = f"{whole}\n{data}" if whole else data
        whole = _well_formed(whole)
        return cut(whole, self._bounds.characters - len(extra)) + extra or NOTHING

    def once(self, text: str, label: str) -> str:
        """The text, or where it stands if the run was told the very same before.

        Args:
            text: What the model would be told.
            label: How this call is named to the model later on.
        """
        if len(text) < WORTH_NAMING:
            return text
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        before = self._texts.get(key)
        self._texts.setdefault(key, label)
        if before is None:
            return text
        return f"[Unchanged: word for word what {before} gave before.]"

    def images(self, result: ToolResult) -> tuple[tuple[Image, ...], str]:
        """A result's images within the bounds, and what is to be said about those left out."""
        if not result.images:
            return (), ""
        if not self._takes_images:
            count = len(result.images)
            return (), f"\n[{count} image{'s' if count > 1 else ''}: this model takes none]"
        kept: list[Image] = []
        notes: list[str] = []
        for number, image in enumerate(result.images, start=1):
            note = self._take(image, kept)
            if note:
                notes.append(f"\n[image {number}: {note}]")
        return tuple(kept), "".join(notes)

    def _take(self, image: Image, kept: list[Image]) -> str:
        key = hashlib.sha256(image.data).hexdigest()
        if key in self._images:
            return "shown before"
        if len(kept) >= self._bounds.images:
            return f"left out, at most {self._bounds.images} are shown"
        fitted = self._fit(image)
        if fitted is None or len(fitted.data) > self._bounds.image_bytes:
            return "left out, it is too large or cannot be read"
        self._images.add(key)
        kept.append(fitted)
        return ""


def cut(text: str, limit: int) -> str:
    """A text within a number of characters: its head and its tail, and how much is left out."""
    if len(text) <= limit:
        return text
    note = f"\n[… {len(text):,} characters in all, the middle is left out …]\n"
    room = max(0, limit - len(note))
    tail = int(room * TAIL_SHARE)
    head = _to_line_end(text[: room - tail])
    ending = _from_line_start(text[len(text) - tail :]) if tail else ""
    return f"{head}{note}{ending}"[:limit]


def _to_line_end(head: str) -> str:
    at = head.rfind("\n")
    return head[:at] if at > len(head) * 3 // 4 else head


def _from_line_start(tail: str) -> str:
    at = tail.find("\n")
    return tail[at + 1 :] if 0 <= at < len(tail) // 4 else tail


def _well_formed(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def brief(text: str, limit: int = 200) -> str:
    """The first line of a text, for the journal and the transcript."""
    line = text.strip().split("\n", 1)[0].strip()
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def as_details(details: Mapping[str, JsonValue]) -> str:
    """Details of an error as JSON behind its sentence; empty for none."""
    if not details:
        return ""
    return "\n" + json.dumps(dict(details), ensure_ascii=False, separators=(",", ":"))
