"""Opening a provider by the name of its adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

import anyio.to_thread
import httpx2

from nbinline_agent.errors import NotConfigured
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.retry import RetryPolicy

_ADAPTERS = {
    "openai": ("nbinline_agent.providers.openai", "open_openai"),
    "anthropic": ("nbinline_agent.providers.anthropic", "open_anthropic"),
    "chat": ("nbinline_agent.providers.chat", "open_chat"),
}


@asynccontextmanager
async def open_provider(
    kind: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeouts: Timeouts | None = None,
    retries: RetryPolicy | None = None,
) -> AsyncIterator[Provider]:
    """Open the client of a service; it is closed at the exit.

    One provider serves any number of calls at once, and keeps connections open between them.

    Args:
        kind: Adapter: ``openai``, ``anthropic`` or ``chat``.
        base_url: Where the service is; required for ``chat``.
        api_key: Of the service; None where it needs none.
        timeouts: How long to wait; 30 s to connect and 60 s of silence by default.
        retries: When to repeat a call of which nothing has streamed.

    Raises:
        ValueError: No such adapter.
        NotConfigured: The address is missing or not one.

    Example::

        async with open_provider("anthropic", api_key=key) as provider:
            async with provider.stream(request) as events:
                async for event in events:
                    ...
    """
    if kind not in _ADAPTERS:
        raise ValueError(f"no adapter for {kind!r}")
    _check_address(kind, base_url)
    opener = await load_adapter(kind)
    async with opener(
        base_url=base_url,
        # A key that was read from a file often ends in a newline.
        api_key=api_key.strip() if api_key else None,
        timeouts=timeouts or Timeouts(),
        retries=retries or RetryPolicy(),
    ) as provider:
        yield provider


async def load_adapter(kind: str) -> Callable[..., AbstractAsyncContextManager[Provider, Any]]:
    """Import an adapter with its SDK, in a worker thread: that takes seconds the first time.

    Raises:
        KeyError: No such adapter.
    """
    module, name = _ADAPTERS[kind]
    adapter = await anyio.to_thread.run_sync(import_module, module)
    opener: Callable[..., AbstractAsyncContextManager[Provider, Any]] = getattr(adapter, name)
    return opener


def _check_address(kind: str, base_url: str | None) -> None:
    if base_url is None:
        if kind == "chat":
            raise NotConfigured("This connection has no address yet. Set its base_url.")
        return
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, TypeError, ValueError):
        url = None
    if url is None or url.scheme not in {"https", "http"} or not url.host:
        raise NotConfigured(
            "The connection's base_url is no address of a service. It looks like "
            "https://example.org/v1."
        )
