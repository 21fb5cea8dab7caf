"""Keeping the server's loop free: what anyio and the collector cost with hundreds of tasks."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sniffio
from anyio._backends import _asyncio as backend

BUSY_THRESHOLDS = (5_000, 20, 20)
"""Collector thresholds while runs live; a full collection comes every two million new objects."""

FREEZE_INTERVAL = 5.0
"""Seconds between two times that what lives is set aside."""

THAW_INTERVAL = 300.0
"""Seconds after which what was set aside is looked at again, also if runs never pause."""


def adopt_worker_threads() -> None:
    """Let anyio's worker threads end with the current task, unless something owns them already.

    For each call of a worker thread anyio looks through all tasks of the loop for one that was
    started by ``run_until_complete``. Tornado starts none, so on a server with a hundred open
    notebooks the search took a quarter of the loop's time. It has no public setting.
    """
    owner = getattr(backend, "_root_task", None)
    if owner is not None and owner.get(None) is None:
        owner.set(asyncio.current_task())


@contextmanager
def known_as_asyncio() -> Iterator[None]:
    """Tell everything in this thread that its loop is asyncio's, for as long as it is.

    anyio asks for the library at nearly every call, and finding out took a seventh of the loop's
    time with a hundred answers at once.
    """
    before = sniffio.thread_local.name
    sniffio.thread_local.name = "asyncio"
    try:
        yield
    finally:
        sniffio.thread_local.name = before


class PacedCollector:
    """Keeps full garbage collections rare and short while runs live.

    A full collection stops the loop for half a microsecond per object there is: 0.3 s on a server
    with a hundred open notebooks, and Python starts one every few seconds of streaming. While runs
    live, collections come less often and pass over what was there already; once the last run has
    ended, everything is as it was.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._runs = 0
        self._before = gc.get_threshold()
        self._frozen_at = self._thawed_at = -FREEZE_INTERVAL

    @contextmanager
    def run(self) -> Iterator[None]:
        """Hold while a run lives."""
        if not self._runs:
            self._before = gc.get_threshold()
            gc.set_threshold(*BUSY_THRESHOLDS)
            self._thawed_at = self._clock()
        self._runs += 1
        self._set_aside()
        try:
            yield
        finally:
            self._runs -= 1
            if not self._runs:
                gc.set_threshold(*self._before)
                gc.unfreeze()

    def _set_aside(self) -> None:
        now = self._clock()
        if now - self._thawed_at >= THAW_INTERVAL:
            gc.unfreeze()
            self._thawed_at = self._frozen_at = now
        elif now - self._frozen_at >= FREEZE_INTERVAL:
            gc.freeze()
            self._frozen_at = now
