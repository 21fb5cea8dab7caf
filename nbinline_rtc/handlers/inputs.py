"""The route that tells what answers were made from."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import BadRequest
from nbinline_agent.messages import JsonValue
from nbinline_agent.provenance import inputs_of
from nbinline_rtc import wire

from .base import NbinlineHandler

MAX_RUNS = 50
"""Runs that one request may ask about."""


class InputsHandler(NbinlineHandler):
    """Hashes of the cells that runs were built from."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET inputs?run=A&run=B``: runs that are not known are left out."""
        names = self.get_query_arguments("run")
        if not 0 < len(names) <= MAX_RUNS:
            raise BadRequest(f"Ask about 1 to {MAX_RUNS} runs at once.")
        host = await self.host()
        found: dict[str, JsonValue] = {}
        for run_id in map(wire.run_id_of, names):
            cells = await inputs_of(host.journal, run_id)
            if cells is not None:
                found[run_id] = dict(cells)
        self.reply(200, {"inputs": found})
