"""The tools that look at names, documentation and values of a real kernel."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from pydantic import ValidationError

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.edits import short_hash
from nbinline_agent.testing import code, open_notebook
from nbinline_agent.tools.base import ToolError
from tests.extension.kernels import Context, kernel_of, run, use

Looking = Callable[..., AbstractAsyncContextManager[Context]]

DEFINED = '''
import json, math
class Shape:
    """A flat shape.

    It has an area."""
    sides = 4
    def area(self, scale: float = 1.0) -> float:
        "Area in square metres."
        return scale
    @property
    def bomb(self):
        "Never looked at."
        raise SystemExit
    @classmethod
    def unit(cls): "The unit shape."
    def _private(self): pass

def shrink(values: list, by: int = 2):
    """Divide every value.

    Args:
        values: What to divide.
    """
    return [value / by for value in values]

shape = Shape()
words = {f'word{n}': n for n in range(1000)}
text = 'alpha beta ' * 100
numbers = list(range(5000))
class Sly(dict): pass
sly = Sly(a=1)
'''


@pytest.fixture
def looking(jp_serverapp: Any) -> Looking:
    """A kernel in which something is defined."""
    kernel = kernel_of(jp_serverapp)

    @contextlib.asynccontextmanager
    async def opened(source: str = DEFINED) -> AsyncIterator[Context]:
        async with kernel() as python, open_notebook([code(source, "c0")]) as (notebook, _):
            await run(python, source)
            yield Context(notebook, python)

    return opened


async def text(context: Context, tool: str, /, **arguments: Any) -> str:
    return (await use(context, tool, **arguments)).text


async def test_names_and_their_types(looking: Looking) -> None:
    async with looking() as context:
        assert await text(context, "search_kernel_names", query="SHA") == (
            "Shape: type\nshape: Shape"
        )
        assert await text(context, "search_kernel_names", query="nothing") == "No such names."
        limited = await text(context, "search_kernel_names", query="", limit=2)
        assert "more]" in limited
        with pytest.raises(ValidationError):
            await text(context, "search_kernel_names", query="x" * 101)


async def test_help_signature_and_source(looking: Looking) -> None:
    async with looking() as context:
        helped = await text(context, "inspect_python", name="shrink")
        assert helped.startswith("shrink(values: list, by: int = 2)")
        assert "Divide every value." in helped
        signature = await text(context, "inspect_python", name="Shape.area", section="signature")
        assert signature == "Shape.area(self, scale: float = 1.0) -> float"
        source = await text(context, "inspect_python", name="shrink", section="source")
        assert "return [value / by for value in values]" in source
        assert "A flat shape." in await text(context, "inspect_python", name="Shape")
        assert "Members: area, bomb, sides, unit" in await text(context, "show_doc", name="Shape")
        assert "Encode" in await text(
            context, "inspect_python", name="json.JSONEncoder.encode"
        ) or (
            "JSON string" in await text(context, "inspect_python", name="json.JSONEncoder.encode")
        )
        assert "print" in await text(context, "inspect_python", name="print")
        for name in ("nothing", "shape.nothing", "a.b.c.d.e"):
            with pytest.raises(ToolError, match=r"not defined|four parts"):
                await text(context, "inspect_python", name=name)
        with pytest.raises(ToolError, match="source"):
            await text(context, "inspect_python", name="len", section="source")
        with pytest.raises(ValidationError):
            await text(context, "inspect_python", name="x", section="all")


async def test_a_named_module_is_imported(looking: Looking) -> None:
    async with looking() as context:
        shown = await text(context, "show_doc", name="capwords", module="string")
        assert "capwords(s, sep=None)" in shown
        with pytest.raises(ToolError, match="cannot be imported"):
            await text(context, "show_doc", name="x", module="no_such_module")


async def test_members_without_touching_properties(looking: Looking) -> None:
    async with looking() as context:
        members = await text(context, "api_names", name="shape")
        assert members.splitlines() == [
            "area (function): Area in square metres.",
            "bomb (property): Never looked at.",
            "sides (int)",
            "unit (function): The unit shape.",
        ]
        assert await text(context, "api_names", name="Shape", query="AR") == (
            "area (function): Area in square metres."
        )
        found = await text(context, "search_docs", name="Shape", query="metres")
        assert found == "Shape.area (function): Area in square metres."
        deep = await text(context, "search_docs", name="json", query="decoder", depth=2)
        assert "json.JSONDecoder (class)" in deep


async def test_slices_and_searches_of_plain_values(looking: Looking) -> None:
    async with looking() as context:
        page = await text(context, "inspect_value", name="numbers", start=4998)
        assert page == "list, length 5,000, from 4,998:\n4998\n4999"
        page = await text(context, "inspect_value", name="words", limit=2)
        assert page.endswith("'word0': 0\n'word1': 1")
        assert "alpha beta" in await text(context, "inspect_value", name="text", limit=1)
        hits = await text(context, "search_value", name="words", query="WORD49", limit=3)
        assert hits.startswith("49: 'word49': 49\n490:")
        assert "only the first 500 items" in hits
        assert "0: alpha" in await text(context, "search_value", name="text", query="alpha")
        for name in ("sly", "shape", "nothing"):
            with pytest.raises(ToolError):
                await text(context, "inspect_value", name=name)


async def test_where_things_come_from(looking: Looking) -> None:
    async with looking() as context:
        files = await text(context, "source_files", name="json.dumps", limit=3)
        assert files.splitlines()[0].endswith("json/__init__.py")
        assert "  decoder.py" in files
        assert "defined in the notebook" in await text(context, "source_files", name="shrink")
        with pytest.raises(ToolError, match="no Python file"):
            await text(context, "source_files", name="math.sin")


async def test_a_call_step_by_step(looking: Looking) -> None:
    async with looking() as context:
        told = await text(context, "trace_function", name="shrink", args_json="[[2, 4]]")
        assert "call shrink, line" in told
        assert "values = [2, 4], by = 2" in told
        assert told.endswith("shrink returned [1.0, 2.0]")
        told = await text(
            context, "trace_function", name="shrink", kwargs_json='{"values": [1], "by": 0}'
        )
        assert "raised ZeroDivisionError" in told
        with pytest.raises(ToolError, match="do not fit"):
            await text(context, "trace_function", name="shrink")


SOLVED = """
def solve():
    ### BEGIN SOLUTION
    return 'secret'
    ### END SOLUTION
print(solve())
"""


async def test_what_the_course_hides_stays_hidden(looking: Looking) -> None:
    async with looking(SOLVED) as context:
        source = await text(context, "inspect_python", name="solve", section="source")
        assert "def solve" in source
        assert "secret" not in source
        ran = await use(context, "run_cell", cell_id="c0", expected_source=short_hash(SOLVED))
        assert "secret" not in ran.text
        assert "hidden by the course" in ran.text
        context.policy = Policy(hide_solutions=False)
        assert "secret" in await text(context, "inspect_python", name="solve", section="source")
        ran = await use(context, "run_cell", cell_id="c0", expected_source=short_hash(SOLVED))
        assert "secret" in ran.text


async def test_without_the_right_to_kernels(looking: Looking) -> None:
    async with looking("x = 1") as context:
        context.kernel = None
        for name, arguments in {
            "search_kernel_names": {"query": "x"},
            "list_variables": {},
            "run_code": {"code": "1"},
            "restart_kernel": {},
        }.items():
            with pytest.raises(ToolError, match="no right"):
                await text(context, name, **arguments)
