"""A server in a process of its own with the fake vendor behind it, people in it, and one check."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.witnesses import Place
from tests.node.plugin import Page
from tests.vendor.plugin import Vendor

Opened = Callable[..., contextlib.AbstractAsyncContextManager[Place]]


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """These tests have no server in this process."""


@pytest.fixture
def place(
    tmp_path: Path,
    vendor: Vendor,
    open_page: Callable[[], contextlib.AbstractAsyncContextManager[Page]],
    monkeypatch: pytest.MonkeyPatch,
) -> Opened:
    """A place where a server can be started, with a notebook in it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("OPENAI_BASE_URL", vendor.v1)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    @contextlib.asynccontextmanager
    async def opened(*questions: str, name: str = "home", **settings: Any) -> AsyncIterator[Place]:
        place = Place(tmp_path / name, open_page, vendor)
        place.write(*questions)
        try:
            await place.server.start(**settings)
            yield place
        finally:
            await place.leave()

    return opened
