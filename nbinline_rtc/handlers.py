"""The HTTP routes: commands and look-ups only; answers travel in the shared document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from nbinline_agent.errors import BadRequest, NbinlineError, UnknownConnection, UnknownRun
from nbinline_agent.journal import Author
from nbinline_agent.messages import JsonValue

from . import __version__, wire

if TYPE_CHECKING:
    from .host import Host

MAX_BODY = 2_000_000
"""Bytes a request body may have."""

MAX_WAIT = 25.0
"""Seconds a look-up of events may wait for news."""

_CODES = {400: "bad-request", 401: "not-authenticated", 403: "not-allowed", 404: "not-found"}
_SENTENCES = {
    400: "The request could not be understood.",
    401: "Log in to this Jupyter server, then try again.",
    403: "You are not allowed to do this. Reload the page, or ask the owner of this server.",
    404: "There is nothing at this address.",
    405: "This address does not take that kind of request.",
}


class NbinlineHandler(APIHandler):
    """What all routes share: who asks, the host, and one shape of error."""

    auth_resource = "nbinline"

    def initialize(self, host: Callable[[], Awaitable[Host]]) -> None:
        """Keep the way to the host, which may still be starting."""
        self._host = host

    async def host(self) -> Host:
        """The running host.

        Raises:
            NbinlineError: It could not start; the message says why.
        """
        return await self._host()

    @property
    def author(self) -> Author:
        """Who sent this request, as Jupyter's identity provider says."""
        user = self.current_user
        return Author(
            username=user.username, display_name=user.display_name or user.name or user.username
        )

    def body(self) -> dict[str, Any]:
        """The JSON object that was sent.

        Raises:
            BadRequest: It is no JSON object, or too large.
        """
        if len(self.request.body) > MAX_BODY:
            raise BadRequest("The request is too large.")
        try:
            value = self.get_json_body()
        except (web.HTTPError, UnicodeDecodeError, RecursionError):
            raise BadRequest("The request is not valid JSON.") from None
        return dict(wire.object_of(value))

    def reply(self, status: int, value: dict[str, JsonValue]) -> None:
        """Send a JSON object."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        self.finish(value)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send every error in the contract's shape, whatever raised it."""
        raised = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(raised, NbinlineError):
            self.reply(raised.http_status, wire.error_json(raised))
            return
        error = NbinlineError(_SENTENCES.get(status_code))
        body = cast("dict[str, Any]", wire.error_json(error))
        body["error"]["code"] = _CODES.get(
            status_code, "internal" if status_code >= 500 else "bad-request"
        )
        self.reply(status_code, body)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log what is our fault; an error that the asker is told is no news for the log."""
        if not isinstance(value, NbinlineError) or value.http_status >= 500:
            super().log_exception(typ, value, tb)


class StatusHandler(NbinlineHandler):
    """What this server offers to the asking person."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET status``."""
        host = await self.host()
        problems: list[JsonValue] = list(host.problems())
        self.reply(
            200,
            {
                "version": __version__,
                "ready": not problems,
                "problems": problems,
                "connections": {
                    key: wire.connection_json(info)
                    for key, info in host.connections.infos().items()
                },
                "default_connection": host.connections.default,
                "styles": dict(host.styles()),
                "limits": dict(host.limits()),
                "policy": {},
            },
        )


class RunsHandler(NbinlineHandler):
    """Start a run; list runs."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET runs?path=``: of one notebook, or the asker's own everywhere."""
        host = await self.host()
        path = self.get_query_argument("path", "")
        if path:
            records = await host.journal.runs(path=wire.path_of(path))
        else:
            records = await host.journal.runs(username=self.author.username)
        self.reply(200, {"runs": [wire.run_json(record) for record in records]})

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST runs``."""
        start = wire.start_run(self.body(), self.author)
        host = await self.host()
        run = await host.runtime.submit(start)
        self.reply(202, wire.accepted_json(run.record))


class RunHandler(NbinlineHandler):
    """One run: look at it, or stop it."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, run_id: str) -> None:
        """``GET runs/{id}``."""
        host = await self.host()
        record = await host.journal.run(wire.run_id_of(run_id))
        if record is None:
            raise UnknownRun
        live = host.runtime.live(record.run_id)
        self.reply(200, {**wire.run_json(record), "live": live})

    @web.authenticated
    @authorized(action="execute")
    async def delete(self, run_id: str) -> None:
        """``DELETE runs/{id}``: a run that has ended stays as it is."""
        host = await self.host()
        record = await host.runtime.cancel(wire.run_id_of(run_id))
        self.reply(202, wire.accepted_json(record))


class EventsHandler(NbinlineHandler):
    """The journal of one run."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, run_id: str) -> None:
        """``GET runs/{id}/events?after=N&wait=25``."""
        host = await self.host()
        key = wire.run_id_of(run_id)
        if await host.journal.run(key) is None:
            raise UnknownRun
        after = int(self._number("after"))
        wait = min(self._number("wait"), MAX_WAIT)
        page = await host.runtime.events(key, after, wait)
        self.reply(200, wire.events_json(page))

    def _number(self, name: str) -> float:
        try:
            value = float(self.get_query_argument(name, "0"))
        except ValueError:
            value = -1.0
        if not 0 <= value < 2**53:
            raise BadRequest(f"The argument {name!r} must be a number from 0 on.")
        return value


class ContinueHandler(NbinlineHandler):
    """Go on from a partial answer."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self, run_id: str) -> None:
        """``POST runs/{id}/continue``."""
        host = await self.host()
        run = await host.runtime.continue_run(wire.run_id_of(run_id), self.author)
        self.reply(202, wire.accepted_json(run.record))


class PreviewHandler(NbinlineHandler):
    """What a run would send."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST context-preview``: no model is called, nothing is written."""
        start = wire.start_run(self.body(), self.author)
        host = await self.host()
        report = await host.runtime.preview(start)
        self.reply(200, {"report": dict(report)})


class KeysHandler(NbinlineHandler):
    """Which connections have a key, and from where; never a key."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET settings/keys``."""
        host = await self.host()
        infos = host.connections.infos()
        self.reply(
            200,
            {
                "connections": {
                    key: {"label": i.label, "configured": i.configured, "source": i.source}
                    for key, i in infos.items()
                },
                "default_connection": host.connections.default,
            },
        )


class KeyHandler(NbinlineHandler):
    """Set or remove one connection's key."""

    @web.authenticated
    @authorized(action="execute")
    async def put(self, connection: str) -> None:
        """``PUT settings/keys/{connection}``."""
        key = wire.text_of(self.body(), "key", 4_096)
        assert key is not None
        host = await self.host()
        await host.connections.set_key(connection, key)
        self.reply(200, self._state(host, connection))

    @web.authenticated
    @authorized(action="execute")
    async def delete(self, connection: str) -> None:
        """``DELETE settings/keys/{connection}``."""
        host = await self.host()
        await host.connections.remove_key(connection)
        self.reply(200, self._state(host, connection))

    def _state(self, host: Host, connection: str) -> dict[str, JsonValue]:
        info = host.connections.infos()[connection]
        return {"configured": info.configured, "source": info.source}


class DefaultConnectionHandler(NbinlineHandler):
    """Which connection is taken where nobody chose one."""

    @web.authenticated
    @authorized(action="execute")
    async def put(self) -> None:
        """``PUT settings/default-connection``."""
        connection = wire.text_of(self.body(), "connection", wire.MAX_ID)
        assert connection is not None
        host = await self.host()
        if connection not in host.connections.infos():
            raise UnknownConnection
        await host.connections.set_default(connection)
        self.reply(200, {"default_connection": host.connections.default})


class UnknownRouteHandler(NbinlineHandler):
    """Everything else below our prefix."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, *_: str) -> None:
        """No such route."""
        raise web.HTTPError(404)


ROUTES: list[tuple[str, type[NbinlineHandler]]] = [
    (r"/nbinline/status", StatusHandler),
    (r"/nbinline/runs", RunsHandler),
    (r"/nbinline/runs/([^/]+)", RunHandler),
    (r"/nbinline/runs/([^/]+)/events", EventsHandler),
    (r"/nbinline/runs/([^/]+)/continue", ContinueHandler),
    (r"/nbinline/context-preview", PreviewHandler),
    (r"/nbinline/settings/keys", KeysHandler),
    (r"/nbinline/settings/keys/([a-z_]+)", KeyHandler),
    (r"/nbinline/settings/default-connection", DefaultConnectionHandler),
    (r"/nbinline/(.*)", UnknownRouteHandler),
]
"""Every route below the base URL with its handler."""
