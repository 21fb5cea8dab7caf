"""What holds for every adapter: the same script gives the same events."""

import time

import anyio
import pytest

from nbinline_agent.errors import BadAnswer, NotAuthenticated, ProviderError, TimedOut
from nbinline_agent.messages import (
    EndReason,
    Message,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCalled,
    ToolSpec,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.opening import open_provider
from nbinline_agent.providers.retry import RetryPolicy
from tests.vendor.plugin import Vendor

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(30)]

KINDS = ["openai", "anthropic", "chat"]
KEY = "sk-test-0123456789abcdef"
QUICK = RetryPolicy(first=0.02, longest=0.05)


def request_for(script: dict, **fields) -> ModelRequest:
    message = Message("user", Vendor.prompt(**script))
    return ModelRequest(fields.pop("model", "m-1"), ("Be brief.",), (message,), **fields)


async def ask(vendor: Vendor, kind: str, script: dict, **fields) -> list[ModelEvent]:
    async with open_provider(
        kind,
        base_url=vendor.base_url(kind),
        api_key=KEY,
        timeouts=Timeouts(connect=2, silence=5, thinking=10),
        retries=QUICK,
    ) as provider:
        return await events_of(provider, request_for(script, **fields))


async def events_of(
    provider: Provider, request: ModelRequest, into: list[ModelEvent] | None = None
) -> list[ModelEvent]:
    events = [] if into is None else into
    async with provider.stream(request) as stream:
        async for event in stream:
            events += (event,)
    return events


def text_in(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("kind", KINDS)
class TestEveryAdapter:
    async def test_text_arrives_exactly(self, vendor: Vendor, kind: str) -> None:
        pieces = ["# Títle\n", " ", "🙂", "👩‍👩", "\r\n", "  end"]
        events = await ask(vendor, kind, {"deltas": pieces})
        assert text_in(events) == "".join(pieces)
        assert events[-1] == TurnEnded(EndReason.COMPLETE)

    async def test_usage_comes_before_the_end(self, vendor: Vendor, kind: str) -> None:
        usage = {"input": 50, "output": 7, "thinking": 3}
        events = await ask(vendor, kind, {"deltas": 3, "usage": usage})
        assert events[-2:] == [Usage(50, 7, 0, 3), TurnEnded(EndReason.COMPLETE)]

    async def test_thinking_is_counted_not_shown(self, vendor: Vendor, kind: str) -> None:
        events = await ask(vendor, kind, {"deltas": ["answer"], "thinking": 3})
        assert text_in(events) == "answer"
        assert sum(e.characters for e in events if isinstance(e, Thinking)) == 3 * len("thought 0 ")

    async def test_tool_calls_come_whole(self, vendor: Vendor, kind: str) -> None:
        tools = [
            {"name": "read_cell", "arguments": {"id": "ä1", "n": [1, 2]}, "id": "one"},
            {"name": "now", "arguments": "{}", "id": "two"},
        ]
        spec = ToolSpec("now", "The time.", {"type": "object", "properties": {}})
        script = {"deltas": ["Let me see."], "tools": tools}
        events = await ask(vendor, kind, script, tools=(spec,))
        assert [e.call for e in events if isinstance(e, ToolCalled)] == [
            ToolCall("one", "read_cell", '{"id": "\\u00e41", "n": [1, 2]}'),
            ToolCall("two", "now", "{}"),
        ]
        assert events[-1] == TurnEnded(EndReason.TOOL_CALLS)
        sent = (await vendor.requests())[0]["body"]["tools"]
        assert "now" in str(sent)

    async def test_a_refused_key_is_told_without_the_key(self, vendor: Vendor, kind: str) -> None:
        error = {"message": f"Incorrect API key provided: {KEY}", "type": "authentication_error"}
        with pytest.raises(NotAuthenticated) as raised:
            await ask(vendor, kind, {"status": 401, "error": error})
        assert KEY not in str(raised.value)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None

    async def test_rate_limits_are_waited_for(self, vendor: Vendor, kind: str) -> None:
        script = {"status": 429, "times": 2, "headers": {"Retry-After": "0.05"}, "deltas": ["ok"]}
        events = await ask(vendor, kind, script)
        first, second, *rest = events
        assert isinstance(first, Retrying)
        assert first.code == "rate-limited"
        assert 0.05 <= first.delay < 0.06
        assert isinstance(second, Retrying)
        assert (first.attempt, second.attempt) == (1, 2)
        assert text_in(rest) == "ok"

    async def test_a_broken_stream_keeps_what_came(self, vendor: Vendor, kind: str) -> None:
        seen: list[ModelEvent] = []
        async with open_provider(kind, base_url=vendor.base_url(kind), api_key=KEY) as provider:
            with pytest.raises(BadAnswer):
                await events_of(provider, request_for({"drop": {"after": 3}}), into=seen)
        assert len([event for event in seen if isinstance(event, TextDelta)]) == 3
        assert len(await vendor.requests()) == 1

    async def test_a_stalled_stream_times_out(self, vendor: Vendor, kind: str) -> None:
        timeouts = Timeouts(connect=1, silence=0.2, thinking=0.2)
        started = anyio.current_time()
        async with open_provider(
            kind, base_url=vendor.base_url(kind), api_key=KEY, timeouts=timeouts
        ) as provider:
            with pytest.raises(TimedOut):
                await events_of(provider, request_for({"stall": {"after": 2}}))
        assert anyio.current_time() - started < 3
        assert (await vendor.ended())["disconnected"]

    async def test_leaving_closes_the_connection_at_once(self, vendor: Vendor, kind: str) -> None:
        async with open_provider(kind, base_url=vendor.base_url(kind), api_key=KEY) as provider:
            async with provider.stream(request_for({"deltas": 10_000, "rate": 50})) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
                left = time.time()
            record = await vendor.ended()
            assert record["disconnected"]
            assert record["ended_at"] - left < 0.2

    async def test_no_adapter_leaves_this_machine(
        self, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nbinline_agent.providers.base.ALLOW_REQUESTS", False)
        async with open_provider(kind, base_url="http://192.0.2.1/v1", api_key=KEY) as provider:
            with pytest.raises(ProviderError, match="switched off"):
                await events_of(provider, request_for({}))
