"""What is sent: bodies and headers, and nothing that has no business there."""

from typing import Any

import pytest

from nbinline_agent.errors import NotConfigured, ProviderError
from nbinline_agent.messages import (
    EndReason,
    Message,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCalled,
    ToolSpec,
    TurnEnded,
)
from nbinline_agent.providers import chat
from nbinline_agent.providers.failures import Call
from nbinline_agent.providers.opening import open_provider
from nbinline_agent.providers.retry import Failed
from tests.vendor.plugin import Vendor

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(30)]

KEY = "sk-test-0123456789abcdef"
TOOL = ToolSpec("now", "The time.", {"type": "object", "properties": {}})


def conversation(model: str = "m-1", **fields: Any) -> ModelRequest:
    return ModelRequest(
        model,
        ("Be brief.", "", "The source."),
        (
            Message("user", "first"),
            Message("assistant", "one", cache=True),
            Message("assistant", "  "),
            Message("user", "second", cache=True),
            Message("assistant", "two", cache=True),
            Message("user", "What now?"),
        ),
        **fields,
    )


async def sent(
    vendor: Vendor, kind: str, request: ModelRequest, api_key: str | None = KEY
) -> dict[str, Any]:
    async with (
        open_provider(kind, base_url=vendor.base_url(kind), api_key=api_key) as provider,
        provider.stream(request) as stream,
    ):
        async for _ in stream:
            pass
    (record,) = await vendor.requests()
    return record


async def test_responses(vendor: Vendor) -> None:
    record = await sent(
        vendor,
        "openai",
        conversation("gpt-6.2-sol", effort="high", max_output_tokens=900, tools=(TOOL,)),
    )
    assert record["path"] == "/v1/responses"
    assert record["body"] == {
        "model": "gpt-6.2-sol",
        "store": False,
        "stream": True,
        "instructions": "Be brief.\n\nThe source.",
        "input": [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "second"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "What now?"},
        ],
        "reasoning": {"effort": "high"},
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 900,
        "tools": [
            {
                "type": "function",
                "name": "now",
                "description": "The time.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    }
    assert record["headers"]["Authorization"] == f"Bearer {KEY}"
    assert record["headers"]["Accept-Encoding"] == "identity"


async def test_nothing_is_sent_that_nobody_chose(vendor: Vendor) -> None:
    record = await sent(vendor, "openai", ModelRequest("m", (), (Message("user", "Hi"),)))
    assert record["body"] == {
        "model": "m",
        "store": False,
        "stream": True,
        "input": [{"role": "user", "content": "Hi"}],
    }


async def test_messages(vendor: Vendor) -> None:
    record = await sent(
        vendor, "anthropic", conversation("claude-sonnet-5-5", effort="low", tools=(TOOL,))
    )
    marked = {"cache_control": {"type": "ephemeral"}}
    assert record["path"] == "/v1/messages"
    assert record["body"] == {
        "model": "claude-sonnet-5-5",
        "max_tokens": 64_000,
        "stream": True,
        "system": [
            {"type": "text", "text": "Be brief.", **marked},
            {"type": "text", "text": "The source.", **marked},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "first"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "one"}]},
            {"role": "user", "content": [{"type": "text", "text": "second", **marked}]},
            {"role": "assistant", "content": [{"type": "text", "text": "two", **marked}]},
            {"role": "user", "content": [{"type": "text", "text": "What now?"}]},
        ],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
        "tools": [
            {
                "name": "now",
                "description": "The time.",
                "input_schema": {"type": "object", "properties": {}},
            }
        ],
    }
    assert KEY in record["headers"]["Authorization"]


async def test_an_older_claude_is_not_asked_to_think(vendor: Vendor) -> None:
    record = await sent(vendor, "anthropic", conversation("claude-haiku-4-5-20251001"))
    assert not {"thinking", "output_config"} & set(record["body"])
    assert record["body"]["max_tokens"] == 32_000


async def test_cached_input_is_counted_whole(vendor: Vendor) -> None:
    usage = {"input": 10, "cached": 1000, "written": 200, "output": 3}
    async with (
        open_provider("anthropic", base_url=vendor.url, api_key=KEY) as provider,
        provider.stream(
            ModelRequest("m", (), (Message("user", Vendor.prompt(usage=usage)),))
        ) as stream,
    ):
        events = [event async for event in stream]
    (counted,) = [event for event in events if hasattr(event, "input_tokens")]
    assert (counted.input_tokens, counted.cached_input_tokens) == (1210, 1000)


async def test_chat(vendor: Vendor) -> None:
    record = await sent(
        vendor, "chat", conversation(effort="low", max_output_tokens=99, tools=(TOOL,))
    )
    assert record["path"] == "/v1/chat/completions"
    assert record["body"] == {
        "model": "m-1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief.\n\nThe source."},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "second"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "What now?"},
        ],
        "max_tokens": 99,
        "reasoning_effort": "low",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "now",
                    "description": "The time.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


class TestStrangersGetNoCredentials:
    async def test_of_the_environment(
        self, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment-1")
        monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-of-the-environment-2")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-environment")
        monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-of-the-environment")
        monkeypatch.setenv(
            "OPENAI_CUSTOM_HEADERS", "X-Gate: of-the-environment\nauthorization: of-the-environment"
        )
        record = await sent(vendor, "chat", conversation(), api_key=None)
        assert "of-the-environment" not in str(record["headers"])
        assert "Authorization" not in record["headers"]
        vendor.reset()
        record = await sent(vendor, "chat", conversation())
        assert "of-the-environment" not in str(record["headers"])
        assert record["headers"]["Authorization"] == f"Bearer {KEY}"

    async def test_or_those_of_another_vendor(
        self, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-of-the-environment")
        record = await sent(vendor, "anthropic", conversation())
        assert "of-the-environment" not in str(record["headers"])

    async def test_nor_does_a_proxy_see_this_machine(
        self, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:9")
        monkeypatch.setenv("ALL_PROXY", "http://192.0.2.1:9")
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert (await sent(vendor, "chat", conversation()))["ended"]


async def test_a_newline_behind_a_key_is_not_sent(vendor: Vendor) -> None:
    record = await sent(vendor, "openai", conversation(), api_key=f" {KEY}\n")
    assert record["headers"]["Authorization"] == f"Bearer {KEY}"


class TestAddresses:
    @pytest.mark.parametrize(
        "base_url",
        ["", "ftp://example.org", "example.org/v1", "http://", "https://:443", "http://a:port/v1"],
    )
    async def test_that_are_none(self, base_url: str) -> None:
        with pytest.raises(NotConfigured):
            await open_provider("chat", base_url=base_url).__aenter__()

    async def test_that_are_missing(self) -> None:
        with pytest.raises(NotConfigured):
            await open_provider("chat").__aenter__()

    async def test_of_no_adapter(self) -> None:
        with pytest.raises(ValueError, match="telegraph"):
            await open_provider("telegraph").__aenter__()


def chunk(**fields: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", **fields}


def choice(finish: str | None = None, **delta: Any) -> list[dict[str, Any]]:
    return [{"index": 0, "finish_reason": finish, "delta": delta}]


def read(*chunks: dict[str, Any], done: bool = True) -> list[ModelEvent]:
    call = Call(ModelRequest("m", (), ()), "http://localhost")
    reading = chat.Reading(call)
    events = [event for each in chunks for event in reading.feed(each)]
    return [*events, *reading.end(done=done)]


class TestCompatibleServers:
    async def test_tool_calls_without_an_index(self) -> None:
        calls = [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x": 1}'}},
        ]
        events = read(chunk(choices=choice(tool_calls=calls)), chunk(choices=choice("stop")))
        names = [event.call.name for event in events if isinstance(event, ToolCalled)]
        assert names == ["f", "g"]
        assert events[-1] == TurnEnded(EndReason.TOOL_CALLS)

    async def test_tool_calls_that_share_an_index(self) -> None:
        def calling(call_id: str) -> dict[str, Any]:
            function = {"name": "f", "arguments": "{}"}
            call = {"index": 0, "id": call_id, "type": "function", "function": function}
            return chunk(choices=choice(tool_calls=[call]))

        events = read(calling("a"), calling("b"), chunk(choices=choice("tool_calls")))
        ids = [event.call.call_id for event in events if isinstance(event, ToolCalled)]
        assert ids == ["a", "b"]

    async def test_a_name_that_comes_late_and_no_id(self) -> None:
        def piece(**function: str) -> dict[str, Any]:
            return chunk(choices=choice(tool_calls=[{"index": 0, "function": function}]))

        events = read(
            piece(arguments=""), piece(name="f"), piece(arguments='{"a"'), piece(arguments=": 1}")
        )
        (called,) = [event.call for event in events if isinstance(event, ToolCalled)]
        assert (called.name, called.arguments) == ("f", '{"a": 1}')
        assert called.call_id

    async def test_an_error_instead_of_a_chunk(self) -> None:
        with pytest.raises(Failed) as raised:
            read(chunk(object="error", code=400, message="maximum context length is 10 tokens"))
        assert raised.value.failure.error.code == "context-overflow"

    async def test_usage_in_every_chunk_counts_once(self) -> None:
        usage = [{"prompt_tokens": 5, "completion_tokens": n} for n in (1, 2)]
        events = read(
            chunk(choices=choice(content="a"), usage=usage[0]),
            chunk(choices=choice("stop", content="b"), usage=usage[1]),
        )
        counted = [event.output_tokens for event in events if hasattr(event, "output_tokens")]
        assert counted == [2]

    async def test_reasoning_by_its_other_name(self) -> None:
        events = read(chunk(choices=choice(reasoning="hmm")), chunk(choices=choice("stop")))
        assert [event.characters for event in events if hasattr(event, "characters")] == [3]

    async def test_no_content_at_all(self) -> None:
        events = read(chunk(choices=choice("stop", content=None)))
        assert events == [TurnEnded(EndReason.COMPLETE)]

    async def test_an_end_nobody_marked(self) -> None:
        with pytest.raises(ProviderError, match="broke off"):
            read(chunk(choices=choice(content="a")), done=False)


async def test_a_gateway_that_sends_whole_parts_only(vendor: Vendor) -> None:
    from nbinline_agent.providers import openai as adapter

    reading = adapter.Reading(Call(ModelRequest("m", (), ()), "http://localhost"))
    done = {"type": "response.output_text.done", "item_id": "i", "content_index": 0}
    assert list(reading.feed({**done, "text": "whole"})) == [TextDelta("whole")]
