"""Servers with our store switched on, and what tests do with their rooms."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import nbinline_rtc.extension  # noqa: F401 (imported before anybody watches the loop)
from nbinline_rtc.rooms import RoomMembership, RoomsOfServer
from nbinline_rtc.store import close_writers
from tests.extension.notebooks import notebook


@pytest.fixture
def rtc_document_save_delay() -> float:
    """Autosave soon after a pause."""
    return 0.3


@pytest.fixture
def rtc_document_cleanup_delay() -> float:
    """Close rooms soon after the last client."""
    return 0.5


@pytest.fixture
def ystore_class() -> str:
    """The store in use; a test of the stock store's faults overrides it."""
    return "nbinline_rtc.store.SafeSQLiteYStore"


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], ystore_class: str) -> dict[str, Any]:
    """As our shipped server config sets it."""
    jp_server_config["YDocExtension"]["ystore_class"] = ystore_class
    return jp_server_config


@pytest.fixture
def ydoc(jp_serverapp: Any, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The collaboration extension of a running server."""
    # Where the stock store puts the file that get_document(create=True) makes.
    monkeypatch.chdir(jp_root_dir)
    return jp_serverapp.web_app.settings["jupyter_server_ydoc"]


@pytest.fixture
def write_notebook(jp_root_dir: Path) -> Callable[..., Path]:
    """Write a notebook below the server's root."""

    def write(*sources: str, path: str = "a.ipynb", minor: int = 5) -> Path:
        file = jp_root_dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(notebook(*sources, minor=minor), encoding="utf-8")
        return file

    return write


@pytest.fixture
def joined(
    jp_serverapp: Any, ydoc: Any
) -> Callable[..., contextlib.AbstractAsyncContextManager[RoomMembership]]:
    """Be in a notebook's room by ``RoomsOfServer``."""

    @contextlib.asynccontextmanager
    async def join(path: str = "a.ipynb", save_every: float = 2.5) -> AsyncIterator[RoomMembership]:
        async with RoomsOfServer(jp_serverapp, save_every=save_every) as rooms:
            async with rooms.join(path) as membership:
                yield membership

    return join


@pytest.fixture
def room_url(
    jp_http_port: int, jp_base_url: str, jp_fetch: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[str]]:
    """The address of a notebook's room, for a page."""

    async def address(path: str = "a.ipynb") -> str:
        reply = await jp_fetch(
            "api/collaboration/session",
            path,
            method="PUT",
            body=json.dumps({"format": "json", "type": "notebook"}),
        )
        session = json.loads(reply.body)
        room = f"json:notebook:{session['fileId']}"
        return (
            f"ws://127.0.0.1:{jp_http_port}{jp_base_url}api/collaboration/room/{room}"
            f"?sessionId={session['sessionId']}"
        )

    return address


@contextlib.asynccontextmanager
async def stopping(ydoc: Any) -> AsyncIterator[None]:
    """Stop the collaboration extension at the end, whatever happens."""
    try:
        yield
    finally:
        await ydoc.stop_extension()
        await _ended("_save_content")
        await asyncio.to_thread(close_writers)


async def _ended(coroutine: str) -> None:
    """Wait for tasks of the server that outlive its stopping: a save is shielded."""
    tasks = [t for t in asyncio.all_tasks() if coroutine in repr(t.get_coro())]
    if tasks:
        await asyncio.wait(tasks, timeout=5)


def pytest_sessionfinish() -> None:
    """Let the session end although the server's loop was closed over a task in a worker thread."""
    for thread in threading.enumerate():
        if thread.name == "AnyIO worker thread" and hasattr(thread, "stop"):
            thread.stop()


async def until(holds: Callable[[], Any], timeout: float = 20.0) -> None:
    """Wait until something holds that no event tells of.

    Raises:
        TimeoutError: It does not hold in time.
    """
    async with asyncio.timeout(timeout):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
