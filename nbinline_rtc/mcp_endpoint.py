"""The notebook's tools for agents outside the server, over MCP.

An agent that comes with a person's token may do what the person may: each call names a notebook,
and everything goes the way of our own agent's calls: the same tools, bounds, approvals, presence
and journal. Nothing here knows Tornado; ``handlers/mcp.py`` brings requests.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import anyio
import structlog
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitResult,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as OfferedTool
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from nbinline_agent.context.choices import Policy
from nbinline_agent.errors import NbinlineError
from nbinline_agent.journal import Author
from nbinline_agent.tools.base import Preview, Tool, ToolContext
from nbinline_agent.tools.modes import Mode, Modes, mode_of
from nbinline_agent.visiting import Ask, Visitor, Visits

from . import __version__, wire

NOTEBOOK = "notebook"
"""Argument of every tool: the notebook it works in."""

WITHOUT_NOTEBOOK = frozenset({"list_notebooks"})
"""Tools that also work where no notebook is named."""

SESSION = b"mcp-session-id"

SESSION_IDLE = 1800.0
"""Seconds without a request after which a session is forgotten."""

MAX_SESSIONS = 200
MAX_BODY = 2_000_000
"""Bytes of a request."""

INSTRUCTIONS = """\
These tools work on Jupyter notebooks that people have open together. Every tool takes `notebook`,
the notebook's path below the server's root; list_notebooks alone works without one, and finds
them. Read before you write: reads give a hash of a cell's source (sha256:...), and edits take it
as `expected_source`, so that nothing a person typed meanwhile is lost. If an edit is refused since
the source changed, read again. Cells are named by id. People see where you work."""

_PATH = {
    "type": "string",
    "description": "Path of the notebook below the server's root, for example course/week1.ipynb.",
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Person:
    """Who sent a request, as Jupyter's identity provider and authorizer say.

    Attributes:
        author: The person.
        principal: What shows that two requests come from the same one: without a hub Jupyter makes
            up another name for every request that has nothing but a token.
        may_use_kernels: Whether they may execute code in kernels.
        owner: Whether the server is their own.
    """

    author: Author
    principal: str
    may_use_kernels: bool
    owner: bool


class McpEndpoint(AsyncContextManagerMixin):
    """Serves MCP requests; an async context manager that owns their sessions.

    Args:
        visits: Where calls are carried out.
        modes: How calls are let through, by group; tools of groups that are off are not offered.
    """

    def __init__(self, visits: Visits, modes: Modes) -> None:
        self._visits = visits
        self._offered = {
            tool.name: tool for tool in visits.tools if mode_of(tool, modes) is not Mode.OFF
        }
        self._manager = StreamableHTTPSessionManager(
            Server(
                "nbinline",
                version=__version__,
                instructions=INSTRUCTIONS,
                on_list_tools=self._list,
                on_call_tool=self._call,
            ),
            session_idle_timeout=SESSION_IDLE,
            max_request_body_size=MAX_BODY,
            max_sessions=MAX_SESSIONS,
        )
        self._tasks: TaskGroup

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with self._manager.run(), anyio.create_task_group() as self._tasks:
            try:
                yield self
            finally:
                self._tasks.cancel_scope.cancel()

    async def serve(self, person: Person, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; it ends with the endpoint, whoever brought it.

        Args:
            person: Who sent it.
            scope: As in ASGI.
            receive: As in ASGI.
            send: As in ASGI.
        """
        ended = anyio.Event()
        work = anyio.CancelScope()
        leaves = dict(scope["headers"]).get(SESSION) if scope["method"] == "DELETE" else None
        scope["nbinline"] = person
        # A session answers only whoever began it.
        scope["user"] = AuthenticatedUser(
            AccessToken(token="", client_id=person.principal, scopes=[])
        )

        async def answer() -> None:
            try:
                with work:
                    await self._manager.handle_request(scope, receive, send)
            finally:
                ended.set()

        self._tasks.start_soon(answer)
        try:
            await ended.wait()
        finally:
            work.cancel()
        if leaves is not None:
            await self._visits.leave(person.principal, leaves.decode("latin-1"))

    async def _list(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        bound = _bound_notebook(context)
        return ListToolsResult(tools=[_offered(tool, bound) for tool in self._offered.values()])

    async def _call(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        arguments = dict(params.arguments or {})
        path = arguments.pop(NOTEBOOK, None) or _bound_notebook(context)
        try:
            if path is None and params.name in WITHOUT_NOTEBOOK:
                return await self._call_at_root(self._offered[params.name], arguments)
            visit = await self._visits.visit(_visitor(context), wire.path_of(path))
            answer = await visit.call(params.name, json.dumps(arguments), _asking(context))
        except NbinlineError as error:
            return _failed(error.code, error.message)
        content: list[ContentBlock] = [TextContent(text=answer.text)]
        content += [
            ImageContent(data=image.encoded, mime_type=image.media_type) for image in answer.images
        ]
        return CallToolResult(content=content, is_error=answer.failed)

    async def _call_at_root(self, tool: Tool, arguments: Mapping[str, Any]) -> CallToolResult:
        """Read something that belongs to no notebook."""
        root = _Root(self._visits.around.root, self._visits.policy)
        try:
            checked = tool.arguments.model_validate(arguments)
        except ValidationError as error:
            return _failed("tool-failed", f"The arguments do not fit: {error.errors()[0]['msg']}.")
        result = await tool.call(cast("ToolContext", root), checked)
        return CallToolResult(content=[TextContent(text=result.text)])


@dataclass(frozen=True, slots=True)
class _Root:
    """What a tool may use that belongs to no notebook: files from the server's root on."""

    root: Path
    policy: Policy
    path: str = ""

    @property
    def folder(self) -> Path:
        return self.root


def _failed(code: str, message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=f"Error ({code}): {message}")], is_error=True)


def _bound_notebook(context: ServerRequestContext[Any]) -> str | None:
    """The notebook that a whole session works in, if its address names one."""
    assert context.request is not None, "every request comes over HTTP"
    named: str | None = context.request.query_params.get(NOTEBOOK)
    return named


def _offered(tool: Tool, bound: str | None) -> OfferedTool:
    spec = tool.spec
    schema: dict[str, Any] = {"type": "object", "properties": {}, **spec.parameters}
    if bound is None:
        schema["properties"] = {NOTEBOOK: _PATH, **schema["properties"]}
        if tool.name not in WITHOUT_NOTEBOOK:
            schema["required"] = [NOTEBOOK, *schema.get("required", ())]
    return OfferedTool(
        name=spec.name,
        description=spec.description,
        input_schema=schema,
        annotations=ToolAnnotations(read_only_hint=not tool.writes),
    )


def _visitor(context: ServerRequestContext[Any]) -> Visitor:
    request = context.request
    assert request is not None, "every request comes over HTTP"
    person: Person = request.scope["nbinline"]
    client = context.session.client_params
    name = client.client_info.name if client is not None else ""
    return Visitor(
        author=person.author,
        principal=person.principal,
        client=name if name.isprintable() else "",
        # Requests of the newest protocol stand alone: there the agent's name holds them together.
        session=request.headers.get("mcp-session-id") or f"client {name}",
        may_use_kernels=person.may_use_kernels,
        owner=person.owner,
    )


def _asking(context: ServerRequestContext[Any]) -> Ask | None:
    """Asks the person through the agent's own program, if that can ask."""
    client = context.session.client_params
    if client is None or client.capabilities.elicitation is None:
        return None

    async def ask(preview: Preview) -> bool | None:
        shown = "\n\n".join(filter(None, (preview.summary, preview.diff, preview.code)))
        try:
            given: ElicitResult = await context.session.elicit_form(
                f"An agent asks for permission in a shared notebook:\n\n{shown[:20_000]}",
                {"type": "object", "properties": {}},
                context.request_id,
            )
        except (MCPError, NoBackChannelError) as error:
            log.info("nobody could be asked", reason=type(error).__name__)
            return None
        return given.action == "accept"

    return ask
