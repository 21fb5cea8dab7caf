"""JSON schemas as short as they can be said: they are paid for with every request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbinline_agent.messages import JsonValue

WITHOUT = ("title", "maxLength", "minLength", "additionalProperties")
"""Keywords that a model does not need: a call that breaks them is answered with what is wrong."""


def compact(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """A schema of pydantic's without what only repeats names or states obvious bounds.

    ``Optional`` becomes the type alone where the field need not be given; definitions are put
    where they are used.
    """
    definitions = schema.get("$defs", {})
    shortened = _short(dict(schema), definitions)
    assert isinstance(shortened, dict)
    shortened.pop("$defs", None)
    shortened.pop("description", None)
    return shortened


def _short(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_short(each, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = str(value["$ref"]).rsplit("/", 1)[-1]
        rest = {key: each for key, each in value.items() if key != "$ref"}
        meant = {key: each for key, each in definitions[name].items() if key != "description"}
        return _short({**meant, **rest}, definitions)
    kept = {key: each for key, each in value.items() if key not in WITHOUT}
    kept = _without_null(kept)
    if "properties" in kept:
        kept["properties"] = {
            name: _short(each, definitions) for name, each in kept["properties"].items()
        }
    return {
        key: each
        if key in ("properties", "default", "enum", "const")
        else _short(each, definitions)
        for key, each in kept.items()
    }


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    choices = field.get("anyOf")
    if choices is None or field.get("default", ...) is not None:
        return field
    real = [choice for choice in choices if choice != {"type": "null"}]
    rest = {key: each for key, each in field.items() if key not in ("anyOf", "default")}
    return {**rest, **real[0]} if len(real) == 1 else {**rest, "anyOf": real}
