"""An in-process transport: two ends that pycrdt takes for a websocket's."""

from __future__ import annotations

from typing import Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from pycrdt import Channel

CAPACITY = 1024
"""Messages one end may be ahead of the other before its sends wait."""


class MemoryChannel(Channel):
    """One end of an in-process transport.

    Iterating yields the messages of the other end until either end is closed. Sending waits while
    the other end is ``CAPACITY`` messages behind. What is sent to a closed channel is dropped, as
    by a websocket whose client has gone: a room must not fall over one leaving client.
    """

    def __init__(
        self,
        path: str,
        outgoing: MemoryObjectSendStream[bytes],
        incoming: MemoryObjectReceiveStream[bytes],
    ) -> None:
        self._path = path
        self._outgoing = outgoing
        self._incoming = incoming

    @property
    def path(self) -> str:
        """The room this channel leads to."""
        return self._path

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self.recv()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            raise StopAsyncIteration from None

    async def send(self, message: bytes) -> None:
        """Send a message to the other end, or drop it if the channel is closed."""
        try:
            await self._outgoing.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await anyio.lowlevel.checkpoint()

    async def recv(self) -> bytes:
        """Return the next message of the other end.

        Raises:
            anyio.EndOfStream: The other end is closed and everything it sent was received.
            anyio.ClosedResourceError: This end is closed.
        """
        return await self._incoming.receive()

    async def aclose(self) -> None:
        """Close this end; iteration ends here at once, and there after what was sent."""
        self._outgoing.close()
        self._incoming.close()
        await anyio.lowlevel.checkpoint()


def memory_channels(path: str) -> tuple[MemoryChannel, MemoryChannel]:
    """Return both ends of a new in-process transport to the room called ``path``."""
    here_out, there_in = anyio.create_memory_object_stream[bytes](CAPACITY)
    there_out, here_in = anyio.create_memory_object_stream[bytes](CAPACITY)
    return MemoryChannel(path, here_out, here_in), MemoryChannel(path, there_out, there_in)
