"""Counting what is sent, and choosing what fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Literal

from .policy import Candidate

DEFAULT_CHARACTERS = 64_000
LARGEST_RESERVE = 16_384
SMALLEST_PART = 40
"""A cell is not cut to fewer characters than this; it is left out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be sent.

    Attributes:
        allowed: The budget in ``unit``.
        unit: ``characters`` of the request's JSON, or ``tokens`` by an estimate.
        per_token: UTF-8 bytes of the request's JSON that are taken for one token.
    """

    allowed: int = DEFAULT_CHARACTERS
    unit: Literal["characters", "tokens"] = "characters"
    per_token: float = 1.0

    @classmethod
    def for_model(
        cls,
        context_tokens: int | None,
        max_output_tokens: int | None,
        chars_per_token: float,
        *,
        budget_chars: int | None = None,
    ) -> Limits:
        """The budget for a model.

        Args:
            context_tokens: The model's window, or None when it is not known.
            max_output_tokens: The most that the answer may take of it, or None.
            chars_per_token: The estimate for this model.
            budget_chars: A budget in characters that somebody set; it wins.
        """
        if budget_chars is not None:
            return cls(budget_chars)
        if context_tokens is None:
            return cls()
        reserve = min(max_output_tokens or LARGEST_RESERVE, context_tokens // 4)
        return cls(context_tokens - reserve, "tokens", chars_per_token)

    @property
    def room(self) -> int:
        """The budget in what ``size`` counts."""
        if self.unit == "characters":
            return self.allowed
        return math.floor(self.allowed * self.per_token)

    @property
    def counter(self) -> str:
        """How it is counted, for the report."""
        if self.unit == "characters":
            return "characters of the request"
        return f"estimate: {self.per_token:g} bytes of the request a token"

    def size(self, text: str) -> int:
        """What the text takes inside a JSON string."""
        encoded = encode_basestring(text)
        if self.unit == "characters" or encoded.isascii():
            return len(encoded) - 2
        return len(encoded.encode("utf-8", "surrogatepass")) - 2

    def shown(self, size: int) -> int:
        """A size in ``unit``, rounded up."""
        return size if self.unit == "characters" else math.ceil(size / self.per_token)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A candidate that goes along.

    Attributes:
        candidate: What goes.
        start: First character of the source that goes.
        end: Character behind the last one that goes.
        outputs: The outputs that go with it; empty if there are none or they did not fit.
        outputs_cut: Whether it has outputs that did not fit.
    """

    candidate: Candidate
    start: int
    end: int
    outputs: str = ""
    outputs_cut: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Priced:
    """How a candidate is measured.

    Attributes:
        body: The text that may be cut (for a pair: never).
        frame: What stands around the whole body, in ``Limits.size``.
        part_frame: What stands around a cut body.
        outputs: Renders the outputs that belong to it.
    """

    body: str
    frame: int
    part_frame: int
    outputs: Callable[[], str]


def fit(
    candidates: Iterable[Candidate],
    room: int,
    limits: Limits,
    price: Callable[[Candidate], Priced],
    smallest: int,
) -> tuple[list[Fitted], list[Candidate]]:
    """Take what fits, nearest first.

    A cell goes whole, without its outputs if only they are too much. The first cell that does not
    fit is cut; after that, smaller ones farther away are still tried. A pair is never cut.

    Args:
        candidates: Nearest first.
        room: What is left of the budget, as ``Limits.size`` counts.
        limits: How it is counted.
        price: Measures one candidate; called only while there is room.
        smallest: Nothing takes less than this.

    Returns:
        What goes and what does not, each in the order of ``candidates``.
    """
    taken: list[Fitted] = []
    left_out: list[Candidate] = []
    may_cut = True
    for candidate in candidates:
        if room < smallest:
            left_out.append(candidate)
            continue
        priced = price(candidate)
        fitted, used = _whole(candidate, priced, room, limits)
        if fitted is None and may_cut and candidate.question is None:
            fitted, used = _part(candidate, priced, room, limits)
            may_cut = fitted is None
        if fitted is None:
            left_out.append(candidate)
        else:
            taken.append(fitted)
            room -= used
    return taken, left_out


def _whole(
    candidate: Candidate, priced: Priced, room: int, limits: Limits
) -> tuple[Fitted | None, int]:
    length = len(priced.body)
    if length + priced.frame > room:
        return None, 0
    used = limits.size(priced.body) + priced.frame
    if used > room:
        return None, 0
    outputs = priced.outputs()
    if outputs:
        extra = limits.size(outputs)
        if used + extra <= room:
            return Fitted(candidate, 0, length, outputs), used + extra
    return Fitted(candidate, 0, length, outputs_cut=bool(outputs)), used


def _part(
    candidate: Candidate, priced: Priced, room: int, limits: Limits
) -> tuple[Fitted | None, int]:
    """The ending of a cell above, the beginning of one below."""
    space = room - priced.part_frame
    body = priced.body
    if space < SMALLEST_PART:
        return None, 0

    def cut(length: int) -> str:
        return body[len(body) - length :] if candidate.above else body[:length]

    low, high = 0, min(space, len(body) - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if limits.size(cut(middle)) <= space:
            low = middle
        else:
            high = middle - 1
    if low < SMALLEST_PART:
        return None, 0
    start, end = (len(body) - low, len(body)) if candidate.above else (0, low)
    used = priced.part_frame + limits.size(body[start:end])
    return Fitted(candidate, start, end, partial=True, outputs_cut=bool(priced.outputs())), used
