"""How long the context of a question in a notebook of 10,000 cells and 4 MB takes; prints JSON."""

from __future__ import annotations

import json
import time

from nbinline_agent.context.budget import Limits
from nbinline_agent.context.build import build
from nbinline_agent.context.choices import Choices, Mode
from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.ids import CellId, FileId

CELLS = 10_000
REPETITIONS = 9


def notebook() -> Snapshot:
    cells = [
        Cell(
            id=CellId(f"c{number}"),
            kind="code" if number % 3 else "markdown",
            source=f"value = compute({number})\n" * 18,
            execution_count=number,
            outputs=({"output_type": "stream", "name": "stdout", "text": "done\n"},),
        )
        for number in range(CELLS)
    ]
    mark = {"nbinlineai": {"isPromptCell": True}}
    cells.insert(CELLS // 2, Cell(CellId("target"), "markdown", "What is value?", mark))
    return Snapshot(tuple(cells))


def best_ms(snapshot: Snapshot, mode: Mode) -> float:
    taken: list[float] = []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        build(
            snapshot,
            CellId("target"),
            asker="ada",
            choices=Choices("model", mode),
            limits=Limits(),
            secret=b"secret",
            file_id=FileId("file"),
        )
        taken.append(time.perf_counter() - started)
    return round(min(taken) * 1000, 1)


def main() -> dict[str, float]:
    snapshot = notebook()
    megabytes = sum(len(cell.source) for cell in snapshot.cells) / 1e6
    figures = {f"{mode.value}_ms": best_ms(snapshot, mode) for mode in Mode}
    return {"cells": CELLS, "megabytes": round(megabytes, 1), **figures}


if __name__ == "__main__":
    print(json.dumps(main()))
