"""A notebook of 10,000 cells and 50 MB of outputs as text: seconds and memory, in every mode.

Measured is all that ``jupyter nbinline text`` does between the file and the printed text, in a
process of its own; its memory is what it takes beyond what it had before it opened the file.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure

CELLS = 10_000
OUTPUTS = 50_000_000
LIMITS = {"token-budget": 1.0, "standard": 1.0, "minimal": 1.0}

MEASURED = """
import resource, sys, time
from pathlib import Path
from nbinline_agent.context.choices import Policy
from nbinline_agent.context.told import visible_cells
from nbinline_agent.render.text import Mode, TextOptions, notebook_text
from nbinline_rtc.cli.notebooks import read_file
import orjson

path, mode = Path(sys.argv[1]), Mode(sys.argv[2])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
began = time.perf_counter()
cells = visible_cells(read_file(path), Policy())
text = notebook_text(cells, TextOptions(mode, budget=8_000))
seconds = time.perf_counter() - began
print(seconds, (peak() - before) / path.stat().st_size, text.tokens)
"""


def write_notebook(path: Path) -> None:
    """Streams, pictures, frames and errors, as notebooks have them."""
    size = OUTPUTS // 12_500  # outputs there are
    lines = "".join(f"epoch {n}: loss 0.{n:04d}, accuracy 0.{n:04d}\n" for n in range(size // 36))
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\x05" * (size * 3 // 4)).decode()
    rows = "".join(f"<tr><th>{n}</th><td>{n}</td><td>a</td></tr>" for n in range(size // 38))
    table = (
        '<table class="dataframe"><thead><tr><th></th><th>x</th><th>y</th></tr></thead>'
        f"<tbody>{rows}</tbody></table><p>9999 rows × 2 columns</p>"
    )
    kinds: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": lines},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}},
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": table}},
        {"output_type": "stream", "name": "stderr", "text": lines},
    ]
    cells = [
        {
            "cell_type": "code" if number % 4 else "markdown",
            "id": f"c{number}",
            "metadata": {},
            "source": f"# Part {number}\nvalue = compute({number})\n",
            **(
                {
                    "execution_count": number,
                    "outputs": [kinds[number % 3], kinds[3]][: number % 2 + 1],
                }
                if number % 4
                else {}
            ),
        }
        for number in range(CELLS)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook), encoding="utf-8")


def measure() -> list[Figure]:
    """Run it."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.ipynb")
        write_notebook(path)
        for mode, limit in LIMITS.items():
            runs = [_run(path, mode) for _ in range(3)]
            seconds, times = min(run[0] for run in runs), max(run[1] for run in runs)
            figures += [
                Figure(f"text of a 50 MB notebook, {mode}", seconds, limit, "s"),
                Figure(f"its memory by the file's size, {mode}", times, 3.0, "times"),
            ]
    return figures


def _run(path: Path, mode: str) -> tuple[float, float]:
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path), mode],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return float(told[0]), float(told[1])
