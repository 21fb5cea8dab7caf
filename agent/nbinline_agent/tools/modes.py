"""Whether a tool may be used at all, at once, or only after a person allowed it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from .base import Tool


class Mode(StrEnum):
    """How calls of a group of tools are let through; each is stricter than the one before."""

    AUTO = "auto"
    OWN = "own"
    """At once in one's own notebook on one's own server with nobody else there, else as ``ask``."""
    ASK = "ask"
    OFF = "off"


Modes = Mapping[str, Mode]
"""Modes by group of tools; a group that is not named is ``ask``."""

DEFAULT_MODES: MappingProxyType[str, Mode] = MappingProxyType(
    {
        "notebook": Mode.AUTO,
        "inspect": Mode.AUTO,
        "code": Mode.OWN,
        "files": Mode.OWN,
        "saved_notebooks": Mode.OWN,
        "execution": Mode.OWN,
        "functions": Mode.OWN,
        "web": Mode.OFF,
        "shell": Mode.OFF,
    }
)

REACHING_OUT = frozenset({"web", "shell", "functions"})
"""Groups of which even a call that changes nothing can do harm; reading is let pass elsewhere."""

_ORDER = list(Mode)


def parse_modes(values: Mapping[str, Any]) -> dict[str, Mode]:
    """Modes from settings or metadata; what makes no sense there is passed over."""
    return {
        group: Mode(value)
        for group, value in values.items()
        if isinstance(value, str) and value in _ORDER
    }


def stricter_modes(server: Modes, notebook: Mapping[str, Any]) -> Modes:
    """What holds in a notebook: it may be stricter than the server, never laxer.

    Args:
        server: The server's modes.
        notebook: Metadata ``nbinlineai.toolApproval`` of the notebook.
    """
    wished = parse_modes(notebook)
    return {
        group: max(server.get(group, Mode.ASK), wished.get(group, Mode.AUTO), key=_ORDER.index)
        for group in {*server, *wished}
    }


def mode_of(tool: Tool, modes: Modes) -> Mode:
    """How calls of a tool are let through."""
    mode = modes.get(tool.group, Mode.ASK)
    if mode is not Mode.OFF and not tool.writes and tool.group not in REACHING_OUT:
        return Mode.AUTO
    return mode


def must_ask(tool: Tool, modes: Modes, *, own: bool) -> bool:
    """Whether a person has to allow a call now.

    Args:
        tool: What is called.
        modes: What holds in the notebook.
        own: Whether it is the asker's own server, and nobody else is in the notebook.
    """
    mode = mode_of(tool, modes)
    return mode is Mode.ASK or (mode is Mode.OWN and not own)
