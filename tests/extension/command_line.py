"""``jupyter nbinline`` as somebody types it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio

ALONE = {"NBINLINE_TOKEN": "", "JUPYTER_TOKEN": ""}


class Shell:
    """Types commands in one place.

    Attributes:
        folder: Where.
        home: The account's folders; a server process that was started there is found.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home

    @property
    def environment(self) -> dict[str, str]:
        """Of every command."""
        clean = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
        return clean | {
            **ALONE,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "xdg"),
            "JUPYTER_CONFIG_DIR": str(self.home / "config"),
            "JUPYTER_DATA_DIR": str(self.home / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.home / "runtime"),
        }

    async def run(
        self, *words: str, input: bytes | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with anyio.fail_after(100):
            ended = await anyio.run_process(
                [sys.executable, "-m", "nbinline_rtc.cli", *words],
                cwd=self.folder,
                env=self.environment | environ,
                input=b"" if input is None else input,
                check=False,
            )
        return subprocess.CompletedProcess(
            ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode()
        )

    async def json(self, *words: str, code: int = 0) -> Any:
        """What a command tells with ``--json``."""
        ended = await self.run(*words, "--json")
        assert ended.returncode == code, ended.stderr
        return json.loads(ended.stdout)
