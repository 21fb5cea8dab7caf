"""What keeps the server's loop free: full collections are rare while runs live, and only then."""

import gc

import pytest
import sniffio

from nbinline_rtc.event_loop import (
    BUSY_THRESHOLDS,
    FREEZE_INTERVAL,
    THAW_INTERVAL,
    PacedCollector,
    known_as_asyncio,
)


@pytest.fixture
def clock():
    """Seconds that pass when the test says so."""
    return [1000.0]


@pytest.fixture
def collector(clock):
    thresholds = gc.get_threshold()
    yield PacedCollector(clock=lambda: clock[0])
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0


def test_collections_are_rare_until_the_last_run_has_ended(collector):
    usual = gc.get_threshold()
    with collector.run():
        assert gc.get_threshold() == BUSY_THRESHOLDS
        with collector.run():
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == BUSY_THRESHOLDS
    assert gc.get_threshold() == usual


def test_a_run_that_breaks_leaves_nothing_behind(collector):
    with pytest.raises(ZeroDivisionError), collector.run():
        raise ZeroDivisionError


def test_what_was_set_aside_is_looked_at_again_though_runs_never_pause(collector, clock):
    with collector.run():
        clock[0] += FREEZE_INTERVAL / 2
        before = gc.get_freeze_count()
        more = [[number] for number in range(5_000)]
        with collector.run():
            assert gc.get_freeze_count() <= before
        clock[0] += FREEZE_INTERVAL
        with collector.run():
            assert gc.get_freeze_count() >= before + len(more)
        clock[0] += THAW_INTERVAL
        with collector.run():
            assert gc.get_freeze_count() == 0


def test_the_library_is_known_only_as_long_as_that_is_true():
    with known_as_asyncio():
        assert sniffio.current_async_library() == "asyncio"
    with pytest.raises(sniffio.AsyncLibraryNotFoundError):
        sniffio.current_async_library()
