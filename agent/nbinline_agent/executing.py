"""Running a code cell of the shared notebook on its kernel, for the agent or for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from .document.notebook import Notebook
from .document.outputs import OutputArea, OutputBounds, running_cells, settle
from .errors import KernelError
from .ids import CellId
from .kernel import Execution, Kernel, OnOutput

SETTLE_AFTER = 2.0
"""Seconds for which a kernel must run nothing before cells that claim to run are not believed."""

LOOK_EVERY = 5.0
"""Seconds between looks at a kernel that works."""

AT_WORK = frozenset({"busy", "starting"})
"""States of a kernel in which a cell may well run."""

DIED = "The kernel died while this cell was running. Everything it knew is gone."


@dataclass(frozen=True, slots=True)
class CellRun:
    """A cell that has run.

    Attributes:
        execution: How it ended.
        outputs: What it gave, as nbformat has it and within bounds.
    """

    execution: Execution
    outputs: list[dict[str, Any]] = field(default_factory=list)


def kernel_name(notebook: Notebook) -> str:
    """The kernel specification a notebook names; empty if it names none."""
    spec = notebook.notebook_metadata().get("kernelspec")
    name = spec.get("name") if isinstance(spec, Mapping) else None
    return name if isinstance(name, str) else ""


async def run_cell(
    kernel: Kernel,
    notebook: Callable[[], Notebook],
    cell_id: CellId,
    source: str,
    *,
    origin: str,
    deadline: float,
    wait: float | None = None,
    stop_on_error: bool = False,
    bounds: OutputBounds | None = None,
    also: OnOutput | None = None,
) -> CellRun:
    """Run a cell's source and write its outputs into the shared notebook while they come.

    The cell shows ``[*]`` from now on, and its old outputs until its turn has come.

    Args:
        kernel: Where; it must run already.
        notebook: Gives the live notebook.
        cell_id: The code cell.
        source: What stands in it.
        origin: Of the transactions.
        deadline: Seconds it may run.
        wait: Seconds to wait for its turn; as long as the deadline by default.
        stop_on_error: Whether an error drops what waits in the kernel's queue.
        bounds: How much output goes into the notebook.
        also: Gets to see every output message as well.

    Raises:
        KernelError: It did not run; its old outputs stand.
    """
    area = OutputArea(notebook, cell_id, origin, bounds)
    area.queue()

    def take(message: Mapping[str, Any]) -> None:
        area.take(message)
        if also is not None:
            also(message)

    async with area.writing():
        try:
            execution = await kernel.execute(
                source,
                on_output=take,
                deadline=deadline,
                wait=wait,
                cell_id=cell_id,
                stop_on_error=stop_on_error,
                on_start=area.begin,
            )
        except KernelError:
            area.leave()
            raise
        except anyio.get_cancelled_exc_class():
            area.finish(None)
            raise
        if execution.status == "aborted":
            area.leave()
            return CellRun(execution)
        if execution.status == "dead":
            area.take({"type": "stream", "content": {"name": "stderr", "text": f"{DIED}\n"}})
        area.finish(execution.execution_count)
    return CellRun(execution, area.outputs())


async def settle_cells(kernel: Kernel, notebook: Notebook, origin: str) -> int:
    """Settle cells that claim to run although the kernel runs nothing: who ran them is gone.

    Waits for a kernel that works; its cells are left alone.

    Returns:
        How many were settled.
    """
    claimed = await running_cells(notebook)
    while claimed:
        if (await kernel.state()).status not in AT_WORK:
            # A page that runs many cells leaves the kernel idle for moments only.
            await anyio.sleep(SETTLE_AFTER)
            if (await kernel.state()).status not in AT_WORK:
                return settle(notebook, claimed, origin)
        await anyio.sleep(LOOK_EVERY)
        still = set(await running_cells(notebook))
        claimed = [cell for cell in claimed if cell in still]
    return 0
