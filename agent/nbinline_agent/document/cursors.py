"""Who has their cursor in a cell, as far as they show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pycrdt import Assoc, Map, Text

from .peer import Peer


def people_in(peer: Peer, cell_id: str) -> list[str]:
    """Display names of the people whose cursor is in the text of a cell; agents do not count."""
    entry = peer.index.find(cell_id)  # type: ignore[arg-type]
    source = entry.ycell.get("source") if entry and isinstance(entry.ycell, Map) else None
    if not isinstance(source, Text):
        return []
    named = source.sticky_index(0, Assoc.BEFORE).to_json()["type"]
    found: dict[str, None] = {}
    for state in peer.awareness_states.values():
        user = state.get("user")
        if not isinstance(user, Mapping) or user.get("agent") is True:
            continue
        if any(position.get("type") == named for position in _positions(state)):
            name = user.get("display_name") or user.get("name") or user.get("username")
            found[name if isinstance(name, str) else "somebody"] = None
    return list(found)


def _positions(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    cursors = state.get("cursors")
    for cursor in cursors if isinstance(cursors, list) else ():
        for end in ("anchor", "head"):
            position = cursor.get(end) if isinstance(cursor, Mapping) else None
            if isinstance(position, Mapping):
                yield position
