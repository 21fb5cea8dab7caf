"""Routes of the Codex connection's account."""

from __future__ import annotations

import anyio.to_thread
from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import BadRequest
from nbinline_agent.messages import JsonValue
from nbinline_rtc.codex_account import CodexAccount

from .base import NbinlineHandler


class CodexHandler(NbinlineHandler):
    """Whose subscription it is, what it offers, and signing out."""

    @web.authenticated
    @authorized(action="execute")
    async def get(self) -> None:
        """``GET settings/codex?look=1``: with ``look`` the account is asked, else no process."""
        host = await self.host()
        told = await state(host.codex)
        if self.get_query_argument("look", ""):
            told |= await host.codex.look()
            await host.connections.refresh()
        self.reply(200, told)

    @web.authenticated
    @authorized(action="execute")
    async def delete(self) -> None:
        """``DELETE settings/codex``: sign out."""
        host = await self.host()
        await host.codex.disconnect()
        await host.connections.refresh()
        self.reply(200, await state(host.codex))


class CodexLoginHandler(NbinlineHandler):
    """Signing in."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST settings/codex/login``: where to sign in; the end is seen in the state."""
        kind = self.body().get("kind", "device")
        if kind not in ("browser", "device"):
            raise BadRequest("The field 'kind' must be 'browser' or 'device'.")
        host = await self.host()
        login = await host.codex.begin(kind)
        self.reply(202, login.to_json())

    @web.authenticated
    @authorized(action="execute")
    async def delete(self) -> None:
        """``DELETE settings/codex/login``: give it up."""
        host = await self.host()
        await host.codex.cancel()
        self.reply(200, await state(host.codex))


async def state(account: CodexAccount) -> dict[str, JsonValue]:
    """What is known without asking the runtime."""
    return await anyio.to_thread.run_sync(_state, account)


def _state(account: CodexAccount) -> dict[str, JsonValue]:
    settings = account.settings
    return {
        "installed": settings.installed,
        "signed_in": settings.signed_in,
        "sandbox": settings.sandbox,
        "login": account.login.to_json() if account.login else None,
        "models": [each.id for each in account.models()],
    }
