"""What a reliability test found, as one JSON line; and how much work a suite is given.

::

    @pytest.mark.row("The server is killed", kind="fault")
    async def test_…(matrix, amount):
        kills = amount("KILLS", short=10, long=200)
        …
        matrix.record(outcome="all text kept", runs=kills, seed=seed, figures={"…": 1.5})

With ``--results FILE`` each such test appends its line when it has ended, a failed one too. A line
is ``{kind, row, test, passed, outcome, runs, seed, figures, suite, date}``; ``tests.results.table``
makes the tables of ``docs/reliability.md`` of them. With ``--long`` tests marked ``long`` run, and
amounts are those of the long suite.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

KINDS = ("fault", "fuzz", "load", "latency")


class Matrix:
    """One test's entry in the table."""

    def __init__(self) -> None:
        self.outcome = ""
        self.runs = 0
        self.seed: int | None = None
        self.figures: dict[str, float | int | str] = {}

    def record(
        self,
        *,
        outcome: str,
        runs: int = 1,
        seed: int | None = None,
        figures: Mapping[str, float | int | str] | None = None,
    ) -> None:
        """Say what came out; called again, runs add up and the rest is overwritten.

        Args:
            outcome: What people are left with, in a few words.
            runs: Times it was tried.
            seed: Repeats a random test.
            figures: Measured values by name, with their unit in the name.
        """
        self.outcome = outcome
        self.runs += runs
        self.seed = seed
        self.figures |= figures or {}


_matrix = pytest.StashKey[Matrix]()
_passed = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options: where lines go, and whether this is the long suite."""
    group = parser.getgroup("reliability")
    group.addoption("--results", type=Path, help="append a JSON line for each row of the matrix")
    group.addoption("--long", action="store_true", help="the long suite: tests marked long too")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that names a row."""
    config.addinivalue_line("markers", "row(name, kind='fault'): a row of docs/reliability.md")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests of the long suite out of the others."""
    if config.getoption("--long"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> Iterator[Matrix]:
    """Where a test marked ``row`` says what it found."""
    assert request.node.get_closest_marker("row"), "a test that records must be marked with its row"
    request.node.stash[_matrix] = found = Matrix()
    yield found
    assert found.runs or not request.node.stash.get(_passed, False), "the test recorded nothing"


@pytest.fixture
def amount(pytestconfig: pytest.Config) -> Callable[..., int]:
    """How often to try: ``amount("KILLS", short=10, long=200)``; NBINLINE_KILLS overrules both."""

    def of(name: str, *, short: int, long: int) -> int:
        return int(os.environ.get(f"NBINLINE_{name}") or (long if is_long(pytestconfig) else short))

    return of


def is_long(config: pytest.Config) -> bool:
    """Whether this is the long suite."""
    return bool(config.getoption("--long"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Iterator[pytest.TestReport]:
    """Write the line of a test that has run, or failed before it could."""
    report = yield
    if report.when == "call":
        item.stash[_passed] = report.passed
    if report.when == "call" or (report.when == "setup" and report.failed):
        _write(item, report.passed)
    return report


def _write(item: pytest.Item, passed: bool) -> None:
    marker = item.get_closest_marker("row")
    file: Path | None = item.config.getoption("--results")
    if marker is None or file is None:
        return
    kind = marker.kwargs.get("kind", "fault")
    assert kind in KINDS, f"{kind} is none of {KINDS}"
    found = item.stash.get(_matrix, Matrix())
    line = {
        "kind": kind,
        "row": marker.args[0],
        "test": item.nodeid,
        "passed": passed,
        "outcome": found.outcome,
        "runs": found.runs,
        "seed": found.seed,
        "figures": found.figures,
        "suite": "long" if is_long(item.config) else "short",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")
