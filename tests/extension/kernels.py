"""A real kernel of a real server, and what stands in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.ids import CellId, NotebookPath, RunId
from nbinline_agent.journal import Author
from nbinline_agent.tools.base import ToolResult
from nbinline_agent.tools.execution import execution_tools
from nbinline_agent.tools.inspect import inspect_tools
from nbinline_rtc.kernels import KernelsOfServer, NotebookKernel

PATH = NotebookPath("a.ipynb")
Kernel = Callable[..., AbstractAsyncContextManager[NotebookKernel]]


class Outputs(list[Mapping[str, Any]]):
    """Gathers output messages."""

    def __call__(self, message: Mapping[str, Any]) -> None:
        self.append(message)

    def text(self, name: str = "stdout") -> str:
        """What was printed."""
        return "".join(
            each["content"].get("text", "")
            for each in self
            if each["type"] == "stream" and each["content"].get("name") == name
        )


def kernel_of(serverapp: Any) -> Kernel:
    """Makes kernels of a server's notebooks, and shuts all of them down afterwards."""

    @contextlib.asynccontextmanager
    async def running(
        name: str = "python3", *, start: bool = True
    ) -> AsyncIterator[NotebookKernel]:
        try:
            async with KernelsOfServer(serverapp) as kernels:
                kernel = kernels.of(PATH)
                if start:
                    await kernel.start(name)
                yield kernel
        finally:
            for session in await serverapp.session_manager.list_sessions():
                await serverapp.session_manager.delete_session(session["id"])

    return running


async def run(kernel: NotebookKernel, code: str, **options: Any) -> Outputs:
    """Run code as a person's cell would; it must succeed."""
    outputs = Outputs()
    execution = await kernel.execute(code, on_output=outputs, deadline=60, **options)
    assert execution.status == "ok", (execution, list(outputs))
    return outputs


def write_spec(data_dir: Path, name: str, argv: Sequence[str], language: str) -> None:
    """Tell the server of a kernel."""
    folder = data_dir / "kernels" / name
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"argv": [*argv, "-f", "{connection_file}"], "display_name": name, "language": language}
    (folder / "kernel.json").write_text(json.dumps(spec))


@dataclass
class Context:
    """What tools get, with a real notebook and a real kernel."""

    notebook: Notebook
    kernel: NotebookKernel | None
    run_id: RunId = RunId("run-1")
    author: Author = Author("ada", "Ada")
    path: NotebookPath = PATH
    root: Path = Path()
    folder: Path = Path()
    policy: Policy = field(default_factory=Policy)
    takes_images: bool = True
    visited: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def at(self, cell: CellId) -> None:
        """Note the cell."""
        self.visited.append(cell)

    async def progress(self, text: str) -> None:
        """Note the text."""
        self.said.append(text)


TOOLS = {tool.name: tool for tool in (*execution_tools(), *inspect_tools())}


async def use(context: Context, called: str, /, **arguments: Any) -> ToolResult:
    """Call a tool as the loop does."""
    tool = TOOLS[called]
    checked = tool.arguments.model_validate(arguments)
    return await tool.call(cast("Any", context), checked)
