"""Routes of keys and of the default connection."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import UnknownConnection
from nbinline_agent.messages import JsonValue
from nbinline_rtc import wire
from nbinline_rtc.host import Host

from .base import NbinlineHandler


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
