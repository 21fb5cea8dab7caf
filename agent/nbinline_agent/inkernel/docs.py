"""Help, members and sources of objects, found without calling what stands in their classes."""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .functions import BadArguments
    from .resolving import Undefined, named, static
    from .values import _sized, brief, rendered, shortened, signature_text, type_name

SCAN = 500
"""Members or items that a search looks at."""
SOURCE = 12000
"""Characters of a source or help text."""


def inspect_python(names, name, section="help"):
    """Help, signature or source of a live or built-in name."""
    value = _found(name, "", names)
    if section == "signature":
        return {"text": f"{name}{signature_text(value)}"}
    if section == "source":
        return {"text": _source(name, value)}
    return {"text": _help(name, value)}


def show_doc(names, name, module=""):
    """Documentation of a name; a module that is named is imported."""
    return {"text": _help(name, _found(name, module, names))}


def api_names(names, name, module="", query="", limit=30):
    """Public members of an object with what they are."""
    value = _found(name, module, names)
    wanted = query.lower()
    found = [
        {"name": member, "kind": kind, "summary": _summary(part)}
        for member, kind, part in _members(value)
        if wanted in member.lower()
    ]
    return {"total": len(found), "members": found[:limit]}


def search_docs(names, name, query, module="", depth=1, limit=20):
    """Members whose name or docstring has the query in it, some levels deep."""
    wanted = query.lower()
    hits, seen, left = [], set(), [SCAN]

    def search(path, value, level):
        for member, kind, part in _members(value):
            if left[0] <= 0 or len(hits) >= limit:
                return
            left[0] -= 1
            doc = _doc(part)
            if wanted in member.lower() or wanted in doc.lower():
                hits.append({"name": f"{path}.{member}", "kind": kind, "summary": _summary(part)})
            if level > 0 and kind in ("class", "module") and id(part) not in seen:
                seen.add(id(part))
                search(f"{path}.{member}", part, level - 1)

    search(name, _found(name, module, names), depth)
    return {"hits": hits, "complete": left[0] > 0 and len(hits) < limit}


def inspect_value(names, name, start=0, limit=20):
    """A slice of a plain string or container."""
    value = _exactly_plain(name, names)
    if isinstance(value, str):
        part = value[start : start + limit * 100]
        return {"type": "str", "length": len(value), "start": start, "text": part}
    size, items, base = _sized(value)
    page = list(itertools.islice(items, start, start + limit))
    if base is dict:
        shown = [f"{brief(key, 1)}: {brief(dict.get(value, key), 1)}" for key in page]
    else:
        shown = [brief(item, 1) for item in page]
    return {"type": type_name(value), "length": size, "start": start, "items": shown}


def search_value(names, name, query, limit=20):
    """Where a plain string or container has the query in it."""
    value = _exactly_plain(name, names)
    wanted = query.lower()
    if isinstance(value, str):
        return {"hits": _in_text(value, wanted, limit), "scanned": len(value)}
    size, items, base = _sized(value)
    hits = []
    for place, item in enumerate(itertools.islice(items, SCAN)):
        text = brief(item, 1)
        if base is dict:
            text = f"{text}: {brief(dict.get(value, item), 1)}"
        if wanted in text.lower():
            hits.append({"at": place, "text": text})
            if len(hits) >= limit:
                break
    return {"hits": hits, "scanned": min(size, SCAN), "length": size}


def source_files(names, name, module="", limit=30):
    """The file an object comes from, and the Python files beside it."""
    value = _found(name, module, names)
    try:
        path = inspect.getsourcefile(inspect.unwrap(value))
    except TypeError:
        path = None
    if path is None:
        raise BadArguments(f"{name} comes from no Python file")
    if not os.path.isfile(path):
        return {"path": path, "files": [], "note": "it was defined in the notebook"}
    folder = os.path.dirname(path)
    near = sorted(entry for entry in os.listdir(folder) if entry.endswith(".py"))
    return {"path": path, "folder": folder, "total": len(near), "files": near[:limit]}


# Looking


def _found(name, module, names):
    if name.count(".") > 3:
        raise BadArguments("a name has at most four parts")
    if module:
        try:
            names = {**vars(importlib.import_module(module))}
        except ImportError as error:
            raise BadArguments(f"{module} cannot be imported: {error}") from None
    try:
        return static(name, names)
    except Undefined:
        where = f"in {module}" if module else "in the kernel"
        raise BadArguments(f"{name} is not defined {where}") from None


def _exactly_plain(name, names):
    try:
        value = named(name, names)
    except Undefined:
        raise BadArguments(f"{name} is not defined in the kernel") from None
    if type(value) not in (str, list, tuple, dict, set, frozenset, range):
        raise BadArguments(f"{name} is a {type_name(value)}; only plain containers can be sliced")
    if type(value) is str and len(value) > 1000000:
        raise BadArguments(f"{name} has more than a million characters")
    return value


def _doc(value):
    doc = None
    if isinstance(value, types.ModuleType):
        doc = vars(value).get("__doc__")
    elif isinstance(value, type):
        doc = value.__dict__.get("__doc__")
    elif callable(value) or type(value) is property:
        doc = getattr(value, "__doc__", None)
    return inspect.cleandoc(doc) if isinstance(doc, str) else ""


def _summary(value):
    return _doc(value).split("\n")[0][:160]


def _help(name, value):
    head = f"{name}: {type_name(value)}"
    if callable(value):
        head = f"{name}{signature_text(value)}"
    parts = [head, _doc(value)]
    if not callable(value) and not isinstance(value, types.ModuleType):
        parts.append(rendered(value)[0])
    if isinstance(value, type):
        public = [member for member, _, _ in _members(value)]
        parts.append(f"Members: {', '.join(public[:60])}")
    return shortened("\n\n".join(part for part in parts if part), SOURCE)[0]


def _source(name, value):
    try:
        return shortened(inspect.getsource(inspect.unwrap(value)), SOURCE)[0]
    except (OSError, TypeError):
        raise BadArguments(f"the source of {name} cannot be found") from None


def _members(value):
    """Public members: name, kind, and the member itself as it stands in its class or module."""
    holders = [value]
    if isinstance(value, type):
        holders = list(value.__mro__[:-1]) or [value]
    elif not isinstance(value, types.ModuleType):
        holders += list(type(value).__mro__[:-1]) or [type(value)]
    seen = {}
    for holder in holders:
        try:
            held = object.__getattribute__(holder, "__dict__")
        except AttributeError:
            continue
        for member, part in itertools.islice(list(held.items()), SCAN):
            if isinstance(member, str) and not member.startswith("_"):
                seen.setdefault(member, part)
    for member in sorted(seen):
        part = seen[member]
        if isinstance(part, (staticmethod, classmethod)):
            part = part.__func__
        yield member, _member_kind(part), part


def _member_kind(value):
    if isinstance(value, type):
        return "class"
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, property):
        return "property"
    return "function" if inspect.isroutine(value) else type_name(value)


def _in_text(text, wanted, limit):
    hits, place, lower = [], -1, text.lower()
    while len(hits) < limit:
        place = lower.find(wanted, place + 1)
        if place < 0:
            break
        hits.append({"at": place, "text": text[max(0, place - 60) : place + len(wanted) + 60]})
    return hits
