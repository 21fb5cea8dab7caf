"""Which addresses on the internet may be asked: public ones, in none of their disguises."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

import anyio

from nbinline_agent.tools.base import ToolError

MAX_URL = 2_000
"""Characters of an address."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host."""

Allowed = Callable[[str], bool]
"""Tells whether an address may be connected to."""

_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",
            "100.64.0.0/10",  # behind a provider's translation
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, also where clouds answer with credentials
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)

_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarking
            "2001:db8::/32",
            "2002::/16",  # 6to4 carries an IPv4 address
            "3fff::/20",
        ),
    )
)
"""All that is outside ``2000::/3`` is refused as well: mapped, compatible, NAT64, multicast."""

_ISATAP = re.compile(rb"[\x00\x02]\x00\x5e\xfe", re.DOTALL)
_NUMERIC = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet, and carries no other one in it."""
    if "%" in address:
        return False
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in _NOT_PUBLIC_4)
    return _is_public_6(parsed)


def _is_public_6(address: IPv6Address) -> bool:
    if address not in _PUBLIC_6 or any(address in network for network in _NOT_PUBLIC_6):
        return False
    # An ISATAP interface holds an IPv4 address behind this mark.
    return _ISATAP.match(address.packed[8:12]) is None


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host as the system finds them.

    Raises:
        OSError: There are none.
    """
    found = await anyio.getaddrinfo(host, port, proto=6)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_url(url: str) -> None:
    """Look at an address before anything is asked of it.

    Raises:
        ToolError: It is no plain http or https address of a named host.
    """
    if len(url) > MAX_URL or re.search(r"[\x00-\x20\x7f\\]", url):
        raise ToolError("That is not an address of a web page.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ToolError("That is not an address of a web page.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ToolError("Only http and https addresses can be read.")
    if parts.username is not None or parts.password is not None:
        raise ToolError("An address with a user or password in it is not read.")
    if port == 0:
        raise ToolError("That is not an address of a web page.")
    _check_host(host)


def _check_host(host: str) -> None:
    """Refuse numbers that only some programs read as an address."""
    if ":" in host:
        return
    labels = host.rstrip(".").split(".")
    if not _NUMERIC.fullmatch(labels[-1]):
        return
    try:
        plain = str(IPv4Address(host)) == host
    except ValueError:
        plain = False
    if not plain:
        raise ToolError("A host written as a number is not read; use its name.")
