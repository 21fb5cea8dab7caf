"""What of a live cell a model may see, and whether it may change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbinline_agent.context.choices import Policy
from nbinline_agent.context.hiding import HIDDEN, hide_solutions
from nbinline_agent.document.edits import short_hash
from nbinline_agent.document.locks import may_edit
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import CellGone
from nbinline_agent.ids import CellId

from .base import ToolError


@dataclass(frozen=True, slots=True)
class Seen:
    """A cell as a model may see it.

    Attributes:
        id: Its id.
        index: Where it stands, counted from 0.
        kind: ``code``, ``markdown`` or ``raw``.
        source: Its text, without what the course hides.
        hash: Of the whole text.
        count: The number people see beside a code cell, or None.
        redacted: Whether something was taken out.
        metadata: Its metadata.
    """

    id: CellId
    index: int
    kind: str
    source: str
    hash: str
    count: int | None
    redacted: bool
    metadata: Mapping[str, Any]

    @property
    def role(self) -> str:
        """``question``, ``answer`` or empty for an ordinary cell."""
        return role_of(self.metadata)

    @property
    def locked(self) -> bool:
        """Whether it may not be edited."""
        return not may_edit(self.metadata)

    @property
    def label(self) -> str:
        """How results name it."""
        number = "" if self.count is None else f", In [{self.count}]"
        role = f", AI {self.role}" if self.role else ""
        lock = ", locked" if self.locked else ""
        return f"cell {self.id} (index {self.index}, {self.kind}{number}{role}{lock})"


def see(notebook: Notebook, cell_id: CellId, index: int, policy: Policy) -> Seen:
    """Look at a cell as it stands now."""
    metadata = notebook.metadata(cell_id)
    kind = notebook.kind(cell_id)
    source = notebook.source(cell_id)
    shown, redacted = visible(source, metadata, policy)
    count = notebook.execution_count(cell_id) if kind == "code" else None
    return Seen(cell_id, index, kind, shown, short_hash(source), count, redacted, metadata)


def visible(source: str, metadata: Mapping[str, Any], policy: Policy) -> tuple[str, bool]:
    """A cell's text without what the course hides, and whether anything was taken out."""
    tags = metadata.get("tags")
    named = {tag for tag in tags if isinstance(tag, str)} if isinstance(tags, list) else set()
    if policy.hidden_tags & named:
        return HIDDEN, True
    return hide_solutions(source) if policy.hide_solutions else (source, False)


def find(notebook: Notebook, cell: str, policy: Policy) -> Seen:
    """The cell of an id, or of ``index:N`` counted from 0.

    Raises:
        CellGone: There is none.
    """
    ids = notebook.ids()
    cell_id = CellId(cell)
    if not notebook.has(cell_id) and cell.startswith("index:"):
        number = cell.removeprefix("index:")
        if number.isdecimal() and int(number) < len(ids):
            cell_id = ids[int(number)]
    if not notebook.has(cell_id):
        raise CellGone(f"There is no cell {cell[:100]!r} in the notebook. Use list_cells.")
    return see(notebook, cell_id, notebook.position(cell_id), policy)


def role_of(metadata: Mapping[str, Any]) -> str:
    """``question``, ``answer`` or empty for an ordinary cell."""
    mark = metadata.get("nbinlineai")
    if not isinstance(mark, Mapping):
        return ""
    if mark.get("isOutputCell") is True:
        return "answer"
    return "question" if mark.get("isPromptCell") is True else ""


def check_ordinary(cell_id: CellId, metadata: Mapping[str, Any]) -> None:
    """Let only cells through that are neither questions nor answers.

    Raises:
        ToolError: It is one of these.
    """
    role = role_of(metadata)
    if role:
        raise ToolError(
            f"Cell {cell_id} is an AI {role}; tools do not change those.", reason="protected"
        )
