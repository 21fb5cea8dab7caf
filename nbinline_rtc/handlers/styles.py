"""Routes of the styles of answers."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.context.instructions import STYLE_LIMIT, STYLES
from nbinline_agent.errors import BadRequest
from nbinline_agent.messages import JsonValue
from nbinline_rtc import wire
from nbinline_rtc.styles import MAX_NAME, AnswerStyles

from .base import NbinlineHandler


class StylesHandler(NbinlineHandler):
    """List, word and remove styles; each answer lists all of them."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET settings/styles``."""
        host = await self.host()
        await host.styles.refresh()
        self.reply(200, _listed(host.styles))

    @web.authenticated
    @authorized(action="execute")
    async def put(self) -> None:
        """``PUT settings/styles``."""
        body = self.body()
        name = wire.text_of(body, "name", MAX_NAME)
        wording = wire.text_of(body, "wording", STYLE_LIMIT)
        assert name is not None
        assert wording is not None
        host = await self.host()
        await host.styles.set(name, wording)
        self.reply(200, _listed(host.styles))

    @web.authenticated
    @authorized(action="execute")
    async def delete(self) -> None:
        """``DELETE settings/styles?name=``."""
        name = self.get_query_argument("name", "")
        if not name:
            raise BadRequest("Name the style in the argument 'name'.")
        host = await self.host()
        await host.styles.remove(name)
        self.reply(200, _listed(host.styles))


def _listed(styles: AnswerStyles) -> dict[str, JsonValue]:
    return {
        "styles": {
            name: {"wording": wording, "builtin": name in STYLES, "own": name in styles.own}
            for name, wording in styles.wordings.items()
        }
    }
