"""Fifty notebooks, five people each, an agent in all: nothing is left when they are gone."""

import os
import secrets
from collections.abc import Callable

import pytest

from tests.bench.figures import percentile
from tests.results.plugin import Matrix
from tests.soak.soak import soak

MEMORY = 40.0
"""Megabytes the server may have more: allocator, caches of the databases, noise."""

MORE = {"tasks": 2, "file_handles": 4, "rooms": 0, "awareness": 0, "threads": 4}
"""How much more of each there may be: worker threads and database readers come and go."""

LAG = 250.0
"""Milliseconds that 99 of 100 wake-ups of the loop may be late on a machine that tests share."""


@pytest.mark.timeout(5400)
@pytest.mark.row("Fifty notebooks, five people each: runs, cancels, reloads", kind="load")
def test_soak(amount: Callable[..., int], matrix: Matrix) -> None:
    """NBINLINE_SOAK is how many seconds of load are measured."""
    seconds = amount("SOAK", short=75, long=3600)
    seed = int(os.environ.get("NBINLINE_SOAK_SEED") or secrets.randbelow(2**32))
    told = soak(seconds, seed)
    figures = told.figures()
    print(figures)
    matrix.record(outcome="nothing left behind", seed=seed, figures={"seconds": seconds, **figures})
    growth = {name: told.after[name] - value for name, value in told.before.items()}
    assert growth.pop("memory_mb") <= MEMORY, figures
    assert all(growth[name] <= most for name, most in MORE.items()), figures
    assert told.after["rooms"] == 0, figures
    assert percentile(told.lag_ms, 0.99) <= LAG, figures
    assert set(told.runs) == {"done", "cancelled"}, figures
