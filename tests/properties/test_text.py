"""What always holds for a notebook as text."""

from __future__ import annotations

import random
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nbinline_agent.render.text import (
    Mode,
    NotebookText,
    Part,
    TextCell,
    TextOptions,
    cells_of,
    headings,
    notebook_text,
)
from nbinline_agent.render.tokens import tokenizer

TEXTS = st.one_of(
    st.text(max_size=60),
    st.builds(lambda text, n: text * n, st.text(min_size=1, max_size=8), st.integers(1, 400)),
    st.sampled_from(
        ["# A\n\ntext\n\n## B", "```\n# no heading\n```", "Title\n=====\nx", "\r\n\x1b[1m"]
    ),
)
OUTPUTS = st.lists(
    st.one_of(
        st.builds(lambda text: {"output_type": "stream", "name": "stdout", "text": text}, TEXTS),
        st.builds(
            lambda name, text: {"output_type": "error", "ename": name, "evalue": text},
            st.text(max_size=9),
            TEXTS,
        ),
        st.builds(
            lambda text: {"output_type": "display_data", "data": {"text/plain": text}}, TEXTS
        ),
        st.just({"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=" * 30}}),
        st.just({}),
    ),
    max_size=3,
)
CELLS = st.lists(
    st.builds(
        lambda kind, source, outputs, count: (kind, source, outputs, count),
        st.sampled_from(["code", "code", "markdown", "markdown", "raw", "odd"]),
        TEXTS,
        OUTPUTS,
        st.none() | st.integers(0, 9_999),
    ),
    max_size=12,
).map(
    lambda rows: [
        TextCell(
            at,
            kind,
            source,
            f"id{at}",
            count if kind == "code" else None,
            outputs if kind == "code" else [],
        )
        for at, (kind, source, outputs, count) in enumerate(rows, 1)
    ]
)
COUNTERS = st.sampled_from(["estimate", "estimate:4.5", "characters"])
BUDGETS = st.integers(0, 60) | st.integers(0, 3_000)


def in_budget(
    cells: list[TextCell], budget: int, counter: str, focus: int | None = None, **more: Any
) -> NotebookText:
    options = TextOptions(
        Mode.TOKEN_BUDGET, budget=budget, counter=tokenizer(counter), focus=focus, **more
    )
    return notebook_text(cells, options)


def left_out(text: NotebookText) -> dict[Part, Any]:
    return {each.part: each for each in text.left_out}


@given(CELLS, BUDGETS, COUNTERS, st.none() | st.integers(1, 12), st.sampled_from([None, False]))
@settings(deadline=None)
def test_a_text_is_never_over_its_budget(
    cells: list[TextCell],
    budget: int,
    counter: str,
    focus: int | None,
    summarize: bool | None,
) -> None:
    text = in_budget(cells, budget, counter, focus, summarize_outputs=summarize)
    assert tokenizer(counter).count(text.text) == text.tokens <= budget


class Words:
    """A tokenizer whose counts of parts do not add up to that of the whole."""

    name = "words"

    def count(self, text: str) -> int:
        return len(re.findall(r"\w+|\W", text)) + len(text) // 3

    def measure(self, text: str) -> float:
        return self.count(text) / 2


@given(CELLS, st.integers(0, 300))
@settings(deadline=None)
def test_a_tokenizer_that_does_not_add_up_keeps_the_budget_too(
    cells: list[TextCell], budget: int
) -> None:
    text = notebook_text(cells, TextOptions(Mode.TOKEN_BUDGET, budget=budget, counter=Words()))
    assert Words().count(text.text) == text.tokens <= budget


@given(CELLS, BUDGETS)
@settings(deadline=None)
def test_outputs_go_first_then_code_then_markdown_and_headings_last(
    cells: list[TextCell], budget: int
) -> None:
    text = in_budget(cells, budget, "characters")
    if not text.text:
        return
    found = left_out(text)
    gone = {part: found[part].gone if part in found else () for part in Part}
    code = {cell.number for cell in cells if cell.kind == "code" and cell.source.strip()}
    with_outputs = {cell.number for cell in cells if cell.outputs}
    if gone[Part.CODE]:
        assert set(gone[Part.OUTPUTS]) == with_outputs
    if gone[Part.MARKDOWN] or gone[Part.HEADINGS]:
        assert set(gone[Part.CODE]) == code
    if gone[Part.HEADINGS]:
        told = {cell.number for cell in cells if f"# %% {cell.number} [" in text.text}
        assert all(headings(cell.source) for cell in cells if cell.number in told)


@given(CELLS, BUDGETS, st.integers(1, 12))
@settings(deadline=None)
def test_what_is_far_from_the_focus_goes_before_what_is_near(
    cells: list[TextCell], budget: int, focus: int
) -> None:
    text = in_budget(cells, budget, "estimate", focus)
    if focus > len(cells):
        focus = len(cells)
    for each in text.left_out:
        if each.part is not Part.CODE or not each.gone:
            continue
        nearest = min(abs(number - focus) for number in each.gone)
        kept = [
            abs(cell.number - focus)
            for cell in cells
            if cell.kind == "code" and cell.source.strip() and cell.number not in each.gone
        ]
        assert all(distance <= nearest for distance in kept)


@given(CELLS, BUDGETS, COUNTERS)
@settings(deadline=None)
def test_the_same_notebook_gives_the_same_text(
    cells: list[TextCell], budget: int, counter: str
) -> None:
    assert in_budget(cells, budget, counter) == in_budget(list(cells), budget, counter)


@given(CELLS)
@settings(deadline=None)
def test_a_budget_with_room_leaves_nothing_out(cells: list[TextCell]) -> None:
    text = in_budget(cells, 1_000_000, "characters")
    assert text.left_out == ()
    for cell in cells:
        assert cell.source.rstrip("\n") in text.text


@given(CELLS, st.sampled_from(list(Mode)))
@settings(deadline=None)
def test_no_mode_lets_colours_or_carriage_returns_of_outputs_through(
    cells: list[TextCell], mode: Mode
) -> None:
    only_outputs = [
        TextCell(cell.number, "code", "", cell.id, None, cell.outputs) for cell in cells
    ]
    text = notebook_text(only_outputs, TextOptions(mode, budget=5_000)).text
    assert "\x1b[" not in text
    assert "\r" not in text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "cells",
                        "cell_type",
                        "source",
                        "outputs",
                        "id",
                        "execution_count",
                        "data",
                        "output_type",
                        "text",
                        "text/plain",
                        "traceback",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(deadline=None)
def test_a_damaged_notebook_is_still_told(value: Any) -> None:
    notebook = value if isinstance(value, dict) else {"cells": value}
    for mode in Mode:
        notebook_text(cells_of(notebook), TextOptions(mode, budget=200))


def test_thousands_of_cells_keep_the_order_of_the_notebook() -> None:
    chosen = random.Random(7)
    cells = [
        TextCell(at, chosen.choice(["code", "markdown"]), f"cell {at}\n" * chosen.randint(1, 9))
        for at in range(1, 2_000)
    ]
    text = in_budget(cells, 2_000, "estimate", 1_000).text
    numbers = [int(line.split()[2]) for line in text.split("\n") if line.startswith("# %% ")]
    assert numbers == sorted(numbers)
    assert 1_000 in numbers
