"""What always holds for a context, whatever the notebook looks like."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nbinline_agent.context.budget import Limits
from nbinline_agent.context.build import Built, build
from nbinline_agent.context.choices import Choices, Mode, Outputs
from nbinline_agent.context.serialising import content_json
from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.errors import ContextTooLarge
from nbinline_agent.ids import CellId, FileId

NAMES = st.sampled_from([f"c{number}" for number in range(8)])
SOURCES = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda text, times: text * times, st.text(min_size=1, max_size=9), st.integers(1, 900)
    ),
)
MARKS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"isPromptCell": st.just(True)}, optional={"contextInclude": st.booleans()}
    ),
    st.fixed_dictionaries(
        {
            "isOutputCell": st.just(True),
            "promptCellId": NAMES | st.just("target"),
            "status": st.sampled_from(["done", "done", "done", "running", "error"]),
        },
        optional={"author": st.sampled_from(["ada", "bob", 3]), "contextInclude": st.booleans()},
    ),
    st.dictionaries(
        st.sampled_from(["isPromptCell", "isOutputCell", "status"]), st.none(), max_size=2
    ),
)
OUTPUTS = st.lists(
    st.builds(lambda text: {"output_type": "stream", "name": "stdout", "text": text}, SOURCES),
    max_size=2,
).map(tuple)


def _cell(name: str, kind: str, source: str, mark: Any, count: Any, outputs: Any) -> Cell:
    return Cell(
        id=CellId(name),
        kind=kind,
        source=source,
        metadata={"nbinlineai": mark},
        execution_count=count,
        outputs=outputs if kind == "code" else (),
        attachments={},
    )


CELLS = st.builds(
    _cell,
    NAMES,
    st.sampled_from(["markdown", "markdown", "code", "raw", "odd"]),
    SOURCES,
    MARKS,
    st.none() | st.integers(0, 99),
    OUTPUTS,
)
QUESTION = "What does the 'question' mean? \u2028"


@st.composite
def notebooks(draw: st.DrawFn) -> tuple[Cell, ...]:
    cells = draw(st.lists(CELLS, max_size=14))
    target = _cell("target", "markdown", QUESTION, {"isPromptCell": True}, None, ())
    cells.insert(draw(st.integers(0, len(cells))), target)
    return tuple(cells)


LIMITS = st.one_of(
    st.builds(Limits, st.integers(200, 30_000)),
    st.builds(
        Limits.for_model,
        st.integers(300, 9_000),
        st.integers(1, 4_000),
        st.sampled_from([1.0, 2.5, 3.0, 4.0]),
    ),
)
CHOICES = st.builds(
    Choices,
    st.just("model"),
    st.sampled_from(Mode),
    st.sampled_from(["compact", "full", "learning"]),
    st.just(None),
    st.sampled_from(Outputs),
)


def _build(cells: tuple[Cell, ...], choices: Choices, limits: Limits, **more: Any) -> Built:
    return build(
        Snapshot(cells, {}, 4, 5),
        CellId("target"),
        asker="ada",
        choices=choices,
        limits=limits,
        secret=b"secret",
        file_id=FileId("file"),
        **more,
    )


def _counted(built: Built, limits: Limits) -> float:
    """Counted without the builder's help."""
    request = built.request
    content = {
        "system": request.system,
        "messages": [{"role": turn.role, "content": turn.text} for turn in request.messages],
        "tools": [],
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return len(text) if limits.unit == "characters" else len(text.encode()) / limits.per_token


@settings(max_examples=300, deadline=None)
@given(notebooks(), CHOICES, LIMITS, st.none() | SOURCES)
def test_what_always_holds(
    cells: tuple[Cell, ...], choices: Choices, limits: Limits, continuing: str | None
) -> None:
    try:
        built = _build(cells, choices, limits, continuing=continuing)
    except ContextTooLarge:
        bare = next(cell for cell in cells if cell.id == "target")
        assert limits.room < 6_000 + 2 * len(bare.source)
        return
    report = built.report

    # Never over the budget.
    assert _counted(built, limits) <= limits.allowed
    assert report.used <= report.allowed == limits.allowed

    # Never without the question, which is the last thing a person said.
    said = [turn.text for turn in built.request.messages if turn.role == "user"]
    assert any(text.endswith(f"The question:\n{QUESTION}") for text in said[-2:])

    # Same input, same bytes.
    again = _build(cells, choices, limits, continuing=continuing)
    assert content_json(again.request) == content_json(built.request)
    assert again.report == report

    # Roles alternate the way vendors want.
    roles = [turn.role for turn in built.request.messages]
    assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]

    _every_cell_is_accounted_for(cells, built)
    _order_is_kept(cells, built)


def _every_cell_is_accounted_for(cells: tuple[Cell, ...], built: Built) -> None:
    report = built.report
    parts = (report.included, report.partial, report.omitted, report.excluded)
    listed = [name for part in parts for name in part]
    listed += [one.id for one in report.ineligible]
    assert sorted(listed) == sorted(cell.id for cell in cells)
    assert sorted(report.selected) == sorted((*report.included, *report.partial, *report.omitted))
    assert len(report.partial) <= 1
    for side in (report.above, report.below):
        assert min(side.included, side.partial, side.omitted) >= 0
    assert report.above.included + report.below.included == len(report.included)


HEADER = re.compile(r"<<data ([0-9a-f]{12}): (?:note|code cell|question|AI answer) ([\w-]+)")


def _order_is_kept(cells: tuple[Cell, ...], built: Built) -> None:
    order = [cell.id for cell in cells]
    sent = HEADER.findall("".join(built.request.system[2:]))
    words = {word for word, _ in sent}
    assert len(words) <= 1
    for word in words:
        assert all(word not in cell.source for cell in cells)
    _is_subsequence([name for _, name in sent], order)
    _is_subsequence([answer for _, answer in built.report.history], order)


def _is_subsequence(part: list[str], whole: list[str]) -> None:
    rest = iter(whole)
    assert all(name in rest for name in part), (part, whole)


@settings(max_examples=100, deadline=None)
@given(notebooks(), CHOICES, st.integers(4_000, 12_000), st.integers(1, 5_000))
def test_more_room_never_sends_less(
    cells: tuple[Cell, ...], choices: Choices, smaller: int, more: int
) -> None:
    """With the same instructions, what went whole still goes when there is more room."""
    base = 12_000
    few = _build(cells, choices, Limits(base + smaller)).report
    many = _build(cells, choices, Limits(base + smaller + more)).report
    if not few.omitted and not few.partial:
        assert set(few.included) == set(many.included)
    assert few.used <= base + smaller
    assert many.used <= base + smaller + more
