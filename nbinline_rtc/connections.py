"""The model services this server can reach: who has a key, where they are, how to open one."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

import anyio
import anyio.to_thread
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup, TaskStatus

from nbinline_agent.context.budget import Limits
from nbinline_agent.errors import NbinlineError, NotConfigured, UnknownConnection
from nbinline_agent.messages import ConnectionInfo
from nbinline_agent.providers import catalog
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.opening import load_adapter, open_provider
from nbinline_agent.render.images import ImageLimits

from .codex_account import CodexAccount
from .codex_turns import codex_provider
from .credentials import KEYLESS_CONNECTIONS, CredentialStore
from .local_model import CONTEXT_TOKENS, MAX_OUTPUT_TOKENS, LocalModel


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where services are, as the server's settings say; empty means the environment or default."""

    openai: str = ""
    anthropic: str = ""
    compatible: str = ""


@dataclass(frozen=True, slots=True)
class _Access:
    """Where a service is and what opens it; never shown."""

    kind: str
    base_url: str | None
    api_key: str | None = field(repr=False)


@dataclass(eq=False)
class _Client:
    """One open client of a service, shared by its runs; closed once retired and unused."""

    access: _Access
    closing: bool = False
    _provider: Provider | None = None
    _users: int = 0
    _idle: anyio.Event = field(default_factory=anyio.Event)

    async def live(
        self, timeouts: Timeouts, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold the client open until it is retired and nobody uses it."""
        access = self.access
        async with open_provider(
            access.kind, base_url=access.base_url, api_key=access.api_key, timeouts=timeouts
        ) as provider:
            self._provider = provider
            task_status.started()
            await self._idle.wait()

    @contextmanager
    def used(self) -> Iterator[Provider]:
        """Use it for one run."""
        assert self._provider is not None
        self._users += 1
        try:
            yield self._provider
        finally:
            self._users -= 1
            self._close_if_done()

    def retire(self) -> None:
        """Take no new runs; close when the last one is through."""
        self.closing = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self.closing and not self._users:
            self._idle.set()


class ServerConnections(AsyncContextManagerMixin):
    """Implements the agent's ``Connections`` over the key store, the catalog and the local model.

    What people may know is read once and again after every change, so that asking costs nothing.
    An async context manager: it owns the clients, each open from its first run on.
    """

    def __init__(
        self,
        store: CredentialStore,
        local: LocalModel,
        *,
        addresses: Addresses,
        compatible_models: tuple[str, ...] = (),
        preferred: str = "",
        timeouts: Timeouts | None = None,
        budget_chars: int | None = None,
        compatible_images: bool = False,
        codex: CodexAccount | None = None,
    ) -> None:
        self._store = store
        self._local = local
        self._addresses = addresses
        self._compatible_models = compatible_models
        self._preferred = preferred
        self._timeouts = timeouts or Timeouts()
        self._budget_chars = budget_chars
        self._compatible_images = compatible_images
        self._codex = codex
        self._infos: dict[str, ConnectionInfo] = {}
        self._saved_default: str | None = None
        self._clients: dict[str, _Client] = {}
        self._tasks: TaskGroup

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with anyio.create_task_group() as self._tasks:
            try:
                await self.refresh()
                yield self
            finally:
                self._tasks.cancel_scope.cancel()

    async def refresh(self) -> None:
        """Read keys and settings again.

        Raises:
            CredentialsUnusable: The file of keys cannot be trusted or read.
        """
        self._infos, self._saved_default = await anyio.to_thread.run_sync(self._look)

    def _look(self) -> tuple[dict[str, ConnectionInfo], str | None]:
        infos = {
            key: self._info(each)
            for key, each in catalog.CONNECTIONS.items()
            if each.kind != "codex" or (self._codex and self._codex.settings.installed)
        }
        return infos, self._store.default_connection()

    def _info(self, connection: catalog.Connection) -> ConnectionInfo:
        if connection.id == "local":
            ready = self._local.problem() is None
            return connection.info(configured=ready, source="none-needed")
        if connection.kind == "codex":
            return self._codex_info(connection)
        source = self._store.source(connection.id)
        if connection.id == "openai_compatible":
            info = connection.info(
                configured=bool(self.address(connection)),
                source=source or "none-needed",
                models=self._compatible_models,
            )
            images = dict.fromkeys(info.models, self._compatible_images)
            return replace(info, images=images, other_images=self._compatible_images)
        return connection.info(configured=source is not None, source=source or "missing")

    def _codex_info(self, connection: catalog.Connection) -> ConnectionInfo:
        assert self._codex is not None
        settings = self._codex.settings
        ready = settings.installed and settings.signed_in
        source = "saved" if ready else "missing"
        known = self._codex.models()
        if not known:
            return connection.info(configured=ready, source=source)
        info = connection.info(configured=ready, source=source, models=tuple(m.id for m in known))
        return replace(
            info,
            efforts={each.id: each.efforts for each in known},
            images={each.id: each.images for each in known},
        )

    @property
    def default(self) -> str:
        """The saved choice, else the configured one, else the first that could run."""
        for wish in (self._saved_default, self._preferred):
            if wish and wish in self._infos:
                return wish
        ready = [key for key, info in self._infos.items() if info.configured]
        return ready[0] if ready else next(iter(catalog.CONNECTIONS))

    def infos(self) -> Mapping[str, ConnectionInfo]:
        """All connections by id, in the order they are offered."""
        return self._infos

    def limits(self, connection: str, model: str) -> Limits:
        """How much context the model takes."""
        if connection == "local":
            return Limits.for_model(CONTEXT_TOKENS, MAX_OUTPUT_TOKENS, 2.8)
        known = catalog.limits(connection, model)
        return Limits.for_model(
            known.context_tokens,
            known.max_output_tokens,
            known.chars_per_token,
            budget_chars=self._budget_chars,
        )

    def images(self, connection: str, model: str) -> ImageLimits | None:
        """What pictures the model takes; None if it takes none."""
        known = catalog.limits(connection, model)
        if known.images or (connection == "openai_compatible" and self._compatible_images):
            return ImageLimits(side=known.image_side, size=known.image_bytes)
        return None

    def max_output(self, connection: str, model: str) -> int | None:
        """Output tokens to ask for, or None where the service decides."""
        if connection == "local":
            return MAX_OUTPUT_TOKENS
        return catalog.limits(connection, model).default_output_tokens

    def open(self, connection: str) -> AbstractAsyncContextManager[Provider]:
        """Use a connection for one run.

        Raises:
            NotConfigured: There is no key or address.
            ProviderError: The local engine does not start.
        """
        return self._open(connection)

    @asynccontextmanager
    async def _open(self, connection: str) -> AsyncIterator[Provider]:
        if self._codex is not None and connection in self._infos and self._is_codex(connection):
            async with codex_provider(self._codex.settings, self._timeouts) as codex:
                yield codex
            return
        access = await self._access(connection)
        client = self._clients.get(connection)
        if client is None or client.access != access or client.closing:
            if client is not None:
                client.retire()
            client = _Client(access)
            await self._tasks.start(client.live, self._timeouts)
            self._clients[connection] = client
        with client.used() as provider:
            yield provider

    @staticmethod
    def _is_codex(connection: str) -> bool:
        return catalog.CONNECTIONS[connection].kind == "codex"

    async def _access(self, connection: str) -> _Access:
        known = catalog.CONNECTIONS.get(connection)
        if known is None:
            raise UnknownConnection
        if connection == "local":
            endpoint = await self._local.endpoint()
            return _Access(known.kind, endpoint.base_url, endpoint.api_key)
        key = await anyio.to_thread.run_sync(self._store.key, connection)
        if known.needs_key and key is None:
            raise NotConfigured
        return _Access(known.kind, self.address(known), key)

    async def warm_up(self) -> None:
        """Open the configured services' clients: loading an SDK takes seconds the first time.

        Nothing is sent; the local model is started by its first run only.
        """
        for connection, info in list(self._infos.items()):
            if info.configured and connection != "local" and not self._is_codex(connection):
                with suppress(NbinlineError):
                    async with self._open(connection):
                        pass
        await load_adapter("chat")

    def address(self, connection: catalog.Connection) -> str | None:
        """Where a service is: setting, environment, then the catalog's."""
        setting = {
            "openai_api": self._addresses.openai,
            "anthropic_api": self._addresses.anthropic,
            "openai_compatible": self._addresses.compatible,
        }.get(connection.id, "")
        variable = connection.base_url_variable
        return setting or (os.environ.get(variable) if variable else None) or connection.base_url

    async def set_key(self, connection: str, key: str) -> None:
        """Save a key.

        Raises:
            BadRequest: It cannot be a key.
            UnknownConnection: The connection takes none.
            CredentialsUnusable: The file cannot be written.
        """
        await anyio.to_thread.run_sync(self._store.set_key, connection, key)
        await self.refresh()

    async def remove_key(self, connection: str) -> None:
        """Forget a saved key.

        Raises:
            UnknownConnection: The connection takes none.
            CredentialsUnusable: The file cannot be written.
        """
        await anyio.to_thread.run_sync(self._store.remove_key, connection)
        await self.refresh()

    async def set_default(self, connection: str) -> None:
        """Save which connection is taken where nobody chose one.

        Raises:
            UnknownConnection: There is none of that id.
            CredentialsUnusable: The file cannot be written.
        """
        await anyio.to_thread.run_sync(self._store.set_default_connection, connection)
        await self.refresh()

    @property
    def keyless(self) -> frozenset[str]:
        """Connections that never need a key."""
        return KEYLESS_CONNECTIONS
