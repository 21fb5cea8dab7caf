"""A real JupyterLab server in its own process and folders, started, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

START_DEADLINE = 60.0
"""Seconds a server may take until it answers; two cores, often shared."""

SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    # The Welcome page and announcements of the stock installation take focus.
    "@jupyterlab/apputils-extension/sessionDialogs.jupyterlab-settings": {},
}


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Lab:
    """One server. Use as a context manager; whatever it started is gone at the exit.

    Attributes:
        root: Folder of everything: notebooks in ``root/work``, the rest beside it.
        vendor: Base URL of the fake vendor for all connections, or None.
        base_url: Prefix the server works under.
        args: More arguments of ``jupyter lab``.
        env: More environment of the server.
    """

    root: Path
    vendor: str | None = None
    base_url: str = "/"
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Lab:
        for name in ("work", "config", "data", "runtime", "home"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name, value in SETTINGS.items():
            path = self.root / "config" / "lab" / "user-settings" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Address with the prefix, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}{self.base_url.rstrip('/')}"

    @property
    def work(self) -> Path:
        """The folder of the notebooks."""
        return self.root / "work"

    @property
    def log(self) -> str:
        """What the server wrote so far."""
        return (self.root / "server.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the server and wait until it and the extension answer.

        Raises:
            RuntimeError: It ended, or did not answer in time; the message holds its log.
        """
        assert self._process is None
        with (self.root / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.work,
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._wait_until_ready()

    def kill(self) -> None:
        """End the server as a crash does: SIGKILL, nothing is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server as a person does; after a while, as a crash does."""
        self._end(signal.SIGTERM)

    def request(self, method: str, route: str, body: Any = None) -> tuple[int, Any]:
        """Send a request with the token.

        Returns:
            The status and the decoded JSON, or text if it is none.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{route}", data, method=method)
        request.add_header("Authorization", f"token {self.token}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, _decoded(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())

    def lab_url(self, path: str, workspace: str | None = None) -> str:
        """Address that opens a notebook in a browser that has not logged in yet."""
        place = f"/workspaces/{workspace}" if workspace else ""
        return f"{self.url}/lab{place}/tree/{quote(path)}?token={self.token}&reset"

    def end_sessions(self) -> None:
        """Shut down all kernels, so that a long test session does not collect them."""
        _, sessions = self.request("GET", "api/sessions")
        for session in sessions:
            self.request("DELETE", f"api/sessions/{session['id']}")

    def _command(self) -> list[str]:
        vendor = []
        if self.vendor is not None:
            vendor = [
                f"--NbinlineApp.openai_base_url={self.vendor}/v1",
                f"--NbinlineApp.anthropic_base_url={self.vendor}",
                f"--NbinlineApp.compatible_base_url={self.vendor}/v1",
            ]
        return [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            "--ip=127.0.0.1",
            f"--port={self.port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={self.base_url}",
            f"--ServerApp.root_dir={self.work}",
            f"--IdentityProvider.token={self.token}",
            "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--expose-app-in-browser",
            *vendor,
            *self.args,
        ]

    def _environment(self) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if "API_KEY" not in key}
        return {
            **env,
            "HOME": str(self.root / "home"),
            "JUPYTER_CONFIG_DIR": str(self.root / "config"),
            "JUPYTER_DATA_DIR": str(self.root / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.root / "runtime"),
            "XDG_CONFIG_HOME": str(self.root / "home" / ".config"),
            "PYTHONFAULTHANDLER": "1",
            "NBINLINE_ALLOW_REQUESTS": "0",
            "OPENAI_API_KEY": "sk-browser-openai",
            "ANTHROPIC_API_KEY": "sk-browser-anthropic",
            **self.env,
        }

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"jupyter lab ended at its start:\n{self.log}")
            with contextlib.suppress(OSError):
                status, _ = self.request("GET", "nbinline/status")
                if status == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"jupyter lab did not answer in {START_DEADLINE:.0f} s:\n{self.log}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


@contextlib.contextmanager
def running_lab(root: Path, **options: Any) -> Iterator[Lab]:
    """A server for the time of a ``with`` block."""
    with Lab(root, **options) as lab:
        yield lab
