"""A server with a run going is not idle, for the server itself and for a hub that culls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import anyio

INTERVAL = 5.0
"""Seconds between two looks whether anything runs."""

KEY = "nbinline"


async def stay_lively(web_app: Any, running: Callable[[], int], interval: float = INTERVAL) -> None:
    """Report activity to the server for as long as runs go on; never returns.

    A hub is told of a server's last activity, whatever it was: nothing else tells it of a run
    whose page was closed.

    Args:
        web_app: The server's application.
        running: How many runs live.
        interval: Seconds between two looks.
    """
    while True:
        if running():
            web_app.settings["last_activity_times"][KEY] = datetime.now(UTC)
        await anyio.sleep(interval)
