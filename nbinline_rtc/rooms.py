"""Shared notebooks of this server: joining their rooms, holding and saving them, leaving them.

jupyter-collaboration gives no public way to open a room without a browser, to hold it, to save it
while somebody writes without a pause, or to leave it so that it is closed later. Everything this
project uses of its private parts is in this file, and most of it in ``_Room``.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Self
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from jupyter_server.utils import ensure_async
from jupyter_server_ydoc.rooms import DocumentRoom
from jupyter_server_ydoc.utils import OutOfBandChanges
from jupyter_ydoc import YNotebook
from pycrdt import Channel, Doc
from tornado.web import HTTPError

from nbinline_agent.document.channel import MemoryChannel, memory_channels
from nbinline_agent.document.peer import Peer
from nbinline_agent.document.vectors import read_vector
from nbinline_agent.errors import ReadOnlyNotebook, RoomLost, UnknownNotebook
from nbinline_agent.ids import FileId, NotebookPath

from .store import SafeSQLiteYStore, close_writers, keep_marks

SAVE_EVERY = 2.5
"""Seconds between forced saves while a run writes, at least."""

SAVE_SHARE = 10
"""Forced saves of all notebooks may take one part in this many of the time."""

LOAD_DEADLINE = 60.0
"""Seconds a room may take to load its file."""

SYNC_DEADLINE = 30.0
"""Seconds until a joined room must have sent its document."""

SAVE_DEADLINE = 60.0
"""Seconds after which a save is given up; a disk that is that slow counts as failed."""

LEAVE_DEADLINE = 5.0
"""Seconds for the last words and the last save when leaving."""

STOP_DEADLINE = 3.0
"""Seconds for saving what waits to be saved when the server stops."""

WATCH_EVERY = 0.25
"""Seconds between looks whether the room is still the one that is served."""

CLEAR_UNDO_EVERY = 60.0
"""Seconds between clearings of the room's own undo stack."""

CELLS_AT_ONCE = 500
"""Cells that are looked at without letting others work."""

UNREADABLE = "The file at that path cannot be read as a notebook. Mend it, or work on a copy."

GLOBAL_AWARENESS = "JupyterLab:globalAwareness"
"""The room of JupyterLab's list of online collaborators."""

log = logging.getLogger(__name__)


class RoomsOfServer:
    """The rooms of one Jupyter server; an async context manager that owns what it schedules.

    Args:
        serverapp: The ``ServerApp``; its extensions ``jupyter_server_ydoc`` and
            ``jupyter_server_fileid`` are used.
        save_every: Seconds between forced saves while a run writes, at least.
    """

    def __init__(self, serverapp: Any, *, save_every: float = SAVE_EVERY) -> None:
        self._settings = serverapp.web_app.settings
        self._contents = serverapp.contents_manager
        self.save_every = save_every
        self.saving = anyio.Lock()
        self._turn = anyio.Lock()
        self._rested = 0.0
        self._stack = contextlib.AsyncExitStack()
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._tasks.cancel_scope.cancel()
        # Not told of the block's exception, the task group cannot wrap it into a group.
        await self._stack.aclose()

    @property
    def _extension(self) -> Any:
        extension = self._settings.get("jupyter_server_ydoc")
        if extension is None:
            raise RoomLost("jupyter-collaboration is not enabled on this server.")
        return extension

    async def resolve(self, path: str) -> tuple[NotebookPath, FileId]:
        """Find a notebook without opening its room.

        Raises:
            UnknownNotebook: There is no file, or it is no notebook.
            ReadOnlyNotebook: It cannot be written.
        """
        clean = _clean(path)
        try:
            model = await ensure_async(self._contents.get(clean, content=False))
        except (HTTPError, OSError, ValueError) as error:
            raise UnknownNotebook from error
        if model["type"] != "notebook":
            raise UnknownNotebook
        if not model["writable"]:
            raise ReadOnlyNotebook
        file_id = self._settings["file_id_manager"].index(clean)
        if file_id is None:
            raise UnknownNotebook
        return clean, FileId(file_id)

    def path_of(self, file_id: FileId) -> NotebookPath | None:
        """Where the file is now, as far as the server was told of its renames."""
        path = self._settings["file_id_manager"].get_path(file_id)
        return None if path is None else NotebookPath(path)

    async def open_content(self, path: str) -> tuple[NotebookPath, dict[str, Any] | None]:
        """What a notebook's open room holds now; never opens one.

        Returns:
            Its path, and the notebook in nbformat's form; None if its room is not open.

        Raises:
            UnknownNotebook: There is no such file, or it is no notebook.
        """
        clean = _clean(path)
        try:
            model = await ensure_async(self._contents.get(clean, content=False))
        except (HTTPError, OSError, ValueError) as error:
            raise UnknownNotebook from error
        if model["type"] != "notebook":
            raise UnknownNotebook
        file_id = self._settings["file_id_manager"].get_id(clean)
        room_id = f"json:notebook:{file_id}"
        found = self._extension.ywebsocket_server.rooms.get(room_id)
        if found is None or not found.ready:
            return clean, None
        room = _Room(self._extension, room_id, found)
        return clean, await room.content() if room.is_alive else None

    async def file_exists(self, path: NotebookPath) -> bool:
        """Whether the file is there."""
        return bool(await ensure_async(self._contents.file_exists(path)))

    async def claims_to_run(self, file_id: FileId) -> bool:
        """Whether a cell of a notebook that is open says that it runs; opens nothing."""
        room = self._extension.ywebsocket_server.rooms.get(f"json:notebook:{file_id}")
        document = room._document if isinstance(room, DocumentRoom) else None
        if not isinstance(document, YNotebook):
            return False
        cells, start = document.ycells, 0
        while start < len(cells):
            with cells.doc.transaction():
                for index in range(start, min(start + CELLS_AT_ONCE, len(cells))):
                    if cells[index].get("execution_state") == "running":
                        return True
            start += CELLS_AT_ONCE
            await anyio.lowlevel.checkpoint()
        return False

    @contextlib.asynccontextmanager
    async def join(self, path: NotebookPath) -> AsyncIterator[RoomMembership]:
        """Be a peer in the notebook's room, opened if need be and held meanwhile.

        On leaving, what the peer wrote is saved, and the room is closed as late as after the last
        browser, unless somebody else is in it.

        Raises:
            UnknownNotebook: There is no file, it is no notebook, or it cannot be read.
            ReadOnlyNotebook: It cannot be written.
            RoomLost: Its room cannot be opened.
        """
        clean, file_id = await self.resolve(path)
        room = await _open(self._extension, f"json:notebook:{file_id}")
        room.follow()
        try:
            async with self.served(room.room_id) as channel:
                peer = Peer(channel)
                membership = RoomMembership(self, room, peer, file_id, clean)
                try:
                    async with peer, contextlib.AsyncExitStack() as stack:
                        await peer.synced(timeout=SYNC_DEADLINE)
                        stack.enter_context(room.heard_by(peer.overhear))
                        async with _alongside(membership.watch):
                            yield membership
                finally:
                    # The peer has said farewell: its last words are in the room, not in the file.
                    await membership.save_last_words()
        finally:
            room.let_go()
            self._close_later(room)

    @contextlib.asynccontextmanager
    async def served(self, room_id: str) -> AsyncIterator[Channel]:
        """Our end of a channel that a running room serves.

        The serving task is the server's, not the caller's: whoever is cancelled can still bring
        last words across.
        """
        near, far = memory_channels(room_id)
        ended = anyio.Event()
        self._tasks.start_soon(self._serve, far, ended)
        try:
            yield near
        finally:
            with anyio.move_on_after(1.0, shield=True):
                await near.aclose()
                await ended.wait()

    async def _serve(self, channel: MemoryChannel, ended: anyio.Event) -> None:
        try:
            await self._extension.ywebsocket_server.serve(channel)
        finally:
            await channel.aclose()
            ended.set()

    @contextlib.asynccontextmanager
    async def turn_to_save(self) -> AsyncIterator[Callable[[float], None]]:
        """Wait until this server may spend time on a forced save; who waits longest comes first.

        All notebooks' forced saves together take one part in ``SAVE_SHARE`` of the time, so with
        many notebooks each is saved more rarely. The journal covers the gap.

        Yields:
            To be told the seconds that a save took.
        """
        async with self._turn:
            await anyio.sleep(max(0.0, self._rested - time.monotonic()))

            def spent(seconds: float) -> None:
                self._rested = time.monotonic() + (SAVE_SHARE - 1) * seconds

            yield spent

    def _close_later(self, room: _Room) -> None:
        """Close the room as the last browser's leaving does: nothing else would."""
        if room.is_deserted:
            self._tasks.start_soon(room.close_later)


class RoomMembership:
    """Being in one notebook's room.

    Attributes:
        peer: Our replica of the document.
        file_id: The file's stable id.
        lost: Set when the room was stopped or replaced under us; the peer then reaches nobody.
    """

    def __init__(
        self, rooms: RoomsOfServer, room: _Room, peer: Peer, file_id: FileId, path: NotebookPath
    ) -> None:
        self.peer = peer
        self.file_id = file_id
        self.lost = anyio.Event()
        self._rooms = rooms
        self._room = room
        self._path = path
        self._last_save = 0.0
        self._announced: Mapping[str, Any] | None = None
        self._announcement = anyio.Event()

    @property
    def alive(self) -> bool:
        """Whether the room is still the one that is served; ``lost`` is set a little later."""
        return self._room.is_alive and not self.peer.closed.is_set()

    @property
    def path(self) -> NotebookPath:
        """Where the notebook is now; follows renames made through the server."""
        self._path = self._rooms.path_of(self.file_id) or self._path
        return self._path

    async def file_exists(self) -> bool:
        """Whether the notebook's file is there."""
        return await self._rooms.file_exists(self.path)

    async def save(self) -> bool:
        """Write the room's document into its file, now.

        Returns:
            Whether the file holds it. False also when the file was deleted, renamed behind the
            server's back, made read-only or changed by somebody else, or the disk is full.
        """
        async with self._rooms.saving:
            if not self._room.is_alive:
                return False
            started = time.monotonic()
            # A save that was begun is ended: a cancelled one would look failed and be written.
            saved = False
            with anyio.move_on_after(SAVE_DEADLINE, shield=True):
                saved = await self._room.save()
                self._last_save = time.monotonic() - started
            if not saved:
                self._room.unsaved = True
            return saved

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """While inside, save often: the room itself saves only after a pause."""
        async with _alongside(self._save_often):
            yield

    async def _save_often(self) -> None:
        while True:
            await anyio.sleep(self._rooms.save_every)
            async with self._rooms.turn_to_save() as spent:
                if self._room.is_alive and self._room.unsaved:
                    await self.save()
                    spent(self._last_save)

    async def announce(self, state: Mapping[str, Any] | None) -> None:
        """Show an entry in JupyterLab's list of online collaborators.

        Args:
            state: ``{user, current, documents}``; None takes the entry away.
        """
        self._announced = state
        self._announcement.set()
        self._announcement = anyio.Event()
        await anyio.lowlevel.checkpoint()

    async def watch(self) -> None:
        """Notice when the room goes away, and do what must be done now and then while it is there.

        Runs until it is cancelled; owned by ``RoomsOfServer.join``.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_announcing)
            cleared = time.monotonic()
            while self._room.is_alive and not self.peer.closed.is_set():
                with anyio.move_on_after(WATCH_EVERY):
                    await self.peer.closed.wait()
                if time.monotonic() - cleared > CLEAR_UNDO_EVERY:
                    cleared = time.monotonic()
                    self._room.clear_undo()
            self.lost.set()
            tasks.cancel_scope.cancel()

    async def _keep_announcing(self) -> None:
        while True:
            changed = self._announcement
            if self._announced is None:
                await changed.wait()
            elif self._room.has_global_awareness:
                await self._announce()
            else:
                # It exists once a browser has come.
                with anyio.move_on_after(2.0):
                    await changed.wait()

    async def _announce(self) -> None:
        async with self._rooms.served(GLOBAL_AWARENESS) as channel, Peer(channel) as peer:
            while self._announced is not None and self._room.has_global_awareness:
                changed = self._announcement
                await peer.set_awareness(self._announced)
                with anyio.move_on_after(2.0):
                    await changed.wait()

    async def save_last_words(self) -> None:
        """Save what was written since the last save; for ``RoomsOfServer.join``."""
        if self._wrote() and self._room.is_alive and self._room.unsaved:
            with anyio.move_on_after(LEAVE_DEADLINE, shield=True):
                await self.save()

    def _wrote(self) -> bool:
        """Whether any operation of the document is ours; who only read does not save."""
        return self.peer.client_id in read_vector(self.peer.doc.get_state())


_listeners: WeakKeyDictionary[DocumentRoom, list[Callable[[bytes], None]]] = WeakKeyDictionary()
"""Who sees what clients send to a room."""


class _Room:
    """A ``DocumentRoom`` and what this project needs of its private parts.

    Attributes:
        unsaved: Whether the document changed since it was last read for a save of ours.
    """

    def __init__(self, extension: Any, room_id: str, room: DocumentRoom) -> None:
        self.room_id = room_id
        self._extension = extension
        self._server = extension.ywebsocket_server
        self._room = room
        self._noting = False
        self.unsaved = False
        self._subscription: Any = None

    def follow(self) -> None:
        """Note from now on whether the document changes."""
        self._subscription = self._room.ydoc.observe(self._changed)

    @contextlib.contextmanager
    def heard_by(self, listener: Callable[[bytes], None]) -> Iterator[None]:
        """Let somebody see what clients send to the room, while the block runs."""
        room = self._room
        listeners = _listeners.setdefault(room, [])
        listeners.append(listener)

        def hear(message: bytes) -> bool:
            for each in tuple(listeners):
                try:
                    each(message)
                except Exception as error:
                    log.warning("message not heard: %s", type(error).__name__)
            return False

        room.on_message = hear
        try:
            yield
        finally:
            listeners.remove(listener)

    def _changed(self, event: object) -> None:
        self.unsaved = self.unsaved or not self._noting

    def let_go(self) -> None:
        """Note it no more."""
        self._room.ydoc.unobserve(self._subscription)

    @property
    def is_alive(self) -> bool:
        """Whether the server serves this very room."""
        # A stopped room has no task group any more; there is no public flag for it.
        return (
            self._server.running
            and self._server.rooms.get(self.room_id) is self._room
            and self._room._task_group is not None
        )

    @property
    def is_deserted(self) -> bool:
        """Whether it lives on without any client."""
        return self.is_alive and not self._room.clients

    @property
    def has_global_awareness(self) -> bool:
        """Whether a browser has opened the room of online collaborators."""
        return self._server.running and GLOBAL_AWARENESS in self._server.rooms

    def clear_undo(self) -> None:
        """Drop the undo steps that the room's document keeps of every client's every change."""
        # YNotebook makes this manager for its own use; nothing undoes through it on the server,
        # and it grows with each update that comes without an origin.
        self._room._document.undo_manager.clear()

    async def save(self) -> bool:
        """Save now, and tell truly whether it was saved.

        ``_save_to_disc`` would swallow every failure, and the public way, a websocket message,
        reports success for it.
        """
        room, file = self._room, self._room._file
        try:
            content = await self._content()
            saved = await file.maybe_save_content(
                {"format": room.file_format, "type": room.file_type, "content": content}
            )
        except OutOfBandChanges:
            # The room's own answer: the file wins, and everybody sees it.
            await room._on_outofband_change()
            saved = None
        except Exception as error:
            log.warning("The notebook of room %s was not saved: %s", self.room_id, error)
            saved = None
        if saved is None:
            self.unsaved = True
            return False
        await self._note_save(saved["hash"])
        return True

    async def _note_save(self, digest: str) -> None:
        room = self._room
        if self.unsaved:
            # Autosave may have been quicker with what changed while we wrote what was before it.
            room._on_document_change("cells", None)
        # Under its lock the room does not take these two for a change to be saved.
        async with room._update_lock:
            self._noting = True
            room._document.dirty = False
            room._document.hash = digest
            self._noting = False

    async def content(self) -> Any:
        """The document as it is at one moment, for whoever only looks."""
        async with self._room._update_lock:
            update = self._room.ydoc.get_update()
        return await anyio.to_thread.run_sync(_content_of, update)

    async def _content(self) -> Any:
        """The document as it is at one moment; only taking it costs the loop time."""
        # A change of the whole document may stay open across awaits, under this lock.
        async with self._room._update_lock:
            self.unsaved = False
            update = self._room.ydoc.get_update()
        content = await anyio.to_thread.run_sync(_content_of, update)
        ids = [cell["id"] for cell in content["cells"] if "id" in cell]
        if len(set(ids)) < len(ids):
            # It also mends ids that occur twice, in the document itself.
            content = await self._room._document.aget()
        return content

    async def load(self) -> None:
        """Wait until the document is whole and everything written into it is broadcast.

        Raises:
            HTTPError: The file cannot be read.
            TimeoutError: It takes too long.
        """
        with anyio.fail_after(LOAD_DEADLINE):
            # A browser that left between opening the socket and loading leaves the room empty.
            async with self._extension._room_locks[self.room_id]:
                await self._room.initialize()
            # Before this is set, writes reach neither the store nor the clients.
            await self._room.ydoc_observed.wait()
            # A progressive load holds the lock to its end; `ready` is set long before.
            async with self._room._update_lock:
                pass
        loading = self._room._document_progressively_loaded
        if loading.done() and loading.exception() is not None:
            raise loading.exception()
        store = self._room.ystore
        if store is not None and not isinstance(store, SafeSQLiteYStore):
            # The stock store lacks the room's first operation, which is a hole for Yjs later.
            await store.write(self._room.ydoc.get_update())

    def call_off_closing(self) -> None:
        """Keep a room that was to be closed after its last client left."""
        if self._room.cleaner is not None:
            self._room.cleaner.cancel()

    async def close_later(self) -> None:
        """Close the room after the same delay as after a browser, if nobody has come by then."""
        delay = self._extension.document_cleanup_delay
        if delay is None:
            return
        with anyio.CancelScope() as scope:
            # A browser that opens the notebook cancels what stands here.
            self._room.cleaner = _Closing(scope)
            await anyio.sleep(delay)
            async with self._extension._room_locks[self.room_id]:
                if not self.is_deserted:
                    return
                # Stopping cancels a save that waits for a pause: let it come first.
                with anyio.move_on_after(LEAVE_DEADLINE, shield=True):
                    await _save_what_waits(self._room)
                if self.is_deserted:
                    await _remove(self._extension, self.room_id, self._room)


class _Closing:
    """What jupyter-collaboration cancels when a browser comes back in time."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope

    def cancel(self) -> None:
        """Do not close the room."""
        self._scope.cancel()


async def _open(extension: Any, room_id: str) -> _Room:
    """Open the room, or find it open.

    Raises:
        UnknownNotebook: The file is gone or cannot be read as a notebook.
        RoomLost: The room cannot be opened.
    """
    for _ in range(3):
        await _remove_dead(extension, room_id)
        try:
            await extension.get_document(room_id=room_id, copy=False, create=True)
            found = extension.ywebsocket_server.rooms.get(room_id)
            if found is None:
                continue
            room = _Room(extension, room_id, found)
            room.call_off_closing()
            await room.load()
        except HTTPError as error:
            # A failed opening leaves a dead room behind, which would be served to all from now on.
            await _remove_dead(extension, room_id, also_empty=True)
            if error.status_code == 404:
                raise UnknownNotebook from error
            if error.status_code == 400:
                raise UnknownNotebook(UNREADABLE) from error
            raise RoomLost from error
        except Exception as error:
            await _remove_dead(extension, room_id, also_empty=True)
            raise RoomLost from error
        if room.is_alive:
            return room
    raise RoomLost


async def _remove_dead(extension: Any, room_id: str, *, also_empty: bool = False) -> None:
    """Remove a room that was stopped; or also one that could not be loaded and has no client."""
    room = extension.ywebsocket_server.rooms.get(room_id)
    if room is None:
        return
    stopped = room._task_group is None and room.started.is_set()
    if stopped or (also_empty and not room.clients and not room.ready):
        await _remove(extension, room_id, room)


async def _remove(extension: Any, room_id: str, room: DocumentRoom) -> None:
    """Stop a room and, if nobody else uses it, its file loader, as the websocket handler does."""
    if extension.ywebsocket_server.rooms.get(room_id) is room:
        del extension.ywebsocket_server.rooms[room_id]
    # A room that was stopped before does not listen to its file any more.
    with contextlib.suppress(KeyError):
        await room.stop()
    file_id = room_id.split(":", 2)[2]
    loaders = extension.file_loaders
    if file_id in loaders and loaders[file_id].number_of_subscriptions == 0:
        await loaders.remove(file_id)


async def _save_what_waits(room: DocumentRoom) -> None:
    """Do now what the room would do after a pause, if it waits for one."""
    waiting = room._saving_document
    if waiting is not None and not waiting.done():
        task = room._save_to_disc()
        if task is not None:
            await task


def keep_rooms_until(serverapp: Any, stop: Callable[[], Awaitable[None]]) -> None:
    """Let the server close its rooms only after our runs have ended in them.

    The server stops its extensions at the same time, and jupyter-collaboration drops what waits to
    be saved: so first the runs end, then the rooms save, then they close, then the store does.

    Args:
        serverapp: The ``ServerApp``.
        stop: Ends the runs; may be called more than once.
    """
    extension = serverapp.web_app.settings.get("jupyter_server_ydoc")
    if extension is None:
        return
    stop_rooms = extension.stop_extension

    async def stop_in_order() -> None:
        await stop()
        with anyio.move_on_after(STOP_DEADLINE):
            for room in list(extension.ywebsocket_server.rooms.values()):
                if isinstance(room, DocumentRoom):
                    await _save_what_waits(room)
        keep_marks()
        await stop_rooms()
        await anyio.to_thread.run_sync(close_writers)

    extension.stop_extension = stop_in_order


def _content_of(update: bytes) -> Any:
    doc: Doc[Any] = Doc()
    doc.apply_update(update)
    return YNotebook(doc).get(deduplicate=False)


def _clean(path: str) -> NotebookPath:
    """The path as the server names it: one file must not get two ids."""
    clean = posixpath.normpath(path.strip("/"))
    if not path or clean in (".", "..") or clean.startswith("../") or "\0" in clean:
        raise UnknownNotebook
    return NotebookPath(clean)


@contextlib.asynccontextmanager
async def _alongside(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run something while the block runs; what the block raises is raised as it is."""
    error: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        try:
            yield
        except Exception as raised:
            error = raised
        tasks.cancel_scope.cancel()
    if error is not None:
        raise error
