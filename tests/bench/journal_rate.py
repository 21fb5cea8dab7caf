"""How the journal stands 100 runs that flush 25 times and save 17 kB a second; prints JSON."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import anyio

from nbinline_agent.ids import RunId
from nbinline_rtc.sqlite_journal import SqliteJournal, open_journal

RUNS = 100
PERIOD = 0.04
SECONDS = 10
UPDATE = b"x" * 120
TEXT = "word " * 3_400


async def run(journal: SqliteJournal, name: RunId, latencies: list[float]) -> None:
    due = time.perf_counter()
    for number in range(int(SECONDS / PERIOD)):
        if number % 25 == 0:
            await journal.record_text(name, TEXT)
        started = time.perf_counter()
        await journal.append_updates(name, [UPDATE])
        latencies.append(time.perf_counter() - started)
        due += PERIOD
        await anyio.sleep(max(0.0, due - time.perf_counter()))


async def watch(lags: list[float]) -> None:
    while True:
        started = time.perf_counter()
        await anyio.sleep(0.005)
        lags.append(time.perf_counter() - started - 0.005)


def quantile(values: list[float], q: float) -> float:
    return round(sorted(values)[int(len(values) * q)] * 1000, 2)


async def main() -> dict[str, float]:
    latencies: list[float] = []
    lags: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        async with (
            open_journal(Path(directory) / "journal") as journal,
            anyio.create_task_group() as watching,
        ):
            watching.start_soon(watch, lags)
            started = time.perf_counter()
            async with anyio.create_task_group() as running:
                for number in range(RUNS):
                    running.start_soon(run, journal, RunId(f"run-{number}"), latencies)
                    await anyio.sleep(PERIOD / RUNS)
            taken = time.perf_counter() - started
            watching.cancel_scope.cancel()
    return {
        "appends_per_second": round(len(latencies) / taken),
        "loop_lag_p50_ms": quantile(lags, 0.5),
        "loop_lag_p99_ms": quantile(lags, 0.99),
        "commit_p50_ms": quantile(latencies, 0.5),
        "commit_p99_ms": quantile(latencies, 0.99),
    }


if __name__ == "__main__":
    print(json.dumps(anyio.run(main)))
