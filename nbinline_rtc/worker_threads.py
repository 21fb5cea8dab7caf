"""Keeping calls of worker threads cheap on a server with hundreds of tasks."""

from __future__ import annotations

import asyncio

from anyio._backends import _asyncio as backend


def adopt_worker_threads() -> None:
    """Let anyio's worker threads end with the current task, unless something owns them already.

    For each call of a worker thread anyio looks through all tasks of the loop for one that was
    started by ``run_until_complete``. Tornado starts none, so on a server with a hundred open
    notebooks the search took a quarter of the loop's time. It has no public setting.
    """
    owner = getattr(backend, "_root_task", None)
    if owner is not None and owner.get(None) is None:
        owner.set(asyncio.current_task())
