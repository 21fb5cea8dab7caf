"""Running code in a kernel: its turn in the queue, its outputs, its deadline."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from nbinline_agent.errors import KernelBusy, KernelDied, KernelError
from nbinline_agent.kernel import Execution, OnOutput

from .kernel_channels import KernelChannels, Request

LEAST_WAIT = 1.0
"""Seconds a kernel that runs nothing may take to begin."""

INTERRUPTION = 5.0
"""Seconds a kernel may take to react to an interrupt."""

NUDGE_AFTER = 0.3
"""Seconds after which a kernel that was interrupted is sent something else."""

LAST_INTERRUPT = 2.0
"""Seconds for interrupting what a cancelled run has running."""

ATTEMPTS = 5
"""Times code is sent again that a person's failing cell dropped from the kernel's queue."""

Interrupt = Callable[[], Awaitable[None]]
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Code:
    """What to run, and what it leaves; see ``Kernel.execute``."""

    text: str
    store_history: bool = True
    silent: bool = False
    cell_id: str = ""
    stop_on_error: bool = False

    @property
    def content(self) -> dict[str, Any]:
        """Of the request."""
        return {
            "code": self.text,
            "silent": self.silent,
            "store_history": self.store_history and not self.silent,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": self.stop_on_error,
        }


async def run_code(
    channels: KernelChannels,
    code: Code,
    *,
    on_output: OnOutput,
    deadline: float,
    wait: float,
    interrupt: Interrupt,
    on_start: Callable[[], None] | None = None,
    on_abandon: Callable[[], Awaitable[None]] | None = None,
    state_lost: Callable[[], bool] = lambda: False,
) -> Execution:
    """Run code once nothing else runs; a person's code (``stop_on_error``) in the kernel's queue.

    Args:
        channels: The connection.
        code: What to run.
        on_output: Takes its output messages.
        deadline: Seconds it may run.
        wait: Seconds to wait for its turn.
        interrupt: Interrupts the kernel; used only while this very code runs.
        on_start: Called when its turn has come.
        on_abandon: Called when it is given up before its turn.
        state_lost: Whether the kernel lost what it knew; asked once it has answered.

    Raises:
        KernelBusy: Its turn did not come.
    """
    # Nothing can be taken back from the kernel's queue, so ours is put there when nothing runs. A
    # person's run goes there at once: their cells keep their order.
    began = time.monotonic()
    if not code.stop_on_error and not await channels.rest(wait):
        raise KernelBusy
    wait -= time.monotonic() - began
    for _ in range(ATTEMPTS):
        run = _Run(channels, code, interrupt, on_abandon)
        outcome = await run.result(on_output, on_start, deadline, wait, state_lost)
        if outcome.status != "aborted" or code.stop_on_error:
            return outcome
    return outcome


class _Run:
    """One sending of code to the kernel."""

    def __init__(
        self,
        channels: KernelChannels,
        code: Code,
        interrupt: Interrupt,
        on_abandon: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._channels = channels
        self._code = code
        self._interrupt = interrupt
        self._on_abandon = on_abandon
        self._timed_out = False
        self._began = 0.0

    async def result(
        self,
        on_output: OnOutput,
        on_start: Callable[[], None] | None,
        deadline: float,
        wait: float,
        state_lost: Callable[[], bool],
    ) -> Execution:
        channels, code = self._channels, self._code
        with channels.request(
            "shell",
            "execute_request",
            code.content,
            on_output=on_output,
            metadata={"cellId": code.cell_id} if code.cell_id else {},
        ) as request:

            def begin() -> None:
                self._began = time.monotonic()
                if on_start is not None:
                    on_start()

            request.on_begin = begin
            try:
                if not await request.until(
                    lambda: request.begun or _replied(request), max(wait, LEAST_WAIT)
                ):
                    await self._abandon(request)
                    raise KernelBusy
                await self._finish(request, deadline)
                await request.outputs_complete()
            except KernelDied:
                return self._ended("dead", error="The kernel died.")
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(LAST_INTERRUPT, shield=True):
                    await self._give_up(request)
                raise
            if request.reply is None:
                return self._ended("timed-out", stuck=True, state_lost=state_lost())
            return self._told(request.reply, state_lost())

    async def _finish(self, request: Request, deadline: float) -> None:
        if await request.until(lambda: _replied(request), deadline):
            return
        self._timed_out = True
        for _ in range(2):
            if await self._stop(request, INTERRUPTION):
                return

    async def _stop(self, request: Request, seconds: float) -> bool:
        """Interrupt it; whether it ended in time."""
        await self._interrupt()
        if await request.until(lambda: _replied(request), NUDGE_AFTER):
            return True
        # A kernel whose cell awaits something may notice the signal only with its next message.
        with self._channels.request("shell", "kernel_info_request", {}):
            return await request.until(lambda: _replied(request), seconds)

    async def _give_up(self, request: Request) -> None:
        """Cancelled: interrupt it if it runs, else see to it that it never does."""
        if request.begun and not _replied(request):
            await self._stop(request, LAST_INTERRUPT)
            # What it still says, and its traceback, belong to it.
            await request.until(lambda: request.idle, LAST_INTERRUPT)
        elif not request.begun:
            await self._abandon(request)

    async def _abandon(self, request: Request) -> None:
        """It stands in the kernel's queue and cannot be taken back; end it as soon as it begins."""
        if self._on_abandon is not None:
            await self._on_abandon()
            return
        self._channels.end_when_it_begins(request, self._interrupt)

    def _told(self, reply: Mapping[str, Any], state_lost: bool) -> Execution:
        status = str(reply.get("status", "error"))
        if self._timed_out:
            status = "timed-out"
        elif status == "error" and reply.get("ename") in ("KeyboardInterrupt", "CancelledError"):
            status = "interrupted"
        elif status in ("abort", "aborted"):
            status = "aborted"
        count = reply.get("execution_count")
        counted = isinstance(count, int) and self._code.store_history and not self._code.silent
        return self._ended(
            status,
            count=count if counted else None,
            error=_error_line(reply),
            state_lost=state_lost,
        )

    def _ended(
        self,
        status: str,
        *,
        count: int | None = None,
        error: str = "",
        state_lost: bool = False,
        stuck: bool = False,
    ) -> Execution:
        seconds = time.monotonic() - self._began if self._began else 0.0
        return Execution(status, count, error, seconds, state_lost, stuck)


def _replied(request: Request) -> bool:
    return request.reply is not None


def _error_line(reply: Mapping[str, Any]) -> str:
    name = reply.get("ename")
    if not isinstance(name, str) or reply.get("status") != "error":
        return ""
    value = _ANSI.sub("", str(reply.get("evalue") or ""))[:1_000]
    return f"{name}: {value}" if value else name


def check_alive(execution: Execution) -> None:
    """Raise for an execution whose kernel went away.

    Raises:
        KernelDied: It did.
        KernelError: It does not react any more.
    """
    if execution.status == "dead":
        raise KernelDied
    if execution.stuck:
        raise KernelError("It does not react to being interrupted. Restart the kernel.")
