"""Clients of many rooms in one process: they start the runs and note when each word came.

What is measured "at once" is what was sent while all of them streamed; the start, when the server
also joins all those rooms, is told apart.

``python -m tests.bench.room_clients URL TOKEN NOTEBOOKS DELTAS [TYPED]`` prints one JSON object.
With TYPED characters a second everybody types meanwhile, and somebody watches the activity feed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import datetime
from typing import Any

import anyio
import httpx
from pycrdt import Array, Doc, Map, Text, create_update_message, handle_sync_message
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

STAMP = re.compile(rb"<t=(\d+\.\d{6})>")
SYNC_STEP_1 = b"\x00\x00\x01\x00"
UPDATE = b"\x00\x02"
DEADLINE = 300.0


class Room:
    """One client in one notebook's room."""

    def __init__(self, path: str, deltas: int) -> None:
        self.path = path
        self.lags: list[tuple[float, float]] = []
        self.begun = anyio.Event()
        self.complete = anyio.Event()
        self._deltas = deltas
        self._doc: Doc[Any] | None = None
        self._socket: WebSocketClientConnection

    async def join(self, http: httpx.AsyncClient, url: str, token: str) -> None:
        """Open the room's socket and ask for the document."""
        answer = await http.put(
            f"api/collaboration/session/{self.path}", json={"format": "json", "type": "notebook"}
        )
        session = answer.raise_for_status().json()
        room = f"{session['format']}:{session['type']}:{session['fileId']}"
        self._socket = await websocket_connect(
            HTTPRequest(
                f"{url.replace('http', 'ws', 1)}/api/collaboration/room/{room}"
                f"?sessionId={session['sessionId']}",
                headers={"Authorization": f"token {token}"},
            ),
            max_message_size=2**28,
        )
        await self._socket.write_message(SYNC_STEP_1, binary=True)

    async def type(self, rate: float) -> None:
        """Write into the notebook's first cell, so many characters a second."""
        doc = self._doc = Doc()
        cells: Array[Map[Any]] = doc.get("cells", type=Array)
        await self._socket.write_message(SYNC_STEP_1, binary=True)
        while True:
            await anyio.sleep(1 / rate)
            if not len(cells):
                continue
            source: Text = cells[0]["source"]
            before = doc.get_state()
            source += "."
            await self._socket.write_message(
                create_update_message(doc.get_update(before)), binary=True
            )

    async def read(self) -> None:
        """Note when words come, until all have."""
        while len(self.lags) < self._deltas:
            message = await self._socket.read_message()
            if message is None:
                return
            if self._doc is not None and isinstance(message, bytes) and message[0] == 0:
                handle_sync_message(message[1:], self._doc)
            if isinstance(message, bytes) and message.startswith(UPDATE):
                now = time.time()
                sent = [float(stamp) for stamp in STAMP.findall(message)]
                self.lags += [(at, now - at) for at in sent]
                if sent:
                    self.begun.set()
        self.complete.set()


async def start(http: httpx.AsyncClient, path: str) -> str:
    """Ask the notebook's question; the run."""
    answer = await http.post("nbinline/runs", json={"path": path, "cell_id": "ask"})
    run: str = answer.raise_for_status().json()["run_id"]
    return run


async def watch(http: httpx.AsyncClient, lags: list[float]) -> None:
    """Follow the activity feed and note how far behind it is, in seconds."""
    after = (await http.get("nbinline/activity")).json()["last_seq"]
    while True:
        page = (await http.get(f"nbinline/activity?after={after}&wait=20")).json()
        now, after = time.time(), page["last_seq"]
        lags += [now - datetime.fromisoformat(event["at"]).timestamp() for event in page["events"]]


async def ended(http: httpx.AsyncClient, run: str) -> str:
    """Wait for the end of a run; its status."""
    after = 0
    while True:
        page = (await http.get(f"nbinline/runs/{run}/events?after={after}&wait=20")).json()
        after = page["last_seq"]
        for event in page["events"]:
            if event["type"] == "status" and event["status"] in (
                "done",
                "error",
                "cancelled",
                "interrupted",
            ):
                return str(event["status"])


async def main(
    url: str, token: str, notebooks: int, deltas: int, typed: float = 0.0
) -> dict[str, Any]:
    """Join all rooms, start all runs, and tell what was measured."""
    rooms = [Room(f"n{number}.ipynb", deltas) for number in range(notebooks)]
    statuses: list[str] = []
    feed: list[float] = []
    async with httpx.AsyncClient(
        base_url=f"{url}/",
        headers={"Authorization": f"token {token}"},
        timeout=240,
        trust_env=False,
        limits=httpx.Limits(max_connections=notebooks + 10),
    ) as http:
        for room in rooms:
            await room.join(http, url, token)
        await http.get("bench/lag")
        at_once: list[float] = []
        starting: list[float] = []
        first_ended = anyio.Event()

        async def one(room: Room) -> None:
            statuses.append(await ended(http, await start(http, room.path)))
            first_ended.set()

        async def listen() -> None:
            """The loop's lag from when all stream until the first has ended."""
            for room in rooms:
                await room.begun.wait()
            before = (await http.get("bench/lag")).json()["lag_ms"]
            await first_ended.wait()
            at_once.extend((await http.get("bench/lag")).json()["lag_ms"])
            starting.extend(before)

        with anyio.fail_after(DEADLINE):
            async with anyio.create_task_group() as reading:
                for room in rooms:
                    reading.start_soon(room.read)
                reading.start_soon(listen)
                if typed:
                    reading.start_soon(watch, http, feed)
                    for room in rooms:
                        reading.start_soon(room.type, typed)
                async with anyio.create_task_group() as running:
                    for room in rooms:
                        running.start_soon(one, room)
                with anyio.move_on_after(20):
                    for room in rooms:
                        await room.complete.wait()
                reading.cancel_scope.cancel()
    first = max(room.lags[0][0] for room in rooms)
    last = min(room.lags[-1][0] for room in rooms)
    return {
        "word_lag": [lag for room in rooms for at, lag in room.lags if first <= at <= last],
        "start_word_lag": [lag for room in rooms for at, lag in room.lags if at < first],
        "loop_lag": at_once,
        "start_loop_lag": starting,
        "feed_lag": feed,
        "words": sum(len(room.lags) for room in rooms),
        "expected": notebooks * deltas,
        "failed": sum(status != "done" for status in statuses),
    }


if __name__ == "__main__":
    address, secret, *numbers = sys.argv[1:]
    typing = float(numbers[2]) if len(numbers) > 2 else 0.0
    told = anyio.run(main, address, secret, int(numbers[0]), int(numbers[1]), typing)
    print(json.dumps(told))
