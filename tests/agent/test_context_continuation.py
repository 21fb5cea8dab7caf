"""The seam between a cut answer and its continuation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbinline_agent.context.continuation import HELD, SHORTEST, Seam


def joined(before: str, pieces: list[str]) -> str:
    seam = Seam(before)
    return before + "".join(map(seam.feed, pieces)) + seam.end()


BEFORE = "First we load the data.\n\nThen the mean of the columns is tak"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    "continuation",
    [
        "en and printed.",
        "the mean of the columns is taken and printed.",
        "Then the mean of the columns is taken and printed.",
        BEFORE + "en and printed.",
    ],
)
def test_what_is_repeated_is_dropped(continuation: str, size: int) -> None:
    pieces = [continuation[i : i + size] for i in range(0, len(continuation), size)]
    assert joined(BEFORE, pieces) == BEFORE + "en and printed."


def test_a_short_likeness_stays() -> None:
    assert joined("one, two, ", ["two, three"]) == "one, two, two, three"


def test_nothing_is_held_back_for_long() -> None:
    seam = Seam("x" * 1000)
    written = "".join(seam.feed("x") for _ in range(HELD))
    assert seam.feed("y") == "y"
    assert len(written) < HELD


def test_nothing_before_nothing_held() -> None:
    assert Seam("").feed("a") == "a"


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=8))
def test_only_a_repetition_is_ever_dropped(before: str, pieces: list[str]) -> None:
    new = "".join(pieces)
    result = joined(before, pieces)
    assert result.startswith(before)
    added = result[len(before) :]
    assert new.endswith(added)
    dropped = new[: len(new) - len(added)]
    assert before.endswith(dropped)
    assert dropped == "" or len(dropped) >= SHORTEST
