"""A server extension for the benches: how late the server's loop wakes up.

``GET bench/lag`` gives the samples since the last call, in milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

INTERVAL = 0.005
"""Seconds between two samples."""


class LagHandler(APIHandler):
    """Hands the samples out and forgets them."""

    def initialize(self, samples: list[float]) -> None:
        self._samples = samples

    @web.authenticated
    def get(self) -> None:
        self.finish({"lag_ms": [round(each * 1000, 3) for each in self._samples]})
        self._samples.clear()


async def _sample(samples: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(INTERVAL)
        samples.append(time.perf_counter() - began - INTERVAL)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "tests.bench.loop_lag"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    samples: list[float] = []
    route = url_path_join(serverapp.base_url, "bench/lag")
    serverapp.web_app.add_handlers(".*", [(route, LagHandler, {"samples": samples})])
    serverapp.io_loop.add_callback(_sample, samples)
