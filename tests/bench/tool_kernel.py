"""What tools cost on a kernel, and what their schemas cost in every request.

``run_cell`` of ``1+1`` is measured as the edits are (``tool_edits``): from the vendor's last byte
of one turn until its next request. Off that goes the bare round trip of ``1+1`` on the same kernel,
over a connection of its own. ``list_variables`` is measured the same way, with 2,000 names, among
them a frame of three million rows.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import httpx
from jupyter_client.asynchronous.client import AsyncKernelClient

from nbinline_agent.document.edits import short_hash
from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.execution import execution_tools
from nbinline_agent.tools.groups import GROUPS
from nbinline_agent.tools.inspect import inspect_tools
from nbinline_rtc.toolset import server_tools
from tests.bench.figures import Figure, percentile
from tests.bench.room_clients import ended
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, text, write
from tests.vendor.plugin import Vendor, running_vendor

TIMES = 40
CELLS = 100
SUM = "1+1"
NAMES = """import numpy, pandas
frame = pandas.DataFrame({name: numpy.arange(3_000_000) for name in "abcd"})
for number in range(2_000):
    globals()[f"name_{number}"] = [number, str(number), {number: number}, (number,)][number % 4]
"""


def measure() -> list[Figure]:
    """Run it."""
    figures = [
        Figure("schema of the default tools (starter)", _size(GROUPS["starter"]), 8_000, "bytes"),
        Figure("schema of live cells and execution", _size(_live()), 8_000, "bytes"),
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(
            Path(folder), vendor=vendor.url, args=["--NbinlineApp.tool_approval=execution=auto"]
        ) as lab,
    ):
        filler = [text(f"t{number}", "word " * 60) for number in range(CELLS)]
        write(lab.work / "kernel.ipynb", code("sum", SUM), *filler, *_questions())
        return figures + anyio.run(_measure, lab, vendor)


def _live() -> tuple[str, ...]:
    return tuple(tool.name for tool in (*cell_tools(), *execution_tools()))


def _size(names: tuple[str, ...]) -> int:
    every = (*cell_tools(), *execution_tools(), *inspect_tools(), *server_tools())
    specs = {tool.name: tool.spec for tool in every}
    told = [
        {"name": name, "description": specs[name].description, "parameters": specs[name].parameters}
        for name in names
    ]
    return len(json.dumps(told, separators=(",", ":"), ensure_ascii=False, default=dict).encode())


def _questions() -> list[dict[str, Any]]:
    run = {"cell_id": "sum", "expected_source": short_hash(SUM)}
    # Never the same call twice: that would be a repetition.
    sums = [_turn("run_cell", **run, timeout=10 + number) for number in range(TIMES)]
    lists = [_turn("list_variables", limit=500 - number) for number in range(TIMES)]
    names = _turn("run_code", code=NAMES, timeout=60)
    return [
        prompt("first", "Begin. &`run_cell`", turns=[sums[0], {"text": "Begun."}]),
        prompt("sums", "Compute. &`run_cell`", turns=[*sums, {"text": "Computed."}]),
        prompt(
            "lists",
            "List. &`run_code` &`list_variables`",
            turns=[names, *lists, {"text": "Listed."}],
        ),
    ]


def _turn(name: str, **arguments: Any) -> dict[str, Any]:
    return {"deltas": [], "tools": [{"name": name, "arguments": arguments}]}


async def _measure(lab: Lab, vendor: Vendor) -> list[Figure]:
    async with httpx.AsyncClient(
        base_url=f"{lab.url}/",
        headers={"Authorization": f"token {lab.token}"},
        timeout=120,
        trust_env=False,
    ) as http:
        await _ask(http, vendor, "first", 1)
        bare = await _bare(lab)
        sums = await _ask(http, vendor, "sums", TIMES)
        lists = (await _ask(http, vendor, "lists", TIMES + 1))[1:]
    median = percentile(bare, 0.5)
    over = [each - median for each in sums]
    return [
        *_shares("run_cell of 1+1 over the bare round trip", over, 80),
        Figure("bare round trip of 1+1, p50", median * 1000, None, "ms"),
        *_shares("list_variables of 2,000 names", lists, 100),
    ]


def _shares(name: str, seconds: list[float], must: float) -> list[Figure]:
    return [
        Figure(f"{name}, p95", percentile(seconds, 0.95) * 1000, must, "ms"),
        Figure(f"{name}, p50", percentile(seconds, 0.5) * 1000, None, "ms"),
    ]


async def _ask(http: httpx.AsyncClient, vendor: Vendor, cell: str, calls: int) -> list[float]:
    """Ours of each call of a run, in seconds."""
    before = len(await vendor.requests())
    body = {"path": "kernel.ipynb", "cell_id": cell, "override": {"maxToolSteps": 50}}
    answer = await http.post("nbinline/runs", json=body)
    run: str = answer.raise_for_status().json()["run_id"]
    await ended(http, run)
    events = (await http.get(f"nbinline/runs/{run}/events")).json()["events"]
    outcomes = {each["outcome"] for each in events if each["type"] == "tool-finished"}
    assert outcomes == {"ok"}, [each for each in events if each["type"] == "tool-finished"]
    requests = (await vendor.requests())[before:]
    assert len(requests) == calls + 1, "not every call was made"
    return [
        after["at"] - before["ended_at"]
        for before, after in zip(requests, requests[1:], strict=False)
    ]


async def _bare(lab: Lab) -> list[float]:
    """Round trips of ``1+1`` from sending it to its reply and the kernel's rest, in seconds."""
    status, sessions = lab.request("GET", "api/sessions")
    assert status == 200, sessions
    [session] = sessions
    file = lab.root / "runtime" / f"kernel-{session['kernel']['id']}.json"
    client = AsyncKernelClient()
    client.load_connection_file(str(file))
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=30)
        found = []
        for _ in range(TIMES):
            began = time.perf_counter()
            await client.execute_interactive(SUM, timeout=10, output_hook=lambda _: None)
            found.append(time.perf_counter() - began)
        return found
    finally:
        client.stop_channels()
