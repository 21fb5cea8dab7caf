"""Finding references, and what counts as one."""

from __future__ import annotations

from typing import Any

import pytest

from nbinline_agent.context import references
from nbinline_agent.context.references import Reference, declared, distinct, find, substitute
from nbinline_agent.document.notebook import Cell
from nbinline_agent.ids import CellId


def named(text: str) -> list[tuple[str, str, str]]:
    return [(one.kind, one.expression, one.name) for one in find(text)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("$`df`", "df"),
        ("$` df `", "df"),
        ("$`df.dtypes`", "df"),
        ('$`model.params["lr"]`', "model"),
        ("$`model.params['a b']`", "model"),
        ("$`rows[0]`", "rows"),
        ("$`rows[-1]`", "rows"),
        ("$`rows[1:10:2]`", "rows"),
        ("$`rows[:-3]`", "rows"),
        ("$`a.b[0].c['x'][1:]`", "a"),
        ("$`frame.loc[0, 'col']`", "frame"),
        ("$`array[..., 1:2]`", "array"),
        ("$`größe`", "größe"),
        ("$`flags[True]`", "flags"),
        ("$`table[None]`", "table"),
    ],
)
def test_values(text: str, name: str) -> None:
    (found,) = find(text)
    assert (found.kind, found.name, found.problem) == ("value", name, "")
    assert text[found.start : found.end] == text


@pytest.mark.parametrize(
    "expression",
    [
        *("f()", "a.b()", "a + b", "a[b]", "a[f()]", "a[1 + 2]", "1", "'text'", "[1]", "lambda: 1"),
        *(
            "a if b else c",
            "not a",
            "-a",
            "a.",
            ".a",
            "a b",
            "import os",
            "x := 1",
            "a[b:2]",
            "x=1",
        ),
        *("a[[0]]", "a[{}]", "a[*b]", "f'{a}'", "await a", " ", "a\x00", "(" * 150, "a[-'x']"),
    ],
)
def test_not_plain(expression: str) -> None:
    (found,) = find(f"see $`{expression}` here")
    assert found.name == ""
    assert found.problem == references.NOT_PLAIN


def test_too_long() -> None:
    (found,) = find(f"$`{'a' * 201}`")
    assert found.problem == references.TOO_LONG


@pytest.mark.parametrize("name", ["add_bonus", "größe"])
def test_functions(name: str) -> None:
    assert named(f"Use &`{name}`.") == [("function", name, name)]


@pytest.mark.parametrize("name", ["a.b", "f()", "a b", "1x", " "])
def test_functions_have_plain_names(name: str) -> None:
    (found,) = find(f"&`{name}`")
    assert found.problem == references.NOT_A_NAME


@pytest.mark.parametrize(
    "text",
    [
        "no references, $5 and R&D",
        "$x and &y",
        "`$x` and `&y`",
        "\\$`x`",
        "\\&`f`",
        "`` $`x` ``",
        "``` $`x` ```",
        "```\n$`x`\n```",
        "```python\n$`x`\n&`f`\n",
        "~~~\n```\n$`x`\n~~~",
        "````\n```\n$`x`\n```\n````",
        "   ```\n$`x`\n   ```",
        "$``x``",
        "$`open",
        "$`x\n\ny`",
        "$ `x`",
    ],
)
def test_text_that_is_no_reference(text: str) -> None:
    assert find(text) == []


def test_order_and_places() -> None:
    text = "a $`x` b \\$`y` `code $`z` c\n```\n$`no`\n```\nd &`f` and \\\\$`w`"
    assert [one.expression for one in find(text)] == ["x", "f", "w"]
    for one in find(text):
        assert text[one.start] in "$&"
        assert text[one.start : one.end].endswith("`")


def test_distinct_names_are_limited() -> None:
    text = " ".join(f"$`x{n % 25}` &`x{n % 25}` $`f()`" for n in range(50))
    taken, beyond = distinct(find(text))
    assert len(taken) == 20
    assert len(beyond) == 30
    assert [one.expression for one in taken[:4]] == ["x0", "x0", "x1", "x1"]


def test_substitution_keeps_everything_else() -> None:
    text = "mean of $`x` and $`y`, \\$`x`, $`x`"

    def value(reference: Reference) -> str | None:
        return {"x": "4 $`y`"}.get(reference.name)

    assert substitute(text, find(text), value) == "mean of 4 $`y` and $`y`, \\$`x`, 4 $`y`"
    assert substitute(text, [], value) == text


def cell(source: str, kind: str = "markdown", **mark: Any) -> Cell:
    return Cell(
        id=CellId("c"),
        kind=kind,
        source=source,
        metadata={"nbinlineai": mark},
        execution_count=None,
        outputs=(),
        attachments={},
    )


def test_functions_are_declared_in_notes_and_questions_above() -> None:
    cells = [
        cell("&`from_note` and $`value`"),
        cell("&`from_code`", "code"),
        cell("&`from_raw`", "raw"),
        cell("&`from_question`", isPromptCell=True),
        cell("&`from_answer`", isOutputCell=True, promptCellId="c"),
        cell("&`off` &`from_note`", toolsInclude=False),
        cell("```\n&`fenced`\n```"),
        cell("&`mine` &`bad.name`", isPromptCell=True, toolsInclude=False),
        cell("&`below`"),
    ]
    found = declared(cells, 7)
    assert found.offered == ["from_note", "from_question", "mine"]
    assert found.disabled == ["off"]
