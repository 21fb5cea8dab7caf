"""Choices that a server prescribes for everybody who asks on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbinline_agent.context.choices import Mode, Outputs
from nbinline_agent.errors import NbinlineError

_TEXTS = frozenset({"backend", "model", "promptMode", "reasoningEffort"})
_WORDS: Mapping[str, frozenset[str]] = {
    "contextMode": frozenset(Mode),
    "outputs": frozenset(Outputs),
}


class BadSettings(NbinlineError):
    """A trait of the server has a value that cannot be used."""

    code = "bad-settings"
    http_status = 500
    default_message = "A setting of this server cannot be used; its log says which."


def checked(pinned: Mapping[str, Any]) -> dict[str, str | bool]:
    """The prescribed choices, by the names of the notebook's defaults.

    Raises:
        BadSettings: A key or a value nobody knows; the message says which.
    """
    found: dict[str, str | bool] = {}
    for key, value in pinned.items():
        words = _WORDS.get(key)
        if key == "keepAnswers" and isinstance(value, bool):
            found[key] = value
        elif key in _TEXTS and isinstance(value, str) and value:
            found[key] = value
        elif words is not None and value in words:
            found[key] = str(value)
        else:
            raise BadSettings(f"c.NbinlineApp.pinned: {key!r} cannot be {value!r}.")
    return found
