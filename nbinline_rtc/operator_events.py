"""What operators may send to their log pipeline: jupyter_events without texts or secrets.

The events go to the handlers of ``c.EventLogger.handlers`` and nowhere else. They are not emitted
on the server's own event logger, since every person on the server may subscribe to that one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_events import EventLogger

from nbinline_agent.journal import RunRecord

from .activity import Entry

SCHEMAS = Path(__file__).parent / "event_schemas"
PREFIX = "https://schemas.nbinline-rtc.readthedocs.io"

Told = tuple[str, dict[str, Any]]
"""Name of a schema, and what an event of it says."""

_ENDS = frozenset({"done", "error", "cancelled", "interrupted"})
_TELLING = _ENDS | {"queued", "preparing"}


class _Handlers(logging.Handler):
    """Hands each record to the handlers that the operator configured, as they are now."""

    def __init__(self, server: Any) -> None:
        super().__init__()
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        for handler in self._server.handlers or ():
            handler.handle(record)


class OperatorEvents:
    """Turns what happens into events of ``event_schemas``.

    Args:
        server_logger: The server's ``EventLogger``: its handlers are used, and know our schemas.
    """

    def __init__(self, server_logger: Any) -> None:
        self._server = server_logger
        self._logger = EventLogger(handlers=[_Handlers(server_logger)])
        for schema in sorted(SCHEMAS.glob("*.yaml")):
            self._logger.register_event_schema(schema)
            identity = f"{PREFIX}/{schema.stem}/v1"
            if identity not in server_logger.schemas:
                server_logger.register_event_schema(schema)

    def heard(self, entry: Entry) -> None:
        """Emit an event for an entry of the feed, if there is one for its kind."""
        if not self._server.handlers:
            return
        told = _event(entry)
        if told is not None:
            self._emit(*told)

    def refused(self, username: str, code: str, route: str) -> None:
        """Emit that somebody was kept from something."""
        if self._server.handlers:
            self._emit("refused", {"username": username, "code": code, "route": route})

    def _emit(self, schema: str, data: dict[str, Any]) -> None:
        self._logger.emit(schema_id=f"{PREFIX}/{schema}/v1", data=data)


def _event(entry: Entry) -> Told | None:
    if entry.record is None:
        return _of_no_run(entry)
    told = _OF_A_RUN.get(entry.type)
    return None if told is None else told(entry.data, entry.record)


def _of_no_run(entry: Entry) -> Told:
    data: Mapping[str, Any] = entry.data
    by = data.get("resumed_by") or data["by"]["username"]
    return "access", {"action": entry.type, "by": by, "path": data["path"]}


def _about(record: RunRecord) -> dict[str, Any]:
    return {
        "run_id": record.run_id,
        "username": record.author.username,
        "path": record.path,
    }


def _status(data: Mapping[str, Any], record: RunRecord) -> Told | None:
    status = data.get("status")
    if status not in _TELLING:
        return None
    told = {
        **_about(record),
        "status": status,
        "connection": record.connection,
        "model": record.model,
    }
    if status in _ENDS:
        ended = record.ended_at or record.created_at
        told |= {
            "input_tokens": record.usage.input_tokens,
            "output_tokens": record.usage.output_tokens,
            "steps": record.steps,
            "seconds": round(max(0.0, ended - (record.started_at or ended)), 3),
        }
        if data.get("code"):
            told["error"] = data["code"]
    return "run", told


def _tool(data: Mapping[str, Any], record: RunRecord) -> Told:
    return "tool_call", {
        **_about(record),
        "tool": str(data.get("name")),
        "outcome": data.get("outcome"),
        "seconds": data.get("seconds") or 0,
        "cells": len(data.get("cell_ids") or ()),
    }


def _approval(data: Mapping[str, Any], record: RunRecord) -> Told:
    told = {
        **_about(record),
        "tool": str(data.get("tool")),
        "answer": data.get("answer") or "waiting",
    }
    if data.get("by"):
        told["by"] = data["by"]
    return "approval", told


def _watched(data: Mapping[str, Any], record: RunRecord) -> Told:
    action = "watched-live" if data.get("what") == "live" else "read-transcript"
    return "access", {**_about(record), "action": action, "by": data["username"]}


def _stopped(data: Mapping[str, Any], record: RunRecord) -> Told | None:
    if data["username"] == record.author.username:
        return None
    return "access", {**_about(record), "action": "stopped", "by": data["username"]}


_OF_A_RUN: Mapping[str, Callable[[Mapping[str, Any], RunRecord], Told | None]] = {
    "status": _status,
    "tool-finished": _tool,
    "approval": _approval,
    "watched": _watched,
    "stopped": _stopped,
}
