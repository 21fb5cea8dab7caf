"""How much the update store grows by one answer."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import httpx

from tests.bench.figures import Figure
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text, write
from tests.vendor.plugin import running_vendor

DELTAS = [f"w{number:04d}x a " for number in range(2_000)]
RATE = 100


def measure() -> list[Figure]:
    """Let 2,000 deltas of 17 kB stream and look at the store before and after."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(Path(folder), vendor=vendor.url) as lab,
    ):
        write(lab.work / "a.ipynb", text("top", "Top."), prompt("warm", deltas=1), prompt("ask"))
        _answer(lab, "warm")
        before = _stored(lab)
        httpx.post(f"{vendor.url}/script", json={"deltas": DELTAS, "rate": RATE}, trust_env=False)
        _answer(lab, "ask")
        after = _stored(lab)
    size = len("".join(DELTAS))
    return [
        Figure("update store growth for 2,000 deltas", after[0] - before[0], 60_000, "bytes"),
        Figure("update store growth: file on disk", after[1] - before[1], None, "bytes"),
        Figure("update store growth: rows", after[2] - before[2], None, "rows"),
        Figure("update store growth: bytes of the answer", size, None, "bytes"),
    ]


def _answer(lab: Lab, cell: str) -> None:
    status, told = lab.request("POST", "nbinline/runs", {"path": "a.ipynb", "cell_id": cell})
    assert status == 202, told
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        _, run = lab.request("GET", f"nbinline/runs/{told['run_id']}")
        if run["status"] == "done":
            time.sleep(1)  # the store commits within 50 ms, and the forced save writes a last row
            return
        time.sleep(0.2)
    raise RuntimeError(f"the run did not end: {run}")


def _stored(lab: Lab) -> tuple[int, int, int]:
    """Bytes of updates, bytes of the file, and rows of all documents."""
    (database,) = lab.root.rglob("ystore.db")
    with closing(sqlite3.connect(database)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stored, rows = store.execute(
            "SELECT coalesce(sum(length(yupdate)), 0), count(*) FROM yupdates"
        ).fetchone()
    return stored, database.stat().st_size, rows
