"""Looking into a real kernel: values by type, and no trace of it."""

from typing import Any

import pytest

from tests.extension.kernels import Kernel, kernel_of, run


@pytest.fixture
def kernel(jp_serverapp: Any) -> Kernel:
    """A running kernel."""
    return kernel_of(jp_serverapp)


async def test_smoke(kernel: Kernel) -> None:
    async with kernel() as python:
        await run(python, "x = 1; s = 'hä\\n'; l = list(range(1000)); d = {'a': [1, 2]}")
        found = await python.inspect(["x", "s", "l", "d", "d['a'][0]", "nothing", "x.y"])
        for each in found.values():
            print(each)
        print(await python.functions(["run", "print"]))
        print(await python.ask("variables", {}))
        print(await python.call("print", {"args": ["a", 1]}, deadline=5))
