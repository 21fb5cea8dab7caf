"""Calling the tools on cells of a notebook in memory, with arguments as a model gives them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.ids import CellId, NotebookPath, RunId
from nbinline_agent.journal import Author
from nbinline_agent.testing import SharedNotebook, open_notebook
from nbinline_agent.tools.base import Preview, ToolResult
from nbinline_agent.tools.calling import read_arguments
from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.insertions import Insertions

TOOLS = {tool.name: tool for tool in cell_tools()}


class Calls:
    """Implements ``ToolContext`` and calls tools in it."""

    kernel = None
    path = NotebookPath("notebook.ipynb")
    root = folder = Path()
    run_id = RunId("run-1")
    author = Author("ann", "Ann")
    takes_images = True

    def __init__(
        self, notebook: Notebook, shared: SharedNotebook, policy: Policy | None = None
    ) -> None:
        self.notebook = notebook
        self.shared = shared
        self.policy = policy or Policy()
        self.insertions = Insertions(CellId("a"), CellId("q"))
        self.visited: list[str] = []

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

    async def __call__(self, name: str, **arguments: Any) -> ToolResult:
        tool = TOOLS[name]
        # As it comes from a model: JSON, checked.
        value = json.loads(json.dumps(arguments))
        result: ToolResult = await tool.call(self, read_arguments(name, tool.arguments, value))
        return result

    async def preview(self, name: str, **arguments: Any) -> Preview:
        tool = TOOLS[name]
        assert tool.preview is not None
        return await tool.preview(self, read_arguments(name, tool.arguments, arguments))

    async def seen(self) -> list[dict[str, Any]]:
        """The cells as everybody has them."""
        await self.notebook.peer.settled()
        return self.shared.cells

    async def order(self) -> list[str]:
        """The ids as everybody has them."""
        return [cell["id"] for cell in await self.seen()]

    async def source(self, cell_id: str) -> str:
        """A cell's text as everybody has it."""
        await self.notebook.peer.settled()
        return self.shared.source(cell_id)


@asynccontextmanager
async def calls(
    cells: Sequence[Mapping[str, Any]], policy: Policy | None = None
) -> AsyncIterator[Calls]:
    """Be in a notebook with these cells."""
    async with open_notebook(cells) as (notebook, shared):
        yield Calls(notebook, shared, policy)
