"""All tools of a server together: names, groups, and what their schemas cost."""

import json
import re

import pytest

from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.execution import execution_tools
from nbinline_agent.tools.groups import GROUPS
from nbinline_agent.tools.inspect import inspect_tools
from nbinline_agent.tools.modes import DEFAULT_MODES
from nbinline_rtc.toolset import server_tools

ALL = (*cell_tools(), *execution_tools(), *inspect_tools(), *server_tools())
TOOLS = {tool.name: tool for tool in ALL}


def size(names: tuple[str, ...]) -> int:
    """Bytes of the schemas as they are sent."""
    told = [
        {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
        for spec in (TOOLS[name].spec for name in names)
    ]
    return len(json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode())


async def test_every_name_of_the_groups_is_a_tool() -> None:
    assert len(TOOLS) == 61
    assert set(TOOLS) == {name for names in GROUPS.values() for name in names}
    assert {tool.group for tool in ALL} <= set(DEFAULT_MODES)


@pytest.mark.parametrize("name", list(TOOLS))
async def test_a_vendor_takes_it(name: str) -> None:
    spec = TOOLS[name].spec
    assert re.fullmatch(r"[a-z_]{1,64}", spec.name)
    assert 10 < len(spec.description) < 260
    assert spec.parameters["type"] == "object"
    assert "$ref" not in json.dumps(dict(spec.parameters))
    assert "title" not in spec.parameters


async def test_the_schemas_stay_small() -> None:
    assert size(GROUPS["starter"]) <= 8_000
    live = tuple(tool.name for tool in (*cell_tools(), *execution_tools()))
    assert size(live) <= 8_000
    assert all(size(names) <= 8_000 for names in GROUPS.values())
