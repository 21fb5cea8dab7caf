"""People's own code cells, run by the server, so that their outputs survive a reload of the page.

jupyter-collaboration's executor, and ours, ask for it where ``server_side_execution`` is on. What
the kernel does for cells that a page sends to it is done here: they run in the order in which they
came, and one that fails drops those that wait behind it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskGroup

from nbinline_agent.answering import Memberships
from nbinline_agent.document.background import background
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.outputs import OutputArea
from nbinline_agent.errors import (
    BadRequest,
    CellFailed,
    NbinlineError,
    NotCaughtUp,
    UnknownNotebook,
)
from nbinline_agent.executing import CellRun, run_cell
from nbinline_agent.ids import CellId, FileId, NotebookPath
from nbinline_agent.journal import Author
from nbinline_agent.kernel import Execution, Kernel
from nbinline_agent.runtime import Runtime

from .kernels import KernelsOfServer
from .notes import NoteRequest, Notes, asked_for
from .rooms import RoomsOfServer

BARRIER = 5.0
"""Seconds to wait for the text of a cell as the person saw it."""

KEYSTROKES = 0.05
"""Seconds for the last keystrokes of a page that does not say what it saw."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunCell:
    """A person's wish to have a code cell run.

    Attributes:
        kernel_id: Where.
        path: The notebook.
        cell_id: The cell.
        author: Who wishes it.
        source_sha256: Hex digest of the cell's source as the person saw it, or None.
    """

    kernel_id: str
    path: NotebookPath
    cell_id: CellId
    author: Author
    source_sha256: str | None = None


@dataclass(eq=False)
class _Line:
    """The cells that wait for one kernel.

    Attributes:
        turn: Held by the cell that runs; who waits longest comes next.
        came: Number of the last cell that came.
        dropped: Cells up to this number were dropped by one that failed.
    """

    turn: anyio.Lock = field(default_factory=anyio.Lock)
    came: int = 0
    dropped: int = 0


class CellRuns:
    """Runs cells for people; an async context manager that owns the runs.

    A run goes on when the request that asked for it is gone.
    """

    def __init__(
        self, runtime: Runtime, rooms: RoomsOfServer, kernels: KernelsOfServer, notes: Notes
    ) -> None:
        self._runtime = runtime
        self._rooms = rooms
        self._kernels = kernels
        self._notes = notes
        self._lines: dict[str, _Line] = {}
        self._stack = contextlib.AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._stack.aclose()

    def path_of(self, document_id: str) -> NotebookPath:
        """The notebook of a room.

        Args:
            document_id: The room's name, ``json:notebook:<file id>``.

        Raises:
            BadRequest: It is no notebook's.
            UnknownNotebook: There is no such file.
        """
        form, _, rest = document_id.partition(":")
        kind, _, file_id = rest.partition(":")
        if (form, kind) != ("json", "notebook") or not file_id:
            raise BadRequest("The field 'document_id' must name the room of a notebook.")
        path = self._rooms.path_of(FileId(file_id))
        if path is None:
            raise UnknownNotebook
        return path

    async def run(self, wish: RunCell) -> Execution:
        """Run a cell; returns when it has run.

        Raises:
            CellFailed: It did not end well.
            RequestError: It cannot be run.
            KernelError: The kernel cannot be used.
        """
        self._kernels.manager(wish.kernel_id)
        ended = anyio.Event()
        outcome: list[CellRun | NbinlineError] = []

        async def work() -> None:
            try:
                outcome.append(await self._run(wish))
            except NbinlineError as error:
                outcome.append(error)
            except Exception:
                log.exception("cell not run", notebook=wish.path, cell=wish.cell_id)
                outcome.append(NbinlineError())
            finally:
                ended.set()

        self._tasks.start_soon(work)
        await ended.wait()
        if not outcome:
            raise CellFailed("The server stopped while the cell was running.")
        if isinstance(outcome[0], NbinlineError):
            raise outcome[0]
        execution = outcome[0].execution
        if execution.status != "ok":
            raise CellFailed(execution.error or None, status=execution.status)
        return execution

    async def _run(self, wish: RunCell) -> CellRun:
        line = self._lines.setdefault(wish.kernel_id, _Line())
        line.came += 1
        number = line.came
        async with self._runtime.in_room(wish.path) as rooms, _Place(rooms).followed() as place:
            origin = f"cell-{uuid4().hex}"
            source = await self._source(place, wish)
            waiting = OutputArea(lambda: place.notebook, wish.cell_id, origin)
            waiting.queue()
            async with line.turn:
                if number <= line.dropped:
                    waiting.leave()
                    return CellRun(Execution("aborted"))
                run = await self._in_turn(place, wish, source, origin)
                if run.execution.status != "ok":
                    line.dropped = line.came
            if line.came == number:
                await place.keep()
            return run

    async def _in_turn(self, place: _Place, wish: RunCell, source: str, origin: str) -> CellRun:
        kernel: Kernel = self._kernels.of(wish.path, wish.kernel_id)

        def note(message: Mapping[str, Any]) -> None:
            request = asked_for(message)
            if request is not None:
                self._tasks.start_soon(self._place_note, wish, request)

        async with place.membership.writing():
            return await run_cell(
                kernel,
                lambda: place.notebook,
                wish.cell_id,
                source,
                origin=origin,
                deadline=math.inf,
                stop_on_error=True,
                also=note,
            )

    async def _place_note(self, wish: RunCell, request: NoteRequest) -> None:
        try:
            await self._notes.place(wish.path, wish.cell_id, request, wish.author)
        except NbinlineError as error:
            log.info("note not placed", notebook=wish.path, code=error.code)

    async def _source(self, place: _Place, wish: RunCell) -> str:
        """The cell's text as the person saw it.

        Raises:
            NotCaughtUp: It did not arrive in time.
            BadRequest: It is no code cell.
        """
        if wish.source_sha256 is None:
            await anyio.sleep(KEYSTROKES)
        else:
            with anyio.move_on_after(BARRIER) as scope:
                await place.notebook.changed_until(lambda: _shows(place.notebook, wish))
            if scope.cancelled_caught:
                raise NotCaughtUp
        cell = place.notebook.cell(wish.cell_id)
        if cell.kind != "code":
            raise BadRequest("Only code cells run in a kernel.")
        return cell.source


class _Place:
    """The room a cell is in, also after it was replaced."""

    def __init__(self, rooms: Memberships) -> None:
        self._rooms = rooms

    @contextlib.asynccontextmanager
    async def followed(self) -> AsyncIterator[Self]:
        """Be there."""
        self.membership = await self._rooms.current()
        async with background(self._follow):
            yield self

    async def _follow(self) -> None:
        with contextlib.suppress(NbinlineError):
            while True:
                await self.membership.lost.wait()
                self.membership = await self._rooms.current()

    @property
    def notebook(self) -> Notebook:
        """The live notebook."""
        return Notebook(self.membership.peer)

    async def keep(self) -> None:
        """Bring what was written onto the disk."""
        await self.membership.peer.settled()
        await self.membership.save()


def _shows(notebook: Notebook, wish: RunCell) -> bool:
    if not notebook.has(wish.cell_id):
        return False
    source = notebook.source(wish.cell_id)
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest() == wish.source_sha256
