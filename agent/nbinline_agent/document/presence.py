"""How the agent shows itself in a notebook: a user, and a cursor at the end of the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from pycrdt import Assoc, Map, Text

from nbinline_agent.ids import CellId, RunId

from .index import CellIndex
from .peer import Peer

MIN_INTERVAL = 1.5
"""Seconds between two changes of what is shown: each one costs every open editor of every page."""

POSITION_KEYS = frozenset({"type", "tname", "item", "assoc"})


@dataclass(frozen=True, slots=True)
class AgentUser:
    """The agent as collaborators see it.

    Attributes:
        username: Unique; lists of people merge entries by it.
        name: What the cursor's flag says.
        display_name: What lists of people say.
        initials: One or two letters for the avatar.
        color: A CSS colour.
    """

    username: str = "nbinline-agent"
    name: str = "AI agent"
    display_name: str = "AI agent"
    initials: str = "AI"
    color: str = "#7b3fb3"

    def shown(self) -> dict[str, Any]:
        """The user entry of an awareness state."""
        return {
            "username": self.username,
            "name": self.name,
            "display_name": self.display_name,
            "initials": self.initials,
            "color": self.color,
            "agent": True,
        }


class Presence:
    """Shows and hides the agent in one notebook.

    Presence only: nothing is ever decided by what stands there.
    """

    def __init__(self, peer: Peer, user: AgentUser) -> None:
        self._peer = peer
        self._user = user
        self._changed = float("-inf")
        self._shown = False

    async def show(
        self, run_id: RunId, status: str, cell_id: CellId, on_behalf_of: str, progress: str = ""
    ) -> None:
        """Show the agent at the end of a cell, on behalf of somebody.

        Coming up is announced at once, a change within 1.5 s of the last one is held back until
        then, and only the latest is sent.

        Args:
            run_id: What it works on.
            status: Word for the run's status.
            cell_id: Where; a cell that is not there leaves the cursor away.
            on_behalf_of: Display name of the person who asked.
            progress: What it does right now, in a few words; left out if empty.
        """
        state = {
            "user": self._user.shown(),
            "cursors": end_cursor(self._peer.index, cell_id),
            "autosave": False,
            "nbinline": {
                "run_id": run_id,
                "status": status,
                "cell_id": cell_id,
                "on_behalf_of": on_behalf_of,
                **({"progress": progress} if progress else {}),
            },
        }
        check_state(state)
        now = anyio.current_time()
        delay = max(0.0, self._changed + MIN_INTERVAL - now) if self._shown else 0.0
        self._changed = now + delay
        self._shown = True
        await self._peer.set_awareness(state, delay)

    async def hide(self) -> None:
        """Take the agent out of the notebook, at once."""
        self._shown = False
        await self._peer.set_awareness(None)


def end_cursor(index: CellIndex, cell_id: CellId) -> list[dict[str, Any]]:
    """A cursor at the end of a cell's text, wherever that moves to; none if there is no text.

    A position that names the text and no character in it is its end for Yjs, so it follows the
    stream without a further message.
    """
    entry = index.find(cell_id)
    source = entry.ycell.get("source") if entry and isinstance(entry.ycell, Map) else None
    if not isinstance(source, Text):
        return []
    named = source.sticky_index(0, Assoc.BEFORE).to_json()["type"]
    # All keys, with explicit nulls: without them typing breaks in every editor of every page.
    position = {"type": named, "tname": None, "item": None, "assoc": 0}
    return [{"anchor": position, "head": position, "primary": True, "empty": True}]


def check_state(state: Mapping[str, Any]) -> None:
    """Make sure that an awareness state can do no harm in a browser.

    Raises:
        ValueError: It lacks something that JupyterLab reads without asking, or is no JSON.
    """
    user = state.get("user")
    if not isinstance(user, Mapping) or not all(
        isinstance(user.get(key), str) and user[key]
        for key in ("username", "name", "display_name", "color")
    ):
        raise ValueError("awareness without a complete user")
    if state.get("autosave") is not False:
        raise ValueError("awareness that votes on saving")
    for cursor in state.get("cursors", ()):
        for end in (cursor["anchor"], cursor["head"]):
            if set(end) != POSITION_KEYS:
                raise ValueError("cursor position without explicit nulls")
    json.dumps(state, allow_nan=False)
