"""The matrix of docs/reliability.md says what the tests found, failures included."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.results.table import BEGIN, END, main, publish, render, rows

ROOT = Path(__file__).resolve().parent.parent

SUITE = """
import pytest

@pytest.mark.row("A cut socket")
def test_good(matrix, amount):
    matrix.record(outcome="kept", runs=amount("CUTS", short=2, long=5), seed=7)

@pytest.mark.row("A full disk")
def test_bad(matrix):
    assert False

@pytest.mark.row("A full disk")
@pytest.mark.parametrize("part", ["store", "journal"])
def test_parts(matrix, part):
    matrix.record(outcome=f"{part} goes on", figures={f"{part} seconds": 0.5})

@pytest.mark.row("Many schedules", kind="fuzz")
@pytest.mark.long
def test_long(matrix):
    matrix.record(outcome="converged", runs=10_000)
"""


def run_suite(folder: Path, *options: str) -> list[dict[str, object]]:
    """Run the tests above in a pytest of their own; the lines they wrote."""
    (folder / "test_suite.py").write_text(SUITE)
    file = folder / "build" / "results.jsonl"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.results.plugin"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(folder), "--confcutdir", str(folder)]
    command += ["-c", "/dev/null", "-o", "markers=long", "--results", str(file)]
    done = subprocess.run(
        [*command, *options, str(folder / "test_suite.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_every_marked_test_leaves_a_line(tmp_path: Path) -> None:
    lines = run_suite(tmp_path)
    assert [(line["row"], line["passed"], line["runs"]) for line in lines] == [
        ("A cut socket", True, 2),
        ("A full disk", False, 0),
        ("A full disk", True, 1),
        ("A full disk", True, 1),
    ]
    assert {line["suite"] for line in lines} == {"short"}
    assert lines[0]["seed"] == 7


def test_the_long_suite_tries_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run_suite(tmp_path, "--long")
    assert [line["runs"] for line in lines] == [5, 0, 1, 1, 10_000]
    assert {line["suite"] for line in lines} == {"long"}
    monkeypatch.setenv("NBINLINE_CUTS", "3")
    assert run_suite(tmp_path, "--long")[0]["runs"] == 3


def test_a_failure_shows_until_the_same_test_passes(tmp_path: Path) -> None:
    lines = run_suite(tmp_path)
    [disk] = [row for row in rows(lines)["fault"] if row.name == "A full disk"]
    assert disk.cells()[1] == "**failed** store goes on; journal goes on"
    again = {**lines[1], "passed": True, "outcome": "refused", "runs": 1}
    [disk] = [row for row in rows([*lines, again])["fault"] if row.name == "A full disk"]
    assert disk.passed
    assert disk.runs == 3
    assert disk.figures == {"store seconds": 0.5, "journal seconds": 0.5}


def test_only_what_stands_between_the_marks_is_written(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(map(json.dumps, run_suite(tmp_path, "--long"))))
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    main([str(lines), "--page", str(page)])
    text = page.read_text()
    assert text.startswith(f"Before.\n\n{BEGIN}\n\n### Faults\n\n| what happens |")
    assert text.endswith(f"{END}\n\nAfter.\n")
    assert "### Random schedules" in text
    assert "| Many schedules | converged | 10,000 |" in text
    assert "old" not in text
    main([str(lines), "--page", str(page)])
    assert page.read_text() == text


def test_a_page_without_the_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="needs"):
        publish("No marks here.", render([]))
