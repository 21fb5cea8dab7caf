"""The connection ``local``: a tiny trial model on this machine, no key and no network needed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio import AsyncContextManagerMixin
from anyio.abc import ByteReceiveStream, Process, TaskGroup, TaskStatus
from anyio.streams.text import TextReceiveStream

from nbinline_agent.errors import NotConfigured, Unavailable

from . import model_package
from .kernel_env import VENDOR_VARIABLES
from .local_engine import MODEL_NAME
from .model_package import ModelMissing

CONNECTION = "local"
LABEL = "Trial model on this machine"
NOTICE = "A tiny trial model whose answers are often wrong."
"""Shown wherever the connection is named."""

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
CONTEXT_TOKENS = 4_096
"""Of one conversation, in tokens: reading that much takes some 30 s on two cores."""

MAX_OUTPUT_TOKENS = 1_024
SLOTS = 2
"""Answers that are written at the same time; others wait."""

START_TIMEOUT = 60.0
"""Seconds from the start of the process until the model must be ready."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model answers, for as long as its process lives.

    Attributes:
        base_url: Of the OpenAI-compatible API, on loopback.
        api_key: Made for this process alone.
        model: The model's name there.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str = MODEL_NAME


class LocalModel(AsyncContextManagerMixin):
    """Owns the child process: none before the first ``endpoint()``, none after the block.

    A process that died is replaced at the next ``endpoint()``. If this process is killed, the
    child notices that its input has ended and ends too.

    Args:
        model_path: A GGUF file in place of the trial model that we install.
        context_tokens: Context of one conversation, in tokens.
        slots: Answers written at the same time.
        start_timeout: Seconds until the model must be ready.

    Example:
        >>> async with LocalModel() as model:
        ...     endpoint = await model.endpoint()
    """

    def __init__(
        self,
        *,
        model_path: Path | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        slots: int = SLOTS,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.context_tokens = context_tokens
        self._model_path = model_path
        self._slots = slots
        self._start_timeout = start_timeout
        self._starting = anyio.Lock()
        self._endpoint: Endpoint | None = None
        self._process: Process | None = None
        self._tasks: TaskGroup

    @contextlib.asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with anyio.create_task_group() as self._tasks:
            try:
                yield self
            finally:
                self._tasks.cancel_scope.cancel()

    @property
    def pid(self) -> int | None:
        """The child's process id, or None while there is none."""
        return self._process.pid if self._process is not None else None

    def problem(self) -> str | None:
        """Why it cannot work, as a sentence a person can act on; None if it can. It reads files."""
        return model_package.problem(self._model_path)

    async def endpoint(self) -> Endpoint:
        """Where to send requests; starts the process if there is none.

        Raises:
            NotConfigured: The engine or the model is missing; the message says what to run.
            Unavailable: The process ended, or was not ready in time.
        """
        async with self._starting:
            if self._endpoint is None:
                path = await anyio.to_thread.run_sync(self._find)
                await self._tasks.start(self._run, path)
            assert self._endpoint is not None
            return self._endpoint

    def _find(self) -> Path:
        try:
            if not model_package.engine_installed():
                raise ModelMissing(model_package.problem() or "")
            return model_package.find_model(self._model_path)
        except ModelMissing as missing:
            raise NotConfigured(str(missing)) from None

    async def _run(
        self, path: Path, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        key = secrets.token_urlsafe(32)
        process = await anyio.open_process(
            # Without -P a file beside the server's working directory could pose as a module.
            [sys.executable, "-P", "-m", "nbinline_rtc.local_engine"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        try:
            address = None
            with anyio.move_on_after(self._start_timeout) as waiting:
                with contextlib.suppress(anyio.BrokenResourceError):
                    await process.stdin.send(self._settings(path, key))
                address = await _address(process.stdout)
            if waiting.cancelled_caught:
                raise Unavailable("The local model was not ready in time. Run the prompt again.")
            if address is None:
                raise Unavailable(f"The engine of the local model could not load {path.name}.")
            self._endpoint = Endpoint(f"{address}/v1", key)
            task_status.started()
            await process.wait()
        finally:
            self._endpoint = None
            self._process = None
            await _end(process)

    def _settings(self, path: Path, key: str) -> bytes:
        settings: dict[str, Any] = {
            "model_path": str(path),
            "key": key,
            "context_tokens": self.context_tokens,
            "slots": self._slots,
            # One core is left to the server and the browser: threads that get no turn stall all.
            "threads": max(1, min(8, (os.cpu_count() or 1) - 1)),
        }
        return json.dumps(settings).encode() + b"\n"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in VENDOR_VARIABLES}


async def _address(stream: ByteReceiveStream) -> str | None:
    """The address of the child's first JSON line; None if its output ends before one."""
    text = ""
    async for piece in TextReceiveStream(stream):
        text += piece
        for line in text.splitlines(keepends=True):
            if line.startswith('{"address"') and line.endswith("\n"):
                return str(json.loads(line)["address"])
    return None


async def _end(process: Process) -> None:
    """Close the child's input, which ends it; kill it if it does not listen."""
    with anyio.move_on_after(2, shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
        await process.wait()
    with anyio.move_on_after(2, shield=True):
        if process.returncode is None:
            process.kill()
        await process.aclose()
