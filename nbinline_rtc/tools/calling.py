"""Making declared tools callable, without reading what does the work before it is needed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")


def callable_here(declared: Callable[P, str]) -> Callable[P, str]:
    """A declared tool as a function that does something where that has a sense."""
    signature = inspect.signature(declared)

    @functools.wraps(declared)
    def call(*args: P.args, **kwargs: P.kwargs) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        from .running import run_here

        return run_here(declared.__name__, bound.arguments)

    return call
