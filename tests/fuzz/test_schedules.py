"""People with undo, breaking networks, tools, two answers at once: nothing lost or doubled."""

from collections.abc import Callable

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.schedules import Schedule, play, schedules
from tests.results.plugin import Matrix


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """Instead of the plugin's own, which makes a server for each test just to clean it up."""


@pytest.mark.parametrize(
    "schedule",
    [
        [("type", 0, "answer-1", 0.0, [0]), ("settle",), ("replace",), ("write", 1, "word ")],
        [
            ("type", 0, "answer-0", 0.0, [0, 1]),
            ("settle",),
            ("replace",),
            ("type", 1, "answer-0", 0.5, [2]),
            ("replace",),
            ("write", 0, "word "),
        ],
    ],
)
def test_what_is_typed_before_the_first_word_outlives_the_room(schedule: Schedule) -> None:
    anyio.run(play, schedule, 2)


@pytest.mark.timeout(10_000)
@pytest.mark.parametrize("people", [2, 3, 4])
@pytest.mark.row("Random edits, undo, moves, drops, tools and two streaming answers", kind="fuzz")
def test_random_schedules(
    people: int, fuzz_seed: int, amount: Callable[..., int], matrix: Matrix
) -> None:
    """Reproduce with NBINLINE_FUZZ_SEED; NBINLINE_SCHEDULES is how many."""
    wanted = -(-amount("SCHEDULES", short=300, long=10_200) // 3)
    print(f"{wanted} schedules of {people} people, NBINLINE_FUZZ_SEED={fuzz_seed}")
    played = 0

    @seed(fuzz_seed + people)
    @settings(
        deadline=None,
        max_examples=wanted,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(schedule=schedules(people))
    def run(schedule: Schedule) -> None:
        nonlocal played
        played += 1
        anyio.run(play, schedule, people)

    outcome = "a schedule failed"
    try:
        run()
        outcome = "all equal; every answer its deltas plus what people typed; no cell doubled"
    finally:
        matrix.record(outcome=outcome, runs=played, seed=fuzz_seed)
    assert played >= wanted * 0.9, "Hypothesis ran out of schedules"


TYPED = ("type", 0, "answer-1", 0.5, [0, 1, 2])
FOUND = {
    "typed before the first word, then the room is replaced": [
        ("settle",),
        TYPED,
        ("settle",),
        ("replace",),
        ("connect", 0),
        ("settle",),
        ("write", 1, "hello"),
        ("flush", 1),
    ],
    "the same, twice": [
        ("settle",),
        TYPED,
        ("settle",),
        ("replace",),
        ("connect", 0),
        TYPED,
        ("settle",),
        ("replace",),
        ("write", 1, "hello"),
    ],
}


@pytest.mark.parametrize("schedule", FOUND.values(), ids=FOUND)
def test_schedules_that_lost_something_once(schedule: Schedule) -> None:
    anyio.run(play, list(schedule), 2)
