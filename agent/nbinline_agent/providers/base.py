"""The seam to a model service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from nbinline_agent.messages import ModelEvent, ModelRequest


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
        """
