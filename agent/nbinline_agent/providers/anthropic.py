"""The adapter for Anthropic Messages, with cache markers on the stable prefix."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from anthropic import AsyncAnthropic, AsyncStream, omit

from nbinline_agent.errors import OutputTruncated, Overflow, ProviderError, Refused
from nbinline_agent.messages import (
    EndReason,
    Image,
    Message,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Thinking,
    ToolAnswer,
    ToolCall,
    ToolCalled,
    ToolRound,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers import catalog
from nbinline_agent.providers.anthropic_errors import explain
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.failures import Call, refusal_message
from nbinline_agent.providers.http import address, open_http
from nbinline_agent.providers.retry import RetryPolicy
from nbinline_agent.providers.streaming import (
    Json,
    SdkStream,
    StreamingProvider,
    arguments_of,
    count,
    text_of,
    tool_call,
    well_formed,
)

BASE_URL = "https://api.anthropic.com"

_SMALLEST_LIMIT = 8_192  # the service wants a number, and every model takes this one

_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)

_CACHED_TURNS = 2  # four markers are allowed; two stand in the system text

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

STOP: Mapping[str, EndReason | type[ProviderError]] = {
    "end_turn": EndReason.COMPLETE,
    "stop_sequence": EndReason.COMPLETE,
    "tool_use": EndReason.TOOL_CALLS,
    "max_tokens": OutputTruncated,
    # Only the service's own tools pause a turn; what came is not the whole answer.
    "pause_turn": OutputTruncated,
    "refusal": Refused,
    "model_context_window_exceeded": Overflow,
}
"""By ``stop_reason``; any other one ends the answer as ``end_turn`` does."""


@asynccontextmanager
async def open_anthropic(
    *, base_url: str | None, api_key: str | None, timeouts: Timeouts, retries: RetryPolicy
) -> AsyncIterator[Provider]:
    """Open the SDK's client; it is closed at the exit.

    Args:
        base_url: Of the service, without ``/v1``; Anthropic's own by default.
        api_key: Of an account; the SDK knows how it is sent.
        timeouts: How long to wait.
        retries: When to repeat a call.
    """
    url = base_url or BASE_URL

    def build() -> AsyncAnthropic:
        return AsyncAnthropic(
            # Without a key the SDK would look for credentials on this machine.
            api_key=api_key or "none",
            base_url=url,
            max_retries=0,
            http_client=open_http(url, timeouts),
        )

    # Reading the certificates of this machine blocks.
    async with await anyio.to_thread.run_sync(build) as client:

        async def start(request: ModelRequest) -> SdkStream[Json]:
            create = client.messages.with_raw_response.create
            response = await create(**_body(request), stream=True)
            # As plain JSON: making the SDK's objects costs more than all the rest of an event.
            stream = await response.parse(to=AsyncStream[object])
            return SdkStream(stream, stream.close)

        yield StreamingProvider(
            start=start,
            read=_read,
            explain=explain,
            address=address(url),
            key=api_key,
            timeouts=timeouts,
            retries=retries,
        )


def _body(request: ModelRequest) -> dict[str, Any]:
    model = catalog.model("anthropic_api", request.model)
    limit = request.max_output_tokens or model.limits.default_output_tokens or _SMALLEST_LIMIT
    return {
        "model": request.model,
        "max_tokens": limit,
        "system": _system(request.system) or omit,
        "messages": [
            *_messages(request.messages, _CACHED_TURNS - bool(request.rounds)),
            *_rounds(request.rounds),
        ],
        "thinking": {"type": "adaptive"} if model.adaptive_thinking else omit,
        "output_config": {"effort": request.effort} if request.effort else omit,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        or omit,
        "tool_choice": {"type": "none"} if request.tools and request.tools_off else omit,
    }


def _block(text: str, *, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if cached:
        block["cache_control"] = {"type": "ephemeral"}
    return block


def _system(blocks: tuple[str, ...]) -> list[dict[str, Any]]:
    """The instructions, marked after the first block, which never changes, and after the last."""
    texts = [text for text in blocks if text.strip()]
    return [_block(text, cached=place in {0, len(texts) - 1}) for place, text in enumerate(texts)]


def _messages(messages: tuple[Message, ...], markers: int) -> list[dict[str, Any]]:
    kept = [message for message in messages if message.text.strip() or message.images]
    marked = [place for place, message in enumerate(kept) if message.cache][-markers:]
    return [
        {
            "role": message.role,
            "content": _content(message.text, message.images, cached=place in marked),
        }
        for place, message in enumerate(kept)
    ]


def _content(text: str, images: tuple[Image, ...], *, cached: bool = False) -> list[dict[str, Any]]:
    # Pictures first: the service's own advice, and the marker then stands behind all of it.
    seen = [_image(image) for image in images]
    return [*seen, _block(text, cached=cached)] if text.strip() else seen


def _image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.encoded}
    return {"type": "image", "source": source}


def _rounds(rounds: tuple[ToolRound, ...]) -> Iterator[dict[str, Any]]:
    """Tool traffic as turns; the last result is marked, so that each round reads the one before."""
    for place, finished in enumerate(rounds, start=1):
        yield {"role": "assistant", "content": _said(finished)}
        results = [_result(answer) for answer in finished.answers]
        if place == len(rounds):
            results[-1]["cache_control"] = {"type": "ephemeral"}
        yield {"role": "user", "content": results}


def _said(finished: ToolRound) -> list[Mapping[str, Any]]:
    if finished.carried:
        return list(finished.carried)
    text = [_block(finished.text, cached=False)] if finished.text.strip() else []
    return [*text, *map(_use, finished.calls)]


def _use(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": call.call_id,
        "name": call.name,
        "input": arguments_of(call),
    }


def _result(answer: ToolAnswer) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": answer.call_id,
        "content": _content(answer.text, answer.images),
    }
    return {**result, "is_error": True} if answer.failed else result


async def _read(stream: SdkStream[Json], call: Call) -> AsyncGenerator[ModelEvent, None]:
    reading = Reading(call)
    async for event in stream:
        for ours in reading.feed(event):
            yield ours


class Reading:
    """Turns the events of one message into ours."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._usage: dict[str, int] = {}
        self._blocks: dict[int, Json] = {}
        self._pieces: dict[int, str] = {}
        self._said: list[Json] = []
        self._reason = ""
        self._refusal = ""
        self._tools = False

    def feed(self, event: Json) -> Iterator[ModelEvent]:
        """The events to pass on for one event of the service.

        Raises:
            ProviderError: The message ended badly.
        """
        handler = HANDLERS.get(event["type"])
        return handler(self, event) if handler else iter(())

    def started(self, event: Json) -> Iterator[ModelEvent]:
        """The message begins; its input is counted."""
        self._count(event["message"].get("usage"))
        return iter(())

    def block_started(self, event: Json) -> Iterator[ModelEvent]:
        """A block of text, reasoning or a tool call begins."""
        block = dict(event["content_block"])
        self._blocks[event["index"]] = block
        self._pieces[event["index"]] = text_of(block.get(block["type"]))
        if block["type"] == "text":
            yield TextDelta(text_of(block.get("text")))
        else:
            yield Thinking(len(text_of(block.get("thinking"))))

    def block_delta(self, event: Json) -> Iterator[ModelEvent]:
        """A piece of the block."""
        delta, index = event["delta"], event["index"]
        match delta["type"]:
            case "text_delta":
                self._add(index, delta["text"])
                yield TextDelta(text_of(delta["text"]))
            case "thinking_delta":
                self._add(index, delta["thinking"])
                yield Thinking(len(text_of(delta["thinking"])))
            case "signature_delta":
                self._blocks[index]["signature"] = text_of(delta["signature"])
            case "input_json_delta":
                self._add(index, delta["partial_json"])
                yield Thinking()

    def _add(self, index: int, piece: object) -> None:
        self._pieces[index] = self._pieces.get(index, "") + text_of(piece)

    def block_stopped(self, event: Json) -> Iterator[ModelEvent]:
        """The block is complete."""
        block = self._blocks.pop(event["index"], None)
        whole = self._pieces.pop(event["index"], "")
        if block is None:
            return
        if block["type"] == "tool_use":
            self._tools = True
            call = tool_call(block["id"], block["name"], whole)
            self._said.append(_use(call))
            yield ToolCalled(call)
        elif block["type"] in {"text", "thinking"}:
            block[block["type"]] = well_formed(whole)
            if block["type"] == "thinking" or whole.strip():
                self._said.append(block)
        elif block["type"] == "redacted_thinking":
            self._said.append(block)

    def changed(self, event: Json) -> Iterator[ModelEvent]:
        """The message's reason to stop, and its final counts."""
        delta = event["delta"]
        self._reason = text_of(delta.get("stop_reason")) or self._reason
        details = delta.get("stop_details") or {}
        self._refusal = text_of(details.get("explanation")) or self._refusal
        self._count(event.get("usage"))
        return iter(())

    def stopped(self, event: Json) -> Iterator[ModelEvent]:
        """The message is whole."""
        yield self._counted()
        reason = STOP.get(self._reason or "end_turn", EndReason.COMPLETE)
        if reason is Refused:
            raise Refused(refusal_message(self._refusal, self._call))
        if not isinstance(reason, EndReason):
            raise reason
        yield TurnEnded(
            EndReason.TOOL_CALLS if self._tools else EndReason.COMPLETE, self._carried()
        )

    def _carried(self) -> tuple[Json, ...]:
        """All blocks in their order, if the model thought before its calls."""
        thought = any(block["type"] in _THOUGHTS for block in self._said)
        return tuple(self._said) if self._tools and thought else ()

    def _count(self, usage: Json | None) -> None:
        for name in _COUNTS:
            self._usage[name] = count(usage, name) or self._usage.get(name, 0)
        details = (usage or {}).get("output_tokens_details")
        self._usage["thinking_tokens"] = count(details, "thinking_tokens") or self._usage.get(
            "thinking_tokens", 0
        )

    def _counted(self) -> Usage:
        counts = self._usage
        read = counts.get("cache_read_input_tokens", 0)
        written = counts.get("cache_creation_input_tokens", 0)
        return Usage(
            # The service counts cached tokens apart; ours is the whole input.
            input_tokens=counts.get("input_tokens", 0) + read + written,
            output_tokens=counts.get("output_tokens", 0),
            cached_input_tokens=read,
            thinking_tokens=counts.get("thinking_tokens", 0),
        )


HANDLERS: Mapping[str, Callable[[Reading, Json], Iterator[ModelEvent]]] = {
    "message_start": Reading.started,
    "content_block_start": Reading.block_started,
    "content_block_delta": Reading.block_delta,
    "content_block_stop": Reading.block_stopped,
    "message_delta": Reading.changed,
    "message_stop": Reading.stopped,
}
"""What is done for an event."""
