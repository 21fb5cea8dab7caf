"""What the real vendors refuse: tool traffic out of order, broken seals, pictures that are none."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

if __package__ in {None, ""}:
    import wire as wires
else:
    from . import wire as wires

Json = dict[str, Any]

MAGIC = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Refused(Exception):
    """The vendor would answer 400."""


def problem(wire: str, body: Json) -> str | None:
    """What the vendor would say about a request it does not take; None if it takes it."""
    try:
        CHECKS[wire](body)
    except Refused as refused:
        return str(refused)
    return None


def _demand(holds: object, message: str) -> None:
    if not holds:
        raise Refused(message)


def _declared(names: list[str], choice: object, used: bool) -> None:
    _demand(len(set(names)) == len(names), "tools: names must be unique")
    for name in names:
        _demand(NAME.fullmatch(name), f"tools: {name!r} is not a valid name")
    _demand(names or not used, "tool traffic needs tools to be defined")
    _demand(names or choice is None, "tool_choice is only allowed when tools are specified")


# Anthropic Messages


def check_messages(body: Json) -> None:
    """Blocks, their order, seals, markers."""
    messages = body["messages"]
    blocks = [block for message in messages for block in _blocks(message)]
    used = any(block["type"] in {"tool_use", "tool_result"} for block in blocks)
    _declared([tool["name"] for tool in body.get("tools", [])], body.get("tool_choice"), used)
    marked = json.dumps(body).count('"cache_control"')
    _demand(
        marked <= 4, f"a maximum of 4 blocks with cache_control may be provided, found {marked}"
    )
    _demand(messages and messages[0]["role"] == "user", "messages: first message must be user")
    for block in blocks:
        _check_block(block)
    pending: list[str] = []
    for message in messages:
        pending = _check_turn(message, pending)
    _demand(not pending, f"tool_use ids without tool_result blocks: {pending}")


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    inner = [b["content"] for b in blocks if isinstance(b.get("content"), list)]
    return [*blocks, *(each for part in inner for each in part)]


def _check_turn(message: Json, pending: list[str]) -> list[str]:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    _demand(content, "messages: content must not be empty")
    if message["role"] == "assistant":
        _demand(not pending, "tool_use must be followed by tool_result")
        return [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    first = [block["type"] == "tool_result" for block in blocks[: len(results)]]
    _demand(all(first), "tool_result blocks must come first")
    _demand(sorted(results) == sorted(pending), f"{pending} must be answered, got {results}")
    return []


def _check_block(block: Json) -> None:
    match block["type"]:
        case "text":
            _demand(block["text"].strip(), "text content blocks must contain non-whitespace text")
        case "image":
            _picture(block["source"]["media_type"], block["source"]["data"])
        case "thinking":
            sealed = wires.seal(block["thinking"])
            _demand(block["signature"] == sealed, "Invalid `signature` in `thinking` block")
        case "tool_use":
            _demand(isinstance(block["input"], dict), "tool_use.input: should be a dictionary")


# OpenAI Responses


def check_responses(body: Json) -> None:
    """Items, their order, what is encrypted."""
    items = body["input"] if isinstance(body["input"], list) else []
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    declared = [tool["name"] for tool in body.get("tools", [])]
    # Codex declares the tools of its newest models in the input.
    added = (item["tools"] for item in items if item.get("type") == "additional_tools")
    declared += [tool["name"] for tools in added for tool in tools]
    _declared(declared, body.get("tool_choice"), bool(calls))
    seen: list[str] = []
    for item in items:
        if item.get("type") == "function_call":
            seen.append(item["call_id"])
        if item.get("type") == "function_call_output":
            _demand(item["call_id"] in seen, f"No tool call found for {item['call_id']}")
    for call in calls:
        _demand(calls.count(call) == results.count(call), f"No tool output found for {call}")
    for item, following in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") == "reasoning":
            _check_reasoning(item, following, body)
        for part in _parts(item):
            if part["type"] == "input_image":
                _data_url(part["image_url"])


def _parts(item: Json) -> Iterator[Json]:
    for key in ("content", "output"):
        if isinstance(item.get(key), list):
            yield from item[key]


def _check_reasoning(item: Json, following: Json, body: Json) -> None:
    _demand(
        following.get("type") in {"function_call", "message"},
        f"Item {item['id']} of type 'reasoning' was provided without its required following item",
    )
    if body.get("store") is False:
        sealed = item.get("encrypted_content")
        _demand(sealed == wires.seal(item["id"]), f"Item with id {item['id']} not found")


# Chat Completions


def check_chat(body: Json) -> None:
    """Every call is answered before anybody else speaks."""
    messages = body["messages"]
    used = any(message["role"] == "tool" for message in messages)
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    _declared(names, body.get("tool_choice"), used)
    pending: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            _demand(
                message["tool_call_id"] in pending, "no preceding tool_calls for a tool message"
            )
            pending.remove(message["tool_call_id"])
            _demand(isinstance(message["content"], str), "tool messages take text only")
            continue
        _demand(not pending, f"tool_call_ids did not have response messages: {pending}")
        calls = message.get("tool_calls", [])
        pending = [call["id"] for call in calls]
        _demand(message["content"] is not None or calls, "content must not be null")
        for call in calls:
            _json(call["function"]["arguments"])
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                _data_url(part["image_url"]["url"])
    _demand(not pending, f"tool_call_ids did not have response messages: {pending}")


def _json(arguments: str) -> None:
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    _demand(isinstance(value, dict), "tool_calls: arguments must be a JSON object")


def _data_url(url: str) -> None:
    found = re.fullmatch(r"data:(image/\w+);base64,(.*)", url, re.S)
    _demand(found, "The image_url is not a valid data URL")
    assert found is not None
    _picture(found[1], found[2])


def _picture(media_type: str, data: str) -> None:
    try:
        start = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        start = b""
    _demand(media_type in MAGIC, f"{media_type} is not supported")
    _demand(start.startswith(MAGIC[media_type]), f"The image does not match {media_type}")


CHECKS: dict[str, Callable[[Json], None]] = {
    "anthropic": check_messages,
    "responses": check_responses,
    "chat": check_chat,
}
