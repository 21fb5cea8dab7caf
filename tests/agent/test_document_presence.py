"""The agent shows itself in the shape that JupyterLab draws, and leaves on every way out."""

from typing import Any

import anyio
import pytest

from nbinline_agent.document import presence as module
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.presence import AgentUser, Presence, check_state, end_cursor
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, code, markdown, open_notebook

pytestmark = pytest.mark.asyncio

RUN = RunId("run-1")
CELL = CellId("a")
CELLS = [markdown("hello", "a"), code("1", "b")]


async def seen(notebook: Notebook, shared: Any) -> Any:
    """What the room has of the agent."""
    await notebook.peer.settled()
    return shared.room.awareness.states.get(notebook.peer.client_id)


async def test_the_entry_is_what_the_contract_says() -> None:
    async with open_notebook(CELLS) as (notebook, shared):
        await Presence(notebook.peer, AgentUser()).show(RUN, "running", CELL, "Ann")
        state = await seen(notebook, shared)
        assert state["user"] == {
            "username": "nbinline-agent",
            "name": "AI agent",
            "display_name": "AI agent",
            "initials": "AI",
            "color": "#7b3fb3",
            "agent": True,
        }
        assert state["autosave"] is False
        assert state["nbinline"] == {
            "run_id": "run-1",
            "status": "running",
            "cell_id": "a",
            "on_behalf_of": "Ann",
        }
        [cursor] = state["cursors"]
        assert cursor["anchor"] == cursor["head"]
        assert (cursor["primary"], cursor["empty"]) == (True, True)
        # Explicit nulls: without them every editor of every page breaks.
        assert set(cursor["anchor"]) == {"type", "tname", "item", "assoc"}
        assert cursor["anchor"]["tname"] is None
        assert cursor["anchor"]["item"] is None
        assert set(cursor["anchor"]["type"]) == {"client", "clock"}


async def test_the_cursor_names_the_text_and_follows_without_a_message() -> None:
    async with open_notebook(CELLS) as (notebook, _):
        index = notebook.peer.index
        before = end_cursor(index, CELL)
        text = notebook.entry("a").ycell["source"]
        with notebook.peer.doc.transaction(origin="test"):
            text.insert(0, "more ")
        assert end_cursor(index, CELL) == before
        assert end_cursor(index, CellId("b")) != before


async def test_a_cell_without_a_text_has_no_cursor() -> None:
    async with open_notebook(CELLS) as (notebook, shared):
        assert end_cursor(notebook.peer.index, CellId("gone")) == []
        with shared.ynotebook.ydoc.transaction(origin="person"):
            shared.ynotebook.ycells[0]["source"] = "plain"
        await notebook.peer.settled()
        assert end_cursor(notebook.peer.index, CELL) == []
        await Presence(notebook.peer, AgentUser()).show(RUN, "running", CELL, "Ann")
        assert (await seen(notebook, shared))["cursors"] == []


async def test_it_says_what_it_does_while_it_says_anything() -> None:
    async with open_notebook(CELLS) as (notebook, shared):
        told = "Uses run_cell…"
        await Presence(notebook.peer, AgentUser()).show(RUN, "running", CELL, "Ann", told)
        assert (await seen(notebook, shared))["nbinline"]["progress"] == told
        await Presence(notebook.peer, AgentUser()).show(RUN, "running", CELL, "Ann")
        assert "progress" not in (await seen(notebook, shared))["nbinline"]


async def test_hiding_takes_it_out() -> None:
    async with open_notebook(CELLS) as (notebook, shared):
        presence = Presence(notebook.peer, AgentUser())
        await presence.show(RUN, "running", CELL, "Ann")
        assert len(shared.users) == 0 or await seen(notebook, shared)
        await presence.hide()
        assert await seen(notebook, shared) is None
        await presence.hide()


async def test_it_is_gone_when_the_peer_is() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, CELLS)
        with anyio.CancelScope() as scope:
            async with rooms.join(PATH) as membership:
                await Presence(membership.peer, AgentUser()).show(RUN, "running", CELL, "Ann")
                await membership.peer.settled()
                assert [user["agent"] for user in shared.users] == [True]
                scope.cancel()
                await anyio.sleep_forever()
        assert shared.users == []


async def test_changes_are_held_back_and_the_latest_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_INTERVAL", 0.1)
    async with open_notebook(CELLS) as (notebook, shared):
        changes: list[str] = []

        def changed(topic: str, change: Any) -> None:
            state = shared.room.awareness.states.get(notebook.peer.client_id)
            if topic == "change" and state:
                changes.append(state["nbinline"]["status"])

        shared.room.awareness.observe(changed)
        presence = Presence(notebook.peer, AgentUser())
        for status in ("running", "one", "two", "three"):
            await presence.show(RUN, status, CELL, "Ann")
        await notebook.peer.settled()
        assert changes == ["running"]
        with anyio.fail_after(5):
            while len(changes) < 2:
                await notebook.peer.settled()
        assert changes == ["running", "three"]


async def test_hiding_overrules_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_INTERVAL", 0.02)
    async with open_notebook(CELLS) as (notebook, shared):
        presence = Presence(notebook.peer, AgentUser())
        await presence.show(RUN, "running", CELL, "Ann")
        await presence.show(RUN, "later", CELL, "Ann")
        await presence.hide()
        with anyio.move_on_after(0.2):
            await notebook.changed_until(lambda: False)
        assert await seen(notebook, shared) is None


def good() -> dict[str, Any]:
    position = {"type": {"client": 1, "clock": 2}, "tname": None, "item": None, "assoc": 0}
    return {
        "user": AgentUser().shown(),
        "cursors": [{"anchor": position, "head": dict(position), "primary": True, "empty": True}],
        "autosave": False,
    }


async def test_a_good_state_passes() -> None:
    check_state(good())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("user"),
        lambda state: state["user"].pop("name"),
        lambda state: state["user"].update(username=""),
        lambda state: state.pop("autosave"),
        lambda state: state.update(autosave=True),
        lambda state: state["cursors"][0]["head"].pop("item"),
        lambda state: state["cursors"][0]["anchor"].pop("tname"),
        lambda state: state.update(number=float("nan")),
    ],
)
async def test_a_state_that_does_harm_is_refused(spoil: Any) -> None:
    state = good()
    spoil(state)
    with pytest.raises(ValueError, match=r".+"):
        check_state(state)
