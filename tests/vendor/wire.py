"""The three wires the fake vendor speaks, as pure functions from a script to events."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any, Protocol

Json = dict[str, Any]


class Wire(Protocol):
    """How one vendor tells an answer."""

    def __init__(self, request: Json, script: Json) -> None: ...

    def begin(self) -> Iterator[bytes]:
        """Before any content."""

    def thinking(self, text: str) -> Iterator[bytes]:
        """A piece of reasoning."""

    def text(self, text: str) -> Iterator[bytes]:
        """A piece of the answer."""

    def refusal(self, text: str) -> Iterator[bytes]:
        """The vendor's way of declining."""

    def tool(self, place: int, name: str, arguments: str, call_id: str) -> Iterator[bytes]:
        """A complete tool call, in pieces."""

    def end(self, usage: dict[str, int] | None) -> Iterator[bytes]:
        """The end of a good answer."""

    def error(self, error: Json) -> Iterator[bytes]:
        """An error inside the stream."""

    def ping(self) -> bytes:
        """A sign of life without content."""


def prompt_of(request: Json) -> str:
    """The last user message that is no result of a tool, whatever the wire."""
    messages = request.get("messages") or request.get("input") or []
    if isinstance(messages, str):
        return messages
    for place in range(len(messages) - 1, -1, -1):
        of_a_tool = place > 0 and messages[place - 1].get("role") == "tool"
        if messages[place].get("role") == "user" and not of_a_tool:
            text = text_in(messages[place].get("content") or "")
            if text.strip():
                return text
    return ""


def text_in(content: str | list[Json]) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def rounds_in(request: Json) -> int:
    """How many rounds of tool calls the request tells of."""
    messages = request.get("messages") or request.get("input") or []
    if isinstance(messages, str):
        return 0
    results = [_is_result(message) for message in messages]
    return sum(
        here and not before for before, here in zip([False, *results], results, strict=False)
    )


def _is_result(message: Json) -> bool:
    content = message.get("content")
    return (
        message.get("role") == "tool"
        or message.get("type") in {"function_call_output", "custom_tool_call_output"}
        or (isinstance(content, list) and any(b.get("type") == "tool_result" for b in content))
    )


def error_body(error: Json, wire: str) -> Json:
    """The body of an HTTP error as the vendor writes it."""
    told = {"message": error.get("message", "told to fail"), "type": error.get("type", "")}
    if wire == "anthropic":
        return {"type": "error", "error": told, "request_id": "req_0"}
    return {"error": {**told, "code": error.get("code"), "param": None}}


def seal(text: str) -> str:
    """What a vendor signs or encrypts; whoever hands it back changed is found out."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8", "replace")).digest()).decode()


def _sse(data: Json | str, event: str | None = None) -> bytes:
    head = f"event: {event}\n" if event else ""
    body = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    try:
        return f"{head}data: {body}\n\n".encode()
    except UnicodeEncodeError:  # half a character: only an escape can carry it
        return f"{head}data: {json.dumps(data)}\n\n".encode()


CUSTOM = "custom:"
"""Begins the name of a tool that is called with plain text."""


class ChatWire:
    """Chat Completions."""

    def __init__(self, request: Json, script: Json) -> None:
        self._script = script
        self._usage_wanted = bool((request.get("stream_options") or {}).get("include_usage"))
        self._head = {
            "id": "chatcmpl-0",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": request.get("model", ""),
        }
        self._finish = "stop"

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def thinking(self, text: str) -> Iterator[bytes]:
        yield self._chunk({"reasoning_content": text})

    def text(self, text: str) -> Iterator[bytes]:
        yield self._chunk({"content": text})

    def refusal(self, text: str) -> Iterator[bytes]:
        yield self._chunk({"refusal": text})

    def tool(self, place: int, name: str, arguments: str, call_id: str) -> Iterator[bytes]:
        self._finish = "tool_calls"
        head = {"index": place, "id": call_id, "type": "function"}
        yield self._chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        for start in range(0, len(arguments), 5):
            part = {"arguments": arguments[start : start + 5]}
            yield self._chunk({"tool_calls": [{"index": place, "function": part}]})

    def end(self, usage: dict[str, int] | None) -> Iterator[bytes]:
        finish = self._script.get("finish", self._finish)
        if finish is not None:
            yield self._chunk({}, finish)
        if usage is not None and self._usage_wanted:
            yield _sse({**self._head, "choices": [], "usage": _chat_usage(usage)})
        if self._script.get("done", True):
            yield _sse("[DONE]")

    def error(self, error: Json) -> Iterator[bytes]:
        yield _sse(error_body(error, "chat"))

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse({**self._head, "choices": [choice]})


def _chat_usage(usage: dict[str, int]) -> Json:
    return {
        "prompt_tokens": usage["input"],
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage["cached"]},
        "completion_tokens_details": {"reasoning_tokens": usage["thinking"]},
    }


class ResponsesWire:
    """OpenAI Responses."""

    def __init__(self, request: Json, script: Json) -> None:
        self._script = script
        self._number = 0
        self._item = 0
        self._open = ""
        self._text = ""
        self._encrypted = "reasoning.encrypted_content" in request.get("include", ())
        self._response = {
            "id": "resp_0",
            "object": "response",
            "created_at": 1,
            "model": request.get("model", ""),
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": "in_progress",
        }

    def begin(self) -> Iterator[bytes]:
        yield self._event("response.created", response=self._response)
        yield self._event("response.in_progress", response=self._response)

    def thinking(self, text: str) -> Iterator[bytes]:
        yield from self._switch("reasoning")
        yield self._event(
            "response.reasoning_summary_text.delta",
            item_id=self._id(),
            output_index=self._item,
            summary_index=0,
            delta=text,
        )

    def text(self, text: str) -> Iterator[bytes]:
        yield from self._switch("message")
        self._text += text
        yield self._content("response.output_text.delta", delta=text, logprobs=[])

    def refusal(self, text: str) -> Iterator[bytes]:
        yield from self._switch("message")
        yield self._content("response.refusal.delta", delta=text)
        yield self._content("response.refusal.done", refusal=text)

    def tool(self, place: int, name: str, arguments: str, call_id: str) -> Iterator[bytes]:
        if name.startswith(CUSTOM):
            yield from self._custom(name.removeprefix(CUSTOM), arguments, call_id)
            return
        yield from self._switch("function_call")
        for start in range(0, len(arguments), 5):
            yield self._event(
                "response.function_call_arguments.delta",
                item_id=self._id(),
                output_index=self._item,
                delta=arguments[start : start + 5],
            )
        item = {
            "type": "function_call",
            "id": self._id(),
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }
        yield self._event("response.output_item.done", output_index=self._item, item=item)
        self._open = ""

    def _custom(self, name: str, code: str, call_id: str) -> Iterator[bytes]:
        """A call whose argument is plain text, as Codex lets its newest models make them."""
        yield from self._switch("")
        item = {"type": "custom_tool_call", "id": self._id(), "status": "completed"}
        item |= {"call_id": call_id, "name": name, "input": code}
        yield self._event("response.output_item.added", output_index=self._item, item=item)
        yield self._event("response.output_item.done", output_index=self._item, item=item)
        self._item += 1

    def end(self, usage: dict[str, int] | None) -> Iterator[bytes]:
        yield from self._switch("")
        finish = self._script.get("finish", "completed")
        status, _, reason = (finish or "").partition(":")
        response = {**self._response, "status": status, "usage": _responses_usage(usage)}
        if status == "incomplete":
            response["incomplete_details"] = {"reason": reason} if reason else None
        if status == "failed":
            response["error"] = {"code": reason, "message": "told to fail"} if reason else None
        if finish is not None:
            yield self._event(f"response.{status}", response=response)

    def error(self, error: Json) -> Iterator[bytes]:
        yield self._event(
            "error",
            code=error.get("code"),
            message=error.get("message", "told to fail"),
            param=None,
        )

    def ping(self) -> bytes:
        return b": ping\n\n"

    def _switch(self, kind: str) -> Iterator[bytes]:
        if kind == self._open and kind != "function_call":
            return
        if self._open:
            item = self._item_of(self._open, "completed")
            yield self._event("response.output_item.done", output_index=self._item, item=item)
            self._item += 1
        self._open = kind
        if kind:
            item = self._item_of(kind, "in_progress")
            yield self._event("response.output_item.added", output_index=self._item, item=item)

    def _item_of(self, kind: str, status: str) -> Json:
        head = {"type": kind, "id": self._id(), "status": status}
        match kind:
            case "reasoning":
                sealed = {"encrypted_content": seal(self._id())} if self._encrypted else {}
                return {**head, "summary": [], **sealed}
            case "function_call":
                return {**head, "call_id": "", "name": "", "arguments": ""}
        said, self._text = self._text, ""
        parts = [{"type": "output_text", "text": said, "annotations": []}] if said else []
        return {**head, "role": "assistant", "content": parts}

    def _content(self, kind: str, **fields: object) -> bytes:
        return self._event(
            kind, item_id=self._id(), output_index=self._item, content_index=0, **fields
        )

    def _id(self) -> str:
        return f"item_{self._item}"

    def _event(self, kind: str, **fields: object) -> bytes:
        self._number += 1
        return _sse({"type": kind, "sequence_number": self._number, **fields}, kind)


def _responses_usage(usage: dict[str, int] | None) -> Json | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage["input"],
        "input_tokens_details": {"cached_tokens": usage["cached"], "cache_write_tokens": 0},
        "output_tokens": usage["output"],
        "output_tokens_details": {"reasoning_tokens": usage["thinking"]},
        "total_tokens": usage["input"] + usage["output"],
    }


class MessagesWire:
    """Anthropic Messages."""

    def __init__(self, request: Json, script: Json) -> None:
        self._script = script
        self._index = 0
        self._open = ""
        self._thought = ""
        self._stop = "end_turn"
        self._refused: str | None = None
        usage = script.get("usage", {}) or {}
        self._message = {
            "id": "msg_0",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": request.get("model", ""),
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.get("input", 1),
                "output_tokens": 1,
                "cache_read_input_tokens": usage.get("cached", 0),
                "cache_creation_input_tokens": usage.get("written", 0),
            },
        }

    def begin(self) -> Iterator[bytes]:
        yield self._event("message_start", message=self._message)
        yield self.ping()

    def thinking(self, text: str) -> Iterator[bytes]:
        yield from self._switch({"type": "thinking", "thinking": "", "signature": ""})
        self._thought += text
        yield self._delta(type="thinking_delta", thinking=text)

    def text(self, text: str) -> Iterator[bytes]:
        yield from self._switch({"type": "text", "text": ""})
        yield self._delta(type="text_delta", text=text)

    def refusal(self, text: str) -> Iterator[bytes]:
        self._stop = "refusal"
        self._refused = text
        yield from ()

    def tool(self, place: int, name: str, arguments: str, call_id: str) -> Iterator[bytes]:
        self._stop = "tool_use"
        yield from self._switch({"type": "tool_use", "id": call_id, "name": name, "input": {}})
        for start in range(0, len(arguments), 5):
            yield self._delta(type="input_json_delta", partial_json=arguments[start : start + 5])

    def end(self, usage: dict[str, int] | None) -> Iterator[bytes]:
        yield from self._switch(None)
        delta: Json = {"stop_reason": self._script.get("finish", self._stop), "stop_sequence": None}
        if self._refused is not None:
            delta["stop_details"] = {"type": "refusal", "explanation": self._refused}
        told: Json = {}
        if usage is not None:
            told = {
                "output_tokens": usage["output"],
                "output_tokens_details": {"thinking_tokens": usage["thinking"]},
            }
        yield self._event("message_delta", delta=delta, usage=told)
        yield self._event("message_stop")

    def error(self, error: Json) -> Iterator[bytes]:
        body = error_body(error, "anthropic")
        yield _sse(body, "error")

    def ping(self) -> bytes:
        return _sse({"type": "ping"}, "ping")

    def _switch(self, block: Json | None) -> Iterator[bytes]:
        kind = block["type"] if block else ""
        if kind == self._open and kind != "tool_use":
            return
        if self._open:
            if self._open == "thinking":
                yield self._delta(type="signature_delta", signature=seal(self._thought))
                self._thought = ""
            yield self._event("content_block_stop", index=self._index)
            self._index += 1
        self._open = kind
        if block:
            yield self._event("content_block_start", index=self._index, content_block=block)

    def _delta(self, **delta: object) -> bytes:
        return self._event("content_block_delta", index=self._index, delta=delta)

    def _event(self, kind: str, **fields: object) -> bytes:
        return _sse({"type": kind, **fields}, kind)
