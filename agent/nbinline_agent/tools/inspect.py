"""Tools that look at live names, values and documentation in a Python kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from nbinline_agent.context.hiding import hide_in_place
from nbinline_agent.errors import KernelError
from nbinline_agent.messages import JsonValue

from .base import Tool, ToolContext, ToolError, ToolResult
from .execution import kernel_of

NAME = 200
"""Characters of a dotted name."""

WAIT = 5.0
"""Seconds a look waits for a kernel that cannot be looked into while it runs a cell."""

TRACE_DEADLINE = 60.0
"""Seconds a traced call may run."""

Render = Callable[[Mapping[str, Any]], str]


class SearchKernelNames(BaseModel):
    """Arguments of ``search_kernel_names``."""

    query: str = Field(max_length=100)
    limit: int = Field(20, ge=1, le=50)


class InspectPython(BaseModel):
    """Arguments of ``inspect_python``."""

    name: str = Field(min_length=1, max_length=NAME)
    section: Literal["help", "signature", "source"] = "help"


class ShowDoc(BaseModel):
    """Arguments of ``show_doc``."""

    name: str = Field(min_length=1, max_length=NAME)
    module: str = Field("", max_length=NAME, description="It is imported.")


class ApiNames(BaseModel):
    """Arguments of ``api_names``."""

    name: str = Field(min_length=1, max_length=NAME)
    module: str = Field("", max_length=NAME)
    query: str = Field("", max_length=100)
    limit: int = Field(30, ge=1, le=100)


class SearchDocs(BaseModel):
    """Arguments of ``search_docs``."""

    name: str = Field(min_length=1, max_length=NAME)
    query: str = Field(min_length=1, max_length=100)
    module: str = Field("", max_length=NAME)
    depth: int = Field(1, ge=0, le=2)
    limit: int = Field(20, ge=1, le=50)


class InspectValue(BaseModel):
    """Arguments of ``inspect_value``."""

    name: str = Field(min_length=1, max_length=NAME)
    start: int = Field(0, ge=0, le=10_000)
    limit: int = Field(20, ge=1, le=100)


class SearchValue(BaseModel):
    """Arguments of ``search_value``."""

    name: str = Field(min_length=1, max_length=NAME)
    query: str = Field(min_length=1, max_length=100)
    limit: int = Field(20, ge=1, le=50)


class SourceFiles(BaseModel):
    """Arguments of ``source_files``."""

    name: str = Field(min_length=1, max_length=NAME)
    module: str = Field("", max_length=NAME)
    limit: int = Field(30, ge=1, le=100)


class TraceFunction(BaseModel):
    """Arguments of ``trace_function``."""

    name: str = Field(min_length=1, max_length=NAME)
    args_json: str = Field("[]", max_length=8_000)
    kwargs_json: str = Field("{}", max_length=8_000)
    max_events: int = Field(40, ge=1, le=100)


async def _trace(ctx: ToolContext, arguments: TraceFunction) -> ToolResult:
    try:
        found = await kernel_of(ctx).trace(arguments.model_dump(), deadline=TRACE_DEADLINE)
    except KernelError as error:
        raise ToolError(error.message) from error
    lines = [_event(each) for each in found.get("events", [])]
    if found.get("more_events"):
        lines.append(f"[{found['more_events']:,} more events]")
    end = f"raised {found['error']}" if found.get("error") else f"returned {found.get('result')}"
    return ToolResult("\n".join((*lines, f"{arguments.name} {end}")))


def _event(each: Mapping[str, Any]) -> str:
    head = f"{each['event']} {each['function']}, line {each['line']}"
    if "value" in each:
        return f"{head}: {each['value']}"
    if "error" in each:
        return f"{head}: {each['error']}"
    names = ", ".join(f"{name} = {value}" for name, value in each.get("locals", {}).items())
    return f"{head}: {names}" if names else head


def _text(found: Mapping[str, Any]) -> str:
    return str(found.get("text", "")) or "It has no documentation."


def _names(found: Mapping[str, Any]) -> str:
    lines = [f"{each['name']}: {each['type']}" for each in found.get("names", [])]
    return _with_rest(lines, found.get("total", 0), "No such names.")


def _members(found: Mapping[str, Any]) -> str:
    lines = [_member(each) for each in found.get("members", [])]
    return _with_rest(lines, found.get("total", 0), "No such members.")


def _hits(found: Mapping[str, Any]) -> str:
    lines = [_member(each) for each in found.get("hits", [])]
    if not found.get("complete", True):
        lines.append("[there may be more: the search was bounded]")
    return "\n".join(lines) or "Nothing found."


def _member(each: Mapping[str, Any]) -> str:
    summary = f": {each['summary']}" if each.get("summary") else ""
    return f"{each['name']} ({each['kind']}){summary}"


def _value(found: Mapping[str, Any]) -> str:
    head = f"{found['type']}, length {found['length']:,}, from {found['start']:,}:"
    if "text" in found:
        return f"{head}\n{found['text']}"
    return "\n".join((head, *(str(item) for item in found["items"]))) if found["items"] else head


def _places(found: Mapping[str, Any]) -> str:
    lines = [f"{each['at']}: {each['text']}" for each in found.get("hits", [])]
    if found.get("length", 0) > found.get("scanned", 0):
        lines.append(f"[only the first {found['scanned']:,} items were searched]")
    return "\n".join(lines) or "Nothing found."


def _files(found: Mapping[str, Any]) -> str:
    lines = [str(found.get("path", "")), *(f"  {name}" for name in found.get("files", []))]
    if found.get("note"):
        lines.append(str(found["note"]))
    return _with_rest(lines, found.get("total", 0) + 1, "No file.")


def _with_rest(lines: list[str], total: int, nothing: str) -> str:
    if total > len(lines):
        lines = [*lines, f"[{total - len(lines):,} more]"]
    return "\n".join(lines) or nothing


def _look(
    name: str, description: str, arguments: type[BaseModel], render: Render, group: str = "inspect"
) -> Tool:
    """A tool that asks the kernel one question beside what it runs."""

    async def call(ctx: ToolContext, given: BaseModel) -> ToolResult:
        asked: dict[str, JsonValue] = json.loads(given.model_dump_json())
        try:
            found = await kernel_of(ctx).ask(name, asked, wait=WAIT)
        except KernelError as error:
            raise ToolError(error.message) from error
        text = render(found)
        # The source of a function may be that of a cell.
        return ToolResult(hide_in_place(text) if ctx.policy.hide_solutions else text)

    return Tool(name, group, description, arguments, call, needs_kernel=True, deadline=30.0)


def inspect_tools() -> tuple[Tool, ...]:
    """All tools that look into a Python kernel, and the one that traces a call."""
    return (
        _look(
            "search_kernel_names",
            "Search the names people defined in the kernel; gives their types only.",
            SearchKernelNames,
            _names,
        ),
        _look(
            "inspect_python",
            "Help, signature or source of a live or built-in Python name.",
            InspectPython,
            _text,
        ),
        _look(
            "show_doc",
            "Documentation of a Python name, live or of a module that is imported.",
            ShowDoc,
            _text,
        ),
        _look(
            "api_names",
            "Public members of a Python object, class or module.",
            ApiNames,
            _members,
        ),
        _look(
            "search_docs",
            "Search names and docstrings below a Python object, class or module.",
            SearchDocs,
            _hits,
        ),
        _look(
            "inspect_value",
            "A slice of a live string, list, tuple, dict, set or range.",
            InspectValue,
            _value,
        ),
        _look(
            "search_value",
            "Where a live string, list, tuple, dict or set holds a text.",
            SearchValue,
            _places,
        ),
        _look(
            "source_files",
            "The file a Python object comes from and the Python files beside it.",
            SourceFiles,
            _files,
        ),
        Tool(
            "trace_function",
            "execution",
            "Call a function once and list the lines it goes through with its local names.",
            TraceFunction,
            _trace,
            writes=True,
            needs_kernel=True,
            deadline=TRACE_DEADLINE + 30,
        ),
    )
