"""Calling a function once and noting what happens inside it."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .functions import BadArguments, json_of
    from .resolving import Undefined, static
    from .values import brief, error_line

LOCALS = 6
"""Local names that are shown with an event."""


def trace_function(names, name, args_json="[]", kwargs_json="{}", max_events=40):
    """Really call a function, once, and list its calls, lines and returns."""
    positional = json_of(args_json, list, "args_json")
    by_name = json_of(kwargs_json, dict, "kwargs_json")
    try:
        function = static(name, names)
    except Undefined:
        raise BadArguments(f"{name} is not defined in the kernel") from None
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise BadArguments(f"{name} is not a function that can be called and traced")
    try:
        inspect.signature(function).bind(*positional, **by_name)
    except (TypeError, ValueError) as error:
        raise BadArguments(f"the arguments do not fit {name}: {error}") from None
    return _traced(function, positional, by_name, max_events)


def _traced(function, positional, by_name, most):
    code = getattr(inspect.unwrap(function), "__code__", None)
    home = getattr(code, "co_filename", None)
    events, missed = [], [0]

    def note(frame, event, value):
        if frame.f_code.co_filename != home:
            return None
        if len(events) >= most:
            missed[0] += 1
            return note
        entry = {"event": event, "function": frame.f_code.co_name, "line": frame.f_lineno}
        if event == "return":
            entry["value"] = brief(value, 1)
        elif event == "exception":
            entry["error"] = error_line(value[1]) if value[1] is not None else value[0].__name__
        else:
            shown = list(frame.f_locals.items())[:LOCALS]
            entry["locals"] = {key: brief(held, 1) for key, held in shown}
        events.append(entry)
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        result, error = function(*positional, **by_name), ""
    except Exception as raised:
        result, error = None, error_line(raised)
    finally:
        sys.settrace(before)
    outcome = {"error": error} if error else {"result": brief(result, 1)}
    return dict(outcome, events=events, more_events=missed[0])
