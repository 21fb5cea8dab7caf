"""What paths of tool calls mean: below the server's root, from the notebook's folder on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import anyio.to_thread
from pydantic import Field

from nbinline_agent.tools.base import ToolContext, ToolError
from nbinline_rtc.jobs.below import MAX_PATH, Place, Refused, locate

Path = Annotated[str, Field(min_length=1, max_length=MAX_PATH)]
"""An argument that is a path."""

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Do what blocks in a worker thread; a refusal becomes the model's error.

    Raises:
        ToolError: It was refused.
    """
    try:
        return await anyio.to_thread.run_sync(work)
    except Refused as refused:
        raise ToolError(str(refused)) from None


async def place_of(context: ToolContext, path: str) -> Place:
    """What a path names.

    Raises:
        ToolError: It leads outside the root, or is hidden.
    """
    return await in_thread(lambda: locate(context.root, context.folder, path))
