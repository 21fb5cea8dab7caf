"""A fake vendor: a real HTTP server that speaks the wires of the model services.

Run it with ``python tests/vendor/server.py --port 0``; the first line it prints is
``{"port": …, "url": …}``. Tests use the fixture ``vendor`` (``tests/vendor/plugin.py``). What it
answers is told by scripts, see ``script.py``. Besides the vendors' routes:

    POST   /script            a script, or a list, for the next requests without one of their own
    GET    /requests          what came: bodies, headers, what was sent, whether the client left
    GET    /requests/N?wait=2 one of them, once it has ended (with `until=came`: once it is there),
                              or after `wait` seconds as it is
    DELETE /requests          forget requests, scripts and counters
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import signal
import sys
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).parent))
    import rules
    import script as scripts
    import wire as wires
else:
    from . import rules
    from . import script as scripts
    from . import wire as wires


@dataclass
class Record:
    """One request, as it is told by ``GET /requests``."""

    number: int
    at: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    script: dict[str, Any]
    sent: int = 0
    sent_at: list[float] = field(default_factory=list)
    ended: bool = False
    ended_at: float | None = None
    disconnected: bool = False


@dataclass
class State:
    """What the vendor remembers."""

    records: list[Record] = field(default_factory=list)
    queue: deque[dict[str, Any]] = field(default_factory=deque)
    seen: Counter[str] = field(default_factory=Counter)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


class Broken(Exception):
    """The script says to break the connection."""


class Cut(Exception):
    """The script says to end the response here."""


class Answering(RequestHandler):
    """One model call, on any of the wires."""

    def initialize(self, state: State, wire: str) -> None:
        self.state = state
        self.wire_name = wire
        self.gone = asyncio.Event()

    def on_connection_close(self) -> None:
        self.gone.set()

    async def post(self) -> None:
        came = time.time()
        body = json.loads(self.request.body)
        script = self._script(wires.prompt_of(body), wires.rounds_in(body))
        if problem := rules.problem(self.wire_name, body):
            script = {"status": 400, "error": {"message": problem, "type": "invalid_request_error"}}
        record = Record(
            len(self.state.records),
            came,
            self.request.path,
            dict(self.request.headers.get_all()),
            body,
            script,
        )
        self.state.records.append(record)
        await self._changed()
        answer = asyncio.ensure_future(self._answer(record))
        leaving = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                record.disconnected = True
                answer.cancel()
            await asyncio.wait({answer})
            if not answer.cancelled() and (error := answer.exception()) is not None:
                if not isinstance(error, (StreamClosedError, Broken, Cut)):
                    raise error
                record.disconnected = isinstance(error, StreamClosedError)
        finally:
            leaving.cancel()
            await self._end(record)

    def _script(self, prompt: str, rounds: int) -> dict[str, Any]:
        script = scripts.find(prompt)
        if script is None:
            script = self.state.queue.popleft() if self.state.queue else {}
        script = scripts.turn(script, rounds)
        times = script.get("times")
        if times is not None:
            key = str(script.get("key") or json.dumps(script, sort_keys=True))
            self.state.seen[key] += 1
            if self.state.seen[key] > times:
                return {name: script[name] for name in script if name not in scripts.TROUBLE}
        return script

    async def _answer(self, record: Record) -> None:
        script = record.script
        await asyncio.sleep(script.get("header_delay", 0))
        if script.get("hang_up"):
            self.request.connection.stream.close()
            raise Broken
        if "status" in script:
            self._refuse(script)
            return
        self.set_header("Content-Type", script.get("content_type", "text/event-stream"))
        for name, value in script.get("headers", {}).items():
            self.set_header(name, value)
        await self.flush()
        await asyncio.sleep(script.get("delay", 0))
        try:
            await Telling(self, record, WIRES[self.wire_name](record.body, script)).tell()
        except Broken:
            self.request.connection.stream.close()
            raise

    def _refuse(self, script: dict[str, Any]) -> None:
        self.set_status(int(script["status"]), script.get("reason"))
        self.set_header("Content-Type", "application/json")
        for name, value in script.get("headers", {}).items():
            self.set_header(name, str(value))
        body = script.get("body", wires.error_body(script.get("error", {}), self.wire_name))
        self.write(body if isinstance(body, str) else json.dumps(body))

    async def _end(self, record: Record) -> None:
        record.ended = True
        record.ended_at = time.time()
        await self._changed()

    async def _changed(self) -> None:
        async with self.state.changed:
            self.state.changed.notify_all()


class Telling:
    """Sends one scripted answer."""

    def __init__(self, handler: Answering, record: Record, wire: wires.Wire) -> None:
        self._handler = handler
        self._record = record
        self._script = record.script
        self._wire = wire
        self._chunks = (
            itertools.cycle(record.script["chunks"]) if "chunks" in self._script else None
        )

    async def tell(self) -> None:
        """From the first event to the last."""
        script, wire = self._script, self._wire
        if script.get("begin", True):
            await self._send(b"".join(wire.begin()))
        await self._think()
        pieces = scripts.pieces(script) if not script.get("refusal") else []
        await self._pieces(pieces)
        if refusal := script.get("refusal"):
            await self._send(b"".join(wire.refusal(refusal)))
        for place, tool in enumerate(script.get("tools", [])):
            call_id = tool.get("id", f"call_{place}")
            arguments = tool.get("arguments", {})
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            await self._send(b"".join(wire.tool(place, tool["name"], text, call_id)))
        if script.get("terminal", True):
            prompt = wires.prompt_of(self._record.body)
            usage = scripts.usage(script, prompt, len(pieces))
            await self._send(b"".join(wire.end(usage)))

    async def _think(self) -> None:
        for place in range(self._script.get("thinking", 0)):
            await self._send(b"".join(self._wire.thinking(f"thought {place} ")))
        await asyncio.sleep(self._script.get("thinking_pause", 0))

    async def _pieces(self, pieces: list[str]) -> None:
        burst = max(1, int(self._script.get("burst", 1)))
        rate = float(self._script.get("rate", 0))
        start = time.monotonic()
        await self._trouble()
        for first in range(0, len(pieces), burst):
            if rate:
                due = start + first / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            # Pieces go out one by one where trouble may come between them.
            together = pieces[first : first + burst]
            for piece in together:
                self._record.sent += 1
                self._record.sent_at.append(time.time())
                await self._send(b"".join(self._wire.text(scripts.stamped(piece, self._script))))
                await self._trouble()

    async def _trouble(self) -> None:
        due = {
            name: self._script[name]
            for name in scripts.TROUBLE
            if isinstance(self._script.get(name), dict)
            and self._script[name].get("after", 0) == self._record.sent
        }
        if "garbage" in due:
            await self._send(due["garbage"].get("bytes", "\x00\xff\xfe").encode("latin-1"))
        if "error_event" in due:
            await self._send(b"".join(self._wire.error(due["error_event"])))
            raise Cut
        if "drop" in due:
            raise Broken
        if "cut" in due:
            raise Cut
        if "stall" in due:
            await self._stall(due["stall"].get("ping"))

    async def _stall(self, ping: float | None) -> None:
        while True:
            await asyncio.sleep(ping or 3600)
            if ping:
                await self._send(self._wire.ping())

    async def _send(self, data: bytes) -> None:
        if self._script.get("crlf"):
            data = data.replace(b"\n", b"\r\n")
        if self._chunks is None:
            self._handler.write(data)
            await self._handler.flush()
            return
        while data:
            size = next(self._chunks)
            self._handler.write(data[:size])
            await self._handler.flush()
            data = data[size:]


WIRES: dict[str, type[wires.Wire]] = {
    "responses": wires.ResponsesWire,
    "anthropic": wires.MessagesWire,
    "chat": wires.ChatWire,
}


class Scripts(RequestHandler):
    """Scripts for the next requests."""

    def initialize(self, state: State) -> None:
        self.state = state

    def post(self) -> None:
        given = json.loads(self.request.body)
        self.state.queue.extend(given if isinstance(given, list) else [given])
        self.write({"queued": len(self.state.queue)})


class Requests(RequestHandler):
    """What came."""

    def initialize(self, state: State) -> None:
        self.state = state

    async def get(self, number: str | None = None) -> None:
        if number is None:
            self.write({"requests": [asdict(record) for record in self.state.records]})
            return
        place = int(number)
        wait = float(self.get_argument("wait", "0"))

        came = self.get_argument("until", "ended") == "came"

        def reached() -> bool:
            records = self.state.records
            return len(records) > place and (came or records[place].ended)

        async with self.state.changed:
            try:
                async with asyncio.timeout(wait):
                    await self.state.changed.wait_for(reached)
            except TimeoutError:
                pass
        if place >= len(self.state.records):
            self.send_error(404)
            return
        self.write(asdict(self.state.records[place]))

    def delete(self) -> None:
        self.state.records.clear()
        self.state.queue.clear()
        self.state.seen.clear()
        self.write({})


class Models(RequestHandler):
    """The list that OpenAI-compatible servers offer."""

    def get(self) -> None:
        self.write({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})


def application(state: State) -> Application:
    """The routes."""
    shared = {"state": state}
    return Application(
        [
            (r"/v1/responses", Answering, {**shared, "wire": "responses"}),
            (r"/v1/messages", Answering, {**shared, "wire": "anthropic"}),
            (r"/v1/chat/completions", Answering, {**shared, "wire": "chat"}),
            (r"/v1/models", Models),
            (r"/script", Scripts, shared),
            (r"/requests", Requests, shared),
            (r"/requests/(\d+)", Requests, shared),
        ],
        log_function=lambda handler: None,
    )


async def serve(port: int, *, until_stdin_closes: bool = False) -> None:
    """Serve on loopback until a signal comes; print the port as JSON."""
    sockets = bind_sockets(port, "127.0.0.1")
    server = HTTPServer(application(State()))
    server.add_sockets(sockets)
    bound = sockets[0].getsockname()[1]
    print(json.dumps({"port": bound, "url": f"http://127.0.0.1:{bound}"}), flush=True)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    await stop.wait()
    server.stop()
    await server.close_all_connections()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="A fake vendor of language models on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="end with whoever started this, even if that crashes",
    )
    given = parser.parse_args()
    asyncio.run(serve(given.port, until_stdin_closes=given.until_stdin_closes))


if __name__ == "__main__":
    main()
