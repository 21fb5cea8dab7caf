"""Hashes of inputs: the same for the same content, whoever reads it; the plugin has the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nbinline_agent.context.budget import Limits
from nbinline_agent.context.build import Built, build
from nbinline_agent.context.choices import Choices, Mode, Outputs, Policy
from nbinline_agent.context.inputs import cell_hash, digest, outputs_text
from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.ids import CellId, FileId

EXAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "lab/src/__tests__/inputHashes.json").read_text("utf-8")
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["name"]))
def test_the_examples_shared_with_the_plugin(example: dict[str, Any]) -> None:
    assert cell_hash(example["source"], example["outputs"]) == example["hash"]


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(data: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    return {"output_type": "execute_result", "data": data, "execution_count": count, "metadata": {}}


def test_it_does_not_matter_how_a_stream_is_cut() -> None:
    whole = outputs_text([stream("one\ntwo\n")])
    assert outputs_text([stream("one\n"), stream("two\n")]) == whole
    listed = {**stream(""), "text": ["one\n", "two\n"]}
    assert outputs_text([listed]) == whole
    assert outputs_text([stream("one\n"), stream("two\n", "stderr")]) != whole


def test_a_new_execution_count_changes_nothing() -> None:
    assert cell_hash("1", [shown({"text/plain": "1"}, 3)]) == cell_hash(
        "1", [shown({"text/plain": "1"}, 9)]
    )


def test_other_content_is_another_hash() -> None:
    kinds = [
        cell_hash("x"),
        cell_hash("y"),
        cell_hash("x", []),
        cell_hash("x", [stream("1")]),
        cell_hash("x", [shown({"text/plain": "1"})]),
        cell_hash("x", [shown({"text/html": "1"})]),
        cell_hash("x", [{"output_type": "error", "ename": "E", "evalue": "1"}]),
        cell_hash("x", [{"output_type": "error", "ename": "E1", "evalue": ""}]),
        cell_hash("x", [shown({"image/png": "AAAA"})]),
        cell_hash("x", [shown({"image/png": "AAAAA"})]),
    ]
    assert len(set(kinds)) == len(kinds)


def ask(cells: list[Cell], outputs: Outputs = Outputs.SUMMARIES, **more: Any) -> Built:
    return build(
        Snapshot(tuple(cells)),
        CellId("q"),
        asker="ada",
        choices=Choices("model", Mode.DEFAULT, outputs=outputs),
        limits=Limits(),
        secret=b"secret",
        file_id=FileId("file"),
        **more,
    )


CELLS = [
    Cell(CellId("out"), "code", "1 + 1", outputs=(stream("2"),)),
    Cell(CellId("quiet"), "code", "x = 1"),
    Cell(CellId("secret"), "code", "key = 1", {"tags": ["teacher"]}),
    Cell(CellId("q"), "markdown", "Why?", {"nbinlineai": {"isPromptCell": True}}),
    Cell(CellId("below"), "code", "later"),
]


def test_every_cell_that_went_along_has_a_hash_and_no_other() -> None:
    built = ask(CELLS, policy=Policy(hidden_tags=frozenset({"teacher"})))
    assert built.inputs == {
        "out": cell_hash("1 + 1", [stream("2")]),
        "quiet": cell_hash("x = 1"),
        "q": cell_hash("Why?"),
    }
    assert built.report.inputs_sha256 == digest(built.inputs)


def test_outputs_that_did_not_go_along_do_not_count() -> None:
    assert ask(CELLS, Outputs.NONE).inputs["out"] == cell_hash("1 + 1")
