"""What a vendor received, put back into the canonical form that previews are hashed in.

Written from the wires, without the code that makes requests: only the fixed wording is borrowed, to
cut the one text that two of the wires make of the system blocks.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from nbinline_agent.context import instructions


def sha256(record: Mapping[str, Any], *, effort: str | None = None) -> str:
    """Hash of a first request as the vendor recorded it."""
    body = record["body"]
    wire = {"/v1/messages": _anthropic, "/v1/responses": _responses}.get(record["path"], _chat)
    whole, images = wire(body)
    head = {
        "model": body["model"],
        "effort": effort,
        "max_output_tokens": body.get("max_tokens") or body.get("max_output_tokens"),
    }
    if images:
        head["images"] = [hashlib.sha256(base64.b64decode(each)).hexdigest() for each in images]
    text = json.dumps(head | whole, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _anthropic(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    images: list[str] = []
    messages = []
    for turn in body["messages"]:
        text = ""
        for block in turn["content"]:
            if block["type"] == "image":
                images.append(block["source"]["data"])
            else:
                text += block["text"]
        messages.append({"role": turn["role"], "content": text})
    whole = {
        "system": [block["text"] for block in body["system"]],
        "messages": messages,
        "tools": [
            {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["input_schema"],
            }
            for tool in body.get("tools", [])
        ],
    }
    return whole, images


def _responses(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    turns = [(turn["role"], _parts(turn["content"])) for turn in body["input"]]
    return _joined(body["instructions"], turns, body.get("tools", []))


def _chat(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    system, *rest = body["messages"]
    turns = [(turn["role"], _parts(turn["content"])) for turn in rest]
    tools = [tool["function"] for tool in body.get("tools", [])]
    return _joined(system["content"], turns, tools)


def _joined(
    system: str, turns: list[tuple[str, tuple[str, list[str]]]], tools: list[dict[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    keys = ("name", "description", "parameters")
    whole = {
        "system": _blocks(system),
        "messages": [{"role": role, "content": text} for role, (text, _) in turns],
        "tools": [{key: tool[key] for key in keys} for tool in tools],
    }
    return whole, [image for _, (_, images) in turns for image in images]


def _parts(content: str | list[dict[str, Any]]) -> tuple[str, list[str]]:
    """The text of a turn, and its pictures in base64."""
    if isinstance(content, str):
        return content, []
    text, images = "", []
    for part in content:
        if "text" in part:
            text += part["text"]
        else:
            url = part["image_url"]
            images.append((url if isinstance(url, str) else url["url"]).partition("base64,")[2])
    return text, images


def _blocks(system: str) -> list[str]:
    """Instructions, style and source, which stand in one text."""
    blocks = []
    for known in (instructions.FULL, *instructions.STYLES.values()):
        if system.startswith(known):
            blocks.append(known)
            system = system[len(known) :].removeprefix("\n\n")
    return [*blocks, system] if system else blocks
