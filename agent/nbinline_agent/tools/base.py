"""What a tool is: a name, arguments that check themselves, and a bounded result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import NbinlineError
from nbinline_agent.ids import CellId, NotebookPath, RunId
from nbinline_agent.journal import Author
from nbinline_agent.kernel import Kernel
from nbinline_agent.messages import Image, JsonValue, ToolSpec

from .insertions import Insertions
from .schema import compact


class ToolError(NbinlineError):
    """A call did not do what it should; the model is told and may try again otherwise.

    A detail ``reason`` says in a word what kind of trouble it is, for example ``bad-arguments``.
    """

    code = "tool-failed"
    http_status = 409
    default_message = "The tool could not do this."


class Arguments(BaseModel):
    """Base of all tools' arguments: what is not declared is refused."""

    model_config = ConfigDict(extra="forbid")


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


@dataclass(frozen=True, slots=True)
class Preview:
    """What a person sees of a call before allowing it.

    Attributes:
        summary: One line.
        cell_id: The cell it is about, if there is one.
        diff: A unified diff of what it would change.
        code: What it would run.
    """

    summary: str
    cell_id: CellId | None = None
    diff: str | None = None
    code: str | None = None


class ToolContext(Protocol):
    """What a tool may use while it is called; it belongs to one run.

    The room may be replaced under a run: look ``notebook`` and ``editor`` up anew after every wait.

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
        takes_images: Whether the model takes images.
        insertions: Where new cells go; :meth:`insert` does it all.
    """

    run_id: RunId
    author: Author
    root: Path
    policy: Policy
    takes_images: bool

    @property
    def path(self) -> NotebookPath:
        """See above; it follows renames."""

    @property
    def folder(self) -> Path:
        """See above."""

    @property
    def notebook(self) -> Notebook:
        """See above."""

    @property
    def editor(self) -> Editor:
        """See above."""

    @property
    def kernel(self) -> Kernel | None:
        """See above."""

    @property
    def insertions(self) -> Insertions:
        """See above."""

    def insert(
        self,
        kind: Literal["markdown", "code"],
        source: str,
        *,
        after: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> CellId:
        """Insert a cell: below another one, at the very top with ``index:0``, else by the answer.

        What is inserted at one place again and again keeps its order. Nothing comes between a
        question and its answer.

        Raises:
            CellGone: The other cell is not in the notebook.
        """

    async def at(self, cell: CellId) -> None:
        """Show everybody that the agent works on this cell."""

    async def progress(self, text: str) -> None:
        """Say in the status line how far the call is."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that a model may call.

    Attributes:
        name: As the model and the notebook name it.
        group: Approval group: ``notebook``, ``execution``, ``files``, ``code``, ``inspect``,
            ``saved_notebooks``, ``web``, ``shell`` or ``functions``.
        description: What the model reads; from a docstring.
        arguments: Checks the arguments and makes the JSON schema.
        call: Does it.
        writes: Whether it changes anything; reads of one round run side by side.
        needs_kernel: Whether a live kernel is needed.
        deadline: Seconds it may take.
        deadline_of: Seconds one call may take, by its arguments; instead of ``deadline``.
        preview: What a person is shown who is asked to allow a call; by default it is made of the
            arguments named ``code``, ``command`` and ``cell_id``.
        schema: The JSON schema of the arguments where the model's own does not say it.
    """

    name: str
    group: str
    description: str
    arguments: type[BaseModel]
    call: Callable[[ToolContext, Any], Awaitable[ToolResult]]
    writes: bool = False
    needs_kernel: bool = False
    deadline: float = 60.0
    deadline_of: Callable[[Any], float] | None = None
    preview: Callable[[ToolContext, Any], Awaitable[Preview]] | None = None
    schema: Mapping[str, JsonValue] | None = None

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered to a model."""
        schema = self.schema or compact(self.arguments.model_json_schema())
        return ToolSpec(self.name, self.description, schema)
