"""``jupyter nbinline mcp``: the notebook's tools over standard input and output.

Programs that only know MCP servers they start themselves get one here; it passes everything on to
a running Jupyter server. The token never stands on a command line, where others could read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from . import __version__
from .servers import TOKEN_VARIABLES, TokenUnreadable, token_for

LONGEST_CALL = 3_700.0
"""Seconds a call may take; a cell may run for an hour."""


class BridgeRefused(Exception):
    """There is nothing to connect to; the text is a sentence a person can act on."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Jupyter server behind the bridge.

    Attributes:
        url: Its base URL.
        token: Its token; empty if it needs none.
        notebook: The notebook all calls are about; empty if each call names its own.
    """

    url: str
    token: str = field(repr=False, default="")
    notebook: str = ""

    @property
    def endpoint(self) -> str:
        """Where it answers."""
        query = f"?notebook={quote(self.notebook)}" if self.notebook else ""
        return f"{self.url.rstrip('/')}/nbinline/mcp{query}"


def find_target(
    url: str,
    notebook: str,
    token_file: Path | None,
    *,
    servers: Iterable[Mapping[str, Any]],
    environ: Mapping[str, str] | None = None,
) -> Target:
    """Choose the server and its token.

    Args:
        url: Its base URL; empty takes the only one that runs.
        notebook: The notebook all calls are about; empty for none.
        token_file: A file with the token, or None.
        servers: Servers that run on this account, as Jupyter lists them.
        environ: Where the token may stand; the environment by default.

    Raises:
        BridgeRefused: There is none, or it is not clear which one.
    """
    running = list(servers)
    if not url:
        if len(running) != 1:
            known = ", ".join(str(each["url"]) for each in running) or "none"
            raise BridgeRefused(f"Say which server with --url; running on this account: {known}.")
        url = str(running[0]["url"])
    if urlsplit(url).scheme not in ("http", "https"):
        raise BridgeRefused(f"{url!r} is not the address of a Jupyter server.")
    try:
        token = token_for(url, token_file, running, environ)
    except TokenUnreadable as error:
        raise BridgeRefused(str(error)) from None
    return Target(url, token, notebook)


def run_bridge(target: Target) -> None:
    """Serve on standard input and output until the input ends.

    Raises:
        BridgeRefused: The server cannot be reached, or refuses.
    """
    anyio.run(_serve, target)


async def _serve(target: Target) -> None:
    headers = {"Authorization": f"token {target.token}"} if target.token else {}
    bridge = _Bridge()
    async with httpx2.AsyncClient(
        headers=headers, timeout=httpx2.Timeout(30, read=LONGEST_CALL)
    ) as http:
        await _check(http, target)
        # With a session all calls of this program belong together, and people can be asked.
        async with Client(
            streamable_http_client(target.endpoint, http_client=http),
            mode="legacy",
            elicitation_callback=bridge.elicit,
        ) as upstream:
            await bridge.serve(upstream)


async def _check(http: httpx2.AsyncClient, target: Target) -> None:
    """Say plainly what would come out as a broken stream."""
    try:
        answer = await http.get(f"{target.url.rstrip('/')}/nbinline/status")
    except httpx2.HTTPError:
        raise BridgeRefused(f"No server answers at {target.url}.") from None
    if answer.status_code in (401, 403):
        raise BridgeRefused(
            f"The server at {target.url} refused. Set {TOKEN_VARIABLES[0]} to its token."
        )
    if answer.status_code != 200:
        raise BridgeRefused(f"The server at {target.url} has no AI prompts (nbinline-rtc).")


class _Bridge:
    """Passes requests up, and questions to the person down."""

    def __init__(self) -> None:
        self._latest: ServerRequestContext[Any] | None = None

    async def serve(self, upstream: Client) -> None:
        """Answer on standard input and output."""

        async def list_tools(
            context: ServerRequestContext[Any], params: PaginatedRequestParams | None
        ) -> ListToolsResult:
            return await upstream.list_tools()

        async def call_tool(
            context: ServerRequestContext[Any], params: CallToolRequestParams
        ) -> CallToolResult:
            self._latest = context
            return await upstream.call_tool(params.name, params.arguments)

        server: Server[Any] = Server(
            "nbinline",
            version=__version__,
            instructions=upstream.instructions,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def elicit(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        """Ask the person at the program that started us."""
        asking = self._latest
        if asking is None or not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="cancel")
        return await asking.session.elicit_form(
            params.message, params.requested_schema, asking.request_id
        )
