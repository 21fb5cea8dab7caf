"""Make the tables of ``docs/reliability.md`` of the lines that tests have written.

python -m tests.results.table build/results/*.jsonl --page docs/reliability.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BEGIN = "<!-- results: written by make test-long -->"
END = "<!-- end of results -->"

TITLES = {
    "fault": "Faults",
    "fuzz": "Random schedules",
    "load": "Load",
    "latency": "Time to the first visible status",
}

Line = dict[str, Any]


@dataclass
class Row:
    """All that was found about one row, whichever tests are about it."""

    name: str
    outcomes: list[str] = field(default_factory=list)
    runs: int = 0
    passed: bool = True
    seeds: list[int] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    suites: set[str] = field(default_factory=set)
    date: str = ""

    def add(self, line: Line) -> None:
        """Take in what one test found."""
        self.passed = self.passed and line["passed"]
        if line["outcome"] and line["outcome"] not in self.outcomes:
            self.outcomes.append(line["outcome"])
        self.runs += line["runs"]
        if line["seed"] is not None:
            self.seeds.append(line["seed"])
        self.figures |= line["figures"]
        self.suites.add(line["suite"])
        self.date = max(self.date, line["date"])

    def cells(self) -> list[str]:
        """What stands in the table's columns."""
        outcome = "; ".join(self.outcomes)
        if not self.passed:
            outcome = f"**failed** {outcome}".strip()
        details = [f"{name}: {value}" for name, value in self.figures.items()]
        details += [f"seed: {seed}" for seed in self.seeds]
        return [
            self.name,
            outcome,
            f"{self.runs:,}",
            "; ".join(details),
            f"{self.date} ({' and '.join(sorted(self.suites))})",
        ]


def read(files: Iterable[Path]) -> list[Line]:
    """The lines of all files, in order."""
    return [
        json.loads(line) for file in files for line in file.read_text("utf-8").splitlines() if line
    ]


def rows(lines: Sequence[Line]) -> dict[str, list[Row]]:
    """The rows of each kind. Of one test the line written last counts, a failure as well."""
    latest: dict[str, Line] = {}
    for line in lines:
        latest.pop(line["test"], None)
        latest[line["test"]] = line
    found: dict[str, dict[str, Row]] = {kind: {} for kind in TITLES}
    for line in latest.values():
        of_kind = found[line["kind"]]
        of_kind.setdefault(line["row"], Row(line["row"])).add(line)
    return {kind: list(of_kind.values()) for kind, of_kind in found.items() if of_kind}


def render(lines: Sequence[Line]) -> str:
    """The tables as Markdown."""
    parts = []
    for kind, found in rows(lines).items():
        table = [["what happens", "what is left", "runs", "details", "last run"], ["---"] * 5]
        table += [row.cells() for row in found]
        parts.append(
            f"### {TITLES[kind]}\n\n"
            + "\n".join(
                "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table
            )
        )
    return "\n\n".join(parts)


def publish(page: str, tables: str) -> str:
    """The page with the tables between its marks.

    Raises:
        ValueError: The page has no such place.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page needs {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--page", type=Path, help="rewritten in place; else tables are printed")
    wanted = parser.parse_args(arguments)
    tables = render(read(wanted.files))
    if wanted.page is None:
        print(tables)
    else:
        wanted.page.write_text(publish(wanted.page.read_text("utf-8"), tables), "utf-8")


if __name__ == "__main__":
    main()
