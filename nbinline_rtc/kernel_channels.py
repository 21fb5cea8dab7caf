"""Our own connection to one kernel process: requests, their replies and outputs, and its death."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup
from jupyter_client.session import Session
from jupyter_server.utils import ensure_async

from nbinline_agent.document.background import background
from nbinline_agent.errors import KernelDied, KernelError
from nbinline_agent.kernel import OnOutput

READY_DEADLINE = 60.0
"""Seconds a kernel may take to start."""

WATCH_EVERY = 0.4
"""Seconds between looks whether the kernel's process is still the same one."""

SHORT = 0.3
"""Seconds that abandoned code may run before it is interrupted."""

MAX_MESSAGE = 4_000_000
"""Bytes of one output that are read; of a longer stream, head and tail are taken."""

STREAM_HEAD = 300_000
STREAM_TAIL = 30_000
"""Bytes taken of a stream message that is over the limit."""

log = structlog.get_logger(__name__)


class Request:
    """A request under way.

    Attributes:
        msg_id: Its id; outputs name it as their parent.
        kind: Its message type.
        begun: Whether the kernel works on it, or has.
        echoed: Whether anything about it came on the output channel.
        idle: Whether the kernel is done with it and has sent all of its output.
        reply: What it answered, if it did.
        lost: Whether the kernel went away.
        on_begin: Called once when the kernel begins.
    """

    def __init__(self, msg_id: str, kind: str, on_output: OnOutput | None) -> None:
        self.msg_id = msg_id
        self.kind = kind
        self.begun = False
        self.echoed = False
        self.idle = False
        self.lost = False
        self.reply: Mapping[str, Any] | None = None
        self.on_begin: Callable[[], None] | None = None
        self._on_output = on_output
        self._changed = anyio.Event()
        self._heard = time.monotonic()

    def take(self, kind: str, content: Mapping[str, Any], refused: int = 0) -> None:
        """Note a message of the output channel."""
        self._heard = time.monotonic()
        self.echoed = True
        if kind == "status":
            self._take_status(content.get("execution_state"))
        elif self._on_output is not None and kind != "execute_input":
            message: dict[str, Any] = {"type": kind, "content": content}
            if refused:
                message["refused"] = refused
            self._on_output(message)
        self.pulse()

    def _take_status(self, state: object) -> None:
        if state == "idle":
            self.idle = True
        elif state == "busy" and not self.begun:
            self.begun = True
            if self.on_begin is not None:
                self.on_begin()

    def pulse(self) -> None:
        """Wake who waits."""
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds.

        Returns:
            Whether it does.

        Raises:
            KernelDied: The kernel went away before.
        """
        with anyio.move_on_after(max(0.0, seconds)):
            while not holds():
                if self.lost:
                    raise KernelDied
                await self._changed.wait()
        return holds()

    async def outputs_complete(self, silence: float = 5.0) -> None:
        """Wait for the last output, which comes on a channel of its own; not for ever."""
        while not self.idle and time.monotonic() - self._heard < silence:
            await self.until(lambda: self.idle, silence / 5)


class KernelChannels:
    """A connection to one kernel process; use :func:`open_channels`.

    Attributes:
        identity: Names the process: a restarted kernel is another one.
        info: What the kernel says of itself.
        lost: Set when the process died or was replaced.
        listening: Key of the code of ours that listens in the kernel; empty if none does.
    """

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.identity = process_of(manager)
        self.info: Mapping[str, Any] = {}
        self.lost = anyio.Event()
        self.listening = ""
        self.installing = anyio.Lock()
        # An own session: the manager's would share its identity on the channels.
        self._client = manager.client(session=Session(key=manager.session.key, username="nbinline"))
        self._requests: dict[str, Request] = {}
        self._running = "before" if manager.execution_state == "busy" else ""
        self._rested = anyio.Event()
        self._heard = anyio.Event()
        self._tasks: TaskGroup

    @property
    def language(self) -> str:
        """The kernel's language in lower case; empty if it does not say."""
        return str(self.info.get("language_info", {}).get("name", "")).lower()

    @property
    def busy(self) -> bool:
        """Whether a cell, ours or another one, is running."""
        return bool(self._running)

    async def rest(self, seconds: float) -> bool:
        """Wait until nothing runs; whether that came true."""
        with anyio.move_on_after(max(0.0, seconds)):
            while self._running and not self.lost.is_set():
                await self._rested.wait()
        return not self._running

    @contextlib.contextmanager
    def request(
        self,
        channel: str,
        kind: str,
        content: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Iterator[Request]:
        """Send a request and follow it inside the block.

        Args:
            channel: ``shell`` or ``control``.
            kind: Message type.
            content: Its content.
            on_output: Takes its output messages.
            metadata: Its metadata.
        """
        message = self._client.session.msg(kind, dict(content), metadata=dict(metadata or {}))
        request = Request(message["header"]["msg_id"], kind, on_output)
        request.lost = self.lost.is_set()
        self._requests[request.msg_id] = request
        try:
            # By the socket itself: Jupyter's own way of sending eats the signal that wakes who
            # waits for a reply on the same socket.
            socket = getattr(self._client, f"{channel}_channel").socket
            socket.send_multipart(self._client.session.serialize(message))
            yield request
        finally:
            self._requests.pop(request.msg_id, None)

    def end_when_it_begins(
        self, request: Request, interrupt: Callable[[], Awaitable[None]]
    ) -> None:
        """Interrupt code that nobody waits for any more, once its turn in the queue comes."""
        self._tasks.start_soon(self._end, request, interrupt)

    async def _end(self, request: Request, interrupt: Callable[[], Awaitable[None]]) -> None:
        self._requests[request.msg_id] = request
        try:
            while not request.begun:
                await request.until(lambda: request.begun, 60.0)
            # What is over in a moment is left alone: the signal could hit the cell behind it.
            if not await request.until(lambda: request.idle, SHORT):
                await interrupt()
        except KernelError:
            log.info("abandoned code is gone with its kernel", kernel=self.identity)
        finally:
            self._requests.pop(request.msg_id, None)

    # Reading

    async def _serve(self, ready: Callable[[], None]) -> None:
        self._client.start_channels(shell=True, iopub=True, stdin=False, hb=False, control=True)
        try:
            async with background(
                self._read_outputs,
                partial(self._read_replies, self._client.shell_channel.socket, queued=True),
                partial(self._read_replies, self._client.control_channel.socket),
            ) as tasks:
                self._tasks = tasks
                await self._live(ready)
        finally:
            self.lost.set()
            self._rested.set()
            for request in list(self._requests.values()):
                request.lost = True
                request.pulse()
            self._client.stop_channels()
            self._client.context.destroy(linger=100)

    async def _live(self, ready: Callable[[], None]) -> None:
        """Get known to the kernel, then watch whether it lives."""
        with anyio.CancelScope() as scope:
            self._tasks.start_soon(self._watch, scope)
            await self._introduce()
            ready()
            await anyio.sleep_forever()

    async def _introduce(self) -> None:
        """Ask the kernel who it is until its outputs reach us too.

        Both channels are asked: behind a cell that runs, only the control channel answers.
        """
        with anyio.fail_after(READY_DEADLINE):
            while not self.lost.is_set():
                with (
                    self.request("control", "kernel_info_request", {}) as beside,
                    self.request("shell", "kernel_info_request", {}) as behind,
                ):
                    with anyio.move_on_after(1.0):
                        while not (_introduced(beside) or _introduced(behind)):
                            await self._heard.wait()
                    for each in filter(_introduced, (beside, behind)):
                        self.info = each.reply or {}
                        return
        raise KernelDied

    async def _read_replies(self, socket: Any, *, queued: bool = False) -> None:
        session = self._client.session
        while True:
            _, frames = session.feed_identities(await socket.recv_multipart())
            message = _decoded(session, frames)
            if queued and self._running == "before":
                # What ran when we came, if anything did: Jupyter may still have told the state of
                # a process that died.
                self._rest()
            request = self._requests.get(message["parent_header"].get("msg_id", ""))
            if request is not None:
                request.reply = message["content"]
                request.begun = request.begun or request.kind != "execute_request"
                request.pulse()
                self._hear()

    async def _read_outputs(self) -> None:
        session, socket = self._client.session, self._client.iopub_channel.socket
        while True:
            _, frames = session.feed_identities(await socket.recv_multipart())
            if len(frames) > 4 and len(frames[4]) > MAX_MESSAGE:
                self._dispatch(*_refused(frames))
                continue
            message = _decoded(session, frames)
            header = message["header"]
            self._dispatch(header.get("msg_type", ""), message["parent_header"], message["content"])

    def _dispatch(
        self, kind: str, parent: Mapping[str, Any], content: Mapping[str, Any], refused: int = 0
    ) -> None:
        msg_id = parent.get("msg_id", "")
        if kind == "status" and not parent.get("subshell_id"):
            self._note_status(msg_id, parent.get("msg_type"), content.get("execution_state"))
        request = self._requests.get(msg_id)
        if request is not None:
            request.take(kind, content, refused)
            self._hear()

    def _hear(self) -> None:
        self._heard.set()
        self._heard = anyio.Event()

    def _note_status(self, msg_id: str, kind: object, state: object) -> None:
        if kind != "execute_request":
            return
        if state == "busy":
            self._running = msg_id
        elif state == "idle" and self._running in (msg_id, "before"):
            self._rest()

    def _rest(self) -> None:
        self._running = ""
        self._rested.set()
        self._rested = anyio.Event()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        # Jupyter tells of a kernel's death only seconds later, and of a restart not at all.
        while process_of(self.manager) == self.identity and await alive(self.manager):  # noqa: ASYNC110
            await anyio.sleep(WATCH_EVERY)
        scope.cancel()


@contextlib.asynccontextmanager
async def open_channels(manager: Any) -> AsyncIterator[KernelChannels]:
    """Connect to a kernel of the server, also while it runs a cell.

    Args:
        manager: Jupyter's ``KernelManager`` of it.

    Raises:
        KernelDied: Its process does not live, or did not answer in time.
    """
    channels = KernelChannels(manager)
    ready = anyio.Event()

    async def serve() -> None:
        try:
            await channels._serve(ready.set)
        except (TimeoutError, KernelDied):
            log.warning("kernel does not answer", kernel=channels.identity)
        except Exception:
            log.exception("connection to a kernel failed", kernel=channels.identity)
        finally:
            channels.lost.set()
            ready.set()

    async with background(serve):
        await ready.wait()
        if channels.lost.is_set():
            raise KernelDied("The kernel does not answer. Restart it.")
        yield channels


def _introduced(request: Request) -> bool:
    """Whether a kernel told who it is, and its outputs reach us."""
    return request.reply is not None and request.echoed


def process_of(manager: Any) -> str:
    """What tells one process of a kernel from the next one."""
    provisioner = manager.provisioner
    pid = getattr(provisioner, "pid", None)
    return f"{manager.kernel_id}/{pid if pid is not None else id(provisioner)}"


async def alive(manager: Any) -> bool:
    """Whether the kernel's process lives."""
    return bool(await ensure_async(manager.is_alive()))


def _decoded(session: Session, frames: list[bytes]) -> Mapping[str, Any]:
    try:
        message: Mapping[str, Any] = session.deserialize(frames)
    except ValueError:
        # A wrong signature, or no JSON: not a message of this kernel.
        return {"header": {}, "parent_header": {}, "content": {}}
    return message


_STREAM = re.compile(rb'"name":\s*"(stdout|stderr)"')
_STREAM_TEXT = re.compile(rb'"text":\s*"')


def _refused(frames: list[bytes]) -> tuple[str, Mapping[str, Any], Mapping[str, Any], int]:
    """A message that is too large: its kind and parent, and of a stream its head and tail."""
    header, parent, content = json.loads(frames[1]), json.loads(frames[2]), frames[4]
    kind = str(header.get("msg_type", ""))
    name = _STREAM.search(content[:200]) or _STREAM.search(content[-200:])
    text = _STREAM_TEXT.search(content[:200])
    if kind != "stream" or name is None or text is None:
        return kind, parent, {}, len(content)
    head = content[text.end() : text.end() + STREAM_HEAD]
    tail = content[-STREAM_TAIL:].rsplit(b'"', 1 if content.endswith(b'"}') else 3)[0]
    parts = {"name": name[1].decode(), "text": _unescaped(head), "tail": _unescaped(tail)}
    return kind, parent, parts, len(content)


def _unescaped(piece: bytes) -> str:
    """Part of a JSON string as text; what was cut at its edges is given up."""
    text = piece.decode("utf-8", "ignore")
    for start in range(7):
        for stop in range(7):
            with contextlib.suppress(ValueError):
                return str(json.loads(f'"{text[start : len(text) - stop]}"', strict=False))
    return ""
