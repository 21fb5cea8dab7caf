"""What all routes share: who asks, the way to the host, and one shape of answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.base.handlers import APIHandler
from tornado import web

from nbinline_agent.asking import StartRun
from nbinline_agent.errors import BadRequest, NbinlineError, Paused
from nbinline_agent.journal import Author, RunRecord
from nbinline_agent.messages import JsonValue
from nbinline_rtc import wire
from nbinline_rtc.people import groups_of, owns_server

if TYPE_CHECKING:
    from nbinline_rtc.host import Host

WATCH = "nbinline-activity"
"""The resource whose ``read`` an authorizer may withhold from people who could else watch."""

MAX_WAIT = 25.0
"""Seconds a look-up may wait for news."""

MAX_BODY = 2_000_000
"""Bytes a request body may have."""

_IDS = re.compile(r"(?<=/runs/)[^/]+|(?<=/approvals/)[^/]+")

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
        self._reached: Host | None = None

    async def host(self) -> Host:
        """The running host.

        Raises:
            NbinlineError: It could not start; the message says why.
        """
        self._reached = await self._host()
        return self._reached

    @property
    def author(self) -> Author:
        """Who sent this request, as Jupyter's identity provider says."""
        user = self.current_user
        return Author(
            username=user.username, display_name=user.display_name or user.name or user.username
        )

    async def may_use_kernels(self) -> bool:
        """Whether the person may execute code in this server's kernels."""
        allowed = self.authorizer.is_authorized(self, self.current_user, "execute", "kernels")
        return bool(await ensure_async(allowed))

    async def asked(self) -> StartRun:
        """What the person wishes to have answered, with what they may do besides.

        Raises:
            BadRequest: A field is missing, unknown in kind or out of bounds.
        """
        start = wire.start_run(self.body(), self.author)
        return replace(
            start,
            may_use_kernels=await self.may_use_kernels(),
            owner=owns_server(self.author.username),
        )

    async def watches(self) -> Callable[[str], bool]:
        """Tells below which paths the person may look after other people's runs."""
        allowed = self.authorizer.is_authorized(self, self.current_user, "read", WATCH)
        if not await ensure_async(allowed):
            return lambda path: False
        watchers = (await self.host()).watchers
        return partial(watchers.may_watch, self.author.username, groups_of(self.current_user))

    async def sees(self) -> Callable[[RunRecord], bool]:
        """Tells which runs the person may see: one's own, and those one may watch."""
        watches = await self.watches()
        me = self.author.username
        return lambda record: record.author.username == me or watches(record.path)

    def number(self, name: str, default: str = "0") -> float:
        """A number of the query.

        Raises:
            BadRequest: It is no number from 0 on.
        """
        try:
            value = float(self.get_query_argument(name, default))
        except ValueError:
            value = -1.0
        if not 0 <= value < 2**53:
            raise BadRequest(f"The argument {name!r} must be a number from 0 on.")
        return value

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
            self._tell_operators(raised)
            self.reply(raised.http_status, wire.error_json(raised))
            return
        error = NbinlineError(_SENTENCES.get(status_code))
        body = cast("dict[str, Any]", wire.error_json(error))
        body["error"]["code"] = _CODES.get(
            status_code, "internal" if status_code >= 500 else "bad-request"
        )
        self.reply(status_code, body)

    def _tell_operators(self, error: NbinlineError) -> None:
        """Emit an event where a rule of the server kept somebody from something."""
        by_rule = error.http_status in (403, 429) or isinstance(error, Paused)
        if by_rule and self._reached is not None:
            place = self.request.path.removeprefix(self.base_url)
            route = f"{self.request.method} {_IDS.sub('…', place)}"
            self._reached.events.refused(self.author.username, error.code, route)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log what is our fault; an error that the asker is told is no news for the log."""
        if not isinstance(value, NbinlineError) or value.http_status >= 500:
            super().log_exception(typ, value, tb)
