"""Time limits: code that may never end is called in a thread that can be told to stop."""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
import time

VALUE_SECONDS = 2.0
"""Seconds that looking at one value may take."""
REQUEST_SECONDS = 6.0
"""Seconds that looking at all values of a request may take."""


class TooSlow(Exception):
    """It did not end in time, and was stopped."""


class StillRunning(TooSlow):
    """It did not end in time, and does not react to being stopped."""


class _Stop(BaseException):
    """Raised inside a thread that took too long; code that catches ``Exception`` lets it pass."""


class Clock:
    """What is left of a request's time."""

    def __init__(self, seconds=REQUEST_SECONDS):
        self._end = time.monotonic() + seconds

    def left(self):
        """Seconds for the next value."""
        return min(VALUE_SECONDS, self._end - time.monotonic())


def limited(function, seconds, parent=None):
    """Call a function in a thread of its own and give back what it returns.

    Args:
        function: Called without arguments.
        seconds: How long it may take.
        parent: Header of the request; what the function prints belongs to it, not to a cell.

    Raises:
        TooSlow: It did not end in time.
        BaseException: What the function raised.
    """
    if seconds <= 0:
        raise TooSlow
    outcome = {}

    def work():
        try:
            _own_output(parent)
            outcome["value"] = function()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=work, name="nbinline", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive() and not _stopped(thread):
        raise StillRunning
    if isinstance(outcome.get("error"), _Stop) or not outcome:
        raise TooSlow
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def _stopped(thread):
    """Raise in the thread, again and again for a moment: code may catch it once."""
    for _ in range(40):
        if not thread.is_alive():
            return True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop)
        )
        thread.join(0.025)
    return not thread.is_alive()


def _own_output(parent):
    """Let this thread's output belong to our request, which no cell listens to."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    streams = (sys.stdout, sys.stderr)
    publishers = (getattr(shell, "display_pub", None), getattr(shell, "displayhook", None))
    for place in streams + publishers:
        variable = getattr(place, "_parent_header", None)
        if parent is not None and isinstance(variable, contextvars.ContextVar):
            variable.set(parent)
