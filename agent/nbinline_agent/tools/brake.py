"""Noticing that a model repeats itself."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from nbinline_agent.errors import NoProgress
from nbinline_agent.messages import ToolCall

TOLD_AT = 3
"""Times the same call may give the same result before the model is told to stop."""

ENDED_AT = 5
"""Times after which the run ends."""


class Brake:
    """Counts rounds in which the same call gave the same result.

    Something new that was done starts the count again: looking once more is then no repetition.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._in_round: set[str] = set()

    def next_round(self) -> None:
        """Begin another round; within one, the same call counts once."""
        self._in_round.clear()

    def note(self, call: ToolCall, result: str, *, changed: bool) -> str:
        """Note what a call gave.

        Args:
            call: What the model asked for.
            result: What it is told.
            changed: Whether something was really done.

        Returns:
            What it is told besides; empty as a rule.

        Raises:
            NoProgress: It has not listened.
        """
        key = _key(call, result)
        if key in self._in_round:
            return ""
        if changed and key not in self._counts:
            self._counts.clear()
        self._in_round.add(key)
        self._counts[key] += 1
        times = self._counts[key]
        if times >= ENDED_AT:
            raise NoProgress(
                f"The model called {call.name[:100]} {times} times with the same result. Ask in "
                "smaller steps, or choose another model."
            )
        if times < TOLD_AT:
            return ""
        return (
            f"\n\n[This very call has given this very result {times} times. Do not repeat it: "
            "answer with what you know, or do something else.]"
        )


def _key(call: ToolCall, result: str) -> str:
    try:
        arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    whole = "\0".join((call.name, arguments, result))
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
