"""Stripping authorship from notebooks before they are published."""

import copy
import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from nbinline_rtc.cli import main
from nbinline_rtc.publishing import AUTHORSHIP, CHOICES, strip

MARK = {"runId": "r1", "author": "ada", "authorName": "Ada L.", "model": "m", "backend": "b"}
EDITED = {"editedBy": {**MARK, "at": "2026-01-01T00:00:00+00:00"}}
CELLS: list[dict[str, Any]] = [
    {
        "cell_type": "markdown",
        "id": "q",
        "metadata": {"nbinlineai": {"isPromptCell": True, "model": "m", "promptMode": "full"}},
        "source": "Why?",
    },
    {
        "cell_type": "markdown",
        "id": "a",
        "metadata": {
            "nbinlineai": {
                "isOutputCell": True,
                "promptCellId": "q",
                "status": "done",
                **MARK,
                "endedAt": "2026-01-01T00:00:00+00:00",
                "inputsSha256": "0" * 64,
            }
        },
        "source": "Größe: because 🙂",
    },
    {
        "cell_type": "code",
        "id": "c",
        "metadata": {"tags": ["x"], "nbinlineai": {**EDITED, "contextInclude": False}},
        "source": "1",
        "outputs": [],
        "execution_count": 3,
    },
    {"cell_type": "markdown", "id": "e", "metadata": {"nbinlineai": EDITED}, "source": "x"},
    {"cell_type": "raw", "id": "own", "metadata": {"author": "kept"}, "source": "mine"},
]
NOTEBOOK: dict[str, Any] = {
    "cells": CELLS,
    "metadata": {"nbinlineai": {"defaults": {"model": "m"}}, "language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def write(folder: Path, name: str = "a.ipynb") -> Path:
    path = folder / name
    path.write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    return path


def test_people_and_runs_go_and_what_makes_it_work_stays() -> None:
    before = copy.deepcopy(NOTEBOOK)
    found = strip(NOTEBOOK)
    assert NOTEBOOK == before
    assert found.cells == 3
    marks = {cell["id"]: cell["metadata"].get("nbinlineai") for cell in found.notebook["cells"]}
    assert marks == {
        "q": {"isPromptCell": True, "model": "m", "promptMode": "full"},
        "a": {"isOutputCell": True, "promptCellId": "q", "status": "done"},
        "c": {"contextInclude": False},
        "e": None,
        "own": None,
    }
    assert found.notebook["metadata"] == NOTEBOOK["metadata"]
    text = json.dumps(found.notebook)
    assert not any(word in text for word in ('"ada"', "Ada L", '"r1"', "2026"))
    assert [cell["source"] for cell in found.notebook["cells"]] == [c["source"] for c in CELLS]


def test_the_plugin_takes_out_the_same() -> None:
    source = (Path(__file__).parents[2] / "lab" / "src" / "authorship.ts").read_text()
    for name, keys in (("AUTHORSHIP", AUTHORSHIP), ("CHOICES", CHOICES)):
        listed = re.search(rf"{name}[^=]*= new Set\(\[(.*?)\]\)", source, re.S)
        assert listed is not None
        assert set(re.findall(r"'(\w+)'", listed[1])) == keys


def test_everything_leaves_plain_text() -> None:
    found = strip(NOTEBOOK, everything=True)
    assert "nbinlineai" not in json.dumps(found.notebook)
    assert found.notebook["cells"][2]["metadata"] == {"tags": ["x"]}
    assert found.cells == 4


@pytest.mark.parametrize("damaged", [{}, {"cells": 3}, {"cells": [1, {"metadata": 7}, {}]}])
def test_damaged_notebooks_lose_nothing(damaged: dict[str, Any]) -> None:
    assert strip(damaged).notebook == damaged


def test_the_command_prints_or_writes_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = path.read_bytes()
    command = [sys.executable, "-m", "nbinline_rtc.cli", "strip"]
    done = subprocess.run([*command, str(path)], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout) == strip(NOTEBOOK).notebook
    assert done.stderr.decode() == f"{path}: stripped 3 cells.\n"
    out = tmp_path / "out.ipynb"
    subprocess.run([*command, str(path), "-o", str(out)], check=True, timeout=60)
    nbformat.validate(nbformat.read(out, as_version=4))
    assert "Größe: because 🙂" in out.read_text(encoding="utf-8")
    assert path.read_bytes() == before


def test_in_place_keeps_the_mode_and_what_has_nothing_to_strip(tmp_path: Path) -> None:
    first, second = write(tmp_path), write(tmp_path, "b.ipynb")
    first.chmod(0o640)
    with pytest.raises(SystemExit) as ended:
        main(["strip", "--in-place", str(first), str(second)])
    assert ended.value.code == 0
    for path in (first, second):
        assert json.loads(path.read_text(encoding="utf-8")) == strip(NOTEBOOK).notebook
    assert stat.S_IMODE(first.stat().st_mode) == 0o640
    before = first.stat()
    with pytest.raises(SystemExit):
        main(["strip", "--in-place", str(first)])
    assert first.stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file()) == [
        "a.ipynb",
        "b.ipynb",
    ]


@pytest.mark.parametrize(
    ("arguments", "content", "code", "sentence"),
    [
        (["a.ipynb"], None, 3, "There is no file"),
        (["a.ipynb"], "{", 1, "cannot be read"),
        (["a.ipynb"], "[]", 1, "is not a notebook"),
        (["a.ipynb", "b.ipynb"], "{}", 2, "--in-place"),
    ],
)
def test_what_cannot_be_stripped_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    content: str | None,
    code: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "a.ipynb").write_text(content)
    with pytest.raises(SystemExit) as ended:
        main(["strip", *arguments])
    assert ended.value.code == code
    assert sentence in capsys.readouterr().err
