"""People of the soak: each a document and an awareness entry over a websocket of its own."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from jupyter_ydoc import YNotebook
from pycrdt import (
    Awareness,
    Doc,
    Text,
    YMessageType,
    create_awareness_message,
    create_sync_message,
    create_update_message,
    handle_sync_message,
    read_message,
)
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect


class Client:
    """Somebody in a notebook's room."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.doc: Doc[Any] = Doc()
        self.notebook = YNotebook(self.doc)
        self.awareness = Awareness(self.doc)
        self.synced = anyio.Event()
        self._socket = socket
        self._needle = b""
        self._found = anyio.Event()
        self._found_at = 0.0

    async def read(self) -> None:
        """Take in what comes until the socket closes."""
        while (message := await self._socket.read_message()) is not None:
            if not isinstance(message, bytes) or not message:
                continue
            if self._needle and self._needle in message and message[0] == YMessageType.SYNC:
                self._found_at, self._needle = time.time(), b""
                self._found.set()
            if message[0] == YMessageType.SYNC:
                reply = handle_sync_message(message[1:], self.doc)
                if reply is not None:
                    await self._socket.write_message(reply, binary=True)
                if message[1] == 1:
                    self.synced.set()
            elif message[0] == YMessageType.AWARENESS:
                self.awareness.apply_awareness_update(read_message(message[1:]), "room")

    def watch(self, needle: bytes) -> None:
        """Note when an update next has these bytes in it."""
        self._needle, self._found = needle, anyio.Event()

    async def watched(self) -> float:
        """When it came, in seconds since the epoch."""
        await self._found.wait()
        return self._found_at

    async def greet(self, name: str) -> None:
        """Say hello and ask for the document."""
        await self._socket.write_message(create_sync_message(self.doc), binary=True)
        await self._tell({"user": {"username": name, "name": name}})
        await self.synced.wait()

    async def type(self, cell_id: str, text: str) -> bool:
        """Type at a random place of a cell; whether the cell is there."""
        for ycell in self.notebook.ycells:
            if ycell["id"] == cell_id:
                source: Text = ycell["source"]
                before = self.doc.get_state()
                source.insert(random.choice((0, len(source))), text)
                update = create_update_message(self.doc.get_update(before))
                await self._socket.write_message(update, binary=True)
                return True
        return False

    async def _tell(self, state: dict[str, object] | None) -> None:
        self.awareness.set_local_state(state)
        update = self.awareness.encode_awareness_update([self.awareness.client_id])
        await self._socket.write_message(create_awareness_message(update), binary=True)


@asynccontextmanager
async def client(
    http: httpx.AsyncClient, url: str, token: str, path: str, name: str
) -> AsyncIterator[Client]:
    """Be in a room as a page is, and leave as one that is closed: by the socket alone."""
    answer = await http.put(
        f"api/collaboration/session/{path}", json={"format": "json", "type": "notebook"}
    )
    session = answer.raise_for_status().json()
    room = f"{session['format']}:{session['type']}:{session['fileId']}"
    socket = await websocket_connect(
        HTTPRequest(
            f"{url.replace('http', 'ws', 1)}/api/collaboration/room/{room}"
            f"?sessionId={session['sessionId']}",
            headers={"Authorization": f"token {token}"},
            connect_timeout=60,
        ),
        max_message_size=2**28,
    )
    somebody = Client(socket)
    try:
        async with anyio.create_task_group() as reading:
            reading.start_soon(somebody.read)
            with anyio.fail_after(60):
                await somebody.greet(name)
            yield somebody
            reading.cancel_scope.cancel()
    finally:
        socket.close()
