"""Skills that packages of the server's environment offer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nbinline_agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from nbinline_agent.tools.catalog import description

from .files import Limit
from .job_process import find

SECONDS = 5.0
"""Time limit of looking for skills."""

MAX_TEXT = 15_000
"""Characters of a skill."""


class ListSkills(Arguments):
    """Of ``list_skills``."""

    query: Annotated[str, Field(max_length=200)] = ""
    limit: Limit = 30


class ReadSkill(Arguments):
    """Of ``read_skill``."""

    module: Annotated[str, Field(min_length=1, max_length=200)]


async def list_skills(context: ToolContext, arguments: ListSkills) -> ToolResult:
    """Skills with their first lines."""
    found = await find("skills", {"query": arguments.query}, seconds=SECONDS)
    lines = [
        f"{each['name']}  {each['module']}  {each['summary']}".rstrip()
        for each in found.items[: arguments.limit]
    ]
    if len(found.items) > arguments.limit:
        lines.append(f"[{len(found.items) - arguments.limit:,} more]")
    return ToolResult("\n".join(lines) or "No installed package offers such a skill.")


async def read_skill(context: ToolContext, arguments: ReadSkill) -> ToolResult:
    """One skill's text."""
    found = await find("skill", {"module": arguments.module}, seconds=SECONDS)
    text = str(found.items[0]) if found.items else "Reading this skill takes too long."
    return ToolResult(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[cut]")


TOOLS: tuple[Tool, ...] = (
    Tool("list_skills", "inspect", description("list_skills"), ListSkills, list_skills),
    Tool("read_skill", "inspect", description("read_skill"), ReadSkill, read_skill),
)
