"""The HTTP client that the vendors' SDKs are given."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import cache

import httpx2

from nbinline_agent.providers.base import Timeouts, check_allowed, is_loopback

_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


def open_http(
    base_url: str, timeouts: Timeouts, *, without: tuple[str, ...] = ()
) -> httpx2.AsyncClient:
    """Build a client that asks for permission, waits as told and keeps keys at home.

    Args:
        base_url: Where the service is; a service on this machine is never asked for by way of
            a proxy.
        timeouts: How long to wait.
        without: Headers an SDK adds that this service should not get.

    The client follows no redirect, so that no key ever travels to a second address.
    """
    return httpx2.AsyncClient(
        verify=_certificates(),
        timeout=httpx2.Timeout(
            connect=timeouts.connect,
            read=timeouts.silence,
            write=timeouts.silence,
            pool=timeouts.connect,
        ),
        limits=_LIMITS,
        follow_redirects=False,
        trust_env=not is_loopback(httpx2.URL(base_url).host),
        event_hooks={"request": [_request_hook(without)], "response": [_response_hook(timeouts)]},
    )


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates of this machine, read once: that takes as long as a thousand events."""
    return httpx2.create_ssl_context()


def address(base_url: str) -> str:
    """Scheme, host and port of a base URL: what a message may say about it."""
    url = httpx2.URL(base_url)
    port = "" if url.port is None else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}"


def _request_hook(without: tuple[str, ...]) -> Callable[[httpx2.Request], Awaitable[None]]:
    async def prepare(request: httpx2.Request) -> None:
        check_allowed(request.url.host)
        # Compressed pieces would be held back until a block is full.
        request.headers["Accept-Encoding"] = "identity"
        for name in without:
            request.headers.pop(name, None)

    return prepare


def _response_hook(timeouts: Timeouts) -> Callable[[httpx2.Response], Awaitable[None]]:
    async def opened(response: httpx2.Response) -> None:
        # Up to here `silence` held. From here the silence between events is watched, which may
        # be longer while a model reasons, so the socket must allow the longer one.
        if response.is_success:
            limits = response.request.extensions["timeout"]
            limits["read"] = max(timeouts.silence, timeouts.thinking) + 5.0

    return opened
