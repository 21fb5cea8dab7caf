"""Fetching a page from the public internet, and from nowhere else."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache

import anyio
import anyio.to_thread
import httpx2

from nbinline_agent.tools.base import ToolError

from .addresses import Allowed, Resolve, check_url, is_public, resolve

SECONDS = 20.0
"""Time limit of a page, with its redirections."""

MAX_BYTES = 2_000_000
"""Bytes of a page, as they are sent and as they are unpacked."""

MAX_REDIRECTS = 5

USER_AGENT = "nbinline-rtc (reads a page on behalf of a notebook's user)"


@dataclass(frozen=True, slots=True)
class Page:
    """What an address gave.

    Attributes:
        url: Where it came from in the end; the fragment is the one that was asked for.
        content_type: Lower case, without parameters.
        charset: As the server said; empty if it did not.
        data: The bytes.
        cut: Whether there was more.
    """

    url: str
    content_type: str
    charset: str
    data: bytes
    cut: bool


@cache
def certificates() -> ssl.SSLContext:
    """The certificates of this machine, read once."""
    return httpx2.create_ssl_context()


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Connects to the very addresses that were looked at, for every request anew.

    The name is looked up once; what is connected to is the address, while the name stays in the
    ``Host`` header and in what the certificate is compared with.

    Args:
        inner: Makes the connections.
        resolve: Looks names up.
        allowed: Whether an address may be connected to.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, resolve: Resolve, allowed: Allowed
    ) -> None:
        self._inner = inner
        self._resolve = resolve
        self._allowed = allowed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx2.

        Raises:
            ToolError: The host is not public, or cannot be found.
        """
        check_url(str(request.url))
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        addresses = await self._addresses(host, port)
        failure: Exception = ToolError(f"{host} has no address.")
        for address in addresses:
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except httpx2.ConnectError as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            addresses = list(await self._resolve(host.strip("[]"), port))
        except (OSError, UnicodeError):
            raise ToolError(f"The host {host} cannot be found.") from None
        if not all(self._allowed(address) for address in addresses):
            raise ToolError(f"{host} is not on the public internet, so it is not read.")
        return addresses

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class Fetcher:
    """Fetches pages.

    Args:
        resolve: Looks names up.
        allowed: Whether an address may be connected to; by default only public ones.
        inner: Makes a transport of connections.
    """

    def __init__(
        self,
        *,
        resolve: Resolve = resolve,
        allowed: Allowed = is_public,
        inner: Callable[[], httpx2.AsyncBaseTransport] | None = None,
    ) -> None:
        self._resolve = resolve
        self._allowed = allowed
        self._inner = inner

    async def fetch(self, url: str) -> Page:
        """Fetch a page.

        Raises:
            ToolError: It cannot be had, or must not be asked for.
        """
        check_url(url)
        try:
            with anyio.fail_after(SECONDS):
                async with self._client() as client, client.stream("GET", url) as response:
                    return await _page(response)
        except TimeoutError:
            raise ToolError(f"The page did not come within {SECONDS:.0f} seconds.") from None
        except httpx2.TooManyRedirects:
            raise ToolError("The address leads from one to the next without an end.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ToolError(f"The page cannot be read: {_reason(error)}.") from None

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx2.AsyncClient]:
        if self._inner is not None:
            inner = self._inner()
        else:
            context = await anyio.to_thread.run_sync(certificates)
            # No proxy of the environment: it would look names up itself, and connect anywhere.
            inner = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
        async with httpx2.AsyncClient(
            transport=CheckedTransport(inner, self._resolve, self._allowed),
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            timeout=SECONDS,
            trust_env=False,
            headers={
                "User-Agent": USER_AGENT,
                "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, */*;q=0.5",
                "Accept-Encoding": "gzip, br",
            },
        ) as client:
            yield client


async def _page(response: httpx2.Response) -> Page:
    if response.status_code >= 400:
        raise ToolError(f"The server answered {response.status_code} {response.reason_phrase}.")
    if response.headers.get("Content-Encoding", "").count(",") > 0:
        raise ToolError("The page is packed more than once, so it is not unpacked.")
    data = bytearray()
    cut = False
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > MAX_BYTES or response.num_bytes_downloaded > MAX_BYTES:
            cut = True
            break
    kind, _, _ = response.headers.get("Content-Type", "").partition(";")
    return Page(
        url=str(response.url),
        content_type=kind.strip().lower() or "text/html",
        charset=response.charset_encoding or "",
        data=bytes(data[:MAX_BYTES]),
        cut=cut,
    )


def _reason(error: Exception) -> str:
    return {
        httpx2.ConnectError: "no connection to its server",
        httpx2.DecodingError: "it cannot be unpacked",
        httpx2.InvalidURL: "its address is not valid",
    }.get(type(error), "the connection broke off")
