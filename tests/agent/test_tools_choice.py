"""Which tools a question gets: declared, switched on, let through, explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest
from pydantic import Field

from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.errors import KernelBusy
from nbinline_agent.ids import CellId
from nbinline_agent.kernel import Kernel, KernelState
from nbinline_agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from nbinline_agent.tools.groups import GROUPS
from nbinline_agent.tools.modes import DEFAULT_MODES, Mode, Modes
from nbinline_agent.tools.schema import compact
from nbinline_agent.tools.toolbox import Toolbox
from nbinline_agent.tools.toolset import NotebookToolset, ToolWish

pytestmark = pytest.mark.asyncio


async def _nothing(context: ToolContext, arguments: Arguments) -> ToolResult:
    return ToolResult("")


def tool(name: str, group: str = "notebook", **fields: Any) -> Tool:
    return Tool(name, group, f"{name}.", Arguments, _nothing, **fields)


FAMILY = (
    tool("list_cells"),
    tool("read_cell"),
    tool("run_cell", "execution", writes=True, needs_kernel=True),
    tool("read_url", "web"),
)


class Live:
    """A kernel with some functions."""

    def __init__(self, *names: str, status: str = "idle", busy: bool = False) -> None:
        self._names = names
        self._status = status
        self._busy = busy
        self.asked: list[str] = []

    async def state(self) -> KernelState:
        return KernelState("k", "python", self._status)

    async def functions(
        self, kernel: Kernel, names: Sequence[str]
    ) -> tuple[Sequence[Tool], Mapping[str, str]]:
        self.asked += names
        if self._busy:
            raise KernelBusy
        found = [tool(name, "functions", writes=True) for name in names if name in self._names]
        return found, {name: "undefined" for name in names if name not in self._names}


def cell(id: str, source: str, kind: str = "markdown", **mark: Any) -> Cell:
    return Cell(CellId(id), kind, source, {"nbinlineai": mark} if mark else {})


async def offered(
    *cells: Cell,
    live: Live | None = None,
    groups: Sequence[str] = (),
    modes: Modes = DEFAULT_MODES,
    steps: int = 8,
) -> Toolbox:
    question = cell("q", "Go. &`read_cell` &`bonus`", isPromptCell=True)
    all_cells = [*(cells or (question,))]
    target = next((each.id for each in all_cells if each.id == "q"), all_cells[-1].id)
    toolset = NotebookToolset(FAMILY, live.functions if live else None)
    kernel: Any = live
    return await toolset.offer(
        ToolWish(Snapshot(tuple(all_cells)), target, groups, modes, kernel, steps)
    )


async def test_only_what_is_declared() -> None:
    box = await offered()
    assert list(box.tools) == ["read_cell"]
    assert box.disabled == {"bonus": "no-kernel"}
    assert [spec.name for spec in box.specs] == ["read_cell"]


async def test_notes_above_count_if_their_box_is_on() -> None:
    box = await offered(
        cell("n1", "&`list_cells`"),
        cell("n2", "&`run_cell`", toolsInclude=False),
        cell("code", "&`read_url`", "code"),
        cell("a", "&`read_url`", isOutputCell=True),
        cell("q", "Go. &`read_cell`", isPromptCell=True),
        cell("below", "&`read_url`"),
        live=Live(),
    )
    assert list(box.tools) == ["list_cells", "read_cell"]
    assert box.disabled == {"run_cell": "tools-box-off"}


async def test_groups_are_switched_on_and_keep_their_order() -> None:
    box = await offered(groups=("execution", "notebook", "nonsense"), live=Live("bonus"))
    assert list(box.tools) == ["list_cells", "read_cell", "run_cell", "bonus"]
    assert box.disabled["apply_edits"] == "unknown"


async def test_a_function_of_the_user_wins() -> None:
    live = Live("read_cell", "bonus")
    box = await offered(live=live)
    assert box.tools["read_cell"].group == "functions"
    assert live.asked == ["read_cell", "bonus"]
    box = await offered(live=Live("bonus"))
    assert box.tools["read_cell"].group == "notebook"


async def test_a_busy_kernel_keeps_nothing_from_being_asked() -> None:
    box = await offered(live=Live("bonus", busy=True))
    assert list(box.tools) == ["read_cell"]
    assert box.disabled == {"bonus": "kernel-busy"}


@pytest.mark.parametrize("status", ["none", "dead"])
async def test_no_kernel_runs(status: str) -> None:
    live = Live("bonus", status=status)
    box = await offered(live=live, groups=("execution",))
    assert box.disabled["bonus"] == "no-kernel"
    assert "run_cell" in box.tools  # it starts one
    assert live.asked == []


async def test_tools_that_need_a_kernel_nobody_may_use() -> None:
    box = await offered(groups=("execution",))
    assert box.disabled["run_cell"] == "no-kernel"


async def test_what_is_off_is_not_offered() -> None:
    box = await offered(groups=("web",))
    assert box.disabled["read_url"] == "off"
    box = await offered(groups=("web",), modes={**DEFAULT_MODES, "web": Mode.ASK})
    assert "read_url" in box.tools


async def test_at_most_twenty_functions() -> None:
    names = [f"f{n}" for n in range(25)]
    source = " ".join(f"&`{name}`" for name in (*names, "read_cell"))
    live = Live(*names)
    box = await offered(cell("q", source, isPromptCell=True), live=live)
    assert len(live.asked) == 20
    assert box.disabled["f24"] == "too-many"
    assert "read_cell" in box.tools


async def test_no_rounds_no_tools() -> None:
    box = await offered(steps=0, groups=("execution",))
    assert box.tools == {}
    assert box.disabled["run_cell"] == "no-steps"


class Part(Arguments):
    """A part."""

    size: int = Field(1, ge=1, le=9, description="How large.")


class Everything(Arguments):
    """All kinds."""

    title: str = Field(max_length=10)
    kind: Literal["a", "b"] = "a"
    maybe: int | None = None
    either: int | str | None = None
    parts: list[Part] = Field(max_length=3)
    free: dict[str, Any] = Field(default_factory=dict)


async def test_schemas_say_what_matters_and_no_more() -> None:
    assert compact(Everything.model_json_schema()) == {
        "type": "object",
        "required": ["title", "parts"],
        "properties": {
            "title": {"type": "string"},
            "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "maybe": {"type": "integer"},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "parts": {
                "type": "array",
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {
                        "size": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": 9,
                            "default": 1,
                            "description": "How large.",
                        }
                    },
                },
            },
            "free": {"type": "object"},
        },
    }


async def test_the_starter_group_is_the_one_people_know() -> None:
    assert len(GROUPS["starter"]) == 19
    assert len({name for names in GROUPS.values() for name in names}) == 61
