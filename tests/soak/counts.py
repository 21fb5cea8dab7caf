"""A server extension for the soak: what the server holds on to.

``GET soak/counts`` collects garbage first, hands free memory back to the system, and counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import threading
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

PAGE = os.sysconf("SC_PAGE_SIZE")


class CountsHandler(APIHandler):
    """Counts what must not grow."""

    @web.authenticated
    def get(self) -> None:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        rooms = self.settings["jupyter_server_ydoc"].ywebsocket_server.rooms
        with open("/proc/self/statm", encoding="ascii") as statm:
            resident = int(statm.read().split()[1]) * PAGE
        self.finish(
            {
                "memory_mb": round(resident / 1e6, 1),
                "tasks": len(asyncio.all_tasks()),
                "file_handles": len(os.listdir("/proc/self/fd")),
                "rooms": len(rooms),
                "awareness": sum(len(room.awareness.states) for room in rooms.values()),
                "threads": threading.active_count(),
            }
        )


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "tests.soak.counts"}]


def _load_jupyter_server_extension(serverapp: Any) -> None:
    route = url_path_join(serverapp.base_url, "soak/counts")
    serverapp.web_app.add_handlers(".*", [(route, CountsHandler)])
