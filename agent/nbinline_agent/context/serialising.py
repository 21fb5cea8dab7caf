"""A model request as canonical JSON, and what it takes of the budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from nbinline_agent.messages import JsonValue, ModelRequest, ToolRound, ToolSpec

from .budget import Limits

IMAGE_CHARACTERS = 4_800
"""What an image counts in the budget: about 1,600 tokens at the size that models look at."""


def request_json(request: ModelRequest, content: str | None = None) -> str:
    """The request as canonical JSON: fixed key order, no spaces; images by their hashes.

    Args:
        request: The request.
        content: Its ``content_json``, if that is known already.
    """
    head: dict[str, JsonValue] = {
        "model": request.model,
        "effort": request.effort,
        "max_output_tokens": request.max_output_tokens,
    }
    images = [hash_of(each.data) for message in request.messages for each in message.images]
    if images:
        head["images"] = [*images]
    return f"{dump(head)[:-1]},{(content_json(request) if content is None else content)[1:]}"


def request_sha256(request: ModelRequest, content: str | None = None) -> str:
    """Hash of the canonical JSON of the request, in hexadecimal."""
    return hash_of(request_json(request, content).encode("utf-8", "surrogatepass"))


def measure(request: ModelRequest, limits: Limits, content: str | None = None) -> int:
    """What the request takes of the budget, as ``Limits.size`` counts.

    Args:
        request: The request.
        limits: How it is counted.
        content: Its ``content_json``, if that is known already.
    """
    images = sum(len(message.images) for message in request.messages)
    images += sum(len(answer.images) for each in request.rounds for answer in each.answers)
    text = content_json(request) if content is None else content
    return _length(text, limits) + images * IMAGE_CHARACTERS


def measure_rounds(rounds: Sequence[ToolRound], limits: Limits) -> int:
    """What the tool traffic takes of the budget, as ``Limits.size`` counts."""
    images = sum(len(answer.images) for each in rounds for answer in each.answers)
    said = _length(dump([_round(each) for each in rounds]), limits) if rounds else 0
    return said + images * IMAGE_CHARACTERS


def content_json(request: ModelRequest) -> str:
    """What the budget counts: system, messages and tools as JSON without spaces."""
    return dump(_content(request))


def tools_json(tools: Sequence[ToolSpec]) -> str:
    """The declared tools as they are counted."""
    return dump([_tool(tool) for tool in tools])


def dump(value: JsonValue) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def hash_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _length(text: str, limits: Limits) -> int:
    if limits.unit == "characters" or text.isascii():
        return len(text)
    return len(text.encode("utf-8", "surrogatepass"))


def _content(request: ModelRequest) -> dict[str, JsonValue]:
    content: dict[str, JsonValue] = {
        "system": list(request.system),
        "messages": [
            {"role": message.role, "content": message.text} for message in request.messages
        ],
        "tools": [_tool(tool) for tool in request.tools],
    }
    return content | (
        {"rounds": [_round(each) for each in request.rounds]} if request.rounds else {}
    )


def _round(finished: ToolRound) -> JsonValue:
    return {
        "text": finished.text,
        "calls": [[call.name, call.arguments] for call in finished.calls],
        "answers": [answer.text for answer in finished.answers],
        "carried": [dict(item) for item in finished.carried],
    }


def _tool(tool: ToolSpec) -> JsonValue:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
