"""Functions of a real kernel: their schemas, and calling them as a model would."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator

from nbinline_agent.errors import KernelError, KernelRefused, NoKernel
from tests.extension.kernels import Kernel, Outputs, kernel_of, run, write_spec

FUNCTIONS = '''
import asyncio, enum, sys, typing
from typing import Annotated, Literal, Optional

class Colour(enum.Enum):
    RED = 'red'
    BLUE = 'blue'

def add_bonus(
    score: int,
    factor: float = 1.5,
    kind: Literal['fixed', 'relative'] = 'fixed',
    note: Optional[str] = None,
) -> float:
    """Add a bonus to a score.

    Args:
        score: What was reached.
        factor (float): How much more.
    """
    print('adding', kind)
    print('careful', file=sys.stderr)
    return score * factor

def everything(first, /, second: list[int], *rest: str, flag: bool, **more: int):
    return first, second, rest, flag, sorted(more.items())

def deep(
    table: dict[str, list[float]],
    pair: tuple[int, str],
    tags: set[str],
    size: int | str,
    colour: Colour = Colour.RED,
    unit: Annotated[str, 'Of the size.'] = 'cm',
):
    return type(tags).__name__, colour.name, unit

async def fetch(seconds: float):
    await asyncio.sleep(seconds)
    return f'after {seconds}'

def text():
    return 'line one\\n"line" two'

def nothing(): pass

def fail(x):
    return 1 / x

def endless():
    n = 0
    while True:
        n += 1

def leave():
    sys.exit('bye')

def picture():
    import matplotlib.pyplot as pyplot
    pyplot.figure(figsize=(2, 1))
    pyplot.plot([1, 2])

def big():
    print('y' * 100_000)
    return 'x' * 100_000

class Maker:
    """Makes things."""
    def __init__(self, size: int = 2): self.size = size
    def __call__(self, times: int): return self.size * times

maker = Maker(3)
not_a_function = 5
'''


@pytest.fixture
def kernel(jp_serverapp: Any) -> Kernel:
    """A running kernel."""
    return kernel_of(jp_serverapp)


async def test_schemas_from_signatures_and_docstrings(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        names = ["add_bonus", "everything", "deep", "fetch", "Maker", "maker"]
        found = await python.functions([*names, "not_a_function", "unknown"])
        assert found["not_a_function"].problem == "not a function"
        assert found["unknown"].problem == "not defined in the kernel"
        for name in names:
            assert not found[name].problem
            Draft202012Validator.check_schema(dict(found[name].parameters))

        bonus: Any = found["add_bonus"].parameters
        assert bonus["required"] == ["score"]
        properties = bonus["properties"]
        assert properties["score"] == {"type": "integer", "description": "What was reached."}
        assert properties["factor"]["default"] == 1.5
        assert properties["factor"]["description"] == "How much more."
        assert properties["kind"] == {"enum": ["fixed", "relative"], "default": "fixed"}
        assert properties["note"] == {"type": ["string", "null"], "default": None}
        assert found["add_bonus"].description.startswith("Add a bonus to a score.")

        every: Any = found["everything"].parameters
        assert every["required"] == ["first", "second", "flag"]
        assert every["properties"]["rest"] == {"type": "array", "items": {"type": "string"}}
        assert every["properties"]["more"] == {
            "type": "object",
            "additionalProperties": {"type": "integer"},
        }

        deep: Any = found["deep"].parameters["properties"]
        assert deep["table"] == {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "number"}},
        }
        assert deep["size"] == {"type": ["integer", "string"]}
        assert deep["colour"]["enum"] == ["red", "blue"]
        assert deep["unit"]["description"] == "Of the size."
        assert found["maker"].parameters["properties"] == {"times": {"type": "integer"}}


async def test_a_call_gives_value_and_what_was_printed(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        result = await python.call("add_bonus", {"score": 10, "kind": "relative"}, deadline=10)
        assert (result.text, result.type, result.error) == ("15.0", "float", "")
        assert (result.stdout, result.stderr) == ("adding relative\n", "careful\n")

        arguments: Any = {
            "first": 1,
            "second": [2, 3],
            "rest": ["a", "b"],
            "flag": True,
            "more": {"x": 1},
        }
        result = await python.call("everything", arguments, deadline=10)
        assert "(1, [2, 3], ('a', 'b'), True, [('x', 1)])" in result.text

        arguments = {"table": {}, "pair": [1, "x"], "tags": ["a", "a"], "size": 3, "colour": "blue"}
        result = await python.call("deep", arguments, deadline=10)
        assert "('set', 'BLUE', 'cm')" in result.text
        assert (await python.call("text", {}, deadline=5)).text == 'line one\n"line" two'
        assert (await python.call("nothing", {}, deadline=5)).type == "NoneType"
        assert (await python.call("maker", {"times": 2}, deadline=5)).text == "6"


async def test_async_functions(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        result = await python.call("fetch", {"seconds": 0.1}, deadline=10)
        assert (result.text, result.error) == ("after 0.1", "")
        result = await python.call("fetch", {"seconds": 60}, deadline=0.5)
        assert "too long" in result.error


async def test_what_goes_wrong_is_told(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        for arguments in ({}, {"score": 1, "bonus": 2}):
            result = await python.call("add_bonus", arguments, deadline=5)
            assert result.error.startswith("the arguments do not fit add_bonus")
        result = await python.call("fail", {"x": 0}, deadline=5)
        assert result.error == "fail, line 47: ZeroDivisionError: division by zero"
        assert "bye" in (await python.call("leave", {}, deadline=5)).error
        assert "not defined" in (await python.call("gone", {}, deadline=5)).error
        assert (await run(python, "print(1)")).text() == "1\n"


async def test_a_call_is_interrupted_at_its_deadline(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        result = await python.call("endless", {}, deadline=1)
        assert "too long" in result.error
        assert (await run(python, "print(1)")).text() == "1\n"


async def test_a_cancelled_call_stops_running(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        with anyio.move_on_after(1.5) as scope:
            await python.call("endless", {}, deadline=60)
        assert scope.cancelled_caught
        with anyio.fail_after(10):
            assert (await run(python, "print(1)")).text() == "1\n"


async def test_a_call_waits_for_a_persons_cell_and_never_interrupts_it(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS)
        outputs = Outputs()

        async def cell() -> None:
            outputs.extend(await run(python, "import time; time.sleep(2.5); print('whole')"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cell)
            await anyio.sleep(0.5)
            with pytest.raises(KernelError, match="busy"):
                await python.call("text", {}, deadline=0.5)
            with anyio.move_on_after(0.3):
                await python.call("leave", {}, deadline=30)
            result = await python.call("add_bonus", {"score": 2}, deadline=20)
            assert result.text == "3.0"
        assert outputs.text() == "whole\n"


async def test_results_are_bounded_and_figures_are_shown(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, "%matplotlib inline\n" + FUNCTIONS)
        result = await python.call("big", {}, deadline=10)
        assert len(result.text) <= 12_000
        assert len(result.stdout) <= 21_000
        result = await python.call("picture", {}, deadline=20)
        assert [image.media_type for image in result.images] == ["image/png"]


CALL_TRACES = """
import sys
print(sorted(n for n in globals() if not n.startswith(('_i', 'count'))), Out, (_, __, ___),
      get_ipython().execution_count - count,
      len(get_ipython().history_manager.input_hist_raw) - count,
      [m for m in sys.modules if m.startswith('nbinline')], getattr(sys, 'last_value', None))
count = get_ipython().execution_count
"""


async def test_a_call_leaves_no_trace(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, FUNCTIONS + "\ncount = get_ipython().execution_count")
        before = await run(python, CALL_TRACES)
        await python.call("add_bonus", {"score": 1}, deadline=5)
        await python.call("fail", {"x": 0}, deadline=5)
        await python.call("fetch", {"seconds": 0.01}, deadline=5)
        after = await run(python, CALL_TRACES)
        assert after.text() == before.text()


async def test_tracing_a_call(kernel: Kernel) -> None:
    code = "def double(x):\n    y = x * 2\n    return y\n\nasync def later(): pass"
    async with kernel() as python:
        await run(python, code)
        found = await python.trace({"name": "double", "args_json": "[4]"}, deadline=10)
        assert found["result"] == "8"
        events = [(each["event"], each["line"]) for each in found["events"]]
        assert events == [("call", 1), ("line", 2), ("line", 3), ("return", 3)]
        assert found["events"][2]["locals"] == {"x": "4", "y": "8"}
        for arguments in (
            {"name": "double", "args_json": "nonsense"},
            {"name": "double"},
            {"name": "later"},
            {"name": "nowhere"},
        ):
            with pytest.raises(KernelRefused):
                await python.trace(arguments, deadline=10)


async def test_a_kernel_with_none_of_our_packages(kernel: Kernel, jp_data_dir: Path) -> None:
    """Nor with anything on the path of the server's process."""
    forbid = (
        "import sys\n"
        "sys.modules.update(nbinline_rtc=None, nbinline_agent=None)\n"
        "from ipykernel.kernelapp import launch_new_instance\n"
        "launch_new_instance()"
    )
    write_spec(jp_data_dir, "elsewhere", [sys.executable, "-I", "-c", forbid], "python")
    async with kernel("elsewhere") as python:
        await run(python, FUNCTIONS)
        found = await python.inspect(["not_a_function", "maker.size"])
        assert [value.text for value in found.values()] == ["5", "3"]
        assert (await python.call("add_bonus", {"score": 2}, deadline=10)).text == "3.0"


async def test_without_a_kernel_nothing_starts_one(kernel: Kernel) -> None:
    async with kernel(start=False) as python:
        assert (await python.state()).status == "none"
        found = await python.inspect(["x"])
        assert found["x"].problem == "no-kernel"
        assert (await python.functions(["f"]))["f"].problem
        with pytest.raises(NoKernel):
            await python.call("f", {}, deadline=1)
        with pytest.raises(NoKernel):
            await python.ask("variables", {})
        assert (await python.state()).status == "none"


async def test_a_kernel_of_another_language(kernel: Kernel, jp_data_dir: Path) -> None:
    write_spec(jp_data_dir, "bash", [sys.executable, "-m", "bash_kernel"], "bash")
    async with kernel("bash") as bash:
        found = await bash.inspect(["HOME"])
        assert found["HOME"].problem == "kernel-refused"
        assert "bash" in found["HOME"].text
        assert (await run(bash, "echo one; echo two")).text() == "one\ntwo\n"
