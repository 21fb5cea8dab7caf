"""Cells that only claim to run: settled when somebody opens their notebook.

A page that goes away while a cell runs, or a server that dies, leaves ``[*]`` in the shared
document for good: whoever would have taken it back is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Self

import anyio
import structlog
from anyio.abc import TaskGroup

from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import NbinlineError
from nbinline_agent.executing import settle_cells
from nbinline_agent.ids import FileId
from nbinline_agent.runtime import Runtime

from .kernels import KernelsOfServer
from .rooms import RoomsOfServer

OPENINGS = "https://schema.jupyter.org/jupyter_collaboration/session/v1"
"""What jupyter-collaboration says of rooms, and of pages that come into them."""

ROOM = "json:notebook:"

LOADING = 1.0
"""Seconds a page has for its own first words before its notebook is looked at."""

LONGEST = 3_600.0
"""Seconds for which a kernel that works is waited for."""

ORIGIN = "settle"

log = structlog.get_logger(__name__)


class StaleCells:
    """Looks at notebooks that are opened; an async context manager that owns the looking.

    Args:
        serverapp: The ``ServerApp``; it tells what is opened.
        runtime: Lets us into rooms.
        rooms: The same rooms, to look whether anything is to be done.
        kernels: Tell whether a cell may well run.
    """

    def __init__(
        self, serverapp: Any, runtime: Runtime, rooms: RoomsOfServer, kernels: KernelsOfServer
    ) -> None:
        self._events = serverapp.event_logger
        self._runtime = runtime
        self._rooms = rooms
        self._kernels = kernels
        self._looking: set[FileId] = set()
        self._stack = contextlib.AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._events.add_listener(schema_id=OPENINGS, listener=self._told)
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._events.remove_listener(schema_id=OPENINGS, listener=self._told)
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    async def _told(self, logger: Any, schema_id: str, data: Mapping[str, Any]) -> None:
        room = str(data.get("room"))
        file_id = FileId(room.removeprefix(ROOM))
        if data.get("action") != "initialize" or not room.startswith(ROOM):
            return
        if file_id not in self._looking and not self._tasks.cancel_scope.cancel_called:
            self._looking.add(file_id)
            self._tasks.start_soon(self._look, file_id)

    async def _look(self, file_id: FileId) -> None:
        try:
            await anyio.sleep(LOADING)
            if await self._rooms.claims_to_run(file_id):
                await self._settle(file_id)
        except NbinlineError as error:
            log.info("cells not settled", file=file_id, code=error.code)
        except Exception:
            log.exception("cells not settled", file=file_id)
        finally:
            self._looking.discard(file_id)

    async def _settle(self, file_id: FileId) -> None:
        path = self._rooms.path_of(file_id)
        if path is None:
            return
        async with self._runtime.in_room(path) as place:
            membership = await place.current()
            with anyio.move_on_after(LONGEST):
                kernel = self._kernels.of(membership.path)
                settled = await settle_cells(kernel, Notebook(membership.peer), ORIGIN)
                if settled:
                    log.info("cells settled", notebook=membership.path, cells=settled)
                    await membership.peer.settled()
