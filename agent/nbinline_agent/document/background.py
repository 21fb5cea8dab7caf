"""Tasks that live as long as a block of code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background(
    *tasks: Callable[[], Coroutine[Any, Any, None]],
) -> AsyncIterator[TaskGroup]:
    """Run tasks while the block runs; they are cancelled, and have ended, when it is left.

    More can be started in the group that it gives.

    An error of the block comes out as it is. A bare task group would wrap it into a group, and
    callers could not catch it by its type.
    """
    error: Exception | None = None
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        try:
            yield group
        except Exception as raised:
            error = raised
        group.cancel_scope.cancel()
    if error is not None:
        raise error
