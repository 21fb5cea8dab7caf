"""The agent's tests: no Jupyter server, and nothing may block the loop."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Instead of the plugin's own, which makes a server for each test just to clean it up."""


@pytest.fixture(autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """A call that blocks the event loop fails the test, whoever makes it for the agent."""
    with blockbuster_ctx("nbinline_agent") as buster:
        yield buster
