"""A real Yjs client in Node: what browsers see of a document that pycrdt writes."""

import asyncio
import base64
import contextlib
import fcntl
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
REPLY_DEADLINE = 30.0


class Page:
    """A page without its user interface: a Yjs document and awareness over a websocket."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()  # noqa: TID251

    async def do(self, command: str, **arguments: Any) -> Any:
        """One command of client.mjs; its reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn, asyncio.timeout(REPLY_DEADLINE):
            line = json.dumps({"do": command, **arguments})
            self._process.stdin.write(line.encode() + b"\n")
            reply = json.loads(await self._process.stdout.readline())
        assert "error" not in reply, reply["error"]
        return reply

    async def sources(self) -> list[str]:
        """The cells' sources, in order."""
        return sources(await self.do("cells"))


def sources(report: Any) -> list[str]:
    """The cells' sources of a report."""
    return [cell["source"] for cell in report["cells"]]


@pytest.fixture(scope="session")
def node_client() -> Path:
    """The client's script, with its packages installed once."""
    if shutil.which("node") is None:
        pytest.fail("Node 20 or newer must be on the path: the tests need a real Yjs client")
    with (HERE / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (HERE / "node_modules" / "yjs").is_dir():
            subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, timeout=120
            )
    return HERE / "client.mjs"


@pytest.fixture
def yjs_view(node_client: Path) -> Callable[[Sequence[bytes]], Any]:
    """What Yjs makes of updates: cells, and whether operations are pending for ever."""

    def view(updates: Sequence[bytes]) -> Any:
        done = subprocess.run(
            ["node", node_client, "apply"],
            input=json.dumps([base64.b64encode(update).decode() for update in updates]),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)

    return view


@pytest.fixture
def open_page(node_client: Path) -> Callable[[], contextlib.AbstractAsyncContextManager[Page]]:
    """Pages, each in a process of its own; not connected until told to ``join``."""

    @contextlib.asynccontextmanager
    async def open_one() -> AsyncIterator[Page]:
        process = await asyncio.create_subprocess_exec(
            "node",
            str(node_client),
            "join",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
        )
        assert process.stdin is not None
        try:
            yield Page(process)
        finally:
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()

    return open_one
