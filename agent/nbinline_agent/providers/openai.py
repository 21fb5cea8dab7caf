"""The adapter for the OpenAI Responses API. Nothing is stored at the service."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from openai import AsyncOpenAI, AsyncStream, omit

from nbinline_agent.errors import BadAnswer, ContentFiltered, OutputTruncated, Refused
from nbinline_agent.messages import (
    EndReason,
    Image,
    Message,
    ModelEvent,
    ModelRequest,
    TextDelta,
    Thinking,
    ToolAnswer,
    ToolCalled,
    ToolRound,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers import catalog
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.failures import Call, Said, refusal_message
from nbinline_agent.providers.http import address, open_http
from nbinline_agent.providers.openai_errors import explain, named_failure
from nbinline_agent.providers.retry import Failed, RetryPolicy
from nbinline_agent.providers.streaming import (
    Json,
    SdkStream,
    StreamingProvider,
    count,
    text_of,
    tool_call,
)

BASE_URL = "https://api.openai.com/v1"


@asynccontextmanager
async def open_openai(
    *, base_url: str | None, api_key: str | None, timeouts: Timeouts, retries: RetryPolicy
) -> AsyncIterator[Provider]:
    """Open the SDK's client; it is closed at the exit.

    Args:
        base_url: Of the service, up to ``/v1``; OpenAI's own by default.
        api_key: Sent as a bearer token.
        timeouts: How long to wait.
        retries: When to repeat a call.
    """
    url = base_url or BASE_URL

    def build() -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=api_key or "none",
            base_url=url,
            max_retries=0,
            http_client=open_http(url, timeouts),
        )

    # Reading the certificates of this machine blocks.
    async with await anyio.to_thread.run_sync(build) as client:

        async def start(request: ModelRequest) -> SdkStream[Json]:
            create = client.responses.with_raw_response.create
            response = await create(**_body(request), stream=True)
            # As plain JSON: making the SDK's objects costs more than all the rest of an event.
            stream = response.parse(to=AsyncStream[object])
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
    tools = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
            "strict": False,
        }
        for tool in request.tools
    ]
    items = [
        *(_message(each) for each in request.messages if each.text.strip() or each.images),
        *(item for each in request.rounds for item in _round(each)),
    ]
    return {
        "model": request.model,
        "store": False,
        "instructions": "\n\n".join(block for block in request.system if block.strip()) or omit,
        "reasoning": {"effort": request.effort} if request.effort else omit,
        # Nothing is stored there, so what the model thought between its calls travels with us.
        "include": ["reasoning.encrypted_content"] if _reasons_with_tools(request) else omit,
        "max_output_tokens": request.max_output_tokens or omit,
        "tool_choice": "none" if request.tools and request.tools_off else omit,
        # Handed to the SDK as its own parameters, every item would be compared with dozens of
        # types: a tenth of a second on the loop after ten rounds.
        "extra_body": {"input": items, **({"tools": tools} if tools else {})},
    }


def _reasons_with_tools(request: ModelRequest) -> bool:
    if not request.tools or request.effort == "none":
        return False
    # Models that do not reason refuse to be asked for it.
    return bool(request.effort) or catalog.is_known("openai_api", request.model)


def _message(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    content = _content(message.text, message.images)
    return {"role": message.role, "content": content}


def _content(text: str, images: tuple[Image, ...]) -> list[dict[str, Any]]:
    said = [{"type": "input_text", "text": text}] if text.strip() else []
    return [*said, *({"type": "input_image", "image_url": image.url} for image in images)]


def _round(finished: ToolRound) -> Iterator[Mapping[str, Any]]:
    if finished.carried:
        yield from finished.carried
    else:
        if finished.text.strip():
            yield {"role": "assistant", "content": finished.text}
        for call in finished.calls:
            yield {
                "type": "function_call",
                "call_id": call.call_id,
                "name": call.name,
                "arguments": call.arguments,
            }
    for answer in finished.answers:
        yield _answer(answer)


def _answer(answer: ToolAnswer) -> dict[str, Any]:
    output = _content(answer.text, answer.images) if answer.images else answer.text
    return {"type": "function_call_output", "call_id": answer.call_id, "output": output}


async def _read(stream: SdkStream[Json], call: Call) -> AsyncGenerator[ModelEvent, None]:
    reading = Reading(call)
    async for event in stream:
        for ours in reading.feed(event):
            yield ours


class Reading:
    """Turns the events of one response into ours."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._parts: set[tuple[str, int]] = set()
        self._refusal = ""
        self._tools = False
        self._items: list[Json] = []

    def feed(self, event: Json) -> Iterator[ModelEvent]:
        """The events to pass on for one event of the service.

        Raises:
            ProviderError: The response ended badly.
            Failed: The service reports an error.
        """
        handler = HANDLERS.get(event["type"])
        return handler(self, event) if handler else iter(())

    def text(self, event: Json) -> Iterator[ModelEvent]:
        """A piece of the answer."""
        self._parts.add((event["item_id"], event["content_index"]))
        yield TextDelta(text_of(event["delta"]))

    def text_done(self, event: Json) -> Iterator[ModelEvent]:
        """The whole part; some gateways send it without its pieces."""
        if (event["item_id"], event["content_index"]) not in self._parts:
            yield TextDelta(text_of(event["text"]))

    def thinking(self, event: Json) -> Iterator[ModelEvent]:
        """A piece of reasoning, or of its summary."""
        yield Thinking(len(text_of(event["delta"])))

    def working(self, event: Json) -> Iterator[ModelEvent]:
        """A sign of life without text."""
        yield Thinking()

    def refused(self, event: Json) -> Iterator[ModelEvent]:
        """A piece of a refusal."""
        self._refusal += text_of(event["delta"])
        yield Thinking()

    def item_added(self, event: Json) -> Iterator[ModelEvent]:
        """Reasoning and tool calls are announced; either may take minutes without a word."""
        if event["item"]["type"] in {"reasoning", "function_call"}:
            yield Thinking()

    def item_done(self, event: Json) -> Iterator[ModelEvent]:
        """An item is complete: the one that matters here is a tool call."""
        item = event["item"]
        self._items.append(item)
        if item["type"] == "function_call":
            self._tools = True
            yield ToolCalled(tool_call(item["call_id"], item["name"], item["arguments"]))

    def completed(self, event: Json) -> Iterator[ModelEvent]:
        """The response is whole."""
        yield from _usage(event["response"])
        if self._refusal:
            raise Refused(refusal_message(self._refusal, self._call))
        reason = EndReason.TOOL_CALLS if self._tools else EndReason.COMPLETE
        yield TurnEnded(reason, self._carried())

    def _carried(self) -> tuple[Json, ...]:
        """All items in their order, if there is reasoning among them that can be handed back."""
        if not self._tools:
            return ()
        reasoning = [item for item in self._items if item["type"] == "reasoning"]
        if not reasoning or not all(item.get("encrypted_content") for item in reasoning):
            return ()
        return tuple(self._items)

    def incomplete(self, event: Json) -> Iterator[ModelEvent]:
        """The response was cut."""
        yield from _usage(event["response"])
        details = event["response"].get("incomplete_details") or {}
        raise INCOMPLETE.get(details.get("reason"), BadAnswer)

    def failed(self, event: Json) -> Iterator[ModelEvent]:
        """The response failed at the service."""
        yield from _usage(event["response"])
        raise Failed(named_failure(Said.of(event["response"].get("error")), self._call))

    def error(self, event: Json) -> Iterator[ModelEvent]:
        """The stream reports an error."""
        raise Failed(named_failure(Said.of({**event, "type": None}), self._call))
        yield


INCOMPLETE: Mapping[str | None, type[BadAnswer | OutputTruncated | ContentFiltered]] = {
    "max_output_tokens": OutputTruncated,
    "content_filter": ContentFiltered,
    "max_messages": OutputTruncated,
    "steered": BadAnswer,
    None: BadAnswer,
}
"""Why a response was cut."""

HANDLERS: Mapping[str, Callable[[Reading, Json], Iterator[ModelEvent]]] = {
    "response.output_text.delta": Reading.text,
    "response.output_text.done": Reading.text_done,
    "response.refusal.delta": Reading.refused,
    "response.reasoning_text.delta": Reading.thinking,
    "response.reasoning_summary_text.delta": Reading.thinking,
    "response.function_call_arguments.delta": Reading.working,
    "response.output_item.added": Reading.item_added,
    "response.output_item.done": Reading.item_done,
    "response.queued": Reading.working,
    "response.completed": Reading.completed,
    "response.incomplete": Reading.incomplete,
    "response.failed": Reading.failed,
    "error": Reading.error,
}
"""What is done for an event."""


def _usage(response: Json) -> Iterator[ModelEvent]:
    usage = response.get("usage")
    if usage:
        yield Usage(
            count(usage, "input_tokens"),
            count(usage, "output_tokens"),
            count(usage.get("input_tokens_details"), "cached_tokens"),
            count(usage.get("output_tokens_details"), "reasoning_tokens"),
        )
