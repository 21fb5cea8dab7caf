"""From Run to what people see first, in small notebooks and in a very large one.

The second person's page is a socket that notes when the answer's mark comes; the first byte of a
model's answer is timed by the stamps that the fake vendor writes into its pieces.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path

import anyio
import httpx

from tests.bench.figures import Figure, percentile
from tests.bench.room_clients import ended
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text, write
from tests.soak.clients import Client, client
from tests.vendor.plugin import running_vendor

ROOT = Path(__file__).parents[2]
RUNS = 40
LARGE = 5
CELLS = 10_000
CELL_BYTES = 1_000
STAMP = re.compile(r"<t=(\d+\.\d{6})>")


def measure() -> list[Figure]:
    """Run it."""
    python_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(
            Path(folder),
            vendor=vendor.url,
            args=["--ServerApp.jpserver_extensions=tests.bench.loop_lag=True"],
            env={"PYTHONPATH": python_path},
        ) as lab,
    ):
        ask = prompt("ask", deltas=3, stamps=True)
        write(lab.work / "small.ipynb", text("top", "Top."), ask)
        filler = [text(f"c{number}", f"{number} " + "x" * CELL_BYTES) for number in range(CELLS)]
        write(lab.work / "large.ipynb", *filler, ask)
        return anyio.run(_measure, lab)


async def _measure(lab: Lab) -> list[Figure]:
    async with httpx.AsyncClient(
        base_url=f"{lab.url}/",
        headers={"Authorization": f"token {lab.token}"},
        timeout=120,
        trust_env=False,
    ) as http:
        async with client(http, lab.url, lab.token, "small.ipynb", "second") as second:
            seen = [(await _run(http, "small.ipynb", second))[0] for _ in range(RUNS)]
        async with client(http, lab.url, lab.token, "large.ipynb", "second") as second:
            await anyio.sleep(3)
            await http.get("bench/lag")
            joining = (await _run(http, "large.ipynb", second))[1]
            join_lag = max((await http.get("bench/lag")).json()["lag_ms"])
            inside = [await _run(http, "large.ipynb", second) for _ in range(LARGE)]
            lag = (await http.get("bench/lag")).json()["lag_ms"]
    return [
        Figure("Run -> status at the second page p95", percentile(seen, 0.95) * 1000, 150, "ms"),
        Figure("Run -> status at the second page p50", percentile(seen, 0.5) * 1000, None, "ms"),
        Figure("10,000 cells: Run -> first byte", max(each[1] for each in inside), 0.3, "s"),
        Figure("10,000 cells: Run -> status", max(each[0] for each in inside), None, "s"),
        Figure("10,000 cells: Run -> first byte, joining", joining, 3, "s"),
        Figure("10,000 cells: longest block", max(lag), 50, "ms"),
        Figure("10,000 cells: longest block, joining", join_lag, 150, "ms"),
    ]


async def _run(http: httpx.AsyncClient, path: str, second: Client) -> tuple[float, float]:
    """Seconds from the request until the second page sees the status, and to the first byte."""
    second.watch(b"runId")
    began = time.time()
    answer = await http.post("nbinline/runs", json={"path": path, "cell_id": "ask"})
    run: str = answer.raise_for_status().json()["run_id"]
    with anyio.fail_after(60):
        seen = await second.watched()
        await ended(http, run)
        while True:
            found = STAMP.search(_answer(second, run))
            if found:
                return seen - began, float(found[1]) - began
            await anyio.sleep(0.02)


def _answer(second: Client, run: str) -> str:
    for ycell in reversed(list(second.notebook.ycells)):
        mark = ycell["metadata"].to_py().get("nbinlineai")
        if isinstance(mark, dict) and mark.get("runId") == run:
            return str(ycell["source"])
    return ""
