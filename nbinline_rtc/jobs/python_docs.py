"""Docstrings and signatures of a Python file that is parsed, never imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nbinline_agent.context.hiding import HIDDEN, hide_in_place

from .below import Place, Refused, read, text_of

MAX_FILE = 1_000_000
"""Bytes of a Python file."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def python_doc(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """The documentation of a file, or of one definition in it."""
    place = Place(Path(job["root"]), tuple(job["parts"]))
    text = text_of(read(place, MAX_FILE).data, place.shown)
    tree = parsed(without_hidden(text) if job["hide_solutions"] else text, place.shown)
    symbol: str = job["symbol"]
    if not symbol:
        yield _module(tree)
        return
    node = _find(tree, symbol)
    if node is None:
        raise Refused(f"There is no {symbol!r} in {place.shown!r}.")
    yield _whole(node)


def without_hidden(text: str) -> str:
    """Python whose hidden parts became empty statements, line by line where they stood."""
    return hide_in_place(text).replace(HIDDEN, "pass")


def parsed(text: str, shown: str) -> ast.Module:
    """The file's tree.

    Raises:
        Refused: It is not valid Python.
    """
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"{shown!r} is not valid Python: {error}.") from None


def _module(tree: ast.Module) -> str:
    parts = [ast.get_docstring(tree) or "", *map(_line, _public(tree.body))]
    return "\n\n".join(filter(None, parts)) or "There is no documentation and no definition."


def _public(body: list[ast.stmt]) -> list[Definition]:
    return [
        node
        for node in body
        if isinstance(node, Definition)
        and (not node.name.startswith("_") or node.name == "__init__")
    ]


def _find(tree: ast.Module, symbol: str) -> Definition | None:
    body: list[ast.stmt] = tree.body
    found: Definition | None = None
    for name in symbol.split("."):
        named = [node for node in body if isinstance(node, Definition) and node.name == name]
        if not named:
            return None
        found = named[-1]
        body = found.body
    return found


def _whole(node: Definition) -> str:
    parts = [_head(node), ast.get_docstring(node) or ""]
    if isinstance(node, ast.ClassDef):
        parts += map(_line, _public(node.body))
    return "\n\n".join(filter(None, parts))


def _line(node: Definition) -> str:
    doc = (ast.get_docstring(node) or "").split("\n", 1)[0]
    return f"{_head(node)}\n    {doc}" if doc else _head(node)


def _head(node: Definition) -> str:
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in (*node.bases, *node.keywords))
        return f"class {node.name}({bases})" if bases else f"class {node.name}"
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{word} {node.name}({ast.unparse(node.args)}){returns}"


JOBS = {"python-doc": python_doc}
