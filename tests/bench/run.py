"""Measure the figures: ``python tests/bench/run.py [stream_dom hundred_notebooks store_growth …]``.

Prints one JSON object and exits with 1 if a figure is not reached. The figures hold for two cores
that do nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.figures import Figure, machine

GROUPS = (
    "stream_dom",
    "hundred_notebooks",
    "course_server",
    "store_growth",
    "first_status",
    "tool_edits",
    "tool_kernel",
    "notebook_text",
)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure the figures; JSON to standard output.")
    parser.add_argument("group", nargs="*", choices=[*GROUPS, []], help="all by default")
    groups = parser.parse_args().group or GROUPS
    figures: list[Figure] = []
    for group in groups:
        figures += importlib.import_module(f"tests.bench.{group}").measure()
    ok = all(figure.ok for figure in figures)
    told = {"ok": ok, "machine": machine(), "figures": [each.to_json() for each in figures]}
    print(json.dumps(told, indent=1))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
