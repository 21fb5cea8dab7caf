"""Running cells and code, and looking after the kernel; outputs go into the shared notebook."""

from __future__ import annotations

import ast
import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from nbinline_agent.document.edits import short_hash
from nbinline_agent.document.notebook import Cell
from nbinline_agent.errors import KernelError, NoKernel, UnknownCell
from nbinline_agent.executing import CellRun, kernel_name, run_cell
from nbinline_agent.ids import CellId
from nbinline_agent.kernel import Execution, Kernel
from nbinline_agent.messages import Image, JsonValue
from nbinline_agent.render.outputs import summarise

from .base import Preview, Tool, ToolContext, ToolError, ToolResult
from .sight import visible

DEADLINE = 120.0
"""Seconds a cell may run unless the call says otherwise."""

LONGEST = 3_600.0
"""Seconds a cell may run at most."""

SCRATCH_DEADLINE = 30.0
"""Seconds of scratch code."""

OVERHEAD = 90.0
"""Seconds that starting a kernel and stopping a cell may take besides."""

MOST_CELLS = 50
"""Cells of one call."""

MAX_IMAGES = 3
"""Images of one call that go to a model."""

HIDDEN = "What it gave is hidden by the course."

CODE_LENGTH = 8_000
"""Characters of scratch code."""

STATE_LOST = (
    "Attention: the kernel was restarted or died since it was last used here. All variables and "
    "imports from before are gone; run the cells that this needs first."
)
_RASTER = ("image/png", "image/jpeg", "image/gif", "image/webp")


class RunCell(BaseModel):
    """Arguments of ``run_cell``."""

    cell_id: str = Field(max_length=200)
    expected_source: str = Field(
        max_length=32_000, description="Its source, or the sha256:… that reading it returned."
    )
    timeout: float = Field(DEADLINE, ge=1, le=LONGEST, description="Seconds it may run.")


class CellToRun(BaseModel):
    """One cell of ``run_cells``."""

    cell_id: str = Field(max_length=200)
    expected_source: str = Field(max_length=32_000)


class RunCells(BaseModel):
    """Arguments of ``run_cells``."""

    cells: list[CellToRun] = Field(min_length=1, max_length=MOST_CELLS)
    timeout: float = Field(DEADLINE, ge=1, le=LONGEST, description="Seconds each may run.")


class RunCode(BaseModel):
    """Arguments of ``run_code``."""

    code: str = Field(min_length=1, max_length=CODE_LENGTH)
    timeout: float = Field(SCRATCH_DEADLINE, ge=1, le=LONGEST)


class NoArguments(BaseModel):
    """Of tools that take none."""


class ListVariables(BaseModel):
    """Arguments of ``list_variables``."""

    query: str = Field("", max_length=100, description="Part of the name.")
    kind: Literal["variables", "functions", "modules", "all"] = "variables"
    start: int = Field(0, ge=0)
    limit: int = Field(100, ge=1, le=500)


def kernel_of(ctx: ToolContext) -> Kernel:
    """The notebook's kernel.

    Raises:
        ToolError: This server has none, or the asker may not use it.
    """
    if ctx.kernel is None:
        raise ToolError("The kernel cannot be used in this run: the asker has no right to.")
    return ctx.kernel


async def _run_cell(ctx: ToolContext, arguments: RunCell) -> ToolResult:
    """Run a code cell as it stands; its outputs appear in the notebook for everybody."""
    kernel = await _started(ctx)
    run = await _run(ctx, kernel, arguments.cell_id, arguments.expected_source, arguments.timeout)
    return ToolResult(
        _told(run),
        data=_measured(run.execution),
        images=_images(ctx, [run]),
        cells=(CellId(arguments.cell_id),),
    )


async def _run_cells(ctx: ToolContext, arguments: RunCells) -> ToolResult:
    """Run code cells in the given order; stops at the first one that fails."""
    for each in arguments.cells:
        _code_cell(ctx, each.cell_id, each.expected_source)
    kernel = await _started(ctx)
    runs: list[CellRun] = []
    parts: list[str] = []
    for number, each in enumerate(arguments.cells, start=1):
        await ctx.progress(f"running cell {number} of {len(arguments.cells)}")
        try:
            run = await _run(ctx, kernel, each.cell_id, each.expected_source, arguments.timeout)
        except (ToolError, KernelError) as error:
            parts.append(f"{each.cell_id}: not run. {error.message}")
            break
        runs.append(run)
        parts.append(f"{each.cell_id}: {_told(run)}")
        if run.execution.status != "ok":
            break
    left = len(arguments.cells) - len(parts)
    if left:
        parts.append(f"{left} more not run.")
    return ToolResult(
        "\n\n".join(parts),
        data=[_measured(run.execution) for run in runs],
        images=_images(ctx, runs),
        cells=tuple(CellId(each.cell_id) for each in arguments.cells[: len(runs)]),
    )


async def _run_code(ctx: ToolContext, arguments: RunCode) -> ToolResult:
    """Run scratch code in the kernel: no cell, no history, no output in the notebook."""
    kernel = await _started(ctx)
    python = (await kernel.state()).language == "python"
    gathered = _Gathered()
    try:
        execution = await kernel.execute(
            shown(arguments.code) if python else arguments.code,
            on_output=gathered.take,
            deadline=arguments.timeout,
            store_history=False,
            silent=python,
        )
    except KernelError as error:
        raise ToolError(error.message) from error
    run = CellRun(execution, gathered.outputs)
    return ToolResult(_told(run), data=_measured(execution), images=_images(ctx, [run]))


async def _kernel_status(ctx: ToolContext, arguments: NoArguments) -> ToolResult:
    """What the notebook's kernel is and does; never starts one."""
    state = await kernel_of(ctx).state()
    if state.status == "none":
        return ToolResult("No kernel runs for this notebook. Running a cell starts one.")
    text = f"The kernel ({state.language or 'language unknown'}) is {state.status}."
    if state.state_lost:
        text = f"{text}\n{STATE_LOST}"
    return ToolResult(text, data={"status": state.status, "language": state.language})


async def _list_variables(ctx: ToolContext, arguments: ListVariables) -> ToolResult:
    """Names in the kernel with type, size, shape, dtype and columns; no values."""
    asked: dict[str, JsonValue] = {
        "query": arguments.query,
        "kinds": arguments.kind,
        "start": arguments.start,
        "limit": arguments.limit,
    }
    try:
        found = await kernel_of(ctx).ask("variables", asked)
    except KernelError as error:
        raise ToolError(error.message) from error
    listed = found.get("variables", [])
    total = found.get("total", 0)
    lines = [_variable(each) for each in listed]
    rest = total - arguments.start - len(listed)
    if rest > 0:
        lines.append(f"[{rest:,} more; go on with start={arguments.start + len(listed)}]")
    return ToolResult("\n".join(lines) or "No such names.")


async def _interrupt_kernel(ctx: ToolContext, arguments: NoArguments) -> ToolResult:
    """Interrupt whatever the kernel runs, a person's cell too."""
    try:
        await kernel_of(ctx).interrupt()
    except KernelError as error:
        raise ToolError(error.message) from error
    return ToolResult("The kernel was interrupted.")


async def _restart_kernel(ctx: ToolContext, arguments: NoArguments) -> ToolResult:
    """Restart the kernel; all variables and imports are lost, for everybody."""
    try:
        await kernel_of(ctx).restart()
    except KernelError as error:
        raise ToolError(error.message) from error
    return ToolResult("The kernel was restarted. All variables and imports are gone.")


# Running


async def _started(ctx: ToolContext) -> Kernel:
    kernel = kernel_of(ctx)
    try:
        if (await kernel.state()).status == "none":
            await ctx.progress("starting the kernel")
            await kernel.start(kernel_name(ctx.notebook))
    except KernelError as error:
        raise ToolError(error.message) from error
    return kernel


async def _run(
    ctx: ToolContext, kernel: Kernel, cell_id: str, expected: str, timeout: float
) -> CellRun:
    await ctx.at(CellId(cell_id))
    cell = _code_cell(ctx, cell_id, expected)
    _, hidden = visible(cell.source, cell.metadata, ctx.policy)
    try:
        run = await run_cell(
            kernel,
            lambda: ctx.notebook,
            cell.id,
            cell.source,
            origin=ctx.run_id,
            deadline=timeout,
        )
        return _without_outputs(run) if hidden else run
    except NoKernel as error:
        raise ToolError("The kernel was shut down. Run the cell again to start one.") from error
    except KernelError as error:
        raise ToolError(error.message) from error


def _without_outputs(run: CellRun) -> CellRun:
    """What a model may know of a cell that the course hides."""
    text = {"output_type": "stream", "name": "stdout", "text": HIDDEN}
    return CellRun(replace(run.execution, error=""), [text])


def _code_cell(ctx: ToolContext, cell_id: str, expected: str) -> Cell:
    """The cell as it stands, checked to be what the model saw.

    Raises:
        ToolError: It is gone, it is no code cell, or somebody changed it.
    """
    try:
        cell = ctx.notebook.cell(cell_id)
    except UnknownCell:
        raise ToolError(f"There is no cell {cell_id!r} in the notebook.") from None
    if cell.kind != "code":
        raise ToolError(f"Cell {cell_id!r} is a {cell.kind} cell; only code cells run.")
    seen = short_hash(cell.source)
    if expected not in (cell.source, seen):
        raise ToolError(
            f"Cell {cell_id!r} was edited since it was read, so it was not run. Read it again.",
            reason="source-changed",
            current_hash=seen,
        )
    return cell


def shown(code: str) -> str:
    """Python code whose last expression is displayed, as a cell's is, without being remembered."""
    try:
        last = ast.parse(code).body[-1]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return code  # magics, or what the kernel shall complain about
    if not isinstance(last, ast.Expr) or code.rstrip().endswith(";"):
        return code
    value = ast.get_source_segment(code, last) or "None"
    lines = code.replace("\r\n", "\n").split("\n")
    above = lines[: last.lineno - 1]
    before = "\n".join((*above, lines[last.lineno - 1].encode()[: last.col_offset].decode()))
    return (
        f"{before}(lambda value: value is None or "
        f'__import__("IPython").display.display(value))({value}\n)'
    )


class _Gathered:
    """Outputs that go to the model only."""

    MOST = 2_000_000

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self._size = 0

    def take(self, message: Mapping[str, Any]) -> None:
        """Take a message of the output channel."""
        content = message["content"]
        kind = message["type"]
        if kind not in ("stream", "display_data", "execute_result", "error"):
            return
        size = sum(len(str(value)) for value in content.values())
        if self._size + size > self.MOST:
            return
        self._size += size
        self.outputs.append({**content, "output_type": kind})


# Telling


def _told(run: CellRun) -> str:
    execution = run.execution
    parts = [STATE_LOST] if execution.state_lost else []
    parts.append(_ending(execution))
    outputs = summarise(run.outputs)
    parts.append(outputs or "It gave no output." if execution.status == "ok" else outputs)
    return "\n".join(part for part in parts if part)


def _ending(execution: Execution) -> str:
    seconds = f"{execution.seconds:.1f} s"
    count = execution.execution_count
    name = f"In [{count}]" if count is not None else "It"
    match execution.status:
        case "ok":
            return f"{name} ran without an error in {seconds}."
        case "error":
            return f"{name} failed after {seconds}: {execution.error}".rstrip(": ") + "."
        case "timed-out" if execution.stuck:
            return (
                f"It did not end within {seconds} and does not react to being interrupted. "
                "What it gave until then follows; only restarting the kernel helps."
            )
        case "timed-out":
            return (
                f"It did not end in time and was interrupted after {seconds}. Until then it gave:"
            )
        case "interrupted":
            return f"Somebody interrupted it after {seconds}. Until then it gave:"
        case "dead":
            return (
                f"The kernel died after {seconds}. Everything it knew is gone; "
                "the next cell runs on a fresh one."
            )
        case _:
            return (
                "It was dropped from the kernel's queue because another cell failed; run it again."
            )


def _measured(execution: Execution) -> dict[str, JsonValue]:
    return {
        "status": execution.status,
        "execution_count": execution.execution_count,
        "seconds": round(execution.seconds, 3),
    }


def _images(ctx: ToolContext, runs: Sequence[CellRun]) -> tuple[Image, ...]:
    """The last raster images, for a model that takes them."""
    if not ctx.takes_images:
        return ()
    found: list[Image] = []
    for run in runs:
        for output in run.outputs:
            data = output.get("data")
            if isinstance(data, Mapping):
                found += _raster(data)
    return tuple(found[-MAX_IMAGES:])


def _raster(data: Mapping[str, Any]) -> list[Image]:
    for kind in _RASTER:
        encoded = data.get(kind)
        if isinstance(encoded, str):
            try:
                content = base64.b64decode(encoded)
            except (binascii.Error, ValueError):
                continue
            return [Image(kind, content)]  # type: ignore[arg-type]
    return []


def _variable(each: Mapping[str, Any]) -> str:
    parts = [f"{each['name']}: {each['type']}"]
    if "shape" in each:
        parts.append("shape " + " × ".join(f"{side:,}" for side in each["shape"]))
    if "length" in each:
        parts.append(f"length {each['length']:,}")
    if "dtype" in each:
        parts.append(str(each["dtype"]))
    if "columns" in each:
        columns = ", ".join(f"{name} {kind}" for name, kind in each["columns"].items())
        parts.append(f"columns {columns}")
    if "note" in each:
        parts.append(str(each["note"]))
    return ", ".join(parts)


def _longest(arguments: RunCell | RunCode) -> float:
    # Waiting for its turn may take as long as the run itself.
    return 2 * arguments.timeout + OVERHEAD


def _longest_of_all(arguments: RunCells) -> float:
    return 2 * arguments.timeout * len(arguments.cells) + OVERHEAD


async def _preview(ctx: ToolContext, arguments: RunCell | RunCells) -> Preview:
    """The code that would run."""
    wanted = [arguments] if isinstance(arguments, RunCell) else list(arguments.cells)
    sources = [
        visible(ctx.notebook.source(cell), ctx.notebook.metadata(cell), ctx.policy)[0]
        for cell in (CellId(each.cell_id) for each in wanted)
        if ctx.notebook.has(cell)
    ]
    noun = "a cell" if len(wanted) == 1 else f"{len(wanted)} cells"
    return Preview(
        f"Run {noun} on the kernel",
        cell_id=CellId(wanted[0].cell_id),
        code="\n\n".join(sources)[:20_000],
    )


def execution_tools() -> tuple[Tool, ...]:
    """All tools that run code or look after the kernel."""
    return (
        _tool("run_cell", _run_cell, RunCell, deadline_of=_longest, preview=_preview),
        _tool("run_cells", _run_cells, RunCells, deadline_of=_longest_of_all, preview=_preview),
        _tool("run_code", _run_code, RunCode, deadline_of=_longest),
        _tool("kernel_status", _kernel_status, NoArguments, writes=False),
        _tool("list_variables", _list_variables, ListVariables, writes=False),
        _tool("interrupt_kernel", _interrupt_kernel, NoArguments, deadline=30.0),
        _tool("restart_kernel", _restart_kernel, NoArguments, deadline=120.0),
    )


def _tool(
    name: str, call: Any, arguments: type[BaseModel], *, writes: bool = True, **more: Any
) -> Tool:
    return Tool(
        name=name,
        group="execution",
        description=(call.__doc__ or "").strip(),
        arguments=arguments,
        call=call,
        writes=writes,
        needs_kernel=True,
        **more,
    )
