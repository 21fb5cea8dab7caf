"""Calling tools as a run does, in a folder of a test and a notebook in memory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.ids import CellId, NotebookPath, RunId
from nbinline_agent.journal import Author
from nbinline_agent.kernel import Kernel
from nbinline_agent.testing import open_notebook
from nbinline_agent.tools.base import Preview, Tool, ToolResult
from nbinline_agent.tools.insertions import Insertions


@dataclass
class Context:
    """What a tool may use; no kernel."""

    root: Path
    shared: Notebook | None = None
    path: NotebookPath = NotebookPath("course/a.ipynb")
    policy: Policy = field(default_factory=Policy)
    run_id: RunId = RunId("run")
    author: Author = field(default_factory=lambda: Author("ada", "Ada"))
    kernel: Kernel | None = None
    takes_images: bool = False
    visited: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.insertions = Insertions(CellId("answer"), CellId("question"))

    @property
    def folder(self) -> Path:
        return (self.root / self.path).parent

    @property
    def notebook(self) -> Notebook:
        assert self.shared is not None, "this test has no notebook"
        return self.shared

    @property
    def editor(self) -> Editor:
        return Editor(self.notebook, self.run_id)

    def insert(
        self,
        kind: Literal["markdown", "code"],
        source: str,
        *,
        after: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> CellId:
        target = self.insertions.below(self.notebook.ids(), after, self.notebook.nbinline)
        cell = self.editor.insert(kind, source, after=target, metadata=metadata)
        self.insertions.note(after, cell)
        return cell

    async def at(self, cell: CellId) -> None:
        self.visited.append(cell)

    async def progress(self, text: str) -> None:
        self.visited.append(text)


class Calls:
    """Calls tools by name with arguments as a model gives them."""

    def __init__(self, tools: Iterable[Tool], context: Context) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.context = context

    async def result(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.tools[name]
        checked = tool.arguments.model_validate_json(json.dumps(arguments))
        return await tool.call(self.context, checked)

    async def __call__(self, name: str, **arguments: Any) -> str:
        return (await self.result(name, **arguments)).text

    async def preview(self, name: str, **arguments: Any) -> Preview:
        tool = self.tools[name]
        assert tool.preview is not None
        return await tool.preview(self.context, tool.arguments(**arguments))


@contextlib.asynccontextmanager
async def calling(
    tools: Iterable[Tool], root: Path, *cells: Mapping[str, Any], path: str = "course/a.ipynb"
) -> AsyncIterator[Calls]:
    """Tools in a notebook below a root."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    async with open_notebook(cells) as (notebook, _):
        yield Calls(tools, Context(root, notebook, NotebookPath(path)))
