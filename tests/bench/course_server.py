"""A course on one server: 30 students stream and type, an instructor watches all of them."""

from __future__ import annotations

from tests.bench.figures import Figure, percentile
from tests.bench.hundred_notebooks import streamed

STUDENTS = 30
TYPED = 4
"""Characters a second that each of them types."""


def measure() -> list[Figure]:
    """Run it, with the clients in a process of their own."""
    told = streamed(STUDENTS, str(TYPED))
    return [
        Figure("course of 30: loop lag p99", percentile(told["loop_lag"], 0.99), 100, "ms"),
        Figure("course of 30: word lag p95", percentile(told["word_lag"], 0.95), 0.5, "s"),
        Figure("course of 30: word lag p50", percentile(told["word_lag"], 0.5), None, "s"),
        Figure("course of 30: feed behind p95", percentile(told["feed_lag"], 0.95), 0.3, "s"),
        Figure("course of 30: feed behind p50", percentile(told["feed_lag"], 0.5), None, "s"),
        Figure("course of 30: words lost", told["expected"] - told["words"], 0, "words"),
        Figure("course of 30: runs that did not end well", told["failed"], 0, "runs"),
    ]
