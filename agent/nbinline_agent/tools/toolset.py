"""Which tools a question is given: what the notebook declares and switches on, what may be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nbinline_agent.context.references import MAX_NAMES, declared
from nbinline_agent.document.notebook import Snapshot
from nbinline_agent.errors import KernelError
from nbinline_agent.ids import CellId
from nbinline_agent.kernel import Kernel

from .base import Tool
from .groups import GROUPS
from .modes import Mode, Modes, mode_of
from .toolbox import Toolbox

FunctionTools = Callable[
    [Kernel, Sequence[str]], Awaitable[tuple[Sequence[Tool], Mapping[str, str]]]
]
"""Makes tools of live functions; tells of every other name why it cannot be one."""


@dataclass(frozen=True, slots=True)
class ToolWish:
    """What is known when tools are chosen.

    Attributes:
        snapshot: The notebook as it was when the question was asked.
        question: The question.
        groups: Preset groups that are switched on.
        modes: How calls are let through, by group.
        kernel: The notebook's kernel, or None where there is none or the asker may not use it.
        steps: Rounds of calls the run may make.
    """

    snapshot: Snapshot
    question: CellId
    groups: Sequence[str]
    modes: Modes
    kernel: Kernel | None
    steps: int


class NotebookToolset:
    """Implements ``Toolset`` over families of tools and the functions of the kernel.

    Args:
        tools: All tools of this server; the order is the one in which they are offered.
        functions: Makes tools of the kernel's functions; None where no kernel can be reached.
    """

    def __init__(self, tools: Iterable[Tool], functions: FunctionTools | None = None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._functions = functions

    async def offer(self, wish: ToolWish) -> Toolbox:
        """Choose the tools of a run; never fails, what cannot be offered gets a reason."""
        cells = wish.snapshot.cells
        names = declared(cells, wish.snapshot.index(wish.question))
        disabled = dict.fromkeys(names.disabled, "tools-box-off")
        switched_on = [name for group in wish.groups for name in GROUPS.get(group, ())]
        if wish.steps <= 0:
            return Toolbox({}, dict.fromkeys([*names.offered, *switched_on], "no-steps"))
        live = await self._live(names.offered, wish.kernel)
        wanted = {*names.offered, *switched_on}
        found = {
            name: tool
            for name, tool in self._tools.items()
            if name in wanted and not isinstance(live.get(name), Tool)
        }
        for name in names.offered:
            function = live.get(name)
            if isinstance(function, Tool):
                found[name] = function
            elif name not in self._tools:
                disabled[name] = function or ("no-kernel" if wish.kernel is None else "unknown")
        for name in switched_on:
            if name not in self._tools and name not in found:
                disabled.setdefault(name, "unknown")
        return _let_through(found, disabled, wish)

    async def _live(self, names: Sequence[str], kernel: Kernel | None) -> Mapping[str, Tool | str]:
        """The user's own functions of these names; they win over tools of the same name."""
        if not names or kernel is None or self._functions is None:
            return {}
        try:
            if (await kernel.state()).status in ("none", "dead"):
                return dict.fromkeys(names, "no-kernel")
            tools, problems = await self._functions(kernel, names[:MAX_NAMES])
        except KernelError as error:
            return dict.fromkeys(names, error.code)
        found: dict[str, Tool | str] = {tool.name: tool for tool in tools}
        return {**dict.fromkeys(names[MAX_NAMES:], "too-many"), **problems, **found}


def _let_through(found: Mapping[str, Tool], disabled: Mapping[str, str], wish: ToolWish) -> Toolbox:
    tools: dict[str, Tool] = {}
    withheld = dict(disabled)
    for name, tool in found.items():
        if mode_of(tool, wish.modes) is Mode.OFF:
            withheld[name] = "off"
        elif tool.needs_kernel and wish.kernel is None:
            withheld[name] = "no-kernel"
        else:
            tools[name] = tool
            withheld.pop(name, None)
    return Toolbox(tools, withheld, wish.modes)
