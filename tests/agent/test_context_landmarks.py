"""Which cells a question may point at, and how much of them was sent."""

from __future__ import annotations

from typing import Any

import pytest

from nbinline_agent.context.landmarks import Sent, describe, find, has_heading, serialise
from nbinline_agent.context.marks import Role, marks, role
from nbinline_agent.document.notebook import Cell
from nbinline_agent.ids import CellId


def cell(name: str, source: str = "x", kind: str = "code", **mark: Any) -> Cell:
    return Cell(
        id=CellId(name),
        kind=kind,
        source=source,
        metadata={"nbinlineai": mark} if mark else {},
        execution_count=None,
        outputs=(),
        attachments={},
    )


@pytest.mark.parametrize(
    "source",
    [
        "# One",
        "text\n###### Six",
        "   ## three spaces",
        "#\ttab",
        "#",
        "Title\n=====",
        "Title\nover two lines\n---",
        "Title\n    and a lazy line\n--",
        "```\ncode\n```\n# after",
        "````\n```\n# in\n```\n````\n# out",
        "~~~\n```\n~~~\n# out",
        "``` not a fence ```\n# yes",
    ],
)
def test_headings(source: str) -> None:
    assert has_heading(source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "text",
        "#hashtag",
        "####### seven",
        "    # four spaces",
        "\t# tab",
        "\\# escaped",
        "```python\n# comment\n```",
        "~~~\n# comment",
        "````\n```\n# still inside\n````",
        "---",
        "text\n\n---",
        "- item\n---",
        "> quote\n---",
        "# \n".replace("#", "-"),
        "===",
        "    code\n---",
        "text\n- - -",
        "a | b\n--|--",
    ],
)
def test_no_headings(source: str) -> None:
    assert not has_heading(source)


NOTEBOOK = [
    cell("title", "# Title", "markdown"),
    cell("code1"),
    cell("section", "Section\n===", "markdown"),
    cell("code2"),
    cell("note", "just text", "markdown"),
    cell("q1", "# not a heading of the notebook", "markdown", isPromptCell=True),
    cell("a1", "answer", "markdown", isOutputCell=True, promptCellId="q1", status="done"),
    cell("raw", "raw", "raw"),
    cell("target", "?", "markdown", isPromptCell=True),
    cell("after"),
]
ROLES = [role(one, marks(one)) for one in NOTEBOOK]


def test_the_nearest_of_each_kind() -> None:
    assert {mark.name: mark.index for mark in find(NOTEBOOK, ROLES, 8)} == {
        "cell_above": 7,
        "code_above": 3,
        "note_above": 4,
        "heading_above": 2,
    }


def test_nothing_above() -> None:
    found = find(NOTEBOOK, ROLES, 0)
    assert {mark.index for mark in found} == {None}
    listed = describe(NOTEBOOK, 0, found, {}, {})
    assert listed["question"] == {"id": "title", "position": 1}
    assert listed["section"] == {"sent": "none    "}
    assert listed["code_above"] == {"sent": "none    "}


def test_positions_count_from_one_and_statuses_are_as_sent() -> None:
    found = find(NOTEBOOK, ROLES, 8)
    sent = {2: Sent.PARTIAL, 3: Sent.FULL, 4: Sent.OMITTED, 5: Sent.FULL, 6: Sent.FULL}
    listed = describe(NOTEBOOK, 8, found, sent, {5: 12, 6: 12})
    assert listed["cell_above"] == {
        "id": "raw",
        "position": 8,
        "sent": "excluded",
        "pair": "    ",
    }
    assert listed["code_above"]["sent"] == "full    "
    assert listed["note_above"]["sent"] == "omitted "
    assert listed["heading_above"]["sent"] == "partial "
    assert listed["section"] == {"from": 3, "to": 8, "sent": "partial "}


def test_a_pair_is_named_by_its_number() -> None:
    cells = NOTEBOOK[:7] + [NOTEBOOK[8]]
    roles = [role(one, marks(one)) for one in cells]
    listed = describe(cells, 7, find(cells, roles, 7), {6: Sent.FULL}, {6: 3})
    assert listed["cell_above"] == {"id": "a1", "position": 7, "sent": "full    ", "pair": "   3"}


@pytest.mark.parametrize(
    ("sent", "whole"),
    [
        ({}, "excluded"),
        ({2: Sent.OMITTED}, "omitted "),
        (dict.fromkeys(range(2, 8), Sent.FULL), "full    "),
        (dict.fromkeys(range(2, 8), Sent.OMITTED), "omitted "),
        ({2: Sent.FULL}, "partial "),
    ],
)
def test_a_section_is_as_sent_as_its_cells(sent: dict[int, Sent], whole: str) -> None:
    listed = describe(NOTEBOOK, 8, find(NOTEBOOK, ROLES, 8), sent, {})
    assert listed["section"]["sent"] == whole


def test_the_length_does_not_depend_on_what_was_sent() -> None:
    found = find(NOTEBOOK, ROLES, 8)
    lengths = {
        len(serialise(describe(NOTEBOOK, 8, found, dict.fromkeys(range(8), sent), pairs)))
        for sent in Sent
        for pairs in ({}, dict.fromkeys(range(8), 9999), {7: 1})
    }
    assert len(lengths) == 1


def test_ordinary_cells_only_are_notes() -> None:
    assert role(NOTEBOOK[5], marks(NOTEBOOK[5])) is Role.QUESTION
    assert role(NOTEBOOK[6], marks(NOTEBOOK[6])) is Role.ANSWER
    assert role(NOTEBOOK[4], marks(NOTEBOOK[4])) is Role.ORDINARY
