"""What the kernel knows by name: types and sizes, no values and no properties."""

from __future__ import annotations

import itertools
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .values import _of, _sized, type_name

LISTED_COLUMNS = 20
"""Columns of a frame that are listed."""


def own_names(names, hidden):
    """The person's names: neither IPython's own nor private ones."""
    for name, value in list(names.items()):
        if name.startswith("_") or (name in hidden and hidden[name] is value):
            continue
        yield name, value


def variables(names, hidden, query="", kinds="variables", start=0, limit=200):
    """A page of the names: ``{"total", "variables": [{"name", "type", …}]}``.

    Args:
        names: The kernel's names.
        hidden: Names that IPython put there.
        query: Only names with this in them, whatever the case.
        kinds: ``variables``, ``functions``, ``modules`` or ``all``.
        start: How many to pass over.
        limit: How many at most.
    """
    query = query.lower()
    found = [
        (name, value)
        for name, value in own_names(names, hidden)
        if query in name.lower() and (kinds == "all" or _kind(value) == kinds)
    ]
    page = found[start : start + limit]
    return {"total": len(found), "variables": [_described(name, value) for name, value in page]}


def search_kernel_names(names, hidden, query, limit=20):
    """Public names with the query in them, and what they are."""
    wanted = query.lower()
    found = [
        {"name": name, "type": type_name(value)}
        for name, value in own_names(names, hidden)
        if wanted in name.lower()
    ]
    found.sort(key=lambda each: each["name"])
    return {"total": len(found), "names": found[:limit]}


def _kind(value):
    if isinstance(value, types.ModuleType):
        return "modules"
    code = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
    return "functions" if isinstance(value, code) else "variables"


def _described(name, value):
    entry = {"name": name, "type": type_name(value)}
    try:
        entry.update(_measures(value))
    except Exception:
        entry["note"] = "its size could not be read"
    return entry


def _measures(value):
    """Sizes that plain types and well-known libraries give without running anybody's code."""
    known = _sized(value)
    if known is not None:
        return {"length": known[0]}
    if isinstance(value, (str, bytes, bytearray)):
        base = next(base for base in (str, bytes, bytearray) if isinstance(value, base))
        return {"length": base.__len__(value)}
    if _of(value, "pandas", "DataFrame"):
        dtypes = zip(value.columns[:LISTED_COLUMNS], value.dtypes.iloc[:LISTED_COLUMNS])
        return _frame(value.shape, dtypes)
    if _of(value, "polars", "DataFrame"):
        return _frame(value.shape, itertools.islice(value.schema.items(), LISTED_COLUMNS))
    if _of(value, "numpy", "ndarray"):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if _of(value, "pandas", "Series", "Index") or _of(value, "polars", "Series"):
        return {"length": len(value), "dtype": str(value.dtype)}
    if _of(value, "torch", "Tensor"):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    return {}


def _frame(shape, columns):
    listed = {str(name)[:60]: str(kind)[:40] for name, kind in columns}
    return {"shape": list(shape), "columns": listed}
