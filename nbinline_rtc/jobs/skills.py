"""Skills of installed packages: modules named by entry points, read without importing them."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from .below import Refused, text_of
from .python_docs import parsed

GROUP = "pyskills"
"""Group of entry points that name skills."""

MAX_FILE = 1_000_000
"""Bytes of a skill's file."""


def skills(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """Every skill whose name, module or first line has the query in it."""
    query = job["query"].lower()
    for point in _points():
        first = ""
        with contextlib.suppress(Refused):
            first = (_docstring(point.module).strip() or "").split("\n", 1)[0]
        if query in f"{point.name} {point.module} {first}".lower():
            yield {"name": point.name, "module": point.module, "summary": first[:200]}


def skill(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """The docstring of one skill's module; only modules that an entry point names are read."""
    wanted = job["module"]
    named = {point.module for point in _points() if wanted in (point.name, point.module)}
    if not named:
        raise Refused(f"No installed package offers a skill {wanted!r}; list_skills names them.")
    yield _docstring(sorted(named)[0]) or "The skill has no text."


def _points() -> list[EntryPoint]:
    return sorted(set(entry_points(group=GROUP)), key=lambda point: (point.name, point.value))


def _docstring(module: str) -> str:
    path = _source_of(module)
    if path is None:
        raise Refused(f"The module {module!r} has no source file that can be read.")
    with open(path, "rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise Refused(f"The module {module!r} is larger than {MAX_FILE:,} bytes.")
    return ast.get_docstring(parsed(text_of(data, module), module)) or ""


def _source_of(module: str) -> Path | None:
    """Where a module's source is, found without importing the packages it is in."""
    search: list[str] | None = list(sys.path)
    origin: str | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, search)
        if spec is None:
            return None
        origin = spec.origin
        search = list(spec.submodule_search_locations or ())
    return Path(origin) if origin and origin.endswith(".py") else None


JOBS = {"skills": skills, "skill": skill}
