"""Start JupyterLab on a copy of the example, in folders of its own, and say where it is."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parent.parent / ".make" / "demo"
NOTEBOOK = "sales.ipynb"
NEWS = (
    *("lab", "user-settings", "@jupyterlab", "apputils-extension"),
    "notification.jupyterlab-settings",
)
"""Where JupyterLab would ask whether to fetch news, which is not what a demo is for."""

DEADLINE = 60.0
"""Seconds until the server must answer."""


def main() -> int:
    """Run the server until it is stopped; returns its exit code."""
    work = _folders()
    port = _port()
    token = secrets.token_hex(24)
    server = subprocess.Popen(_command(work, port), cwd=work, env=_environment(token))
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, frame: server.send_signal(signal.SIGTERM))
    url = f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK}?token={token}"
    if not _answers(server, port):
        print("JupyterLab did not start; its messages stand above.", file=sys.stderr)
        server.terminate()
        return server.wait() or 1
    print(f"\nThe demo is ready. Click into the question and press Shift+Enter:\n\n    {url}\n")
    print("Stop it with Ctrl+C. Its notebooks lie in", work, flush=True)
    if not os.environ.get("NO_BROWSER"):
        webbrowser.open(url)
    return max(0, server.wait())


def _folders() -> Path:
    """Make the demo's own folders; a copy somebody has worked on is kept."""
    work = HOME / "work"
    for folder in (work, HOME / "config", HOME / "data", HOME / "runtime"):
        folder.mkdir(parents=True, exist_ok=True)
    news = HOME.joinpath("config", *NEWS)
    news.parent.mkdir(parents=True, exist_ok=True)
    news.write_text('{"fetchNews": "false", "checkForUpdates": false}\n', encoding="utf-8")
    if not (work / NOTEBOOK).exists():
        shutil.copyfile(HERE / NOTEBOOK, work / NOTEBOOK)
    return work


def _environment(token: str) -> dict[str, str]:
    """Nothing of the account's own Jupyter settings, keys or history is read or written."""
    return {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(HOME / "config"),
        "JUPYTER_DATA_DIR": str(HOME / "data"),
        "JUPYTER_RUNTIME_DIR": str(HOME / "runtime"),
        "IPYTHONDIR": str(HOME / "ipython"),
        "XDG_CONFIG_HOME": str(HOME / "config"),
        "JUPYTER_TOKEN": token,
    }


def _command(work: Path, port: int) -> list[str]:
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={work}",
        "--Application.log_level=WARN",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command


def _port() -> int:
    """``JUPYTER_PORT``, or the first free one from 8888 on."""
    chosen = os.environ.get("JUPYTER_PORT")
    if chosen:
        if not chosen.isdigit() or not _free(int(chosen)):
            sys.exit(f"The port {chosen} of JUPYTER_PORT is not free. Choose another one.")
        return int(chosen)
    for port in range(8888, 8988):
        if _free(port):
            return port
    sys.exit("No port between 8888 and 8987 is free. Name one: JUPYTER_PORT=9000 make demo")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _answers(server: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
