"""The route that tells a command line what stands in an open notebook right now."""

from __future__ import annotations

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import NotAllowed
from nbinline_rtc import wire

from .base import NbinlineHandler


class NotebookHandler(NbinlineHandler):
    """One notebook as people see it."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET notebook?path=&content=1``: whether it is open, and what its document holds."""
        path = wire.path_of(self.get_query_argument("path", ""))
        allowed = self.authorizer.is_authorized(self, self.current_user, "read", "contents")
        if not await ensure_async(allowed):
            raise NotAllowed
        host = await self.host()
        clean, content = await host.rooms.open_content(path)
        policy = host.policy
        self.reply(
            200,
            {
                "path": clean,
                "open": content is not None,
                "notebook": content if self.get_query_argument("content", "1") != "0" else None,
                "hide_solutions": policy.hide_solutions,
                "hidden_tags": [*sorted(policy.hidden_tags)],
            },
        )
