"""A Jupyter server in a process of its own, that can be killed and started again."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

REPOSITORY = Path(__file__).parents[2]
START_DEADLINE = 90.0


class ServerProcess:
    """One place for a server: its folders, its port, and what runs there now."""

    def __init__(self, home: Path) -> None:
        self.root = home / "root"
        self.root.mkdir(parents=True, exist_ok=True)
        self.data = home / "data"
        self.log = home / "server.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._home = home
        self._process: asyncio.subprocess.Process | None = None

    @property
    def rescued(self) -> Path:
        """Where stored documents are exported to."""
        return self.data / "nbinline" / "rescued"

    def url(self, path: str, scheme: str = "http") -> str:
        """The address of a route."""
        return f"{scheme}://127.0.0.1:{self.port}/{path}"

    async def start(self, *, extension: bool = True, save_delay: float = 1.0) -> None:
        """Start it with the server config we ship; without our extension only with its store."""
        shipped: dict[str, Any] = {}
        for file in (REPOSITORY / "deploy/server-config").glob("*.json"):
            shipped |= json.loads(file.read_text(encoding="utf-8"))
        extensions = {"jupyter_server_ydoc": True, "jupyter_server_fileid": True}
        for name in shipped["ServerApp"]["jpserver_extensions"]:
            # Said either way: a development install enables it as well.
            extensions[name] = extension
        config = {
            "ServerApp": {
                "jpserver_extensions": extensions,
                "root_dir": str(self.root),
                "port": self.port,
                "port_retries": 0,
                "open_browser": False,
                "allow_root": True,
                "disable_check_xsrf": True,
            },
            "IdentityProvider": {"token": ""},
            "YDocExtension": {
                **shipped["YDocExtension"],
                "document_save_delay": save_delay,
                "document_cleanup_delay": 1,
            },
        }
        folder = self._home / "config"
        folder.mkdir(exist_ok=True)
        (folder / "jupyter_server_config.json").write_text(json.dumps(config), encoding="utf-8")
        environment = os.environ | {
            "JUPYTER_CONFIG_DIR": str(folder),
            "JUPYTER_DATA_DIR": str(self.data),
            "JUPYTER_RUNTIME_DIR": str(self._home / "runtime"),
            "JUPYTER_CONFIG_PATH": "",
            "JUPYTER_NO_CONFIG": "",
            "XDG_CONFIG_HOME": str(self._home / "xdg"),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "agent")]),
        }
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "jupyter_server",
                cwd=self.root,
                env=environment,
                stdout=log,
                stderr=log,
            )
        await self._until_up()

    async def _until_up(self) -> None:
        assert self._process is not None
        async with asyncio.timeout(START_DEADLINE), httpx.AsyncClient() as client:
            while True:
                assert self._process.returncode is None, self.log.read_text(encoding="utf-8")
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(self.url("api/status"))).is_success:
                        return
                await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """Kill it as the system does when memory runs out."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to stop."""
        await self._end(signal.SIGTERM)

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(how)
        try:
            async with asyncio.timeout(30):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """JSON of a route."""
        async with httpx.AsyncClient(timeout=30) as client:
            answer = await client.request(method, self.url(path), json=body)
            answer.raise_for_status()
            return answer.json() if answer.content else None

    async def room_url(self, path: str = "a.ipynb") -> str:
        """The address of a notebook's room, for a page."""
        session = await self.request(
            "PUT", f"api/collaboration/session/{path}", {"format": "json", "type": "notebook"}
        )
        room = f"json:notebook:{session['fileId']}"
        return self.url(
            f"api/collaboration/room/{room}?sessionId={session['sessionId']}", scheme="ws"
        )


@contextlib.asynccontextmanager
async def server_in(home: Path) -> AsyncIterator[ServerProcess]:
    """A place for a server; nothing of it runs on afterwards."""
    server = ServerProcess(home)
    try:
        yield server
    finally:
        await server.kill()
