"""Cells that run on a real kernel while their outputs go into a shared notebook."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from nbinline_agent.document.edits import short_hash
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.testing import SharedNotebook, code, open_notebook
from nbinline_agent.tools.base import ToolError
from nbinline_rtc.kernels import KernelsOfServer
from tests.extension.conftest import until
from tests.extension.kernels import PATH, Context, Outputs, kernel_of, run, use, write_spec

Lab = Callable[..., AbstractAsyncContextManager[tuple[Context, SharedNotebook]]]


@pytest.fixture
def lab(jp_serverapp: Any) -> Lab:
    """A shared notebook of code cells c0, c1 and so on, with a kernel."""
    kernel = kernel_of(jp_serverapp)

    @contextlib.asynccontextmanager
    async def opened(
        *sources: str, name: str = "python3", start: bool = True
    ) -> AsyncIterator[tuple[Context, SharedNotebook]]:
        cells = [code(source, f"c{number}") for number, source in enumerate(sources)]
        metadata = {"kernelspec": {"name": name, "display_name": name}}
        async with (
            kernel(name, start=start) as python,
            open_notebook(cells, metadata) as (notebook, shared),
        ):
            yield Context(notebook, python), shared

    return opened


async def run_cell(context: Context, cell_id: str = "c0", **more: Any) -> Any:
    source = context.notebook.source(cell_id)
    more.setdefault("expected_source", short_hash(source))
    return await use(context, "run_cell", cell_id=cell_id, **more)


def outputs(shared: SharedNotebook, cell_id: str = "c0") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shared.cell(cell_id)["outputs"]
    return found


def text(shared: SharedNotebook, cell_id: str = "c0", name: str = "stdout") -> str:
    return "".join(
        "".join(output["text"])
        for output in outputs(shared, cell_id)
        if output["output_type"] == "stream" and output["name"] == name
    )


def state(notebook: Notebook, cell_id: str = "c0") -> str:
    return str(notebook.entry(cell_id).ycell["execution_state"])


async def test_a_cell_runs_and_everybody_sees_it(lab: Lab) -> None:
    async with lab("print('hello')\n6 * 7") as (context, shared):
        result = await run_cell(context)
        assert "hello" in result.text
        assert "42" in result.text
        assert "In [1] ran without an error" in result.text
        assert result.data["status"] == "ok"
        assert result.cells == ("c0",)
        assert context.visited == ["c0"]
        await context.notebook.peer.settled()
        assert shared.cell("c0")["execution_count"] == 1
        assert text(shared) == "hello\n"
        [_, value] = outputs(shared)
        assert (value["output_type"], value["data"]["text/plain"]) == ("execute_result", "42")
        assert state(context.notebook) == "idle"


async def test_output_streams_while_the_cell_runs(lab: Lab) -> None:
    source = """import time
for i in range(3):
    print('line', i)
    time.sleep(0.7)
"""
    async with lab(source) as (context, shared), anyio.create_task_group() as tasks:
        tasks.start_soon(run_cell, context)
        await until(lambda: "line 1" in text(shared))
        assert "line 2" not in text(shared)
        assert state(context.notebook) == "running"
        assert shared.cell("c0")["execution_count"] is None
        await until(lambda: state(context.notebook) == "idle")
        await until(lambda: text(shared) == "line 0\nline 1\nline 2\n")


RICH = """
import sys, time
from IPython.display import display, clear_output, Markdown
print('gone'); clear_output()
handle = display(Markdown('first'), display_id=True)
handle.update(Markdown('updated'))
for i in range(20):
    print(f'\\r{i}', end='', file=sys.stderr)
print(file=sys.stderr)
def inner(): return 1 / 0
inner()
"""


async def test_display_updates_clearing_and_errors(lab: Lab) -> None:
    async with lab(RICH) as (context, shared):
        result = await run_cell(context)
        assert result.data["status"] == "error"
        assert "ZeroDivisionError: division by zero" in result.text
        await context.notebook.peer.settled()
        shown, stderr, error = outputs(shared)
        assert shown["data"]["text/markdown"] == "updated"
        assert "".join(stderr["text"]) == "19\n"
        assert error["ename"] == "ZeroDivisionError"
        assert any("inner" in line for line in error["traceback"])


async def test_input_is_refused(lab: Lab) -> None:
    async with lab("name = input('your name? ')") as (context, _):
        with anyio.fail_after(20):
            result = await run_cell(context)
        assert "StdinNotImplementedError" in result.text


async def test_a_deadline_gives_what_there_was(lab: Lab) -> None:
    source = "import time\nprint('started', flush=True)\ntime.sleep(60)"
    async with lab(source, "print('next')") as (context, shared):
        result = await run_cell(context, timeout=1)
        assert result.data["status"] == "timed-out"
        assert "started" in result.text
        await context.notebook.peer.settled()
        assert text(shared) == "started\n"
        assert outputs(shared)[-1]["ename"] == "KeyboardInterrupt"
        assert state(context.notebook) == "idle"
        assert "next" in (await run_cell(context, "c1")).text


async def test_a_cell_that_does_not_react_is_told(lab: Lab) -> None:
    source = """import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(300)
"""
    async with lab(source, "1") as (context, _):
        result = await run_cell(context, timeout=1)
        assert "only restarting the kernel helps" in result.text
        await use(context, "restart_kernel")
        assert "In [1]" in (await run_cell(context, "c1")).text


async def test_a_cancelled_run_interrupts_its_cell(lab: Lab) -> None:
    source = "import time\nprint('began', flush=True)\ntime.sleep(60)"
    async with lab(source, "print('free')") as (context, shared):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_cell, context)
            await until(lambda: "began" in text(shared))
            tasks.cancel_scope.cancel()
        assert state(context.notebook) == "idle"
        with anyio.fail_after(15):
            assert "free" in (await run_cell(context, "c1")).text


async def test_a_dying_kernel_is_noticed_and_the_next_run_says_so(lab: Lab) -> None:
    source = "import os, time\nprint('last words', flush=True)\ntime.sleep(1)\nos._exit(1)"
    async with lab("x = 1", source, "print('fresh', 'x' in dir())") as (context, shared):
        await run_cell(context)
        began = time.monotonic()
        result = await run_cell(context, "c1")
        assert time.monotonic() - began < 1 + 2.5
        assert result.data["status"] == "dead"
        assert "kernel died" in result.text
        await context.notebook.peer.settled()
        assert "last words" in text(shared, "c1")
        assert "Everything it knew is gone" in text(shared, "c1", "stderr")
        assert state(context.notebook, "c1") == "idle"
        result = await run_cell(context, "c2")
        assert result.text.startswith("Attention: the kernel was restarted or died")
        assert "fresh False" in result.text
        assert "Attention" not in (await run_cell(context, "c2")).text


async def test_a_kernel_that_is_wrongly_called_busy_is_used(lab: Lab, jp_serverapp: Any) -> None:
    """As after a death: Jupyter tells the old state until the new process runs something."""
    repr_ = "    def __repr__(self): time.sleep(1.5); return ''"
    slow = f"import time\nclass Slow:\n{repr_}\nslow = Slow()"
    async with lab(slow, "print('free')") as (context, _):
        await run_cell(context)
        [session] = await jp_serverapp.session_manager.list_sessions()
        manager = jp_serverapp.kernel_manager.get_kernel(session["kernel"]["id"])
        page = manager.client()
        page.start_channels()
        try:
            # While somebody's request is worked on, only the control channel answers.
            page.inspect("slow", 4)
            await anyio.sleep(0.3)
            manager.execution_state = "busy"
            async with KernelsOfServer(jp_serverapp) as later:
                late = replace(context, kernel=later.of(PATH))
                assert "free" in (await run_cell(late, "c1", timeout=15)).text
        finally:
            page.stop_channels()


async def test_somebodys_restart_is_told(lab: Lab, jp_serverapp: Any) -> None:
    async with lab("x = 1") as (context, _):
        await run_cell(context)
        [session] = await jp_serverapp.session_manager.list_sessions()
        await jp_serverapp.kernel_manager.restart_kernel(session["kernel"]["id"])
        status = await use(context, "kernel_status")
        assert "restarted or died" in status.text
        assert "Attention" in (await run_cell(context)).text


async def test_no_kernel_is_started_but_by_running(lab: Lab) -> None:
    async with lab("print('up')", start=False) as (context, shared):
        assert "No kernel runs" in (await use(context, "kernel_status")).text
        with pytest.raises(ToolError, match="no running kernel"):
            await use(context, "list_variables")
        with pytest.raises(ToolError, match="no running kernel"):
            await use(context, "interrupt_kernel")
        assert "up" in (await run_cell(context)).text
        status = await use(context, "kernel_status")
        assert status.data == {"status": "idle", "language": "python"}


async def test_a_changed_or_missing_cell_is_not_run(lab: Lab) -> None:
    async with lab("print(1)") as (context, shared):
        with pytest.raises(ToolError, match="edited since") as refused:
            await run_cell(context, expected_source="sha256:000000000000")
        assert refused.value.details["current_hash"] == short_hash("print(1)")
        with pytest.raises(ToolError, match="no cell"):
            await use(context, "run_cell", cell_id="gone", expected_source="x")
        assert "1" in (await run_cell(context, expected_source="print(1)")).text
        await context.notebook.peer.settled()
        assert shared.cell("c0")["execution_count"] == 1


async def test_cells_run_in_order_up_to_the_first_error(lab: Lab) -> None:
    async with lab("a = 1", "print(a / 0)", "print('never')") as (context, shared):
        cells = [
            {"cell_id": f"c{n}", "expected_source": short_hash(context.notebook.source(f"c{n}"))}
            for n in range(3)
        ]
        result = await use(context, "run_cells", cells=cells)
        assert [run["status"] for run in result.data] == ["ok", "error"]
        assert "1 more not run." in result.text
        assert outputs(shared, "c2") == []
        with pytest.raises(ToolError, match="edited since"):
            await use(context, "run_cells", cells=[cells[0], {**cells[1], "expected_source": "?"}])
        await context.notebook.peer.settled()
        assert shared.cell("c0")["execution_count"] == 1


async def test_a_persons_runs_and_ours_do_not_stop_each_other(lab: Lab) -> None:
    """Ours waits for its turn, is sent again if a failing cell drops it, and drops nobody's."""
    async with lab("print('ours')", "1 / 0") as (context, shared):
        python = context.kernel
        assert python is not None
        theirs = [Outputs(), Outputs()]

        async def person(number: int, source: str) -> None:
            execution = await python.execute(
                source, on_output=theirs[number], deadline=30, stop_on_error=True
            )
            theirs[number].append({"type": "status", "content": {"status": execution.status}})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person, 0, "import time; time.sleep(1.5); print('theirs'); 1 / 0")
            await anyio.sleep(0.5)
            result = await run_cell(context)
            assert "ours" in result.text
        assert theirs[0].text() == "theirs\n"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person, 1, "time.sleep(1); print('first')")
            await anyio.sleep(0.3)
            tasks.start_soon(run_cell, context, "c1")
            await anyio.sleep(0.3)
            last = await run(python, "print('queued behind our error')")
        assert theirs[1].text() == "first\n"
        assert last.text() == "queued behind our error\n"


async def test_a_busy_kernel_is_told_and_the_old_outputs_stay(lab: Lab) -> None:
    async with lab("print('once')") as (context, shared):
        await run_cell(context)
        python = context.kernel
        assert python is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, python, "import time; time.sleep(4)")
            await anyio.sleep(0.5)
            with pytest.raises(ToolError, match="busy"):
                await run_cell(context, timeout=1)
            await context.notebook.peer.settled()
            assert text(shared) == "once\n"
            assert state(context.notebook) == "idle"
            assert shared.cell("c0")["execution_count"] == 1


async def test_a_hundred_thousand_lines(lab: Lab) -> None:
    source = "for i in range(100_000): print('line', i, flush=i % 100 == 0)"
    async with lab(source) as (context, shared):
        updates: list[int] = []
        context.notebook.peer.doc.observe(lambda event: updates.append(len(event.update)))
        began = time.monotonic()
        result = await run_cell(context)
        seconds = time.monotonic() - began
        await context.notebook.peer.settled()
        printed = text(shared)
        assert printed.startswith("line 0\nline 1\n")
        assert printed.endswith("line 99999\n")
        assert "lines left out" in printed
        assert len(printed) < 530_000
        assert len(updates) < 20 * seconds + 20
        assert len(result.text) < 3_000
        assert "line 99999" in result.text


@pytest.mark.parametrize(
    "source",
    [
        "print('x' * 50_000_000)",
        "from IPython.display import display\ndisplay({'text/plain': 'x' * 50_000_000}, raw=True)",
    ],
    ids=["printed", "displayed"],
)
async def test_fifty_megabytes_of_output_are_refused(lab: Lab, source: str) -> None:
    async with lab(source, "print('after')") as (context, shared):
        result = await run_cell(context)
        assert "left out" in result.text
        await context.notebook.peer.settled()
        stored = sum(len(str(output)) for output in outputs(shared))
        assert stored < 600_000
        assert "after" in (await run_cell(context, "c1")).text


async def test_images_go_to_models_that_take_them(lab: Lab) -> None:
    source = """%matplotlib inline
import matplotlib.pyplot as plt
for i in range(5):
    plt.figure(figsize=(1, 1)); plt.plot([i]); plt.show()
"""
    async with lab(source) as (context, shared):
        result = await run_cell(context)
        assert [image.media_type for image in result.images] == ["image/png"] * 3
        await context.notebook.peer.settled()
        assert len(outputs(shared)) == 5
        context.takes_images = False
        assert (await run_cell(context)).images == ()


async def test_widgets_are_left_as_they_are(lab: Lab) -> None:
    source = """from IPython.display import display
display({'application/vnd.jupyter.widget-view+json': {'model_id': 'm'}, 'text/plain': 'Slider()'},
        raw=True)
"""
    async with lab(source) as (context, shared):
        result = await run_cell(context)
        assert "[widget: Slider()]" in result.text
        await context.notebook.peer.settled()
        [output] = outputs(shared)
        assert "application/vnd.jupyter.widget-view+json" in output["data"]


async def test_a_cell_deleted_while_it_runs(lab: Lab) -> None:
    source = "import time\nprint('a', flush=True)\ntime.sleep(1)\nprint('b')"
    async with lab(source, "2") as (context, shared):
        async with anyio.create_task_group() as tasks:
            results: list[Any] = []

            async def go() -> None:
                results.append(await run_cell(context))

            tasks.start_soon(go)
            await until(lambda: text(shared) == "a\n")
            with shared.ynotebook.ydoc.transaction(origin="person"):
                del shared.ynotebook.ycells[0]
        assert "a\nb" in results[0].text


SLOW = "import time\nfor i in range(4):\n    print('line', i, flush=True)\n    time.sleep(0.5)"


async def test_somebody_types_in_a_cell_that_runs(lab: Lab) -> None:
    async with lab(SLOW) as (context, shared):
        results: list[Any] = []

        async def go() -> None:
            results.append(await run_cell(context))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            await until(lambda: "line 0" in text(shared))
            source = shared.ynotebook.ycells[0]["source"]
            with shared.ynotebook.ydoc.transaction(origin="person"):
                source.insert(0, "# typed\n")
        await context.notebook.peer.settled()
        assert shared.cell("c0")["source"] == f"# typed\n{SLOW}"
        assert text(shared) == "line 0\nline 1\nline 2\nline 3\n"
        assert "line 3" in results[0].text
        # What ran is not what stands there now.
        with pytest.raises(ToolError, match="edited since"):
            await run_cell(context, expected_source=short_hash(SLOW))


async def test_somebody_moves_a_cell_that_runs(lab: Lab) -> None:
    async with lab(SLOW, "2") as (context, shared):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_cell, context)
            await until(lambda: "line 1" in text(shared))
            cells = shared.ynotebook.ycells
            with shared.ynotebook.ydoc.transaction(origin="person"):
                moved = shared.ynotebook.create_ycell(cells[0].to_py())
                del cells[0]
                cells.append(moved)
        await context.notebook.peer.settled()
        assert [cell["id"] for cell in shared.cells] == ["c1", "c0"]
        assert text(shared) == "line 0\nline 1\nline 2\nline 3\n"
        assert (state(context.notebook), shared.cell("c0")["execution_count"]) == ("idle", 1)


async def test_a_person_interrupts_our_cell(lab: Lab) -> None:
    async with lab(SLOW, "print('on')") as (context, shared):
        results: list[Any] = []

        async def go() -> None:
            results.append(await run_cell(context))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            await until(lambda: "line 0" in text(shared))
            await use(context, "interrupt_kernel")
        assert results[0].data["status"] == "interrupted"
        assert "Somebody interrupted it" in results[0].text
        assert "line 0" in results[0].text
        assert outputs(shared)[-1]["ename"] == "KeyboardInterrupt"
        assert "on" in (await run_cell(context, "c1")).text


async def test_a_person_restarts_the_kernel_under_our_cell(lab: Lab, jp_serverapp: Any) -> None:
    async with lab(SLOW, "print('fresh')") as (context, shared):
        results: list[Any] = []

        async def go() -> None:
            results.append(await run_cell(context))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go)
            await until(lambda: "line 0" in text(shared))
            [session] = await jp_serverapp.session_manager.list_sessions()
            await jp_serverapp.kernel_manager.restart_kernel(session["kernel"]["id"])
        assert results[0].data["status"] == "dead"
        assert "line 0" in results[0].text
        assert state(context.notebook) == "idle"
        again = (await run_cell(context, "c1")).text
        assert again.startswith("Attention")
        assert "fresh" in again


async def test_a_page_that_runs_cells_beside_ours_keeps_its_own_ways(
    lab: Lab, jp_serverapp: Any
) -> None:
    """What a page sends straight to the kernel runs in its order and stops at its own error."""
    async with lab(SLOW) as (context, shared):
        await run_cell(context)
        [session] = await jp_serverapp.session_manager.list_sessions()
        manager = jp_serverapp.kernel_manager.get_kernel(session["kernel"]["id"])
        page = manager.client()
        page.start_channels()
        try:
            await page.wait_for_ready(timeout=20)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_cell, context)
                await until(lambda: state(context.notebook) == "running")
                sent = [page.execute(code) for code in ("a = 1", "1 / 0", "b = 2")]
                told = [await page.get_shell_msg(timeout=20) for _ in sent]
            assert [each["parent_header"]["msg_id"] for each in told] == sent
            statuses = [each["content"]["status"] for each in told]
            assert statuses[:2] == ["ok", "error"]
            assert statuses[2] in ("aborted", "error")
            assert text(shared) == "line 0\nline 1\nline 2\nline 3\n"
            assert "b: int" not in (await use(context, "list_variables")).text
        finally:
            page.stop_channels()


async def test_scratch_code_leaves_cells_and_history_alone(lab: Lab) -> None:
    check = "print(Out, _, get_ipython().execution_count, len(In))"
    async with lab("41", check) as (context, shared):
        await run_cell(context)
        result = await use(context, "run_code", code="import math\ny = 2\n\ny * math.pi  # area")
        assert "6.28" in result.text
        await use(context, "run_code", code="1 / 0")
        assert "y: int" in (await use(context, "list_variables")).text
        assert (
            "[stderr]"
            in (await use(context, "run_code", code="import sys; print(1, file=sys.stderr)")).text
        )
        assert "hidden" not in (await use(context, "run_code", code="'hidden';")).text
        assert (
            "async 5"
            in (
                await use(
                    context, "run_code", code="import asyncio\nawait asyncio.sleep(0, 'async 5')"
                )
            ).text
        )
        assert "magic" in (await use(context, "run_code", code="%env NB=magic\n%env NB")).text
        await run_cell(context, "c1")
        await context.notebook.peer.settled()
        assert text(shared, "c1") == "{1: 41} 41 3 3\n"
        assert len(shared.cells) == 2


async def test_variables_without_values_or_properties(lab: Lab) -> None:
    source = """
import numpy, pandas
class Trap:
    @property
    def shape(self): raise SystemExit
    def __len__(self): raise SystemExit
    def __repr__(self): raise SystemExit
trap, secret, _private = Trap(), 'sesame', 1
table = pandas.DataFrame({'a': [1, 2], 'b': ['x', 'y']})
grid = numpy.zeros((3, 4))
def helper(): pass
"""
    async with lab(source) as (context, _):
        await run_cell(context)
        listed = (await use(context, "list_variables")).text
        assert "sesame" not in listed
        assert "_private" not in listed
        assert "trap: Trap" in listed
        assert "secret: str, length 6" in listed
        assert "table: pandas.DataFrame, shape 2 × 2, columns a int64, b str" in listed
        assert "grid: numpy.ndarray, shape 3 × 4, float64" in listed
        assert "helper" not in listed
        assert "helper: function" in (await use(context, "list_variables", kind="functions")).text
        assert "table" in (await use(context, "list_variables", query="TAB")).text
        page = (await use(context, "list_variables", kind="all", limit=2)).text
        assert "more; go on with start=2" in page


async def test_a_kernel_of_another_language_runs_cells(lab: Lab, jp_data_dir: Path) -> None:
    write_spec(jp_data_dir, "bash", [sys.executable, "-m", "bash_kernel"], "bash")
    async with lab("x=5; echo $((x + 1))", "echo wrong >&2; false", name="bash") as (
        context,
        shared,
    ):
        assert "6" in (await run_cell(context)).text
        await context.notebook.peer.settled()
        assert text(shared).strip() == "6"
        assert shared.cell("c0")["execution_count"] == 1
        await run_cell(context, "c1")
        scratch = await use(context, "run_code", code="echo scratch $x")
        assert "scratch 5" in scratch.text
        with pytest.raises(ToolError, match="runs bash"):
            await use(context, "list_variables")
        assert "bash" in (await use(context, "kernel_status")).text
