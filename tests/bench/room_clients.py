"""Clients of many rooms in one process: they start the runs and note when each word came.

What is measured "at once" is what was sent while all of them streamed; the start, when the server
also joins all those rooms, is told apart.

``python -m tests.bench.room_clients URL TOKEN NOTEBOOKS DELTAS`` prints one JSON object.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

import anyio
import httpx
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

    async def read(self) -> None:
        """Note when words come, until all have."""
        while len(self.lags) < self._deltas:
            message = await self._socket.read_message()
            if message is None:
                return
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


async def main(url: str, token: str, notebooks: int, deltas: int) -> dict[str, Any]:
    """Join all rooms, start all runs, and tell what was measured."""
    rooms = [Room(f"n{number}.ipynb", deltas) for number in range(notebooks)]
    statuses: list[str] = []
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
        "words": sum(len(room.lags) for room in rooms),
        "expected": notebooks * deltas,
        "failed": sum(status != "done" for status in statuses),
    }


if __name__ == "__main__":
    address, secret, rooms_wanted, deltas_wanted = sys.argv[1:]
    print(json.dumps(anyio.run(main, address, secret, int(rooms_wanted), int(deltas_wanted))))
