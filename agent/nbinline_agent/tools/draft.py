"""Edits of cells on a draft of the notebook: checked one after the other, made all at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from nbinline_agent.document.cursors import people_in
from nbinline_agent.document.edits import Editor, Rearrangement, short_hash
from nbinline_agent.document.index import METADATA_KEY
from nbinline_agent.document.locks import may_delete, may_edit
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import CellGone, SourceChanged
from nbinline_agent.ids import CellId

from . import lines
from .base import Preview, ToolContext, ToolError
from .insertions import TOP, Insertions
from .sight import check_ordinary, visible

Kind = Literal["code", "markdown", "raw"]

MOST_CHARACTERS = 1_000_000
"""Characters a cell may have after an edit."""

SHOWN_SOURCE = 6_000
"""Characters of the current text that a conflict shows."""

MOST_LINES_COMPARED = 4_000
"""Lines up to which a diff is made."""


@dataclass(slots=True)
class DraftCell:
    """A cell of the draft.

    Attributes:
        id: Its id.
        kind: Its type.
        source: Its text.
        metadata: Its metadata.
        attachments: By file name.
        before: Its text when the draft was begun; None for a new one.
        redacted: Whether a model sees only part of it.
        made: Whether it has to be made anew: it is new, moved, or of another type.
    """

    id: CellId
    kind: str
    source: str
    metadata: Mapping[str, Any]
    attachments: Mapping[str, Any] = field(default_factory=dict)
    before: str | None = None
    redacted: bool = False
    made: bool = False


class Draft:
    """A notebook as it would be; nothing is written before :meth:`commit`.

    There must be no wait between making a draft and committing it: what was checked holds then.

    Args:
        context: Where the tool works.

    Attributes:
        touched: Cells that differ, in the order in which they were changed.
        deleted: Cells that go away.
    """

    def __init__(self, context: ToolContext) -> None:
        self.touched: dict[CellId, None] = {}
        self.deleted: dict[CellId, str] = {}
        self._notebook: Notebook = context.notebook
        self._editor: Editor = context.editor
        self._policy = context.policy
        self._insertions: Insertions = context.insertions
        self._ids = list(self._notebook.ids())
        self._places: list[int | CellId] = list(range(len(self._ids)))
        self._cells: dict[CellId, DraftCell] = {}
        self._joined: dict[CellId, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._inserted: list[tuple[str, CellId]] = []

    # Edits

    def replace(self, cell_id: str, source: str, *, expected: str) -> None:
        """Make a cell's text another one."""
        self._write(self._editable(cell_id, expected), source)

    def str_replace(self, cell_id: str, old: str, new: str, *, times: int) -> None:
        """Replace a literal text that must occur exactly so many times."""
        cell = self._editable(cell_id)
        if not old.strip():
            raise ToolError("old_str must not be blank.", reason="bad-arguments")
        found = cell.source.count(old)
        if found != times:
            raise ToolError(
                f"old_str occurs {found} times in {cell.id}, not {times}; nothing was changed.",
                reason="match-count",
                found=found,
                current_hash=short_hash(cell.source),
            )
        self._write(cell, cell.source.replace(old, new))

    def insert_line(self, cell_id: str, line: int, content: str, *, expected: str) -> None:
        """Insert lines before a line."""
        cell = self._editable(cell_id, expected)
        self._write(cell, lines.insert_line(cell.source, line, content))

    def replace_lines(
        self, cell_id: str, start: int, end: int, content: str, *, expected: str
    ) -> None:
        """Replace a range of lines."""
        cell = self._editable(cell_id, expected)
        self._write(cell, lines.replace_lines(cell.source, start, end, content))

    def insert(self, kind: Kind, source: str, *, after: str) -> None:
        """Insert a new cell."""
        self._insert(DraftCell(_new_id(), kind, source, {}, made=True), after)

    def delete(self, cell_id: str, *, expected: str) -> None:
        """Delete a cell."""
        cell = self._ordinary(cell_id, expected)
        self._check_deletable(cell)
        self._remove(cell)
        self.deleted[cell.id] = cell.source

    def move(self, cell_id: str, *, after: str) -> None:
        """Move a cell below another one, or to the top."""
        cell = self._ordinary(cell_id)
        self._check_deletable(cell)
        if after == cell_id:
            raise ToolError("A cell cannot follow itself.", reason="bad-arguments")
        target = self._position(after) if after != TOP or after in self._ids else -1
        if target >= 0 and self._parts_a_pair(target, cell.id):
            raise ToolError(
                "Nothing can stand between a question and its answer. Name the answer instead.",
                reason="protected",
            )
        if self._position(cell.id) == target + 1:
            self.touched[cell.id] = None
            return
        self._load_whole(cell)
        self._remove(cell)
        cell.made = True
        self._put(target + 1 if target < 0 else self._position(after) + 1, cell)

    def copy(self, cell_id: str, *, after: str) -> None:
        """Copy a cell with metadata and attachments, without outputs."""
        cell = self._ordinary(cell_id)
        self._load_whole(cell)
        if cell.redacted:
            raise _hidden(cell)
        self._insert(self._twin(cell, cell.source), after)

    def split(self, cell_id: str, line: int, *, expected: str) -> None:
        """Split a cell before a line; the second part is a new cell."""
        cell = self._editable(cell_id, expected)
        self._load_whole(cell)
        first, second = lines.split_at(cell.source, line)
        self._write(cell, first)
        self._put(self._position(cell.id) + 1, self._twin(cell, second))

    def merge(
        self, first_id: str, second_id: str, *, expected_first: str, expected_second: str
    ) -> None:
        """Put the text of the second of two neighbours below that of the first."""
        first = self._editable(first_id, expected_first)
        second = self._editable(second_id, expected_second)
        self._check_deletable(second)
        if self._position(second.id) != self._position(first.id) + 1:
            raise ToolError("The second cell must stand right below the first.", reason="not-next")
        if first.kind != second.kind:
            raise ToolError(
                f"Only cells of one type can be merged; these are {first.kind} and {second.kind}.",
                reason="cell-type",
            )
        for cell in (first, second):
            self._load_whole(cell)
        metadata, attachments = self._joined.setdefault(first.id, ({}, {}))
        metadata |= _new_keys(_unsigned(first.metadata), _unsigned(second.metadata), "metadata")
        attachments |= _new_keys(first.attachments, second.attachments, "attachments")
        first.metadata = {**first.metadata, **metadata}
        first.attachments = {**first.attachments, **attachments}
        between = "\n\n" if first.kind == "markdown" else "\n"
        glue = between if first.source and second.source else ""
        self._remove(second)
        self.deleted[second.id] = second.source
        self._write(first, first.source.rstrip("\n") + glue + second.source)

    def set_type(self, cell_id: str, kind: Kind, *, expected: str) -> None:
        """Make a cell another type; outputs go away with code."""
        cell = self._editable(cell_id, expected)
        self._check_deletable(cell)
        self.touched[cell.id] = None
        if cell.kind == kind:
            return
        self._load_whole(cell)
        cell.kind = kind
        position = self._position(cell.id)
        self._places[position] = cell.id
        cell.made = True

    # Writing

    def commit(self) -> None:
        """Write everything in one transaction.

        Raises:
            ToolError: Somebody's cursor is in a cell that would go away.
        """
        self._check_nobody_in()
        kept = [cell for cell in self._cells.values() if not cell.made and cell.id in self._ids]
        moved = any(not isinstance(item, int) for item in self._places) or self.deleted
        self._editor.rearrange(
            Rearrangement(
                texts={cell.id: cell.source for cell in kept if cell.source != cell.before},
                metadata={cell: values for cell, (values, _) in self._joined.items() if values},
                attachments={cell: values for cell, (_, values) in self._joined.items() if values},
                order=tuple(self._places) if moved else None,
                made={
                    cell.id: self._as_file(cell)
                    for cell in self._cells.values()
                    if cell.made and cell.id in self._ids
                },
            )
        )
        for after, cell_id in self._inserted:
            self._insertions.note(after, cell_id)

    def preview(self, name: str) -> Preview:
        """What a person is shown before it is written."""
        self._check_nobody_in()
        changed = [*self.touched, *self.deleted]
        parts = [self._diff(cell) for cell in changed]
        return Preview(
            summary=f"{name}: {len(changed)} cell{'s' if len(changed) != 1 else ''}",
            cell_id=next((cell for cell in changed if self._notebook.has(cell)), None),
            diff="\n".join(part for part in parts if part) or None,
        )

    def before(self, cell_id: CellId) -> str:
        """A cell's text when the draft was begun; empty for a new one."""
        return self._cells[cell_id].before or ""

    def _diff(self, cell_id: CellId) -> str:
        before = self.deleted.get(cell_id)
        if before is not None:
            after = ""
        else:
            before, after = self.before(cell_id), self._cells[cell_id].source
        old, new = before.splitlines(), after.splitlines()
        if max(len(old), len(new)) > MOST_LINES_COMPARED:
            return f"@@ {cell_id} @@\n {len(old)} lines become {len(new)}"
        return "\n".join(difflib.unified_diff(old, new, cell_id, cell_id, lineterm=""))

    # Looking

    def _cell(self, cell_id: str) -> DraftCell:
        known = self._cells.get(CellId(cell_id))
        if known is not None and known.id in self._ids:
            return known
        if CellId(cell_id) not in self._ids or not cell_id:
            raise CellGone(f"There is no cell {cell_id[:100]!r} in the notebook. Use list_cells.")
        notebook, name = self._notebook, CellId(cell_id)
        source, metadata = notebook.source(name), notebook.metadata(name)
        _, redacted = visible(source, metadata, self._policy)
        cell = DraftCell(
            name, notebook.kind(name), source, metadata, before=source, redacted=redacted
        )
        self._cells[name] = cell
        return cell

    def _ordinary(self, cell_id: str, expected: str | None = None) -> DraftCell:
        cell = self._cell(cell_id)
        check_ordinary(cell.id, cell.metadata)
        if expected is not None and expected not in (cell.source, short_hash(cell.source)):
            raise self._stale(cell)
        return cell

    def _editable(self, cell_id: str, expected: str | None = None) -> DraftCell:
        cell = self._cell(cell_id)
        check_ordinary(cell.id, cell.metadata)
        if not may_edit(cell.metadata):
            raise ToolError(f"Cell {cell.id} is locked and cannot be edited.", reason="locked")
        if cell.redacted:
            raise _hidden(cell)
        return self._ordinary(cell_id, expected)

    def _check_deletable(self, cell: DraftCell) -> None:
        if not may_delete(cell.metadata):
            raise ToolError(
                f"Cell {cell.id} is locked and cannot be moved or deleted.", reason="locked"
            )
        if cell.redacted:
            raise _hidden(cell)

    def _stale(self, cell: DraftCell) -> SourceChanged:
        shown, redacted = visible(cell.source, cell.metadata, self._policy)
        cut = f"{shown[:SHOWN_SOURCE]}\n[cut]" if len(shown) > SHOWN_SOURCE else shown
        return SourceChanged(
            f"Cell {cell.id} is not what was expected; nothing was changed. Its text now is in "
            "current_source.",
            cell_id=cell.id,
            current_hash=short_hash(cell.source),
            current_source="" if redacted else cut,
        )

    def _check_nobody_in(self) -> None:
        going = [cell.id for cell in self._cells.values() if cell.made and cell.before is not None]
        for cell_id in (*self.deleted, *going):
            people = people_in(self._notebook.peer, cell_id)
            if people:
                raise ToolError(
                    f"{' and '.join(people)} has the cursor in cell {cell_id}, so it is not "
                    "deleted, moved or changed in type now. Edit its text, or leave it.",
                    reason="in-use",
                )

    # Positions

    def _position(self, cell_id: str) -> int:
        try:
            return self._ids.index(CellId(cell_id))
        except ValueError:
            raise CellGone(
                f"There is no cell {cell_id[:100]!r} in the notebook. Use list_cells."
            ) from None

    def _mark(self, cell_id: CellId) -> Mapping[str, Any]:
        return self._notebook.nbinline(cell_id) if self._notebook.has(cell_id) else {}

    def _parts_a_pair(self, position: int, moved: CellId) -> bool:
        following = [cell for cell in self._ids[position + 1 : position + 3] if cell != moved]
        mark = self._mark(following[0]) if following else {}
        return mark.get("isOutputCell") is True and mark.get("promptCellId") == self._ids[position]

    def _insert(self, cell: DraftCell, after: str) -> None:
        target = self._insertions.below(self._ids, after, self._mark)
        for place, inserted in self._inserted:
            if place == after and inserted in self._ids:
                target = inserted
        self._put(0 if target is None else self._position(target) + 1, cell)
        self._inserted.append((after, cell.id))

    def _put(self, position: int, cell: DraftCell) -> None:
        self._cells[cell.id] = cell
        self._ids.insert(position, cell.id)
        self._places.insert(position, cell.id)
        self.touched[cell.id] = None

    def _remove(self, cell: DraftCell) -> None:
        position = self._position(cell.id)
        del self._ids[position], self._places[position]
        self.touched.pop(cell.id, None)

    def _write(self, cell: DraftCell, source: str) -> None:
        if len(source) > MOST_CHARACTERS:
            raise ToolError(
                f"The cell would have {len(source):,} characters; {MOST_CHARACTERS:,} are allowed.",
                reason="too-long",
            )
        cell.source = source
        self.touched[cell.id] = None

    # What a cell is made of

    def _load_whole(self, cell: DraftCell) -> None:
        """Read attachments, which only these edits need."""
        if cell.before is not None and not cell.attachments:
            attachments = self._editor.as_file(cell.id).get("attachments", {})
            cell.attachments = attachments if isinstance(attachments, Mapping) else {}

    def _twin(self, cell: DraftCell, source: str) -> DraftCell:
        # A second cell of one grade would break the course's own tools.
        metadata = {key: value for key, value in cell.metadata.items() if key != "nbgrader"}
        return DraftCell(_new_id(), cell.kind, source, metadata, cell.attachments, made=True)

    def _as_file(self, cell: DraftCell) -> dict[str, Any]:
        stays_code = cell.before is not None and cell.kind == "code"
        if stays_code and self._notebook.kind(cell.id) == "code" and cell.source == cell.before:
            return self._editor.as_file(cell.id)
        value: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": cell.id,
            "metadata": dict(cell.metadata),
            "source": cell.source,
        }
        if cell.kind == "code":
            return value | {"outputs": [], "execution_count": None}
        return value | ({"attachments": dict(cell.attachments)} if cell.attachments else {})


def _unsigned(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without who edited the cell last: both have been, once they are one."""
    mark = metadata.get(METADATA_KEY)
    if not isinstance(mark, Mapping) or "editedBy" not in mark:
        return dict(metadata)
    rest = {key: value for key, value in mark.items() if key != "editedBy"}
    others = {key: value for key, value in metadata.items() if key != METADATA_KEY}
    return others | ({METADATA_KEY: rest} if rest else {})


def _new_keys(first: Mapping[str, Any], second: Mapping[str, Any], what: str) -> dict[str, Any]:
    clash = sorted(key for key in first if key in second and first[key] != second[key])
    if clash:
        raise ToolError(
            f"The cells have different {what} under {', '.join(clash)[:200]}; merging would lose "
            "one of them.",
            reason="conflict",
        )
    return {key: value for key, value in second.items() if key not in first}


def _hidden(cell: DraftCell) -> ToolError:
    return ToolError(
        f"Part of cell {cell.id} is hidden by the course, so it cannot be changed here.",
        reason="hidden",
    )


def _new_id() -> CellId:
    return CellId(str(uuid4()))
