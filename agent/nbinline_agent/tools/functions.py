"""Functions that people defined in the kernel, offered to the model as tools."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from nbinline_agent.errors import KernelError
from nbinline_agent.kernel import CallResult, Kernel, LiveFunction

from .base import Tool, ToolContext, ToolError, ToolResult
from .execution import kernel_of

DEADLINE = 60.0
"""Seconds a function may run."""

PRINTED = 6_000
"""Characters of each printed stream that go to the model."""


class AnyArguments(BaseModel):
    """Whatever the function takes; the kernel checks it against the signature."""

    model_config = ConfigDict(extra="allow")


async def function_tools(
    kernel: Kernel, names: Sequence[str], *, wait: float = 0.0
) -> tuple[list[Tool], dict[str, str]]:
    """Tools for functions of the kernel.

    Args:
        kernel: Where they live.
        names: As the notebook declares them.
        wait: Seconds to wait for a kernel that is too busy to be looked into.

    Returns:
        The tools, and for every other name why it cannot be offered.
    """
    if not names:
        return [], {}
    found = await kernel.functions(names, wait=wait)
    tools = [_tool(each) for each in found.values() if not each.problem]
    return tools, {each.name: each.problem for each in found.values() if each.problem}


def _tool(function: LiveFunction) -> Tool:
    async def call(ctx: ToolContext, arguments: AnyArguments) -> ToolResult:
        given = dict(arguments.model_extra or {})
        try:
            result = await kernel_of(ctx).call(function.name, given, deadline=DEADLINE)
        except KernelError as error:
            raise ToolError(error.message) from error
        text = told(result)
        if result.error:
            raise ToolError(text)
        return ToolResult(text, images=result.images if ctx.takes_images else ())

    return Tool(
        name=function.name,
        group="functions",
        description=function.description,
        arguments=AnyArguments,
        call=call,
        writes=True,
        needs_kernel=True,
        deadline=2 * DEADLINE + 30,
        schema=function.parameters,
    )


def told(result: CallResult) -> str:
    """A call's result as the model reads it."""
    parts: list[str] = []
    if result.error:
        parts.append(f"The call failed: {result.error}")
    elif result.type != "NoneType":
        parts.append(result.text or "''")
    for name, text in (("printed", result.stdout), ("stderr", result.stderr)):
        if text.strip():
            parts.append(f"[{name}]\n{_middle_out(text.rstrip())}")
    return "\n\n".join(parts) or "It returned None."


def _middle_out(text: str) -> str:
    if len(text) <= PRINTED:
        return text
    half = PRINTED // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"
