"""Tornado on one side, the MCP SDK's ASGI application on the other.

This is the one route whose answers may be streams: MCP asks for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import anyio
from jupyter_server.auth.decorator import authorized
from tornado import web
from tornado.iostream import StreamClosedError

from nbinline_rtc.mcp_endpoint import Person
from nbinline_rtc.people import owns_server

from .base import NbinlineHandler

if TYPE_CHECKING:
    from nbinline_rtc.host import Host


class McpHandler(NbinlineHandler):
    """Requests of agents from outside; each comes in a person's name, as every other request."""

    def initialize(self, host: Callable[[], Awaitable[Host]]) -> None:
        """Prepare for a client that goes away."""
        super().initialize(host)
        self._gone = anyio.Event()

    def on_connection_close(self) -> None:
        """The client went away."""
        self._gone.set()
        super().on_connection_close()

    @web.authenticated
    @authorized(action="execute")
    async def get(self) -> None:
        """``GET mcp``: what the server has to say on its own."""
        await self._bridge()

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST mcp``: a message of an agent."""
        await self._bridge()

    @web.authenticated
    @authorized(action="execute")
    async def delete(self) -> None:
        """``DELETE mcp``: the end of a session."""
        await self._bridge()

    async def _bridge(self) -> None:
        host = await self.host()
        person = Person(
            author=self.author,
            principal=self._principal(),
            may_use_kernels=await self.may_use_kernels(),
            owner=owns_server(self.author.username),
        )
        bodies = [self.request.body]

        async def receive() -> MutableMapping[str, Any]:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._begin(message)
                return
            self.write(message.get("body", b""))
            try:
                await self.flush()
            except StreamClosedError:
                self._gone.set()

        await host.mcp.serve(person, self._scope(), receive, send)
        if not self._finished:
            self.finish()

    def _principal(self) -> str:
        provider = self.identity_provider
        if not provider.auth_enabled:
            return "anybody"
        if not self.token_authenticated:
            return f"user {self.author.username}"
        token = provider.get_token(self) or ""
        return f"token {hashlib.sha256(token.encode()).hexdigest()}"

    def _begin(self, message: MutableMapping[str, Any]) -> None:
        self.set_status(message["status"])
        self.clear_header("Content-Type")
        for name, value in message["headers"]:
            if name.lower() != b"content-length":
                self.set_header(name.decode("latin-1"), value.decode("latin-1"))
        self.set_header("Cache-Control", "no-store")

    def _scope(self) -> dict[str, Any]:
        request = self.request
        host, _, port = request.host.partition(":")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.protocol,
            "path": request.path,
            "raw_path": request.path.encode(),
            "root_path": "",
            # What let the request in goes no further.
            "query_string": urlencode(
                [each for each in parse_qsl(request.query) if each[0] != "token"]
            ).encode(),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in request.headers.get_all()
                if name.lower() not in ("authorization", "cookie")
            ],
            "client": (request.remote_ip, 0),
            "server": (host, int(port) if port.isdigit() else None),
        }
