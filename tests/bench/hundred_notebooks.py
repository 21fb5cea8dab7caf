"""A hundred notebooks stream at once: is the server's loop free, and are the words in time?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, percentile
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text, write
from tests.vendor.plugin import running_vendor

ROOT = Path(__file__).parents[2]
NOTEBOOKS = 100
RATE = 30
SECONDS = 25


def measure() -> list[Figure]:
    """Run it, with the clients in a process of their own."""
    told = streamed(NOTEBOOKS)
    return [
        Figure("100 notebooks: loop lag p99", percentile(told["loop_lag"], 0.99), 50, "ms"),
        Figure("100 notebooks: word lag p95", percentile(told["word_lag"], 0.95), 0.5, "s"),
        Figure("100 notebooks: loop lag p50", percentile(told["loop_lag"], 0.5), None, "ms"),
        Figure("100 notebooks: loop lag max", max(told["loop_lag"]), None, "ms"),
        Figure("100 notebooks: word lag p50", percentile(told["word_lag"], 0.5), None, "s"),
        Figure("100 notebooks: word lag max", max(told["word_lag"]), None, "s"),
        Figure("their start: loop lag p99", percentile(told["start_loop_lag"], 0.99), None, "ms"),
        Figure("their start: word lag p95", percentile(told["start_word_lag"], 0.95), None, "s"),
        Figure("100 notebooks: words lost", told["expected"] - told["words"], 0, "words"),
        Figure("100 notebooks: runs that did not end well", told["failed"], 0, "runs"),
    ]


def streamed(notebooks: int, *more: str) -> dict[str, Any]:
    """What clients saw of so many notebooks that stream at once.

    Args:
        notebooks: How many.
        more: Further arguments of ``room_clients``.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(
            Path(folder),
            vendor=vendor.url,
            args=["--ServerApp.jpserver_extensions=tests.bench.loop_lag=True"],
            env={"PYTHONPATH": _python_path()},
        ) as lab,
    ):
        script: dict[str, Any] = {"deltas": RATE * SECONDS, "rate": RATE, "stamps": True}
        for number in range(notebooks):
            write(lab.work / f"n{number}.ipynb", text("top", "Top."), prompt("ask", **script))
        return _clients(lab, notebooks, *more)


def _python_path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))


def _clients(lab: Lab, notebooks: int, *more: str) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "tests.bench.room_clients"),
        *(lab.url, lab.token, str(notebooks), str(RATE * SECONDS), *more),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the clients failed:\n{done.stderr}\n{lab.log[-4000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
