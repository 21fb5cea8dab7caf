"""The route of the preview."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from .base import NbinlineHandler


class PreviewHandler(NbinlineHandler):
    """What a run would send."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST context-preview``: no model is called, nothing is written."""
        start = await self.asked()
        host = await self.host()
        report = await host.runtime.preview(start)
        self.reply(200, {"report": dict(report)})
