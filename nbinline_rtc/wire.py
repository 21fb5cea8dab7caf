"""The contract with clients: what a request may say and how an answer looks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from nbinline_agent.asking import Override, StartRun
from nbinline_agent.errors import BadRequest, NbinlineError
from nbinline_agent.ids import CellId, NotebookPath, RunId
from nbinline_agent.journal import Author, EventPage, RunRecord, StoredEvent
from nbinline_agent.messages import ConnectionInfo, JsonValue
from nbinline_agent.provenance import EVENT as INPUTS
from nbinline_agent.revert import Reverted
from nbinline_agent.tools.groups import GROUPS

MAX_PATH = 4_096
MAX_ID = 200
MAX_STATE_VECTOR = 1_000_000
"""Bounds of request fields, in characters."""

KERNEL_WAIT = 120.0
"""Seconds to wait for a busy kernel where somebody only said that they wait."""
MAX_KERNEL_WAIT = 600.0

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OVERRIDES: Mapping[str, str] = {
    "backend": "connection",
    "model": "model",
    "promptMode": "style",
    "reasoningEffort": "effort",
    "contextMode": "context_mode",
}
MAX_STEPS = 50
"""Rounds of tool calls that a run may be given."""

MAX_GROUPS = 20
"""Preset groups of tools that one run may name."""


def object_of(body: Any) -> Mapping[str, Any]:
    """The body as a JSON object.

    Raises:
        BadRequest: It is something else.
    """
    if not isinstance(body, dict):
        raise BadRequest("The request must be a JSON object.")
    return body


def text_of(body: Mapping[str, Any], key: str, limit: int, *, required: bool = True) -> str | None:
    """A string field.

    Raises:
        BadRequest: It is missing though required, not a string, empty or too long.
    """
    value = body.get(key)
    if value is None and not required:
        return None
    if not isinstance(value, str) or not value:
        raise BadRequest(f"The field {key!r} must be a non-empty string.")
    if len(value) > limit:
        raise BadRequest(f"The field {key!r} is longer than {limit} characters.")
    return value


def path_of(value: Any) -> NotebookPath:
    """A notebook's path as the contents API names it.

    Raises:
        BadRequest: It is not a relative path below the server root.
    """
    if not isinstance(value, str) or not value or len(value) > MAX_PATH or "\0" in value:
        raise BadRequest("The field 'path' must name a notebook below the server root.")
    path = value.strip("/")
    if not path or ".." in path.split("/"):
        raise BadRequest("The field 'path' must name a notebook below the server root.")
    return NotebookPath(path)


def cell_id_of(body: Mapping[str, Any]) -> CellId:
    """The field ``cell_id``.

    Raises:
        BadRequest: It is missing, empty or too long.
    """
    cell_id = text_of(body, "cell_id", MAX_ID)
    assert cell_id is not None
    return CellId(cell_id)


def start_run(body: Any, author: Author) -> StartRun:
    """Decode the body of ``POST runs``.

    Raises:
        BadRequest: A field is missing, unknown in kind or out of bounds.
    """
    fields = object_of(body)
    digest = source_hash_of(fields)
    return StartRun(
        path=path_of(fields.get("path")),
        cell_id=cell_id_of(fields),
        author=author,
        state_vector=_state_vector(fields),
        source_sha256=digest,
        override=override(fields.get("override")),
        client_request_id=text_of(fields, "client_request_id", MAX_ID, required=False),
        wait_for_kernel=_wait_for_kernel(fields.get("wait_for_kernel")),
    )


def source_hash_of(fields: Mapping[str, Any]) -> str | None:
    """The hash of a cell's source as the person saw it, or None.

    Raises:
        BadRequest: It is no SHA-256 in hexadecimal.
    """
    digest = text_of(fields, "source_sha256", 64, required=False)
    if digest is not None and not _SHA256.fullmatch(digest):
        raise BadRequest("The field 'source_sha256' must be 64 lower-case hex digits.")
    return digest


def _wait_for_kernel(value: Any) -> float:
    if value is None or isinstance(value, bool):
        return KERNEL_WAIT if value else 0.0
    if not isinstance(value, int | float) or not 0 <= value <= MAX_KERNEL_WAIT:
        raise BadRequest(
            f"The field 'wait_for_kernel' must be true, or seconds up to {MAX_KERNEL_WAIT:g}."
        )
    return float(value)


def _state_vector(fields: Mapping[str, Any]) -> bytes | None:
    encoded = text_of(fields, "state_vector", MAX_STATE_VECTOR, required=False)
    if encoded is None:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("The field 'state_vector' must be base64.") from None


def override(value: Any) -> Override:
    """Decode the choices for one run.

    Raises:
        BadRequest: It is not an object, or a choice is unknown or of the wrong kind.
    """
    if value is None:
        return Override()
    fields = object_of(value)
    choices: dict[str, Any] = {}
    for key, choice in fields.items():
        if key == "acknowledge":
            choices[key] = choice is True
        elif key == "maxToolSteps":
            choices["max_steps"] = _steps(choice)
        elif key == "toolGroups":
            choices["tool_groups"] = _groups(choice)
        elif key in _OVERRIDES:
            text = text_of(fields, key, MAX_ID, required=False)
            if text is not None:
                choices[_OVERRIDES[key]] = text
        else:
            raise BadRequest(f"The override {key!r} is not known.")
    return Override(**choices)


def _steps(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_STEPS:
        raise BadRequest(
            f"The override 'maxToolSteps' must be a whole number from 0 to {MAX_STEPS}."
        )
    return value


def _groups(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) > MAX_GROUPS
        or not all(isinstance(each, str) and each in GROUPS for each in value)
    ):
        raise BadRequest(f"The override 'toolGroups' must be a list of {', '.join(GROUPS)}.")
    return tuple(dict.fromkeys(value))


def run_json(record: RunRecord) -> dict[str, JsonValue]:
    """A run as clients see it; times are ISO 8601 in UTC."""
    usage = record.usage
    return {
        "run_id": record.run_id,
        "path": record.path,
        "file_id": record.file_id,
        "prompt_cell_id": record.prompt_cell_id,
        "answer_cell_id": record.answer_cell_id,
        "status": record.status.value,
        "author": {
            "username": record.author.username,
            "display_name": record.author.display_name,
        },
        "connection": record.connection,
        "model": record.model,
        "created_at": iso(record.created_at),
        "started_at": iso(record.started_at),
        "ended_at": iso(record.ended_at),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "thinking_tokens": usage.thinking_tokens,
        },
        "steps": record.steps,
        "error": None
        if record.error_code is None
        else {"code": record.error_code, "message": record.error_message},
        "report": dict(record.report) if record.report is not None else None,
        "continues": record.continues,
    }


def accepted_json(record: RunRecord) -> dict[str, JsonValue]:
    """The body of a 202."""
    return {
        "run_id": record.run_id,
        "status": record.status.value,
        "answer_cell_id": record.answer_cell_id,
    }


def events_json(page: EventPage) -> dict[str, JsonValue]:
    """A page of a run's journal; ``last_seq`` is where the next one goes on."""
    events: list[JsonValue] = [
        {**shown(event), "seq": event.seq, "at": iso(event.at), "type": event.type}
        for event in page.events
    ]
    last = page.events[-1].seq if page.events else page.last_seq
    return {"events": events, "last_seq": last, "gap": page.gap, "more": last < page.last_seq}


def approval_answer(fields: Mapping[str, Any]) -> tuple[bool, bool]:
    """Decode the answer to an approval: whether it is allowed, and whether from now on.

    Raises:
        BadRequest: A field is missing or no boolean.
    """
    allow, remember = fields.get("allow"), fields.get("remember", False)
    if not isinstance(allow, bool) or not isinstance(remember, bool):
        raise BadRequest("The fields 'allow' and 'remember' must be true or false.")
    return allow, remember


def shown(event: StoredEvent) -> Mapping[str, JsonValue]:
    """An event's data; of inputs, which may be thousands of cells, only how many there are."""
    if event.type == "approval":
        return _approval_json(event.data)
    cells = event.data.get("cells")
    if event.type == INPUTS and isinstance(cells, Mapping):
        return {"cells": len(cells)}
    return event.data


def dry_run(fields: Mapping[str, Any]) -> bool:
    """Whether a revert is only to be told, not done.

    Raises:
        BadRequest: The field is no boolean.
    """
    value = fields.get("dry_run", False)
    if not isinstance(value, bool):
        raise BadRequest("The field 'dry_run' must be true or false.")
    return value


def reverted_json(reverted: Reverted) -> dict[str, JsonValue]:
    """What a revert takes back, and what it does not."""
    return {
        "reverted": list(reverted.reverted),
        "kept": [{"cell_id": each.cell_id, "reason": each.reason} for each in reverted.kept],
    }


def approvals_json(asked: Iterable[Mapping[str, JsonValue]]) -> list[JsonValue]:
    """What a run asked people, in order; of several records of one question the last counts."""
    latest: dict[JsonValue, dict[str, JsonValue]] = {}
    for each in asked:
        latest[each.get("approval_id")] = _approval_json(each)
    return [*latest.values()]


def _approval_json(asked: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    expires = asked.get("expires_at")
    at = iso(float(expires)) if isinstance(expires, int | float) else None
    return {**asked, "expires_at": at}


def error_json(error: NbinlineError) -> dict[str, JsonValue]:
    """The body of a 4xx or 5xx."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "retryable": error.retryable,
            **error.details,
        }
    }


def connection_json(info: ConnectionInfo) -> dict[str, JsonValue]:
    """A connection as the UI shows it; never a key."""
    return {
        "kind": info.kind,
        "label": info.label,
        "configured": info.configured,
        "source": info.source,
        "models": list(info.models),
        "default_model": info.default_model,
        "free_models": info.free_models,
        "notice": info.notice,
        "efforts": {model: list(efforts) for model, efforts in info.efforts.items()},
        "other_efforts": list(info.other_efforts),
        "images": dict(info.images),
        "other_images": info.other_images,
    }


def run_id_of(text: str) -> RunId:
    """A run id from a URL.

    Raises:
        BadRequest: It is not one of ours in form.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise BadRequest("That is not a run id.")
    return RunId(text)


def iso(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC, to the millisecond."""
    if at is None:
        return None
    moment = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
