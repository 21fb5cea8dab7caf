"""The grammar of ``$`` and ``&`` references in questions and notes: finding them, not their values.

A reference is a sign and a code span: ``$`df.dtypes` `` for a live value, ``&`add_bonus` `` for a
function that the model may call. Inside a fenced block, inside a code span of two or more
backticks, and behind a backslash it is plain text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nbinline_agent.document.notebook import Cell

from .marks import Role, marks, role

MAX_NAMES = 20
"""Distinct references of one run, values and functions together."""
MAX_LENGTH = 200
"""Characters of one reference."""

NOT_PLAIN = "only names, attributes and items can be referred to, not calls or operations"
NOT_A_NAME = "only the plain name of a function can be offered"
TOO_LONG = f"a reference has at most {MAX_LENGTH} characters"

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TOKEN = re.compile(r"(?P<escape>\\[\s\S])|(?P<sign>[$&](?=`(?!`)))?(?P<ticks>`+)")


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference as it stands in the text.

    Attributes:
        kind: ``value`` for ``$``, ``function`` for ``&``.
        expression: What stands between the backticks, without white space around it.
        name: The variable or function it begins with; empty if there is a problem.
        start: First character in the text.
        end: Character behind the last one.
        problem: Why it cannot be looked up, or an empty string.
    """

    kind: Literal["value", "function"]
    expression: str
    name: str
    start: int
    end: int
    problem: str = ""


def find(text: str) -> list[Reference]:
    """All references of the text, in order."""
    return [reference for part in _outside_fences(text) for reference in _in_prose(text, *part)]


def _outside_fences(text: str) -> Iterator[tuple[int, int]]:
    """Where the text is not a fenced block."""
    fence = ""
    begin = position = 0
    for line in text.splitlines(keepends=True):
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence) and not marker[2].strip():
                fence = ""
                begin = position + len(line)
        elif marker and not (marker[1][0] == "`" and "`" in marker[2]):
            yield begin, position
            fence = marker[1]
        position += len(line)
    if not fence:
        yield begin, position


def _in_prose(text: str, begin: int, end: int) -> Iterator[Reference]:
    position = begin
    while token := _TOKEN.search(text, position, end):
        position = token.end()
        if token["escape"]:
            continue
        closing = _closing(text, token["ticks"], position, end)
        if closing is None:
            continue
        if token["sign"]:
            expression = text[position:closing]
            yield _parsed(token["sign"], expression, token.start(), closing + 1)
        position = closing + len(token["ticks"])


def _closing(text: str, ticks: str, position: int, end: int) -> int | None:
    """Where a run of exactly as many backticks begins, in the same paragraph."""
    paragraph = text.find("\n\n", position, end)
    end = end if paragraph < 0 else paragraph
    while True:
        found = text.find(ticks, position, end)
        if found < 0:
            return None
        run = found
        while run < end and text[run] == "`":
            run += 1
        if run - found == len(ticks):
            return found
        position = run


def _parsed(sign: str, written: str, start: int, end: int) -> Reference:
    expression = written.strip()
    kind: Literal["value", "function"] = "value" if sign == "$" else "function"
    try:
        name = _name_of(expression, kind)
    except ValueError as error:
        return Reference(kind, expression, "", start, end, str(error))
    return Reference(kind, expression, name, start, end)


def _name_of(expression: str, kind: str) -> str:
    if len(expression) > MAX_LENGTH:
        raise ValueError(TOO_LONG)
    if kind == "function":
        if not expression.isidentifier():
            raise ValueError(NOT_A_NAME)
        return expression
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(NOT_PLAIN) from None
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            node = node.value
        elif isinstance(node, ast.Subscript) and _plain_index(node.slice):
            node = node.value
        else:
            raise ValueError(NOT_PLAIN)
    return node.id


def _plain_index(node: ast.expr) -> bool:
    """Whether it is a literal, a slice of literals, or a tuple of these."""
    match node:
        case ast.Constant():
            return True
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float())):
            return True
        case ast.Slice(lower=lower, upper=upper, step=step):
            return all(part is None or _plain_index(part) for part in (lower, upper, step))
        case ast.Tuple(elts=parts):
            return all(map(_plain_index, parts))
        case _:
            return False


def distinct(references: Iterable[Reference]) -> tuple[list[Reference], list[Reference]]:
    """The first of each kind and expression that can be looked up, up to ``MAX_NAMES``.

    Returns:
        Those that are looked up, and those beyond the limit.
    """
    seen: dict[tuple[str, str], Reference] = {}
    for reference in references:
        if not reference.problem:
            seen.setdefault((reference.kind, reference.expression), reference)
    found = list(seen.values())
    return found[:MAX_NAMES], found[MAX_NAMES:]


def substitute(
    text: str, references: Sequence[Reference], replacement: Callable[[Reference], str | None]
) -> str:
    """The text with references replaced; one that is replaced by None stays as it is."""
    parts: list[str] = []
    position = 0
    for reference in references:
        new = replacement(reference)
        if new is not None:
            parts += (text[position : reference.start], new)
            position = reference.end
    return "".join((*parts, text[position:]))


@dataclass(frozen=True, slots=True)
class Declarations:
    """Functions that the notebook offers for a question.

    Attributes:
        offered: Names, in the order of their first declaration.
        disabled: Names that stand only in cells whose Tools box is off.
    """

    offered: Sequence[str]
    disabled: Sequence[str]


def declared(cells: Sequence[Cell], target: int) -> Declarations:
    """Functions declared in the question, and in notes and questions above it.

    Answers, code, raw cells and everything below declare nothing.
    """
    offered: dict[str, None] = {}
    disabled: dict[str, None] = {}
    for index in range(target + 1):
        cell = cells[index]
        if cell.kind != "markdown" or "&`" not in cell.source:
            continue
        mark = marks(cell)
        if role(cell, mark) is Role.ANSWER:
            continue
        into = disabled if mark.get("toolsInclude") is False and index != target else offered
        for reference in find(cell.source):
            if reference.kind == "function" and not reference.problem:
                into.setdefault(reference.name)
    return Declarations(list(offered), [name for name in disabled if name not in offered])
