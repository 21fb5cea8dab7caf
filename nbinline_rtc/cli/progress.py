"""Progress bars, for people at a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def followed(items: Sequence[T], label: str, *, enabled: bool = True) -> Iterable[T]:
    """The items, with a bar on standard error while they are gone through.

    Args:
        items: What is gone through.
        label: Stands before the bar.
        enabled: Whether there is anything to wait for.
    """
    if not enabled or not sys.stderr.isatty():
        return items
    return _with_bar(items, label)


def _with_bar(items: Sequence[T], label: str) -> Iterator[T]:
    from tqdm import tqdm

    yield from tqdm(items, desc=label, file=sys.stderr, leave=False)
