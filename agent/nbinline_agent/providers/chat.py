"""The adapter for OpenAI-compatible Chat Completions at any address.

vLLM, Ollama, LM Studio, llama.cpp and LiteLLM differ in small ways; what they leave out or name
otherwise is taken as they mean it.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from openai import AsyncOpenAI, AsyncStream, omit

from nbinline_agent.errors import (
    BadAnswer,
    ContentFiltered,
    OutputTruncated,
    ProviderError,
    Refused,
    Unavailable,
)
from nbinline_agent.messages import (
    EndReason,
    Image,
    Message,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCalled,
    ToolRound,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.failures import Call, Said, refusal_message
from nbinline_agent.providers.http import address, open_http
from nbinline_agent.providers.openai_errors import explain, named_failure
from nbinline_agent.providers.retry import Failed, RetryPolicy
from nbinline_agent.providers.streaming import (
    Json,
    SdkStream,
    StreamingProvider,
    arguments_of,
    count,
    text_of,
    tool_call,
)

USAGE_PATIENCE = 5.0
"""Seconds to wait for the usage behind the end of an answer."""

IMAGES_OF_TOOLS = "The images that belong to the results above, in order:"

FINISH: Mapping[str, EndReason | type[ProviderError]] = {
    "stop": EndReason.COMPLETE,
    "tool_calls": EndReason.TOOL_CALLS,
    "function_call": EndReason.TOOL_CALLS,
    "length": OutputTruncated,
    "content_filter": ContentFiltered,
    # what compatible servers say instead
    "eos": EndReason.COMPLETE,
    "eos_token": EndReason.COMPLETE,
    "end_turn": EndReason.COMPLETE,
    "stop_sequence": EndReason.COMPLETE,
    "tool_use": EndReason.TOOL_CALLS,
    "max_tokens": OutputTruncated,
    "model_length": OutputTruncated,
    "safety": ContentFiltered,
    "sensitive": ContentFiltered,
    "recitation": ContentFiltered,
    "refusal": Refused,
    "abort": BadAnswer,
    "error": Unavailable,
    "network_error": Unavailable,
    "insufficient_system_resource": Unavailable,
}
"""By ``finish_reason`` in lower case; any other one ends the answer as ``stop`` does."""


@asynccontextmanager
async def open_chat(
    *, base_url: str, api_key: str | None, timeouts: Timeouts, retries: RetryPolicy
) -> AsyncIterator[Provider]:
    """Open the SDK's client; it is closed at the exit.

    Args:
        base_url: Of the service, up to ``/v1``.
        api_key: Sent as a bearer token; None for servers without one.
        timeouts: How long to wait.
        retries: When to repeat a call.
    """
    own = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    without = tuple(name for name in _of_openai() if name.title() not in own)

    def build() -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=api_key or "none",
            base_url=base_url,
            default_headers=own,
            max_retries=0,
            http_client=open_http(base_url, timeouts, without=without),
        )

    # Reading the certificates of this machine blocks.
    async with await anyio.to_thread.run_sync(build) as client:

        async def start(request: ModelRequest) -> Completion:
            create = client.chat.completions.with_raw_response.create
            response = await create(**_body(request), stream=True)
            # As plain JSON: making the SDK's objects costs more than all the rest of an event.
            return Completion(response.parse(to=AsyncStream[object]))

        yield StreamingProvider(
            start=start,
            read=_read,
            explain=explain,
            address=address(base_url),
            key=api_key,
            timeouts=timeouts,
            retries=retries,
        )


def _of_openai() -> list[str]:
    """Headers that the SDK fills for OpenAI, from the environment too; no business of others."""
    custom = os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines()
    named = [line.partition(":")[0].strip() for line in custom if ":" in line]
    return ["Authorization", "OpenAI-Organization", "OpenAI-Project", *named]


def _body(request: ModelRequest) -> dict[str, Any]:
    system = "\n\n".join(block for block in request.system if block.strip())
    messages = [
        *([{"role": "system", "content": system}] if system else ()),
        *(_message(each) for each in request.messages if each.text.strip() or each.images),
        *(message for each in request.rounds for message in _round(each)),
    ]
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in request.tools
    ]
    return {
        "model": request.model,
        "messages": (),
        "stream_options": {"include_usage": True},
        # `max_completion_tokens` is not understood by all of them.
        "max_tokens": request.max_output_tokens or omit,
        "reasoning_effort": request.effort or omit,
        "tool_choice": "none" if request.tools and request.tools_off else omit,
        # Not as parameters of the SDK, which compares every item with many types on the loop.
        "extra_body": {"messages": messages, **({"tools": tools} if tools else {})},
    }


def _message(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    return {"role": message.role, "content": _content(message.text, message.images)}


def _content(text: str, images: tuple[Image, ...]) -> list[dict[str, Any]]:
    said = [{"type": "text", "text": text}] if text.strip() else []
    return [*said, *({"type": "image_url", "image_url": {"url": each.url}} for each in images)]


def _round(finished: ToolRound) -> Iterator[dict[str, Any]]:
    yield {
        "role": "assistant",
        "content": finished.text if finished.text.strip() else None,
        "tool_calls": [_call(call) for call in finished.calls],
    }
    for answer in finished.answers:
        yield {"role": "tool", "tool_call_id": answer.call_id, "content": answer.text}
    images = tuple(image for answer in finished.answers for image in answer.images)
    if images:
        # Results take text only on this wire.
        yield {"role": "user", "content": _content(IMAGES_OF_TOOLS, images)}


def _call(call: ToolCall) -> dict[str, Any]:
    # Servers that fill a template with them stumble over arguments that are no JSON.
    arguments = json.dumps(arguments_of(call), ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.call_id, "type": "function", "function": function}


async def _read(stream: Completion, call: Call) -> AsyncGenerator[ModelEvent, None]:
    reading = Reading(call)
    async for chunk in stream:
        for event in reading.feed(chunk):
            yield event
        if reading.finish is not None:
            break
    if reading.usage is None:
        with anyio.move_on_after(USAGE_PATIENCE):
            async for chunk in stream:
                reading.late(chunk)
                if reading.usage is not None:
                    break
    for event in reading.end(done=stream.tail.done()):
        yield event


@dataclass(slots=True)
class _PartialCall:
    call_id: str
    name: str
    arguments: str = ""


class Reading:
    """Turns the chunks of one completion into our events."""

    def __init__(self, call: Call) -> None:
        self.finish: str | None = None
        self._call = call
        self.usage: Json | None = None
        self._refusal = ""
        self._calls: list[_PartialCall] = []
        self._places: dict[object, _PartialCall] = {}

    def feed(self, chunk: Json) -> Iterator[ModelEvent]:
        """The events to pass on for one chunk.

        Raises:
            Failed: The service reports an error inside the stream.
        """
        self.late(chunk)
        for choice in chunk["choices"][:1]:
            yield from self._delta(choice.get("delta") or {})
            self.finish = text_of(choice.get("finish_reason")) or self.finish

    def late(self, chunk: Json) -> None:
        """Take the usage, which most servers send in a last chunk without choices.

        Raises:
            Failed: The service reports an error inside the stream.
        """
        if chunk.get("object") == "error":
            raise Failed(named_failure(Said.of(chunk), self._call))
        self.usage = chunk.get("usage") or self.usage

    def end(self, *, done: bool) -> Iterator[ModelEvent]:
        """The events behind the last chunk.

        Args:
            done: Whether the server marked the end of the stream.

        Raises:
            ProviderError: The answer ended badly.
        """
        if self.usage is not None:
            yield _usage(self.usage)
        if self.finish is None and not done:
            raise BadAnswer
        reason = FINISH.get((self.finish or "stop").lower(), EndReason.COMPLETE)
        if not isinstance(reason, EndReason):
            raise reason
        if self._refusal:
            raise Refused(refusal_message(self._refusal, self._call))
        for partial in self._calls:
            yield ToolCalled(tool_call(partial.call_id, partial.name, partial.arguments))
        yield TurnEnded(EndReason.TOOL_CALLS if self._calls else EndReason.COMPLETE)

    def _delta(self, delta: Json) -> Iterator[ModelEvent]:
        # vLLM and LiteLLM say `reasoning_content`, Ollama and OpenRouter `reasoning`.
        thought = text_of(delta.get("reasoning_content")) or text_of(delta.get("reasoning"))
        if thought:
            yield Thinking(len(thought))
        if text := text_of(delta.get("content")):
            yield TextDelta(text)
        if refusal := text_of(delta.get("refusal")):
            self._refusal += refusal
            yield Thinking()
        for piece in delta.get("tool_calls") or ():
            self._tool(piece)
            yield Thinking()

    def _tool(self, piece: Json) -> None:
        function = piece.get("function") or {}
        name, call_id = text_of(function.get("name")), text_of(piece.get("id"))
        place = piece.get("index")
        known = self._places.get(place)
        # Some servers send every whole call under one index, or under none.
        if known is None or (name and call_id and call_id != known.call_id):
            known = _PartialCall(call_id or f"call_{len(self._calls)}", name)
            self._calls.append(known)
            self._places[place] = known
        elif name and not known.name:
            known.name = name
        known.arguments += text_of(function.get("arguments"))


class Completion(SdkStream[Json]):
    """The stream of one completion."""

    def __init__(self, stream: AsyncStream[object]) -> None:
        super().__init__(stream, stream.close)
        self.tail = _Tail(stream.response.stream)
        stream.response.stream = self.tail


class _Tail(httpx2.AsyncByteStream):
    """Remembers how a response ended: the SDK does not tell ``[DONE]`` from a lost connection."""

    def __init__(self, inner: httpx2.SyncByteStream | httpx2.AsyncByteStream) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)
        self._inner = inner
        self._last = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._last = (self._last + chunk)[-64:]
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()

    def done(self) -> bool:
        """Whether the mark of the end was the last thing that came."""
        return self._last.rstrip().endswith(b"[DONE]")


def _usage(usage: Json) -> Usage:
    return Usage(
        count(usage, "prompt_tokens"),
        count(usage, "completion_tokens"),
        count(usage.get("prompt_tokens_details"), "cached_tokens"),
        count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )
