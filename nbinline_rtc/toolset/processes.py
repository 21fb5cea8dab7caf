"""Processes of our own: bounded in time and output, with no secret in their environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import ByteReceiveStream, Process

from nbinline_agent.tools.base import ToolError
from nbinline_rtc.kernel_env import VENDOR_VARIABLES

MAX_OUTPUT = 64_000
"""Bytes of output that are kept; the rest is read and thrown away."""

GRACE = 0.5
"""Seconds for what is still in the pipe once a process has ended."""

_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|AUTH|_DSN$|_URL$|_URI$", re.IGNORECASE
)


def scrubbed_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The server's environment without vendors' keys and anything else whose name says secret."""
    variables = os.environ if environ is None else environ
    return {
        name: value
        for name, value in variables.items()
        if name not in VENDOR_VARIABLES and not _SECRET.search(name)
    }


@dataclass(slots=True)
class Finished:
    """How a process ended.

    Attributes:
        output: What it wrote to both of its outputs, in order; the first ``MAX_OUTPUT`` bytes.
        left_out: Bytes beyond that.
        code: Its exit code; negative for a signal; None if its time was over.
    """

    output: bytes = b""
    left_out: int = 0
    code: int | None = None

    @property
    def text(self) -> str:
        """The output as text, with a note on what is missing."""
        text = self.output.decode("utf-8", "replace")
        if self.left_out:
            text += f"\n[{self.left_out:,} more bytes of output left out]"
        return text


class Group:
    """A process and what it started, as far as that stayed in its group.

    Attributes:
        process: The first of them.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self._killed = False

    def kill(self) -> None:
        """Kill all of them, once: later the number could be somebody else's."""
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self.process.kill()
            else:
                # The group keeps its number while anybody is in it, also without its first process.
                os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def own_group(
    command: Sequence[str], *, cwd: Path | None = None, stdin: int = DEVNULL, stderr: int = DEVNULL
) -> AsyncIterator[Group]:
    """Start a process in a group of its own, without our secrets; the group is killed at the end.

    Raises:
        ToolError: It could not be started.
    """
    try:
        process = await anyio.open_process(
            command,
            stdin=stdin,
            stdout=PIPE,
            stderr=stderr,
            cwd=cwd,
            env=scrubbed_environment(),
            start_new_session=True,
        )
    except OSError as error:
        name = Path(command[0]).name
        raise ToolError(f"{name!r} could not be started: {error.strerror}.") from None
    group = Group(process)
    try:
        yield group
    finally:
        group.kill()
        with anyio.move_on_after(5, shield=True):
            await process.aclose()


async def run(command: Sequence[str], *, cwd: Path, timeout: float) -> Finished:
    """Run a command; whatever it started is killed at the end.

    Args:
        command: Program and arguments.
        cwd: Where it runs.
        timeout: Seconds it may take.

    Raises:
        ToolError: It could not be started.
    """
    finished = Finished()
    async with own_group(command, cwd=cwd, stderr=STDOUT) as group:
        stream = group.process.stdout
        assert stream is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_gather, stream, finished)
            with anyio.move_on_after(timeout):
                finished.code = await group.process.wait()
            group.kill()
            # What left the group may hold the pipe open for ever.
            tasks.cancel_scope.deadline = anyio.current_time() + GRACE
    return finished


async def _gather(stream: ByteReceiveStream, finished: Finished) -> None:
    kept = bytearray()
    async for piece in stream:
        room = MAX_OUTPUT - len(kept)
        kept += piece[:room]
        finished.left_out += max(0, len(piece) - room)
        finished.output = bytes(kept)
