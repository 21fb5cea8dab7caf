"""Finding the object an expression names: names, attributes and items, never a call."""

from __future__ import annotations

import ast
import builtins
import inspect


class Undefined(Exception):
    """The kernel has no such name."""


class NotPlain(Exception):
    """The expression is more than names, attributes and items."""


def resolve(expression, names):
    """The object an expression names.

    Args:
        expression: ``name``, followed by attributes and items with literal indexes.
        names: The kernel's names.

    Raises:
        Undefined: The name does not exist.
        NotPlain: It is another kind of expression.
        BaseException: What an attribute or item raised.
    """
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise NotPlain from None
    steps = []
    while not isinstance(node, ast.Name):
        steps.append(node)
        if not isinstance(node, (ast.Attribute, ast.Subscript)):
            raise NotPlain
        node = node.value
    value = named(node.id, names)
    for step in reversed(steps):
        if isinstance(step, ast.Attribute):
            value = getattr(value, step.attr)
        else:
            value = value[_index(step.slice)]
    return value


def named(name, names):
    """A name of the kernel, or a built-in one.

    Raises:
        Undefined: There is neither.
    """
    if name in names:
        return names[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    raise Undefined(name)


def _index(node):
    node = getattr(node, "value", node) if type(node).__name__ == "Index" else node  # Python 3.8
    if isinstance(node, ast.Slice):
        bounds = (node.lower, node.upper, node.step)
        return slice(*(None if bound is None else _index(bound) for bound in bounds))
    if type(node).__name__ == "ExtSlice":
        return tuple(_index(part) for part in node.dims)
    if isinstance(node, ast.Tuple):
        return tuple(_index(part) for part in node.elts)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise NotPlain from None


def static(path, names):
    """A dotted name, looked up without calling properties or ``__getattr__``.

    Raises:
        Undefined: It does not exist, or only code could give it.
    """
    first, *rest = path.split(".")
    value = named(first, names)
    for part in rest:
        try:
            value = inspect.getattr_static(value, part)
        except AttributeError:
            raise Undefined(path) from None
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
    return value
