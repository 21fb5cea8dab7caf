"""Fifty notebooks with five people each, who ask, stop, type and reload; then the dust settles.

``python -m tests.soak.soak SECONDS`` prints what was counted as JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.bench.figures import percentile
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text, write
from tests.soak.clients import client
from tests.vendor.plugin import running_vendor

ROOT = Path(__file__).parents[2]
NOTEBOOKS = 50
CLIENTS = 5
WARM_UP = 20.0
SETTLED = 90.0
ENDED = {"done", "error", "cancelled", "interrupted"}


@dataclass
class Told:
    """What was counted.

    Attributes:
        before: The server's counts after a warm-up and its dust.
        after: The same after the soak.
        lag_ms: How late its loop woke up meanwhile.
        runs: Ended runs by their status.
        reloads: Times somebody left and came back.
        typed: Times somebody typed.
    """

    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)
    lag_ms: list[float] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)
    reloads: int = 0
    typed: int = 0

    def figures(self) -> dict[str, float | int | str]:
        """For the table."""
        counts: dict[str, float | int | str] = {
            name: f"{value} → {self.after[name]}" for name, value in self.before.items()
        }
        lag = {
            "loop lag p50 ms": percentile(self.lag_ms, 0.5),
            "loop lag p99 ms": percentile(self.lag_ms, 0.99),
            "loop lag max ms": max(self.lag_ms),
        }
        return counts | lag | self.runs | {"reloads": self.reloads, "typed": self.typed}


class Soak:
    """One server under load."""

    def __init__(self, lab: Lab, http: httpx.AsyncClient, seed: int) -> None:
        self.told = Told()
        self._lab = lab
        self._http = http
        self._random = random.Random(seed)

    async def run(self, seconds: float) -> Told:
        """Warm up, count, load, let settle, count."""
        await self._load(WARM_UP)
        self.told.before = await self._settled()
        self.told.runs, self.told.reloads, self.told.typed = {}, 0, 0
        await self._http.get("bench/lag")
        await self._load(seconds)
        self.told.lag_ms = (await self._http.get("bench/lag")).json()["lag_ms"]
        self.told.after = await self._settled()
        return self.told

    async def _load(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        async with anyio.create_task_group() as all_of_them:
            for number in range(NOTEBOOKS):
                path = f"n{number}.ipynb"
                all_of_them.start_soon(self._ask, path, end)
                for person in range(CLIENTS):
                    all_of_them.start_soon(self._person, path, f"person-{person}", end)

    async def _person(self, path: str, name: str, end: float) -> None:
        """Be there, type now and then, reload now and then."""
        await anyio.sleep(self._random.uniform(0, 5))
        while time.monotonic() < end:
            async with client(self._http, self._lab.url, self._lab.token, path, name) as somebody:
                stay = min(end, time.monotonic() + self._random.uniform(5, 40))
                while time.monotonic() < stay:
                    await anyio.sleep(
                        min(self._random.uniform(1, 6), max(0.0, end - time.monotonic()))
                    )
                    self.told.typed += await somebody.type("top", "é🦊"[self._random.randrange(2)])
            self.told.reloads += 1

    async def _ask(self, path: str, end: float) -> None:
        """Ask again and again; stop a third of the answers."""
        await anyio.sleep(self._random.uniform(1, 8))
        while time.monotonic() < end:
            answer = await self._http.post("nbinline/runs", json={"path": path, "cell_id": "ask"})
            run: str = answer.raise_for_status().json()["run_id"]
            if self._random.random() < 0.33:
                await anyio.sleep(self._random.uniform(0, 3))
                await self._http.delete(f"nbinline/runs/{run}")
            status = await self._ended(run)
            self.told.runs[status] = self.told.runs.get(status, 0) + 1
            await anyio.sleep(self._random.uniform(1, 8))

    async def _ended(self, run: str) -> str:
        after = 0
        while True:
            answer = await self._http.get(f"nbinline/runs/{run}/events?after={after}&wait=20")
            page = answer.raise_for_status().json()
            after = page["last_seq"]
            for event in page["events"]:
                if event.get("status") in ENDED:
                    return str(event["status"])

    async def _settled(self) -> dict[str, float]:
        """The counts once all rooms are closed and two in a row are the same."""
        counts: dict[str, float] = {}
        deadline = time.monotonic() + SETTLED
        while True:
            await anyio.sleep(2)
            before = counts
            counts = (await self._http.get("soak/counts")).raise_for_status().json()
            same = all(counts[name] == before.get(name) for name in counts if name != "memory_mb")
            if (same and not counts["rooms"]) or time.monotonic() > deadline:
                return counts


async def _soak(lab: Lab, seconds: float, seed: int) -> Told:
    async with httpx.AsyncClient(
        base_url=f"{lab.url}/",
        headers={"Authorization": f"token {lab.token}"},
        timeout=120,
        trust_env=False,
        limits=httpx.Limits(max_connections=NOTEBOOKS * 2 + 20, keepalive_expiry=1),
    ) as http:
        return await Soak(lab, http, seed).run(seconds)


def soak(seconds: float, seed: int) -> Told:
    """Run a server under load for so many seconds, after a warm-up."""
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    extensions = "{'tests.bench.loop_lag': True, 'tests.soak.counts': True}"
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(
            Path(folder),
            vendor=vendor.url,
            args=[
                f"--ServerApp.jpserver_extensions={extensions}",
                "--YDocExtension.document_cleanup_delay=2",
                "--NbinlineApp.idle_seconds=2",
            ],
            env={"PYTHONPATH": python_path},
        ) as lab,
    ):
        for number in range(NOTEBOOKS):
            script: dict[str, Any] = {
                "deltas": 20 + number,
                "rate": 10,
                "style": "rich",
                "seed": number,
            }
            write(lab.work / f"n{number}.ipynb", text("top", "Top."), prompt("ask", **script))
        return anyio.run(_soak, lab, seconds, seed)


if __name__ == "__main__":
    print(json.dumps(soak(float(sys.argv[1]), seed=1).figures(), indent=1, ensure_ascii=False))
