"""Functions of the kernel that a model may call: their schema, and the call itself."""

from __future__ import annotations

import collections
import collections.abc
import enum
import inspect
import json
import re
import typing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .resolving import Undefined, named
    from .values import error_line, signature_text

DESCRIPTION = 1000
"""Characters of a docstring that go into the schema."""

_PLAIN = {
    str: {"type": "string"},
    bytes: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    complex: {"type": "string"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    frozenset: {"type": "array"},
    dict: {"type": "object"},
}
_ARRAYS = (
    *(list, set, frozenset, collections.deque, collections.abc.Sequence),
    *(collections.abc.Iterable, collections.abc.Collection, collections.abc.Set),
)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class BadArguments(Exception):
    """The arguments do not fit the function."""


def functions(names_asked, names):
    """Description and schema of several functions; ``problem`` says why one cannot be called."""
    return {name: _function(name, names) for name in names_asked}


def _function(name, names):
    try:
        value = named(name, names)
    except Undefined:
        return {"problem": "not defined in the kernel"}
    if not callable(value):
        return {"problem": "not a function"}
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return {"problem": "it does not tell its parameters"}
    except Exception as error:
        return {"problem": f"its signature raised {error_line(error)}"}
    text = inspect.getdoc(value) or ""
    return {
        "description": text[:DESCRIPTION] or f"{name}{signature_text(value)}",
        "parameters": _schema(signature, _hints(value), text),
        "problem": "",
    }


def _hints(value):
    """Annotations as objects; as they are written where they cannot be looked up."""
    function = value.__init__ if isinstance(value, type) else value
    if not inspect.isroutine(function):
        function = type(value).__call__
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except TypeError:  # Python 3.8 knows no include_extras
        pass
    except Exception:
        return {}
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except Exception:
        return {}


def _schema(signature, hints, doc):
    described = _parameter_docs(doc)
    properties, required = {}, []
    for name, parameter in signature.parameters.items():
        annotation = hints.get(name, parameter.annotation)
        schema = _type_schema(annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            schema = {"type": "array", "items": schema}
        elif parameter.kind is parameter.VAR_KEYWORD:
            schema = {"type": "object", "additionalProperties": schema or True}
        elif parameter.default is parameter.empty:
            required.append(name)
        else:
            schema = dict(schema, **_default(parameter.default))
        if name in described and "description" not in schema:
            schema = dict(schema, description=described[name])
        properties[name] = schema
    whole = {"type": "object", "properties": properties, "additionalProperties": False}
    return dict(whole, required=required) if required else whole


def _default(value):
    if isinstance(value, (str, int, float, bool, type(None))) and len(repr(value)) <= 200:
        return {"default": value}
    return {}


def _type_schema(annotation, depth=4):
    """JSON schema of an annotation; empty, which allows everything, for what has none."""
    if depth == 0 or annotation is inspect.Parameter.empty or annotation is typing.Any:
        return {}
    try:
        if annotation in _PLAIN:
            return dict(_PLAIN[annotation])
    except TypeError:
        return {}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation if _is_json(member.value)]}
    if annotation is None:
        return {"type": "null"}
    return _generic_schema(annotation, depth)


def _generic_schema(annotation, depth):
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated
        notes = [note for note in annotation.__metadata__ if isinstance(note, str)]
        schema = _type_schema(arguments[0] if arguments else annotation.__origin__, depth)
        return dict(schema, description=notes[0]) if notes else schema
    if origin is typing.Literal:
        return {"enum": [value for value in arguments if _is_json(value)]}
    if origin is typing.Union or type(annotation).__name__ == "UnionType":
        return _union([_type_schema(part, depth - 1) for part in arguments])
    if origin is tuple:
        item = arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else None
        schema = {"type": "array"}
        return schema if item is None else dict(schema, items=_type_schema(item, depth - 1))
    if origin in _ARRAYS or annotation in _ARRAYS:
        item = _type_schema(arguments[0], depth - 1) if arguments else {}
        return {"type": "array", "items": item} if item else {"type": "array"}
    if origin in _OBJECTS or annotation in _OBJECTS:
        value = _type_schema(arguments[1], depth - 1) if len(arguments) == 2 else {}
        schema = {"type": "object"}
        return dict(schema, additionalProperties=value) if value else schema
    return {}


def _union(parts):
    if any(not part for part in parts):
        return {}
    if len(parts) == 1:
        return parts[0]
    simple = [part["type"] for part in parts if set(part) == {"type"}]
    return {"type": simple} if len(simple) == len(parts) else {"anyOf": parts}


def _is_json(value):
    return isinstance(value, (str, int, float, bool, type(None)))


_GOOGLE = re.compile(r"^ {2,8}\*{0,2}(\w+)(?: ?\([^)]*\))?: +(\S.*)$")
_SPHINX = re.compile(r"^:param (?:[\w\[\], ]+ )?\*{0,2}(\w+): *(\S.*)$")
_NUMPY = re.compile(r"^\*{0,2}(\w+) : \S")


def _parameter_docs(doc):
    """What a docstring in Google's, Sphinx's or numpy's manner says of single parameters."""
    found = {}
    lines = doc.split("\n")
    for number, line in enumerate(lines):
        match = _GOOGLE.match(line) or _SPHINX.match(line)
        if match:
            found.setdefault(match.group(1), match.group(2).strip()[:300])
        elif _NUMPY.match(line) and lines[number + 1 : number + 2]:
            text = lines[number + 1].strip()
            if text:
                found.setdefault(_NUMPY.match(line).group(1), text[:300])
    return found


def bound(name, arguments, names):
    """A function of the kernel and its arguments, checked to fit.

    Raises:
        BadArguments: There is no such function, or they do not fit.
    """
    try:
        function = named(name, names)
    except Undefined:
        raise BadArguments(f"{name} is not defined in the kernel any more") from None
    try:
        signature = inspect.signature(function)
        positional, by_name = _split(signature, arguments, _hints(function))
        signature.bind(*positional, **by_name)
    except (TypeError, ValueError) as error:
        raise BadArguments(f"the arguments do not fit {name}: {error}") from None
    return function, positional, by_name


def _split(signature, arguments, hints):
    """The model's named arguments as the function takes them."""
    arguments = dict(arguments)
    positional, by_name = [], {}
    parameters = list(signature.parameters.values())
    rest = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    extra = arguments.pop(rest[0], []) if rest else []
    if not isinstance(extra, list):
        raise TypeError(f"{rest[0]} must be a list")
    for parameter in parameters:
        name = parameter.name
        by_place = parameter.kind is parameter.POSITIONAL_ONLY
        by_place |= bool(extra) and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if parameter.kind is parameter.VAR_KEYWORD:
            more = arguments.pop(name, {})
            if not isinstance(more, dict):
                raise TypeError(f"{name} must be an object")
            by_name.update(more)
        elif name in arguments:
            value = _converted(arguments.pop(name), hints.get(name))
            if by_place:
                positional.append(value)
            else:
                by_name[name] = value
        elif by_place and parameter.default is not parameter.empty:
            positional.append(parameter.default)
    by_name.update(arguments)  # unknown ones: binding says so
    return positional + extra, by_name


_MADE_OF_LISTS = (tuple, set, frozenset, collections.deque)


def _converted(value, annotation):
    """JSON has only lists; and an enumeration's members go by their values."""
    kind = typing.get_origin(annotation) or annotation
    if isinstance(value, list) and kind in _MADE_OF_LISTS:
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    return value


def json_of(text, kind, what):
    """JSON text of one kind.

    Raises:
        BadArguments: It is something else.
    """
    try:
        value = json.loads(text)
    except ValueError:
        raise BadArguments(f"{what} is not valid JSON") from None
    if not isinstance(value, kind):
        raise BadArguments(f"{what} must be a JSON {'array' if kind is list else 'object'}")
    return value
