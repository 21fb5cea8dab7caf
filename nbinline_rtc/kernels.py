"""The kernels of this server's notebooks, reached in process through Jupyter's own managers."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Self

import anyio
import structlog
from anyio.abc import TaskGroup
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from nbinline_agent.document.background import background
from nbinline_agent.errors import KernelDied, KernelError, NoKernel
from nbinline_agent.ids import NotebookPath
from nbinline_agent.kernel import (
    CallResult,
    Execution,
    KernelState,
    LiveFunction,
    LiveValue,
    OnOutput,
)
from nbinline_agent.messages import JsonValue

from .kernel_calls import called, traced
from .kernel_channels import KernelChannels, alive, open_channels, process_of
from .kernel_looking import ask
from .kernel_runs import Code, run_code
from .kernel_values import live_function, live_value

IDLE = 60.0
"""Seconds a connection to a kernel is kept after its last use."""

REVIVAL = 10.0
"""Seconds in which Jupyter itself should have restarted a kernel that died; then we do."""

log = structlog.get_logger(__name__)


class KernelsOfServer:
    """Finds, starts and connects to kernels; an async context manager that owns the connections.

    Args:
        serverapp: The ``ServerApp``.
    """

    def __init__(self, serverapp: Any) -> None:
        self._sessions = serverapp.session_manager
        self._managers = serverapp.kernel_manager
        self._connections: dict[str, _Connection] = {}
        self._known: dict[NotebookPath, str] = {}
        self._lost: set[NotebookPath] = set()
        self._stack = contextlib.AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    def of(self, path: NotebookPath, kernel_id: str | None = None) -> NotebookKernel:
        """The kernel of a notebook.

        Args:
            path: The notebook.
            kernel_id: A kernel that somebody names; else that of the notebook's session.
        """
        return NotebookKernel(self, path, kernel_id)

    def manager(self, kernel_id: str) -> Any:
        """Jupyter's manager of one kernel.

        Raises:
            NoKernel: There is no such kernel.
        """
        if kernel_id not in self._managers:
            raise NoKernel
        return self._managers.get_kernel(kernel_id)

    async def find(self, path: NotebookPath) -> str | None:
        """Id of the kernel of a notebook's session, or None; never starts one."""
        try:
            session = await self._sessions.get_session(path=path, type="notebook")
        except HTTPError:
            return None
        kernel = session.get("kernel") or {}
        kernel_id = kernel.get("id")
        return kernel_id if kernel_id in self._managers else None

    async def start(self, path: NotebookPath, name: str) -> str:
        """Start a session for a notebook; a browser that opens it finds the same one.

        Raises:
            KernelError: It did not start.
        """
        try:
            session = await self._sessions.create_session(
                path=path,
                name=posixpath.basename(path),
                type="notebook",
                kernel_name=name or None,
            )
        except Exception as error:
            log.warning("kernel not started", notebook=path, kernel=name, error=str(error))
            known = f"the kernel {name!r}" if name else "a kernel"
            raise KernelError(f"The server could not start {known} for this notebook.") from error
        return str(session["kernel"]["id"])

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupt what runs."""
        self.manager(kernel_id)
        await ensure_async(self._managers.interrupt_kernel(kernel_id))

    async def restart(self, kernel_id: str) -> None:
        """Restart, and wait until the kernel answers.

        Raises:
            KernelError: It did not come back.
        """
        self.manager(kernel_id)
        try:
            await ensure_async(self._managers.restart_kernel(kernel_id))
        except Exception as error:
            raise KernelError("The kernel did not restart.") from error
        async with self.connected(kernel_id):
            pass

    def noticed(self, path: NotebookPath, identity: str) -> None:
        """Remember which process a notebook uses; another one than before has lost the state."""
        known = self._known.get(path)
        if known is not None and known != identity:
            self._lost.add(path)
        self._known[path] = identity

    def lost(self, path: NotebookPath, *, told: bool = False) -> bool:
        """Whether a notebook's kernel lost its state and nobody was told yet.

        Args:
            path: The notebook.
            told: Whether somebody is told now.
        """
        was_lost = path in self._lost
        if told:
            self._lost.discard(path)
        return was_lost

    @contextlib.asynccontextmanager
    async def connected(self, kernel_id: str) -> AsyncIterator[KernelChannels]:
        """A connection to a kernel; one that died is waited for, and restarted at last.

        Raises:
            KernelError: It cannot be reached.
        """
        await self._revived(kernel_id)
        connection = self._connections.get(kernel_id)
        manager = self.manager(kernel_id)
        if connection is None or connection.ended or connection.identity != process_of(manager):
            connection = _Connection(manager)
            self._connections[kernel_id] = connection
            self._tasks.start_soon(self._serve, kernel_id, connection)
        async with connection.used() as channels:
            yield channels

    async def _serve(self, kernel_id: str, connection: _Connection) -> None:
        try:
            await connection.serve()
        finally:
            if self._connections.get(kernel_id) is connection:
                del self._connections[kernel_id]

    async def _revived(self, kernel_id: str) -> None:
        with anyio.move_on_after(REVIVAL):
            while not await alive(self.manager(kernel_id)):  # noqa: ASYNC110
                await anyio.sleep(0.2)
            return
        try:
            await ensure_async(self._managers.restart_kernel(kernel_id, now=True))
        except Exception as error:
            raise KernelDied("The kernel died and could not be restarted.") from error


class _Connection:
    """Channels to one process that live as long as somebody uses them, and a little longer."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self.identity = process_of(manager)
        self._channels: KernelChannels | None = None
        self._failure: KernelError | None = None
        self._users = 0
        self._changed = anyio.Event()
        self.ended = False

    async def serve(self) -> None:
        """Connect, and stay connected until nobody needs it or the kernel is gone."""
        try:
            async with open_channels(self._manager) as channels:
                self._channels = channels
                self._pulse()
                with anyio.CancelScope() as scope:

                    async def until_lost() -> None:
                        await channels.lost.wait()
                        scope.cancel()

                    async with background(until_lost):
                        await self._unused()
        except KernelError as error:
            self._failure = error
        except Exception:
            log.exception("no connection to a kernel")
            self._failure = KernelError()
        finally:
            self.ended = True
            self._pulse()

    async def _unused(self) -> None:
        while True:
            while self._users:
                await self._changed.wait()
            with anyio.move_on_after(IDLE):
                while not self._users:
                    await self._changed.wait()
            if not self._users:
                self.ended = True
                return

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[KernelChannels]:
        """The channels, once they are open."""
        self._users += 1
        self._pulse()
        try:
            while self._channels is None and self._failure is None and not self.ended:
                await self._changed.wait()
            if self._channels is None:
                raise self._failure or KernelDied()
            yield self._channels
        finally:
            self._users -= 1
            self._pulse()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class NotebookKernel:
    """Implements the agent's ``Kernel`` for one notebook."""

    def __init__(
        self, kernels: KernelsOfServer, path: NotebookPath, kernel_id: str | None = None
    ) -> None:
        self._kernels = kernels
        self._path = path
        self._named = kernel_id

    async def _find(self) -> str | None:
        return self._named or await self._kernels.find(self._path)

    async def state(self) -> KernelState:
        """What is known without asking the kernel."""
        kernel_id = await self._find()
        if kernel_id is None:
            return KernelState("", "", "none", self._kernels.lost(self._path))
        manager = self._kernels.manager(kernel_id)
        status = manager.execution_state if await alive(manager) else "dead"
        self._kernels.noticed(self._path, process_of(manager))
        language = getattr(manager.kernel_spec, "language", "") or ""
        return KernelState(kernel_id, language.lower(), status, self._kernels.lost(self._path))

    async def start(self, name: str = "") -> None:
        """Start a kernel if the notebook has none."""
        if await self._find() is None:
            kernel_id = await self._kernels.start(self._path, name)
            async with self._kernels.connected(kernel_id) as channels:
                self._kernels.noticed(self._path, channels.identity)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[str, KernelChannels]]:
        kernel_id = await self._find()
        if kernel_id is None:
            raise NoKernel
        async with self._kernels.connected(kernel_id) as channels:
            self._kernels.noticed(self._path, channels.identity)
            yield kernel_id, channels

    async def inspect(
        self, expressions: Sequence[str], *, wait: float = 0.0, images: bool = False
    ) -> Mapping[str, LiveValue]:
        """Live values; every expression gets an entry."""
        arguments: dict[str, JsonValue] = {"expressions": list(expressions), "images": images}
        try:
            found = await self.ask("values", arguments, wait=wait)
        except KernelError as error:
            return {
                each: LiveValue(each, error.message, problem=error.code) for each in expressions
            }
        return {each: live_value(each, found.get(each, {})) for each in expressions}

    async def functions(
        self, names: Sequence[str], *, wait: float = 0.0
    ) -> Mapping[str, LiveFunction]:
        """Signatures and descriptions of live functions; every name gets an entry."""
        try:
            found = await self.ask("functions", {"names": list(names)}, wait=wait)
        except KernelError as error:
            return {name: LiveFunction(name, problem=error.message) for name in names}
        return {name: live_function(name, found.get(name, {})) for name in names}

    async def ask(
        self, question: str, arguments: Mapping[str, JsonValue], *, wait: float = 0.0
    ) -> Mapping[str, Any]:
        """Ask the code that looks into a Python kernel, beside what runs there."""
        async with self._connected() as (_, channels):
            answer = await ask(channels, question, arguments, wait)
        return answer if isinstance(answer, dict) else {}

    async def call(
        self, name: str, arguments: Mapping[str, JsonValue], *, deadline: float
    ) -> CallResult:
        """Call a live function in the order of the kernel's queue."""
        async with self._connected() as (kernel_id, channels):
            return await called(
                channels, name, arguments, deadline, lambda: self._kernels.interrupt(kernel_id)
            )

    async def trace(
        self, arguments: Mapping[str, JsonValue], *, deadline: float
    ) -> Mapping[str, Any]:
        """Call a live function once and list what happened inside it."""
        async with self._connected() as (kernel_id, channels):
            return await traced(
                channels, arguments, deadline, lambda: self._kernels.interrupt(kernel_id)
            )

    async def execute(
        self,
        code: str,
        *,
        on_output: OnOutput,
        deadline: float,
        wait: float | None = None,
        store_history: bool = True,
        silent: bool = False,
        cell_id: str = "",
        stop_on_error: bool = False,
        on_start: Callable[[], None] | None = None,
    ) -> Execution:
        """Run code in the order of the kernel's queue."""
        async with self._connected() as (kernel_id, channels):
            wanted = Code(code, store_history, silent, cell_id, stop_on_error)
            return await run_code(
                channels,
                wanted,
                on_output=on_output,
                deadline=deadline,
                wait=deadline if wait is None else wait,
                interrupt=lambda: self._kernels.interrupt(kernel_id),
                on_start=on_start,
                state_lost=lambda: self._kernels.lost(self._path, told=True),
            )

    async def interrupt(self) -> None:
        """Interrupt what runs, whoever runs it."""
        kernel_id = await self._find()
        if kernel_id is None:
            raise NoKernel
        await self._kernels.interrupt(kernel_id)

    async def restart(self) -> None:
        """Restart; everything the kernel knew is gone, and whoever asked for it knows."""
        kernel_id = await self._find()
        if kernel_id is None:
            raise NoKernel
        await self._kernels.restart(kernel_id)
        self._kernels.noticed(self._path, process_of(self._kernels.manager(kernel_id)))
        self._kernels.lost(self._path, told=True)
