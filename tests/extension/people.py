"""Several people on one server: each test's request says who sends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jupyter_server.auth import IdentityProvider, User

from tests.extension.running import Asker
from tests.vendor.plugin import Vendor

WHO = "X-Test-User"

People = Callable[[str], Asker]


class NamedByHeader(IdentityProvider):
    """Believes a header. Only for tests."""

    def get_user(self, handler: Any) -> User | None:
        """See ``IdentityProvider``."""
        name = handler.request.headers.get(WHO)
        return User(username=name, name=name, display_name=name.title()) if name else None


def people(fetch: Callable[..., Awaitable[Any]], root: Path, ydoc: Any, vendor: Vendor) -> People:
    """Makes clients by username."""

    def person(username: str) -> Asker:
        async def as_them(*parts: str, **arguments: Any) -> Any:
            arguments["headers"] = {**arguments.get("headers", {}), WHO: username}
            return await fetch(*parts, **arguments)

        return Asker(as_them, root, ydoc, vendor)

    return person
