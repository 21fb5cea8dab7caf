"""Invariants of the agent: no Jupyter server."""

import pytest


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Instead of the plugin's own, which makes a server for each test just to clean it up."""
