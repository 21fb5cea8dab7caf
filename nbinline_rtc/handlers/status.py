"""Routes that tell what this server offers, or that there is nothing."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.messages import JsonValue
from nbinline_rtc import __version__, wire

from .base import NbinlineHandler

FEATURES = ("revert",)
"""What clients may offer besides asking."""


class StatusHandler(NbinlineHandler):
    """What this server offers to the asking person."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET status``."""
        host = await self.host()
        problems: list[JsonValue] = list(host.problems())
        watches = await self.watches()
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
                "features": list(FEATURES),
                "default_connection": host.connections.default,
                "styles": dict(host.styles.wordings),
                "limits": dict(host.limits()),
                "policy": {
                    "forced": dict(host.pinned),
                    "tool_approval": {group: str(mode) for group, mode in host.modes.items()},
                },
                "recording": {
                    "kept_days": host.kept_days,
                    "notice": host.recording_notice(),
                    "may_watch": watches(""),
                },
                "pauses": [pause.to_json() for pause in host.watching.pauses.all()],
            },
        )


class UnknownRouteHandler(NbinlineHandler):
    """Everything else below our prefix."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, *_: str) -> None:
        """No such route."""
        raise web.HTTPError(404)
