"""What a run may call, and why other things that were wished for are not among it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbinline_agent.messages import ToolSpec

from .base import Tool
from .modes import DEFAULT_MODES, Modes


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools one run is given.

    Attributes:
        tools: By name, in the order in which they are offered.
        disabled: Names that were declared or switched on and are not offered, each with a reason:
            ``tools-box-off``, ``off``, ``not-allowed``, ``no-kernel``, ``unknown``, ``too-many``,
            or what is wrong with the function.
        modes: How calls are let through, by group.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)
    modes: Modes = field(default_factory=lambda: DEFAULT_MODES)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """How they are offered to a model."""
        return tuple(tool.spec for tool in self.tools.values())

    @property
    def reading(self) -> frozenset[str]:
        """Names of those that change nothing."""
        return frozenset(name for name, tool in self.tools.items() if not tool.writes)


NO_TOOLS = Toolbox()
"""Where nothing is offered."""
