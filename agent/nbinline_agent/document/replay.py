"""Applying kept updates to a document again, after a crash or into a replaced room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycrdt import Doc

from .peer import Peer, panics_as_errors
from .vectors import read_integer, read_vector


def apply_updates(peer: Peer, updates: Sequence[bytes]) -> bool:
    """Apply updates of an earlier replica, with its own client id, to a joined document.

    What the document has already changes nothing, so this never doubles anything. It is all or
    nothing: updates that lean on history the document does not have would wait in it for ever, and
    browsers could not integrate what is written after them.

    Args:
        peer: The joined document.
        updates: In the order in which they were made.

    Returns:
        Whether they were applied.
    """
    if not updates:
        return True
    try:
        if not _integrates(peer, updates):
            return False
        peer.apply(updates)
    except ValueError:
        return False
    return True


def _integrates(peer: Peer, updates: Sequence[bytes]) -> bool:
    held = dict(read_vector(peer.doc.get_state()))
    starts = [start for update in updates if (start := _start(update)) is not None]
    if all(clock < held.get(client, 0) for client, clock in starts):
        return True
    trial: Doc[Any] = Doc()
    with panics_as_errors():
        trial.apply_update(peer.doc.get_update())
        for update in updates:
            start = _start(update)
            if start is not None and start[1] > held.get(start[0], 0):
                return False
            trial.apply_update(update)
            held = dict(read_vector(trial.get_state()))
            if start is not None and held.get(start[0], 0) <= start[1]:
                return False
    return True


def _start(update: bytes) -> tuple[int, int] | None:
    """Client id and clock an update begins with; None if it only deletes.

    Raises:
        ValueError: It is not an update of one replica.
    """
    clients, at = read_integer(update, 0)
    if clients == 0:
        return None
    if clients > 1:
        raise ValueError("an update of several replicas")
    _, at = read_integer(update, at)
    client, at = read_integer(update, at)
    clock, at = read_integer(update, at)
    return client, clock
