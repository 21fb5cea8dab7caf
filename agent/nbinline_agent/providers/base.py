"""The seam to a model service, and what holds for every adapter behind it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

from nbinline_agent.errors import ConnectFailed
from nbinline_agent.messages import ModelEvent, ModelRequest

ALLOW_REQUESTS = os.environ.get("NBINLINE_ALLOW_REQUESTS", "1") != "0"
"""Whether adapters may leave this machine; False lets them reach loopback addresses only.

Tests switch it off, here and with ``NBINLINE_ALLOW_REQUESTS=0`` for the processes they start.
"""


class Provider(Protocol):
    """Speaks to one model service."""

    def stream(
        self, request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Start one model call.

        Leaving the context closes the network stream at once, also on cancellation. The iterator
        ends after ``TurnEnded``.

        Raises:
            ProviderError: Whatever the service or its SDK does, mapped to one of its subclasses.
                The iterator raises it, never the opening of the context.
        """


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a service, in seconds.

    Attributes:
        connect: For a connection, TLS included.
        silence: For the first event, and between two events.
        thinking: Instead of ``silence`` while the service has said that the model reasons or
            composes a tool call, which some services do without a word for minutes.
    """

    connect: float = 30.0
    silence: float = 60.0
    thinking: float = 300.0


def is_loopback(host: str) -> bool:
    """Tell whether ``host`` names this machine without asking a name server."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_allowed(host: str) -> None:
    """Let a request to ``host`` pass, or stop it.

    Raises:
        ConnectFailed: ``ALLOW_REQUESTS`` is off and ``host`` is another machine.
    """
    if not (ALLOW_REQUESTS or is_loopback(host)):
        raise ConnectFailed(
            "Requests to other machines are switched off on this server. "
            "Choose a connection that runs on this machine."
        )
