"""Ten edits of single cells, chained by the fake vendor, in a notebook of 1,000 cells.

What is ours of an edit is the time from the vendor's last byte of one turn until its next request:
carrying the call out, recording it, reading back, building and sending the next request.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import anyio
import httpx

from tests.bench.figures import Figure, percentile
from tests.bench.room_clients import ended
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, text, write
from tests.vendor.plugin import Vendor, running_vendor

CELLS = 1_000
EDITS = 10
RUNS = 6
STEPS = {"maxToolSteps": EDITS}


def measure() -> list[Figure]:
    """Run it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(Path(folder), vendor=vendor.url) as lab,
    ):
        filler = [
            code(f"c{number}", f"value_{number} = compute0({number})\n" * 8)
            if number % 3
            else text(f"c{number}", f"Note {number} " + "word " * 60)
            for number in range(CELLS)
        ]
        asks = [
            prompt(
                f"ask{run}",
                "Change ten cells. &`cell_str_replace`",
                turns=[*(_turn(run, n) for n in range(EDITS)), {"text": "Ten cells changed."}],
            )
            for run in range(RUNS)
        ]
        write(lab.work / "edits.ipynb", *filler, *asks)
        return anyio.run(_measure, lab, vendor)


def _turn(run: int, number: int) -> dict[str, Any]:
    cell = 100 * number + 1
    arguments = {
        "cell_id": f"c{cell if cell % 3 else cell + 1}",
        "old_str": f"compute{run}(",
        "new_str": f"compute{run + 1}(",
        "expected_matches": 8,
    }
    return {"deltas": [], "tools": [{"name": "cell_str_replace", "arguments": arguments}]}


async def _measure(lab: Lab, vendor: Vendor) -> list[Figure]:
    ours: list[float] = []
    async with httpx.AsyncClient(
        base_url=f"{lab.url}/",
        headers={"Authorization": f"token {lab.token}"},
        timeout=120,
        trust_env=False,
    ) as http:
        for number in range(RUNS):
            body = {"path": "edits.ipynb", "cell_id": f"ask{number}", "override": STEPS}
            answer = await http.post("nbinline/runs", json=body)
            run: str = answer.raise_for_status().json()["run_id"]
            await ended(http, run)
            requests = await vendor.requests()
            assert len(requests) == (number + 1) * (EDITS + 1), "not every edit was asked for"
            told = requests[-EDITS - 1 :]
            ours += [
                after["at"] - before["ended_at"]
                for before, after in zip(told, told[1:], strict=False)
            ]
    return [
        Figure("edit of one cell, ours p95", percentile(ours, 0.95) * 1000, 60, "ms"),
        Figure("edit of one cell, ours p50", percentile(ours, 0.5) * 1000, None, "ms"),
    ]
