"""Running code and commands beside the notebook; off unless a notebook and its policy allow it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from nbinline_agent.tools.base import Arguments, Preview, Tool, ToolContext, ToolError, ToolResult
from nbinline_agent.tools.catalog import description

from .places import Path, place_of
from .processes import Finished, run

TMUX_SECONDS = 5.0

Code = Annotated[str, Field(min_length=1, max_length=8_000)]
Timeout = Annotated[int, Field(ge=1, le=20)]


class RunPython(Arguments):
    """Of ``run_python``."""

    code: Code
    cwd: Path = "."
    timeout: Timeout = 10


class RunShell(Arguments):
    """Of ``run_shell``."""

    command: Code
    cwd: Path = "."
    timeout: Timeout = 10


class TmuxSessions(Arguments):
    """Of ``tmux_sessions``: none."""


class TmuxRead(Arguments):
    """Of ``tmux_read``."""

    pane: Annotated[str, Field(pattern=r"^%[0-9]{1,6}$")]
    lines: Annotated[int, Field(ge=1, le=100)] = 40


async def run_python(context: ToolContext, arguments: RunPython) -> ToolResult:
    """Run code in a fresh interpreter."""
    command = [sys.executable, "-c", arguments.code]
    return await _run(context, command, arguments.cwd, arguments.timeout)


async def run_shell(context: ToolContext, arguments: RunShell) -> ToolResult:
    """Run a command."""
    if os.name != "posix":
        raise ToolError("There is no /bin/sh on this server.")
    command = ["/bin/sh", "-c", arguments.command]
    return await _run(context, command, arguments.cwd, arguments.timeout)


async def _run(context: ToolContext, command: list[str], cwd: str, timeout: int) -> ToolResult:
    place = await place_of(context, cwd)
    finished = await run(command, cwd=place.path, timeout=timeout)
    return ToolResult(f"{_ending(finished, timeout)}\n{finished.text}".rstrip())


def _ending(finished: Finished, timeout: int) -> str:
    if finished.code is None:
        return f"Stopped after {timeout} seconds; what it had done stays done. Output so far:"
    if finished.code < 0:
        return f"Ended by signal {-finished.code}. Output:"
    return f"Exit code {finished.code}. Output:"


async def tmux_sessions(context: ToolContext, arguments: TmuxSessions) -> ToolResult:
    """List panes."""
    format_ = "#{pane_id} #{session_name}:#{window_index}.#{pane_index} #{pane_current_command}"
    return await _tmux(context, ["list-panes", "-a", "-F", format_], "no panes")


async def tmux_read(context: ToolContext, arguments: TmuxRead) -> ToolResult:
    """Read the end of a pane."""
    command = ["capture-pane", "-p", "-J", "-t", arguments.pane, "-S", f"-{arguments.lines}"]
    result = await _tmux(context, command, "the pane is empty")
    return ToolResult("\n".join(result.text.rstrip().split("\n")[-arguments.lines :]))


async def _tmux(context: ToolContext, command: list[str], nothing: str) -> ToolResult:
    program = await anyio.to_thread.run_sync(shutil.which, "tmux")
    if program is None:
        raise ToolError("tmux is not installed on this server.")
    finished = await run([program, *command], cwd=context.root, timeout=TMUX_SECONDS)
    if finished.code != 0:
        raise ToolError(f"tmux: {finished.text.strip() or 'no answer in time'}")
    return ToolResult(finished.text.rstrip() or nothing)


async def _look_at_python(context: ToolContext, arguments: RunPython) -> Preview:
    return Preview(f"Run Python in {arguments.cwd!r}", code=arguments.code)


async def _look_at_shell(context: ToolContext, arguments: RunShell) -> Preview:
    return Preview(f"Run a command in {arguments.cwd!r}", code=arguments.command)


TOOLS: tuple[Tool, ...] = (
    Tool(
        "run_python",
        "shell",
        description("run_python"),
        RunPython,
        run_python,
        writes=True,
        preview=_look_at_python,
    ),
    Tool(
        "run_shell",
        "shell",
        description("run_shell"),
        RunShell,
        run_shell,
        writes=True,
        preview=_look_at_shell,
    ),
    Tool("tmux_sessions", "shell", description("tmux_sessions"), TmuxSessions, tmux_sessions),
    Tool("tmux_read", "shell", description("tmux_read"), TmuxRead, tmux_read),
)
