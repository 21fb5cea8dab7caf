"""Documents by their sections, and Python files by their docstrings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nbinline_agent.errors import KernelError
from nbinline_agent.tools.base import Arguments, Tool, ToolContext, ToolError, ToolResult
from nbinline_agent.tools.catalog import description
from nbinline_rtc.jobs.below import Place, locate

from .job_process import about, find
from .places import Path, in_thread, place_of

SECONDS = 5.0
"""Time limit of reading a document."""

MAX_SECTION = 400
"""Lines of a section."""

MAX_TEXT = 15_000
"""Characters of a section."""


class DocumentOutline(Arguments):
    """Of ``document_outline``."""

    path: Path
    start: Annotated[int, Field(ge=0, le=100_000)] = 0
    limit: Annotated[int, Field(ge=1, le=50)] = 20


class ReadDocumentSection(Arguments):
    """Of ``read_document_section``."""

    path: Path
    section: Annotated[str, Field(max_length=100)] = ""


class SourceDoc(Arguments):
    """Of ``source_doc``."""

    path: Path
    symbol: Annotated[str, Field(max_length=200)] = ""


async def document_outline(context: ToolContext, arguments: DocumentOutline) -> ToolResult:
    """Sections with their addresses."""
    place = await place_of(context, arguments.path)
    found = await find("outline", about(place, context), seconds=SECONDS)
    _in_time(found.complete)
    total = len(found.items)
    part = found.items[arguments.start : arguments.start + arguments.limit]
    lines = [f"{place.shown}, {total:,} sections:"]
    lines += [f"{'  ' * (each['level'] - 1)}{each['title']}  [{each['address']}]" for each in part]
    following = arguments.start + len(part)
    if following < total:
        lines.append(f"[{total - following:,} more; next start is {following}]")
    return ToolResult("\n".join(lines))


async def read_document_section(context: ToolContext, arguments: ReadDocumentSection) -> ToolResult:
    """Lines of one section."""
    place = await place_of(context, arguments.path)
    found = await find(
        "section", {**about(place, context), "section": arguments.section}, seconds=SECONDS
    )
    _in_time(found.complete)
    [section] = found.items
    lines: list[str] = section["lines"]
    if not lines:
        return ToolResult(f"{place.shown}: there is nothing there.")
    first = section["first"]
    shown = "\n".join(lines[:MAX_SECTION])[:MAX_TEXT]
    text = f"{place.shown}, lines {first}-{first + len(lines) - 1}:\n{shown}"
    if len(shown) < len("\n".join(lines)):
        text += f"\n[cut; go on with view_file from line {first + shown.count(chr(10)) + 1}]"
    return ToolResult(text)


async def source_doc(context: ToolContext, arguments: SourceDoc) -> ToolResult:
    """Documentation in a Python file; one outside the server's folder is left to the kernel."""
    try:
        place = await in_thread(lambda: _locate(context, arguments.path))
    except ToolError as outside:
        return await _ask_kernel(context, arguments, outside)
    found = await find(
        "python-doc", {**about(place, context), "symbol": arguments.symbol}, seconds=SECONDS
    )
    _in_time(found.complete)
    text: str = found.items[0]
    return ToolResult(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[cut]")


def _locate(context: ToolContext, path: str) -> Place:
    return locate(context.root, context.folder, path)


async def _ask_kernel(context: ToolContext, arguments: SourceDoc, outside: ToolError) -> ToolResult:
    """The kernel may read its own libraries, which need not be below the server's folder."""
    if context.kernel is None or not arguments.path.startswith("/"):
        raise outside
    try:
        answer = await context.kernel.ask(
            "source_doc", {"path": arguments.path, "symbol": arguments.symbol}
        )
    except KernelError as error:
        raise ToolError(f"{outside.message} The kernel: {error.message}") from None
    return ToolResult(str(answer.get("text", "")))


def _in_time(complete: bool) -> None:
    if not complete:
        raise ToolError("Reading this document takes too long.")


TOOLS: tuple[Tool, ...] = (
    Tool(
        "document_outline",
        "files",
        description("document_outline"),
        DocumentOutline,
        document_outline,
    ),
    Tool(
        "read_document_section",
        "files",
        description("read_document_section"),
        ReadDocumentSection,
        read_document_section,
    ),
    Tool("source_doc", "code", description("source_doc"), SourceDoc, source_doc),
)
