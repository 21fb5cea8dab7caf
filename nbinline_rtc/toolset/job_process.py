"""Having work done in a process of its own: what it found, however it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from subprocess import PIPE
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream

from nbinline_agent.messages import JsonValue
from nbinline_agent.tools.base import ToolContext, ToolError
from nbinline_rtc.jobs.below import Place

from .processes import own_group

START = 20.0
"""Seconds the process may take to be ready; the time limit of a job counts from there."""

MAX_LINE = 16_000_000
"""Bytes of one finding."""

COMMAND = (sys.executable, "-P", "-m", "nbinline_rtc.jobs")
# Without -P a file beside the server's working directory could pose as a module.


@dataclass(slots=True)
class Found:
    """What a job found.

    Attributes:
        items: Its findings, in order.
        complete: False if its time was over.
        refused: Why it could not be done; empty if it could.
    """

    items: list[Any] = field(default_factory=list)
    complete: bool = False
    refused: str = ""


async def find(
    job: str,
    arguments: Mapping[str, JsonValue],
    *,
    seconds: float,
    most: int = 10_000,
    data: bytes = b"",
) -> Found:
    """Have a job done.

    Args:
        job: Its name; see ``nbinline_rtc.jobs``.
        arguments: What it needs.
        seconds: Time limit; the process is killed then.
        most: Findings after which it may stop.
        data: Further input.

    Raises:
        ToolError: It could not be done; the message says why.
    """
    found = Found()
    async with own_group(COMMAND, stdin=PIPE) as group:
        process = group.process
        assert process.stdin is not None
        assert process.stdout is not None
        request = json.dumps({"job": job, **arguments}).encode() + b"\n" + data
        with anyio.move_on_after(START + seconds) as limit:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_feed, process.stdin, request)
                async for line in _lines(process.stdout):
                    if "ready" in line:
                        limit.deadline = anyio.current_time() + seconds
                    elif _take(line, found, most):
                        break
                else:
                    found.refused = "This could not be done; it may need more memory than allowed."
                tasks.cancel_scope.cancel()
    if found.refused:
        raise ToolError(found.refused)
    return found


def _take(line: Mapping[str, Any], found: Found, most: int) -> bool:
    """Note a finding; True if there is no need for more."""
    found.refused = line.get("refused", "")
    if found.refused:
        return True
    if "done" in line:
        found.complete = True
        return True
    found.items.append(line["found"])
    return len(found.items) >= most


async def _feed(stream: Any, request: bytes) -> None:
    # A job that has enough, or was killed, reads no further.
    try:
        await stream.send(request)
        await stream.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[dict[str, Any]]:
    rest = bytearray()
    async for piece in stream:
        rest += piece
        if len(rest) > MAX_LINE:
            return
        *lines, last = rest.split(b"\n") if b"\n" in piece else (rest,)
        rest = bytearray(last)
        for line in lines:
            yield json.loads(line)


def about(place: Place, context: ToolContext) -> dict[str, JsonValue]:
    """What every job on files needs to know."""
    parts: list[JsonValue] = [*place.parts]
    tags: list[JsonValue] = [*sorted(context.policy.hidden_tags)]
    return {
        "root": str(place.root),
        "parts": parts,
        "hide_solutions": context.policy.hide_solutions,
        "hidden_tags": tags,
    }
