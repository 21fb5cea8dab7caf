"""Edits of a run while people type in, move and delete the very cell it works on.

Every edit waits for a person's word: in that moment, after the model has read the cell and before
the tool writes, somebody does something to it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from nbinline_agent.document.edits import short_hash
from tests.extension.conftest import stopping
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

ASKING = {"nbinlineai": {"toolApproval": {"notebook": "ask"}}}
SOURCE = "a = 1\nb = 2\nc = 3"
HASH = short_hash(SOURCE)
TYPED = "# typed by a person\n"

EDITS: dict[str, Callable[[str], dict[str, Any]]] = {
    "replace_cell": lambda cell: {
        "cell_id": cell,
        "expected_source": HASH,
        "new_source": SOURCE.replace("2", "20"),
    },
    "cell_str_replace": lambda cell: {"cell_id": cell, "old_str": "b = 2", "new_str": "b = 20"},
    "cell_insert_line": lambda cell: {
        "cell_id": cell,
        "line": 2,
        "content": "z = 0",
        "expected_source": HASH,
    },
    "cell_replace_lines": lambda cell: {
        "cell_id": cell,
        "start_line": 2,
        "end_line": 2,
        "content": "b = 20",
        "expected_source": HASH,
    },
    "split_cell": lambda cell: {"cell_id": cell, "line": 2, "expected_source": HASH},
    "move_cell": lambda cell: {"cell_id": cell, "after_cell_id": "index:0"},
    "copy_cell": lambda cell: {"cell_id": cell, "after_cell_id": cell},
    "set_cell_type": lambda cell: {
        "cell_id": cell,
        "cell_type": "markdown",
        "expected_source": HASH,
    },
    "delete_cell": lambda cell: {"cell_id": cell, "expected_source": HASH},
}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, "idle_seconds": 0.3}
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


def at(document: Any, cell: str) -> int:
    return next(n for n, each in enumerate(document.ycells) if each["id"] == cell)


def types(document: Any, cell: str) -> None:
    document.ycells[at(document, cell)]["source"].insert(0, TYPED)


def moves(document: Any, cell: str) -> None:
    place = at(document, cell)
    moved = document.create_ycell(document.ycells[place].to_py())
    del document.ycells[place]
    document.ycells.append(moved)


def deletes(document: Any, cell: str) -> None:
    del document.ycells[at(document, cell)]


async def next_question(asker: Asker, run_id: str, seen: set[str]) -> str:
    """The id of the next approval that waits."""
    with anyio.fail_after(20):
        while True:
            for each in (await asker.run(run_id))["approvals"]:
                if each["answer"] is None and each["approval_id"] not in seen:
                    seen.add(each["approval_id"])
                    found: str = each["approval_id"]
                    return found
            await anyio.sleep(0.02)


@pytest.mark.parametrize("action", [types, moves, deletes], ids=lambda each: each.__name__)
async def test_between_reading_and_writing(
    asker: Asker, action: Callable[[Any, str], None]
) -> None:
    async with stopping(asker.ydoc):
        named = {name: f"cell-{name.replace('_', '-')}" for name in EDITS}
        turns = [
            {"deltas": [], "tools": [{"name": name, "arguments": EDITS[name](cell)}]}
            for name, cell in named.items()
        ]
        question = " ".join(f"&`{name}`" for name in EDITS)
        asker.write(
            asker.vendor.prompt(question, turns=[*turns, {"text": "Well."}]), metadata=ASKING
        )
        document = await asker.document()
        with document.ydoc.transaction(origin="person"):
            for cell in named.values():
                fresh = {"cell_type": "code", "id": cell, "source": SOURCE, "outputs": []}
                made = document.create_ycell({**fresh, "metadata": {}, "execution_count": None})
                document.ycells.append(made)
        run_id = await asker.ask(override={"maxToolSteps": len(EDITS)})
        seen: set[str] = set()
        for cell in named.values():
            approval = await next_question(asker, run_id, seen)
            with document.ydoc.transaction(origin="person"):
                action(document, cell)
            route = f"runs/{run_id}/approvals/{approval}"
            status, _ = await asker.request("POST", route, {"allow": True})
            assert status == 202
        run = await asker.ended(run_id)
        assert (run["status"], run["error"]) == ("done", None)
        last = (await asker.vendor.requests())[-1]["body"]["input"]
        told = [each["output"] for each in last if each.get("type") == "function_call_output"]
        check(action, named, asker.cells(document), dict(zip(EDITS, told, strict=True)))


def check(
    action: Callable[[Any, str], None],
    named: dict[str, str],
    cells: dict[str, dict[str, Any]],
    told: dict[str, str],
) -> None:
    """What a person did stands, once; what the tool did is what the model was told."""
    for name, cell in named.items():
        refused = told[name].startswith("Error (")
        if action is deletes:
            assert refused, (name, told[name])
            assert cell not in cells
            continue
        if action is moves:
            assert not refused, (name, told[name])
            if name == "delete_cell":
                assert cell not in cells
                continue
            assert cells[cell]["cell_type"] == ("markdown" if name == "set_cell_type" else "code")
        else:
            needs_hash = name not in ("cell_str_replace", "move_cell", "copy_cell")
            assert refused is needs_hash, (name, told[name])
            assert source_of(cells[cell]).count(TYPED) == 1
            if refused:
                assert source_of(cells[cell]) == TYPED + SOURCE
                assert "source-changed" in told[name]
        if name == "cell_str_replace":
            assert "b = 20" in source_of(cells[cell])
