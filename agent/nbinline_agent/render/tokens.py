"""Tokenizers by name.

Vendors' own tables would have to be downloaded, so tokens are estimated, as for a run's context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from nbinline_agent.providers import catalog

DEFAULT = "estimate"
ESTIMATE = 3.0
"""UTF-8 bytes that are taken for one token where nothing better is known; see the catalog."""


class UnknownTokenizer(ValueError):
    """There is no tokenizer of that name here; the text is a sentence a person can act on."""


class Tokenizer(Protocol):
    """Counts tokens.

    Attributes:
        name: As texts name it.
    """

    @property
    def name(self) -> str:
        """See above."""

    def count(self, text: str) -> int:
        """Tokens of a text."""

    def measure(self, text: str) -> float:
        """The same without rounding, so that the parts of a text can be added up."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """So many UTF-8 bytes a token: on the safe side for English text and code."""

    per_token: float = ESTIMATE
    model: str = ""

    @property
    def name(self) -> str:
        """See ``Tokenizer``."""
        about = f" for {self.model}" if self.model else ""
        return f"estimate of {self.per_token:g} bytes a token{about}"

    def count(self, text: str) -> int:
        """See ``Tokenizer``."""
        return math.ceil(self.measure(text))

    def measure(self, text: str) -> float:
        """See ``Tokenizer``."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return size / self.per_token


@dataclass(frozen=True, slots=True)
class Characters:
    """One token a character."""

    name: str = "characters"

    def count(self, text: str) -> int:
        """See ``Tokenizer``."""
        return len(text)

    def measure(self, text: str) -> float:
        """See ``Tokenizer``."""
        return len(text)


def tokenizer(name: str = DEFAULT) -> Tokenizer:
    """The tokenizer of a name.

    Args:
        name: ``estimate``, ``estimate:<bytes a token>``, ``characters``, or a model id, whose
            estimate is taken.

    Raises:
        UnknownTokenizer: There is none.
    """
    if name == "characters":
        return Characters()
    kind, _, rate = name.partition(":")
    if kind == DEFAULT:
        return _estimate(rate)
    for connection in catalog.CONNECTIONS.values():
        if connection.knows(name):
            return Estimate(connection.model(name).limits.chars_per_token, name)
    known = ", ".join((DEFAULT, f"{DEFAULT}:3.5", "characters"))
    raise UnknownTokenizer(f"There is no tokenizer {name!r}. Take a model's id, or {known}.")


def _estimate(rate: str) -> Estimate:
    if not rate:
        return Estimate()
    try:
        per_token = float(rate)
    except ValueError:
        per_token = 0.0
    if not 0.5 <= per_token <= 20:
        raise UnknownTokenizer("An estimate takes from 0.5 to 20 bytes a token, as estimate:3.5.")
    return Estimate(per_token)
