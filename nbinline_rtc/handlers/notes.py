"""The route by which a page has a note placed that its own cell asked for."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import NotAllowed
from nbinline_rtc import wire
from nbinline_rtc.notes import note_request

from .base import NbinlineHandler


class NotesHandler(NbinlineHandler):
    """Notes below cells that ran."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST notes``: whoever may run cells may have the note that their cell asked for."""
        body = self.body()
        path = wire.path_of(body.get("path"))
        below = wire.cell_id_of(body)
        request = note_request(body)
        if not await self.may_use_kernels():
            raise NotAllowed
        host = await self.host()
        cell = await host.notes.place(path, below, request, self.author)
        self.reply(201, {"cell_id": cell})
