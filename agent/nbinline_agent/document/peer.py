"""A replica of one shared notebook that takes part in its room like a browser does."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol, Self, TypeAlias

import anyio
import structlog
from anyio import AsyncContextManagerMixin
from jupyter_ydoc import YNotebook
from pycrdt import (
    Awareness,
    Channel,
    Doc,
    TransactionEvent,
    YMessageType,
    YSyncMessageType,
    create_awareness_message,
    create_sync_message,
    create_update_message,
    read_message,
    write_message,
)

from nbinline_agent.errors import BadRequest, NotCaughtUp, RoomLost
from nbinline_agent.ids import CellId, FileId, NotebookPath

from .background import background
from .index import CellIndex
from .vectors import covers, read_vector

REMOTE = "remote"
"""Origin of what others changed; it is never sent back to them."""

REPLAY = "replay"
"""Origin of what an earlier replica of ours had written."""

RENEWAL = 10.0
"""Seconds between two renewals of our awareness; rooms and pages forget a state after 30."""

OUTDATED = 30.0
"""Seconds after which somebody else's awareness counts as gone."""

FAREWELL = 2.0
"""Seconds that leaving may take to bring the last words across."""

WRITE_AHEAD_DEADLINE = 2.0
"""Seconds a write-ahead may take; then people get to see the updates nevertheless."""

WriteAhead: TypeAlias = Callable[[Sequence[bytes]], Awaitable[None]]
"""Keeps updates somewhere safe before others get to see them."""

EMPTY_UPDATE = b"\x00\x00"


class Records(Protocol):
    """Gets to see cells before a run changes them."""

    def before(self, cell_id: CellId) -> None:
        """The run is about to change this cell, or to make it."""

    def removing(self, cell_ids: Sequence[CellId]) -> None:
        """The run is about to remove these cells, even if it puts them back elsewhere."""

    def received(self, update: bytes) -> None:
        """Others have changed the document, or are about to; may come more than once."""

    def left_outputs(self, cell_id: CellId) -> None:
        """The run has changed what stands below a cell."""


log = structlog.get_logger(__name__)


class Peer(AsyncContextManagerMixin):
    """Our own replica of a notebook, synchronised over a channel; an async context manager.

    Entering starts the exchange and does not wait for it; see :meth:`synced`. Leaving, on every
    way out, first brings across what was written, for at most two seconds. The channel stays open;
    who made it closes it.

    ::

        async with Peer(channel) as peer:
            await peer.synced()
            with peer.doc.transaction(origin=run_id):
                ...

    Attributes:
        doc: The replica. Give every transaction an origin other than None: YNotebook's own undo
            manager collects changes without one for ever.
        ynotebook: The notebook in it.
        index: Its cells.
        awareness: What everybody announced; ours is set by :meth:`set_awareness` only.
        closed: Set when the channel has ended.
        recorders: What keeps checkpoints, by the origin of the changes.
    """

    def __init__(self, channel: Channel, *, write_ahead: WriteAhead | None = None) -> None:
        self.doc: Doc[Any] = Doc()
        self.ynotebook = YNotebook(self.doc)
        self.index = CellIndex(self.ynotebook.ycells)
        self.awareness = Awareness(self.doc)
        self.awareness.set_local_state(None)
        self.closed = anyio.Event()
        self.recorders: dict[str, Records] = {}
        self._channel = channel
        self._write_ahead = write_ahead
        self._outbox: deque[tuple[bool, bytes]] = deque()  # (is an update of ours, message)
        self._news = anyio.Event()
        self._changed = anyio.Event()
        self._asked = 0
        self._answered = 0
        self._applying = False
        self._replaying = False
        self._due = float("inf")
        self._planned: Mapping[str, Any] | None = None
        self._rescheduled = anyio.Event()
        self.awareness.observe(self._awareness_changed)
        self.doc.observe(self._written)

    @property
    def client_id(self) -> int:
        """Author of everything this replica writes, and of its awareness."""
        return int(self.doc.client_id)

    # Lifetime

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        try:
            async with background(self._receive, self._send, self._keep_awareness):
                self._ask()
                yield self
        finally:
            with anyio.move_on_after(FAREWELL, shield=True):
                await self._say_farewell()
            self.closed.set()
            self._pulse()

    async def _say_farewell(self) -> None:
        self._announce(None)
        if self.closed.is_set():
            return
        async with background(self._receive, self._send):
            await self.settled(FAREWELL)

    # Synchronisation

    async def synced(self, timeout: float = 10.0) -> None:
        """Wait until the whole document is here and its cells are known.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            RoomLost: The channel ended, or the document did not come in time.
        """
        if not await self._until(lambda: self._answered > 0, timeout):
            raise RoomLost
        await self.index.read_marks()

    async def settled(self, timeout: float = 5.0) -> bool:
        """Wait until the far end has applied everything written here so far.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Whether it has; False if the channel ended or the time was up.
        """
        mine = self._ask()
        return await self._until(lambda: self._answered >= mine, timeout)

    async def caught_up(self, state_vector: bytes, timeout: float = 5.0) -> None:
        """Wait until this replica has everything that somebody else has.

        Args:
            state_vector: Their Y state vector, as Yjs encodes it.
            timeout: Seconds to wait at most.

        Raises:
            NotCaughtUp: It did not arrive in time.
            BadRequest: That is not a state vector.
            RoomLost: The channel ended.
        """
        try:
            wanted = read_vector(state_vector)
        except ValueError as error:
            raise BadRequest("The state vector could not be read.") from error
        if not await self._until(lambda: covers(self.doc.get_state(), wanted), timeout):
            if self.closed.is_set():
                raise RoomLost
            raise NotCaughtUp

    async def changed_until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds()`` is true; it is asked again after every change of the document.

        Raises:
            RoomLost: The channel ended before.
        """
        if not await self._until(holds, None):
            raise RoomLost

    def set_write_ahead(self, write_ahead: WriteAhead | None) -> None:
        """Set what keeps our updates safe before they are sent.

        It is awaited with every group of updates before these go out, in order; updates made
        meanwhile make up the next group. Without it they go out at once.
        """
        self._write_ahead = write_ahead

    def apply(self, updates: Sequence[bytes]) -> None:
        """Apply updates of an earlier replica of ours; they are sent, and count as kept already.

        Raises:
            ValueError: Something among them is not an update; some may have been applied.
            RoomLost: The replica broke.
        """
        self._replaying = True
        try:
            with panics_as_errors(), self.doc.transaction(origin=REPLAY):
                for update in updates:
                    self.doc.apply_update(update)
        finally:
            self._replaying = False

    def overhear(self, message: bytes) -> None:
        """Let checkpoints see a message as somebody sent it to the room.

        What the room sends on is without the text that was typed into a cell that is gone.
        """
        changes = (YSyncMessageType.SYNC_STEP2, YSyncMessageType.SYNC_UPDATE)
        if not self.recorders or message[:1] != bytes([YMessageType.SYNC]):
            return
        if message[1] in changes:
            update = read_message(message[2:])
            for recorder in self.recorders.values():
                recorder.received(update)

    async def _until(self, holds: Callable[[], bool], timeout: float | None) -> bool:
        with anyio.move_on_after(timeout):
            while True:
                if holds():
                    return True
                if self.closed.is_set():
                    return False
                await self._changed.wait()
        return holds()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # Receiving

    async def _receive(self) -> None:
        try:
            async for message in self._channel:
                try:
                    self._take(message)
                except RoomLost:
                    raise
                except Exception as error:
                    # Rooms pass on what any client says; nonsense must not cost us the room.
                    log.warning("message not understood", error=type(error).__name__)
        except Exception as error:
            log.warning("channel broke", channel=self._channel.path, error=type(error).__name__)
        self.closed.set()
        self._pulse()

    def _take(self, message: bytes) -> None:
        match list(message[:2]):
            case [YMessageType.SYNC, YSyncMessageType.SYNC_STEP1]:
                reply = self.doc.get_update(read_message(message[2:]))
                # Composed now, behind all updates it repeats: none of them overtakes the journal.
                self._put(
                    False,
                    bytes((YMessageType.SYNC, YSyncMessageType.SYNC_STEP2)) + write_message(reply),
                )
            case [YMessageType.SYNC, YSyncMessageType.SYNC_STEP2]:
                self._apply(read_message(message[2:]))
                self._answered += 1
                self._pulse()
            case [YMessageType.SYNC, YSyncMessageType.SYNC_UPDATE]:
                self._apply(read_message(message[2:]))
                self._pulse()
            case [YMessageType.AWARENESS, *_]:
                self.awareness.apply_awareness_update(read_message(message[1:]), REMOTE)
                self._pulse()

    def _apply(self, update: bytes) -> None:
        if update == EMPTY_UPDATE:
            return
        self._applying = True
        try:
            with panics_as_errors(), self.doc.transaction(origin=REMOTE):
                self.doc.apply_update(update)
        finally:
            self._applying = False
        for recorder in self.recorders.values():
            recorder.received(update)

    # Sending

    def _written(self, event: TransactionEvent) -> None:
        if self._applying:
            return
        if self._replaying:
            self._put(False, create_update_message(event.update))
        else:
            self._put(True, event.update)
        self._pulse()

    def _put(self, ours: bool, message: bytes) -> None:
        self._outbox.append((ours, message))
        self._news.set()

    def _ask(self) -> int:
        self._asked += 1
        self._put(False, create_sync_message(self.doc))
        return self._asked

    async def _send(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                while self._outbox:
                    await self._send_group()
        except Exception as error:
            log.warning("channel broke", channel=self._channel.path, error=type(error).__name__)
        self.closed.set()
        self._pulse()

    async def _send_group(self) -> None:
        # Taken out only when sent: what a cancellation cuts off is sent again by the farewell,
        # and receiving an update twice changes nothing.
        group = list(self._outbox)
        await self._keep([message for ours, message in group if ours])
        for ours, message in group:
            await self._channel.send(create_update_message(message) if ours else message)
            self._outbox.popleft()

    async def _keep(self, updates: Sequence[bytes]) -> None:
        if self._write_ahead is None or not updates:
            return
        kept = False
        with anyio.move_on_after(WRITE_AHEAD_DEADLINE, shield=True):
            try:
                await self._write_ahead(updates)
                kept = True
            except Exception:
                log.exception("write-ahead failed", channel=self._channel.path)
        if not kept:
            log.warning("updates go out before they are kept", channel=self._channel.path)

    # Awareness

    @property
    def awareness_states(self) -> Mapping[int, Mapping[str, Any]]:
        """What the others announced, by client id."""
        mine = self.client_id
        return {who: state for who, state in self.awareness.states.items() if who != mine}

    def others(self) -> Sequence[Mapping[str, Any]]:
        """The people and agents that show themselves in this notebook, as each describes itself."""
        users = (state.get("user") for state in self.awareness_states.values())
        return [user for user in users if isinstance(user, Mapping) and user.get("username")]

    async def set_awareness(self, state: Mapping[str, Any] | None, delay: float = 0.0) -> None:
        """Announce ourselves, or leave with None.

        The entry is renewed while this peer lives, and sent again when somebody comes.

        Args:
            state: JSON values.
            delay: Seconds to wait with it; a later call overrules what waits.
        """
        self._planned = state
        self._due = float("inf")
        if delay > 0:
            self._due = time.monotonic() + delay
            self._rescheduled.set()
        else:
            self._announce(state)
        await anyio.lowlevel.checkpoint()

    def _announce(self, state: Mapping[str, Any] | None) -> None:
        mine = self.awareness.client_id
        if state is None and self.awareness.get_local_state() is None:
            return
        self.awareness.set_local_state(None if state is None else dict(state))
        update = self.awareness.encode_awareness_update([mine])
        self._put(False, create_awareness_message(update))

    def _awareness_changed(self, topic: str, change: tuple[dict[str, Any], Any]) -> None:
        changes, origin = change
        if topic == "change" and origin == REMOTE and set(changes["added"]) - {self.client_id}:
            # Rooms do not tell newcomers who is there.
            self._announce(self.awareness.get_local_state())

    async def _keep_awareness(self) -> None:
        renew = time.monotonic() + RENEWAL
        while True:
            self._rescheduled = anyio.Event()
            with anyio.move_on_after(min(renew, self._due) - time.monotonic()):
                await self._rescheduled.wait()
                continue
            if time.monotonic() >= self._due:
                self._due = float("inf")
                self._announce(self._planned)
            else:
                self._announce(self.awareness.get_local_state())
                self._drop_outdated()
            renew = time.monotonic() + RENEWAL

    def _drop_outdated(self) -> None:
        oldest = (time.time() - OUTDATED) * 1000
        gone = [
            who for who in self.awareness_states if self.awareness.meta[who]["lastUpdated"] < oldest
        ]
        if gone:
            self.awareness.remove_awareness_states(gone, "timeout")
            self._pulse()


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of the CRDT library, which no ``except Exception`` catches, into an error.

    Raises:
        RoomLost: The library panicked; the replica cannot be relied on any more.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise RoomLost from error
        raise


class Membership(Protocol):
    """A notebook's room that we are in."""

    @property
    def peer(self) -> Peer:
        """Our replica."""

    @property
    def file_id(self) -> FileId:
        """The file behind the room."""

    @property
    def path(self) -> NotebookPath:
        """Where the file is now; follows renames made through the server."""

    @property
    def alive(self) -> bool:
        """Whether the room is the one people are in, looked up now; ``lost`` may be late."""

    @property
    def lost(self) -> anyio.Event:
        """Set when the room was stopped or replaced under us."""

    async def save(self) -> bool:
        """Write the document to the file now; True if the file holds it. One at a time."""

    def writing(self) -> AbstractAsyncContextManager[None]:
        """Inside, the document is saved again and again while it changes."""

    async def announce(self, state: Mapping[str, Any] | None) -> None:
        """Show ourselves in the list of people on the server, or leave it with None."""

    async def file_exists(self) -> bool:
        """Whether the file behind the room is still there."""


class Rooms(Protocol):
    """The seam to the shared notebooks of a server."""

    def join(self, path: NotebookPath) -> AbstractAsyncContextManager[Membership]:
        """Join a notebook's room, opening it if nobody has.

        Raises:
            UnknownNotebook: No such file, or it is not a notebook.
            ReadOnlyNotebook: The file cannot be written.
            RoomLost: The room could not be opened.
        """

    async def resolve(self, path: NotebookPath) -> tuple[NotebookPath, FileId]:
        """Look a notebook up without opening its room.

        Raises:
            UnknownNotebook: No such file, or it is not a notebook.
            ReadOnlyNotebook: The file cannot be written.
        """
