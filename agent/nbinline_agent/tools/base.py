"""What a tool is: a name, arguments that check themselves, and a bounded result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import NbinlineError
from nbinline_agent.ids import CellId, NotebookPath, RunId
from nbinline_agent.journal import Author
from nbinline_agent.kernel import Kernel
from nbinline_agent.messages import Image, JsonValue, ToolSpec


class ToolError(NbinlineError):
    """A call did not do what it should; the model is told and may try again otherwise."""

    code = "tool-failed"
    default_message = "The tool could not do this."


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave.

    Attributes:
        text: For the model.
        data: The same as JSON where that says more; it goes behind the text.
        images: For models that take images.
        cells: Cells that were read or changed, for the transcript.
    """

    text: str
    data: JsonValue = None
    images: tuple[Image, ...] = ()
    cells: tuple[CellId, ...] = ()


class ToolContext(Protocol):
    """What a tool may use while it is called; it belongs to one run.

    Attributes:
        run_id: The run.
        author: Who asked.
        path: The notebook below the server root.
        notebook: The live shared notebook.
        editor: Writes to it, with the run as origin.
        kernel: The notebook's kernel, or None where this server has none.
        folder: The notebook's folder.
        root: The server's root folder.
        policy: What is kept from models.
    """

    run_id: RunId
    author: Author
    path: NotebookPath
    notebook: Notebook
    editor: Editor
    kernel: Kernel | None
    folder: Path
    root: Path
    policy: Policy

    async def at(self, cell: CellId) -> None:
        """Show everybody that the agent works on this cell."""

    async def progress(self, text: str) -> None:
        """Say in the status line how far the call is."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that a model may call.

    Attributes:
        name: As the model and the notebook name it.
        group: Approval and preset group: ``notebook``, ``execution``, ``files``, ``code``,
            ``inspect``, ``saved_notebooks``, ``web``, ``shell`` or ``functions``.
        description: What the model reads; from a docstring.
        arguments: Checks the arguments and makes the JSON schema.
        call: Does it.
        writes: Whether it changes anything; reads of one round run side by side.
        needs_kernel: Whether a live kernel is needed.
        deadline: Seconds it may take.
    """

    name: str
    group: str
    description: str
    arguments: type[BaseModel]
    call: Callable[[ToolContext, Any], Awaitable[ToolResult]]
    writes: bool = False
    needs_kernel: bool = False
    deadline: float = 60.0

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered to a model."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return ToolSpec(self.name, self.description, schema)
