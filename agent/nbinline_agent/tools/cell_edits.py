"""Changing the cells of the live notebook: each tool is one edit of a draft, written at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from nbinline_agent.errors import NbinlineError
from nbinline_agent.ids import CellId

from .base import Arguments, Preview, Tool, ToolContext, ToolError, ToolResult
from .calling import read_arguments
from .catalog import description
from .draft import Draft
from .lines import changed_lines, lines_of, numbered
from .sight import find

LONGEST = 32_000
"""Characters of one argument."""

MOST_EDITS = 20
"""Edits of one ``apply_edits``."""

SHOWN_LINES = 30
"""Changed lines that are read back of one cell."""

CellRef = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=LONGEST)]
Expected = Annotated[str, Field(max_length=LONGEST)]

AFTER = "Cell id; index:0 is the top; empty: below the answer."
EXPECTED = "The source, or the sha256:… hash, as last read."


class Insert(Arguments):
    """Of ``insert_markdown`` and ``insert_code``."""

    content: str = Field(min_length=1, max_length=LONGEST)
    after_cell_id: str = Field("", max_length=200, description=AFTER)


class ReplaceCell(Arguments):
    """Of ``replace_cell``."""

    cell_id: CellRef
    expected_source: Expected = Field(description=EXPECTED)
    new_source: Text


class StrReplace(Arguments):
    """Of ``cell_str_replace``."""

    cell_id: CellRef
    old_str: str = Field(min_length=1, max_length=LONGEST)
    new_str: Text
    expected_matches: int = Field(1, ge=1, le=1000)


class InsertLine(Arguments):
    """Of ``cell_insert_line``."""

    cell_id: CellRef
    line: int = Field(ge=1)
    content: Text
    expected_source: Expected


class ReplaceLines(Arguments):
    """Of ``cell_replace_lines``."""

    cell_id: CellRef
    start_line: int = Field(ge=1)
    end_line: int = Field(ge=1)
    content: Text
    expected_source: Expected


class DeleteCell(Arguments):
    """Of ``delete_cell``."""

    cell_id: CellRef
    expected_source: Expected


class PlaceCell(Arguments):
    """Of ``move_cell``."""

    cell_id: CellRef
    after_cell_id: CellRef


class CopyCell(Arguments):
    """Of ``copy_cell``."""

    cell_id: CellRef
    after_cell_id: str = Field(max_length=200)


class SplitCell(Arguments):
    """Of ``split_cell``."""

    cell_id: CellRef
    line: int = Field(ge=2)
    expected_source: Expected


class MergeCells(Arguments):
    """Of ``merge_cells``."""

    first_cell_id: CellRef
    second_cell_id: CellRef
    expected_first: Expected
    expected_second: Expected


class SetCellType(Arguments):
    """Of ``set_cell_type``."""

    cell_id: CellRef
    cell_type: Literal["code", "markdown", "raw"]
    expected_source: Expected


class OneEdit(Arguments):
    """One edit of ``apply_edits``."""

    tool: str = Field(max_length=40)
    arguments: dict[str, Any]


class ApplyEdits(Arguments):
    """Of ``apply_edits``."""

    edits: list[OneEdit] = Field(min_length=1, max_length=MOST_EDITS)


@dataclass(frozen=True, slots=True)
class _Edit:
    """One kind of edit.

    Attributes:
        arguments: Its arguments.
        apply: Makes it on a draft.
        first: The field that names the cell it is about.
    """

    arguments: type[Arguments]
    apply: Callable[[Draft, Any], None]
    first: str = "cell_id"


EDITS: dict[str, _Edit] = {
    "insert_markdown": _Edit(
        Insert, lambda d, a: d.insert("markdown", a.content, after=a.after_cell_id), ""
    ),
    "insert_code": _Edit(
        Insert, lambda d, a: d.insert("code", a.content, after=a.after_cell_id), ""
    ),
    "replace_cell": _Edit(
        ReplaceCell, lambda d, a: d.replace(a.cell_id, a.new_source, expected=a.expected_source)
    ),
    "cell_str_replace": _Edit(
        StrReplace,
        lambda d, a: d.str_replace(a.cell_id, a.old_str, a.new_str, times=a.expected_matches),
    ),
    "cell_insert_line": _Edit(
        InsertLine,
        lambda d, a: d.insert_line(a.cell_id, a.line, a.content, expected=a.expected_source),
    ),
    "cell_replace_lines": _Edit(
        ReplaceLines,
        lambda d, a: d.replace_lines(
            a.cell_id, a.start_line, a.end_line, a.content, expected=a.expected_source
        ),
    ),
    "delete_cell": _Edit(DeleteCell, lambda d, a: d.delete(a.cell_id, expected=a.expected_source)),
    "move_cell": _Edit(PlaceCell, lambda d, a: d.move(a.cell_id, after=a.after_cell_id)),
    "copy_cell": _Edit(CopyCell, lambda d, a: d.copy(a.cell_id, after=a.after_cell_id)),
    "split_cell": _Edit(
        SplitCell, lambda d, a: d.split(a.cell_id, a.line, expected=a.expected_source)
    ),
    "merge_cells": _Edit(
        MergeCells,
        lambda d, a: d.merge(
            a.first_cell_id,
            a.second_cell_id,
            expected_first=a.expected_first,
            expected_second=a.expected_second,
        ),
        "first_cell_id",
    ),
    "set_cell_type": _Edit(
        SetCellType, lambda d, a: d.set_type(a.cell_id, a.cell_type, expected=a.expected_source)
    ),
}
"""Every edit by the name of its tool."""

_OURS = {
    "set_cell_type": "Make a cell code, Markdown or raw; code loses its outputs.",
    "apply_edits": (
        "Several edits at once: all of them, or none. Each is {tool, arguments} of one of these "
        "editing tools; a later one sees what an earlier one did."
    ),
}


def edit_tools() -> tuple[Tool, ...]:
    """All tools that change cells."""
    tools = [_tool(name, edit) for name, edit in EDITS.items()]
    several = Tool(
        "apply_edits",
        "notebook",
        _OURS["apply_edits"],
        ApplyEdits,
        _apply_edits,
        writes=True,
        preview=_preview_edits,
    )
    return (*tools, several)


def _tool(name: str, edit: _Edit) -> Tool:
    async def call(context: ToolContext, arguments: Any) -> ToolResult:
        if edit.first:
            await context.at(CellId(getattr(arguments, edit.first)))
        draft = Draft(context)
        edit.apply(draft, arguments)
        return await _written(context, draft)

    async def preview(context: ToolContext, arguments: Any) -> Preview:
        draft = Draft(context)
        edit.apply(draft, arguments)
        return draft.preview(name)

    return Tool(
        name,
        "notebook",
        _OURS.get(name) or description(name),
        edit.arguments,
        call,
        writes=True,
        preview=preview,
    )


async def _apply_edits(context: ToolContext, arguments: ApplyEdits) -> ToolResult:
    draft = Draft(context)
    _make(draft, arguments)
    return await _written(context, draft)


async def _preview_edits(context: ToolContext, arguments: ApplyEdits) -> Preview:
    draft = Draft(context)
    _make(draft, arguments)
    return draft.preview("apply_edits")


def _make(draft: Draft, arguments: ApplyEdits) -> None:
    for number, wanted in enumerate(arguments.edits, start=1):
        edit = EDITS.get(wanted.tool)
        try:
            if edit is None:
                raise ToolError(
                    f"There is no such edit; they are {', '.join(EDITS)}.", reason="unknown-tool"
                )
            edit.apply(draft, read_arguments(wanted.tool, edit.arguments, wanted.arguments))
        except NbinlineError as error:
            reason = error.details.get("reason", error.code)
            raise ToolError(
                f"Edit {number} ({wanted.tool[:40]}) cannot be made, so none was. {error.message}",
                **{**error.details, "reason": reason, "edit": number},
            ) from None


async def _written(context: ToolContext, draft: Draft) -> ToolResult:
    """Write a draft, and tell what stands there now."""
    draft.commit()
    told = [_read_back(context, draft, cell) for cell in draft.touched]
    told += [f"Deleted cell {cell}." for cell in draft.deleted]
    cells = tuple(draft.touched)
    if cells and context.notebook.has(cells[-1]):
        await context.at(cells[-1])
    return ToolResult("\n".join(told) or "Nothing to change.", cells=(*cells, *draft.deleted))


def _read_back(context: ToolContext, draft: Draft, cell: CellId) -> str:
    seen = find(context.notebook, cell, context.policy)
    before = draft.before(cell)
    total = len(lines_of(seen.source))
    head = f"Done: {seen.label}, {total} line{'s' if total != 1 else ''}, hash {seen.hash}"
    if before == seen.source:
        return f"{head}, text unchanged."
    first, last = changed_lines(before, seen.source)
    if last - first >= SHOWN_LINES or last < first:
        return f"{head}."
    return f"{head}. Lines {first}-{last} now:\n{numbered(seen.source, first, last)}"
