"""Doubles that keep their promises: shared notebooks in memory, without a server.

The far side is a real room of pycrdt-websocket; only the transport is in memory.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import anyio
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskStatus
from jupyter_ydoc import YNotebook
from pycrdt import Doc
from pycrdt.websocket import YRoom

from nbinline_agent.document.background import background
from nbinline_agent.document.channel import MemoryChannel, memory_channels
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Membership, Peer
from nbinline_agent.errors import ReadOnlyNotebook, UnknownNotebook
from nbinline_agent.ids import FileId, NotebookPath

PATH = NotebookPath("notebook.ipynb")
"""Where :func:`open_notebook` and :func:`two_peers` put their notebook."""

SAVE_INTERVAL = 2.5
"""Seconds between two saves while somebody writes."""


def markdown(source: str, id: str, **metadata: Any) -> dict[str, Any]:
    """A Markdown cell."""
    return {"cell_type": "markdown", "id": id, "metadata": metadata, "source": source}


def code(
    source: str, id: str, outputs: Sequence[Mapping[str, Any]] = (), count: int | None = None
) -> dict[str, Any]:
    """A code cell."""
    return {
        "cell_type": "code",
        "id": id,
        "metadata": {},
        "source": source,
        "outputs": [dict(output) for output in outputs],
        "execution_count": count,
    }


def prompt(source: str, id: str, **choices: Any) -> dict[str, Any]:
    """A question; ``choices`` are its own overrides, such as ``keepAnswer=True``."""
    return markdown(source, id, nbinlineai={"isPromptCell": True, **choices})


def answer(source: str, id: str, to: str, status: str = "done", **more: Any) -> dict[str, Any]:
    """An answer linked to a question."""
    mark = {"isOutputCell": True, "promptCellId": to, "status": status, **more}
    return markdown(source, id, nbinlineai=mark)


def notebook_content(
    cells: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, Any] | None = None,
    nbformat_minor: int = 5,
) -> dict[str, Any]:
    """A notebook as its file holds it."""
    return {
        "cells": [copy.deepcopy(dict(cell)) for cell in cells],
        "metadata": copy.deepcopy(dict(metadata or {})),
        "nbformat": 4,
        "nbformat_minor": nbformat_minor,
    }


class SharedNotebook:
    """The far side of a notebook in memory: its room, its document, its file.

    Attributes:
        path: Where the file is.
        file_id: Its id.
        file: What was last saved, or None when the file was removed.
        read_only: Whether joining is refused.
        ynotebook: The room's own document; edit it as somebody whose edits come from the room.
        room: The room.
        saves: Times it was saved.
        writers: Members that are writing now.
    """

    def __init__(self, path: NotebookPath, file_id: FileId, content: dict[str, Any]) -> None:
        self.path = path
        self.file_id = file_id
        self.file: dict[str, Any] | None = content
        self.read_only = False
        self.saves = 0
        self.writers = 0
        self._members: set[_Member] = set()
        self._channels: set[MemoryChannel] = set()
        self.ynotebook = YNotebook()
        self.ynotebook.set(copy.deepcopy(content))
        self.room = YRoom(ydoc=self.ynotebook.ydoc)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells as the room has them now."""
        cells = self.ynotebook.get(deduplicate=False)["cells"]
        assert isinstance(cells, list)
        return cells

    def cell(self, cell_id: str) -> dict[str, Any]:
        """A cell as the room has it now; KeyError if it is not there."""
        for cell in self.cells:
            if cell.get("id") == cell_id:
                return cell
        raise KeyError(cell_id)

    def source(self, cell_id: str) -> str:
        """A cell's text as the room has it now."""
        return str(self.cell(cell_id)["source"])

    def mark(self, cell_id: str) -> Mapping[str, Any]:
        """Our own metadata of a cell as the room has it now."""
        value = self.cell(cell_id)["metadata"].get("nbinlineai", {})
        assert isinstance(value, Mapping)
        return value

    @property
    def users(self) -> list[Mapping[str, Any]]:
        """Who shows up in the room's awareness."""
        return [state["user"] for state in self.room.awareness.states.values() if "user" in state]

    def save(self) -> bool:
        """Bring the document into the file, if there still is one."""
        if self.file is None:
            return False
        self.file = self.ynotebook.get(deduplicate=False)
        self.saves += 1
        return True

    async def _run_room(self, *, task_status: TaskStatus[None]) -> None:
        # Cancelled instead of stopped: stopping a room that has updates to send breaks it.
        self._running, ended = anyio.CancelScope(), anyio.Event()
        self._ended = ended
        with self._running:
            await self.room.start(task_status=task_status)
        ended.set()

    async def _stop_room(self) -> None:
        self._running.cancel()
        await self._ended.wait()


class _Member:
    """A ``Membership`` of a notebook in memory."""

    def __init__(self, rooms: MemoryRooms, shared: SharedNotebook, peer: Peer) -> None:
        self.peer = peer
        self.lost = anyio.Event()
        self._rooms = rooms
        self._shared = shared

    @property
    def alive(self) -> bool:
        """Whether the room is still there."""
        return not (self.lost.is_set() or self.peer.closed.is_set())

    @property
    def file_id(self) -> FileId:
        return self._shared.file_id

    @property
    def path(self) -> NotebookPath:
        return self._shared.path

    async def save(self) -> bool:
        await anyio.lowlevel.checkpoint()
        return not self.lost.is_set() and self._shared.save()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        self._shared.writers += 1
        try:
            async with background(self._save_regularly):
                yield
        finally:
            self._shared.writers -= 1

    async def _save_regularly(self) -> None:
        while True:
            await anyio.sleep(SAVE_INTERVAL)
            await self.save()

    async def announce(self, state: Mapping[str, Any] | None) -> None:
        await anyio.lowlevel.checkpoint()
        if state is None:
            self._rooms.announced.pop(self._shared.path, None)
        else:
            self._rooms.announced[self._shared.path] = state

    async def file_exists(self) -> bool:
        await anyio.lowlevel.checkpoint()
        return self._shared.file is not None


class MemoryRooms(AsyncContextManagerMixin):
    """``Rooms`` over notebooks in memory; an async context manager.

    ::

        async with MemoryRooms() as rooms:
            shared = await rooms.add("a.ipynb", [prompt("Why?", "q")])
            async with rooms.join("a.ipynb") as membership:
                ...

    Attributes:
        notebooks: By path.
        announced: What members show in the list of people on the server, by path.
        joins: Times a room was joined.
    """

    def __init__(self) -> None:
        self.notebooks: dict[NotebookPath, SharedNotebook] = {}
        self.announced: dict[NotebookPath, Mapping[str, Any]] = {}
        self.joins = 0

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with background() as self._tasks:
            yield self

    async def add(
        self,
        path: str,
        cells: Sequence[Mapping[str, Any]],
        metadata: Mapping[str, Any] | None = None,
        nbformat_minor: int = 5,
    ) -> SharedNotebook:
        """Put a notebook there and open its room."""
        where = NotebookPath(path)
        content = notebook_content(cells, metadata, nbformat_minor)
        shared = SharedNotebook(where, FileId(f"file-of-{path}"), content)
        self.notebooks[where] = shared
        await self._tasks.start(shared._run_room)
        return shared

    def rename(self, path: str, new_path: str) -> None:
        """Rename a notebook; those who are in its room stay."""
        shared = self.notebooks.pop(NotebookPath(path))
        shared.path = NotebookPath(new_path)
        self.notebooks[shared.path] = shared

    async def lose(self, path: str) -> None:
        """Stop a notebook's room under its members and open it again, as after a crash.

        The new room starts from the file: what was not saved is gone, and the history as well.
        """
        await self._replace(path, keep_history=False)

    async def replace(self, path: str) -> None:
        """Stop a notebook's room under its members and open it again with its whole history."""
        await self._replace(path, keep_history=True)

    async def _replace(self, path: str, keep_history: bool) -> None:
        shared = self.notebooks[NotebookPath(path)]
        history = shared.ynotebook.ydoc.get_update()
        await shared._stop_room()
        document: Doc[Any] = Doc()
        shared.ynotebook = YNotebook(document)
        if keep_history:
            document.apply_update(history)
        elif shared.file is not None:
            shared.ynotebook.set(copy.deepcopy(shared.file))
        shared.room = YRoom(ydoc=document)
        await self._tasks.start(shared._run_room)
        for member in shared._members:
            member.lost.set()
        for channel in list(shared._channels):
            await channel.aclose()

    async def resolve(self, path: NotebookPath) -> tuple[NotebookPath, FileId]:
        """See ``Rooms``."""
        await anyio.lowlevel.checkpoint()
        shared = self._find(path)
        return shared.path, shared.file_id

    @asynccontextmanager
    async def join(self, path: NotebookPath) -> AsyncIterator[Membership]:
        """See ``Rooms``."""
        shared = self._find(path)
        self.joins += 1
        async with self._connect(shared) as channel, Peer(channel) as peer:
            await peer.synced()
            member = _Member(self, shared, peer)
            shared._members.add(member)
            try:
                yield member
            finally:
                shared._members.discard(member)

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncIterator[MemoryChannel]:
        """Open a channel to a notebook's room, as a browser opens its websocket."""
        async with self._connect(self._find(NotebookPath(path))) as channel:
            yield channel

    @asynccontextmanager
    async def _connect(self, shared: SharedNotebook) -> AsyncIterator[MemoryChannel]:
        near, far = memory_channels(shared.file_id)
        self._tasks.start_soon(self._serve, shared, far)
        shared._channels.add(far)
        try:
            yield near
        finally:
            await near.aclose()

    async def _serve(self, shared: SharedNotebook, channel: MemoryChannel) -> None:
        try:
            await shared.room.serve(channel)
        finally:
            shared._channels.discard(channel)
            await channel.aclose()

    def _find(self, path: NotebookPath) -> SharedNotebook:
        shared = self.notebooks.get(path)
        if shared is None or shared.file is None:
            raise UnknownNotebook
        if shared.read_only:
            raise ReadOnlyNotebook
        return shared


@asynccontextmanager
async def open_notebook(
    cells: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, Any] | None = None,
    nbformat_minor: int = 5,
) -> AsyncIterator[tuple[Notebook, SharedNotebook]]:
    """A notebook in memory that we have joined, and its far side."""
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, cells, metadata, nbformat_minor)
        async with rooms.join(PATH) as membership:
            yield Notebook(membership.peer), shared


@asynccontextmanager
async def two_peers(
    cells: Sequence[Mapping[str, Any]],
) -> AsyncIterator[tuple[Peer, Peer, SharedNotebook]]:
    """Two replicas of one notebook in memory, both synchronised, and its far side."""
    async with MemoryRooms() as rooms, AsyncExitStack() as stack:
        shared = await rooms.add(PATH, cells)
        first = await stack.enter_async_context(rooms.join(PATH))
        second = await stack.enter_async_context(rooms.join(PATH))
        yield first.peer, second.peer, shared
