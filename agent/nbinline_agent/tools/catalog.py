"""The 51 tools that existing notes name: declarations by name, groups, descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType

from .declarations import executing, files, inspecting, notebooks, web
from .groups import GROUPS

__all__ = ["DECLARED", "GROUPS", "description"]

Declaration = Callable[..., str]


def _declared() -> dict[str, Declaration]:
    return {
        name: value
        for module in (inspecting, executing, files, notebooks, web)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }


DECLARED: Mapping[str, Declaration] = MappingProxyType(_declared())
"""Every declaration by name; signature, defaults and docstring are the contract."""


def description(name: str) -> str:
    """What a tool does, in a line or two.

    Raises:
        KeyError: It is none of the declared ones.
    """
    return (inspect.getdoc(DECLARED[name]) or "").split("\n\n", 1)[0].replace("\n", " ")
