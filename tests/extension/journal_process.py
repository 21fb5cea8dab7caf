"""A server process that only writes its journal; the tests kill it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio

from nbinline_agent.journal import Author, RunRecord, RunStatus
from nbinline_rtc.sqlite_journal import open_journal


def record(run_id: str) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        path="lab.ipynb",
        file_id="file",
        prompt_cell_id="question",
        answer_cell_id="answer",
        status=RunStatus.STREAMING,
        author=Author("ada", "Ada"),
        connection="local",
        model="tiny",
        created_at=time.time(),
    )


async def main(directory: str, run_id: str) -> None:
    """Write until killed; a line is printed once what it names is committed."""
    async with open_journal(Path(directory)) as journal:
        await journal.save(record(run_id))
        await journal.append(run_id, "status", {"status": "streaming"})
        number = 0
        while True:
            await journal.append_updates(run_id, [f"update {number}".encode()])
            await journal.record_text(run_id, f"text {number}")
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
