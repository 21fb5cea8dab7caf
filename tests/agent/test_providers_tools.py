"""Rounds of tool calls on every wire: the fake vendor refuses what the real ones refuse."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from nbinline_agent.errors import BadModelRequest
from nbinline_agent.messages import (
    EndReason,
    Image,
    Message,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolAnswer,
    ToolCall,
    ToolCalled,
    ToolRound,
    ToolSpec,
    TurnEnded,
)
from nbinline_agent.providers.base import Timeouts
from nbinline_agent.providers.opening import open_provider
from nbinline_agent.providers.retry import RetryPolicy
from tests.vendor import rules
from tests.vendor.plugin import Vendor

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(30)]

KINDS = ["openai", "anthropic", "chat"]
MODELS = {"openai": "gpt-6.2-sol", "anthropic": "claude-sonnet-5-5", "chat": "m-1"}
KEY = "sk-test-0123456789abcdef"
PNG = Image(
    "image/png",
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
        "gg=="
    ),
)
TOOLS = (
    ToolSpec("read_cell", "Read.", {"type": "object", "properties": {"id": {"type": "string"}}}),
    ToolSpec("now", "The time.", {"type": "object", "properties": {}}),
)
READ = {"name": "read_cell", "arguments": {"id": "ä1"}, "id": "call-1"}
NOW = {"name": "now", "arguments": {}, "id": "call-2"}
TURNS: dict[str, Any] = {
    "turns": [
        {"deltas": ["Let me ", "look."], "thinking": 2, "tools": [READ, NOW]},
        {"deltas": [], "thinking": 1, "tools": [{**NOW, "id": "call-3"}]},
        {"deltas": ["All ", "done."]},
    ]
}


def first(kind: str, script: dict[str, Any], **fields: Any) -> ModelRequest:
    messages = (
        Message("user", "earlier"),
        Message("assistant", "yes", cache=True),
        Message("user", Vendor.prompt(**script), images=fields.pop("images", ())),
    )
    return ModelRequest(MODELS[kind], ("Be brief.", "Source."), messages, tools=TOOLS, **fields)


async def turn(vendor: Vendor, kind: str, request: ModelRequest) -> list[ModelEvent]:
    async with (
        open_provider(
            kind,
            base_url=vendor.base_url(kind),
            api_key=KEY,
            timeouts=Timeouts(2, 5, 10),
            retries=RetryPolicy(first=0.02, longest=0.05),
        ) as provider,
        provider.stream(request) as stream,
    ):
        return [event async for event in stream]


def answered(events: list[ModelEvent], *answers: ToolAnswer) -> ToolRound:
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    return ToolRound(
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        calls=tuple(event.call for event in events if isinstance(event, ToolCalled)),
        answers=answers,
        carried=ended.carried,
    )


async def bodies(vendor: Vendor) -> list[dict[str, Any]]:
    return [record["body"] for record in await vendor.requests()]


@pytest.mark.parametrize("kind", KINDS)
async def test_three_rounds_are_taken_by_the_vendor(vendor: Vendor, kind: str) -> None:
    request = first(kind, TURNS, images=(PNG,))
    events = await turn(vendor, kind, request)
    one = answered(
        events,
        ToolAnswer("call-1", "1: x = 1", images=(PNG,)),
        ToolAnswer("call-2", "no clock here", failed=True),
    )
    assert [call.name for call in one.calls] == ["read_cell", "now"]
    assert one.text == "Let me look."

    events = await turn(vendor, kind, replace(request, rounds=(one,)))
    two = answered(events, ToolAnswer("call-3", "noon"))
    assert two.calls == (ToolCall("call-3", "now", "{}"),)

    events = await turn(vendor, kind, replace(request, rounds=(one, two)))
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "All done."
    assert events[-1] == TurnEnded(EndReason.COMPLETE)
    assert len(await vendor.requests()) == 3


async def test_messages_keep_what_the_service_signed(vendor: Vendor) -> None:
    request = first("anthropic", TURNS)
    one = answered(
        await turn(vendor, "anthropic", request),
        ToolAnswer("call-1", "x", images=(PNG,)),
        ToolAnswer("call-2", "y", failed=True),
    )
    await turn(vendor, "anthropic", replace(request, rounds=(one,)))
    said, results = (await bodies(vendor))[1]["messages"][-2:]
    assert [block["type"] for block in said["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert said["content"][0]["thinking"] == "thought 0 thought 1 "
    assert said["content"][2] == {
        "type": "tool_use",
        "id": "call-1",
        "name": "read_cell",
        "input": {"id": "ä1"},
    }
    assert results["role"] == "user"
    assert [block["type"] for block in results["content"][0]["content"]] == ["image", "text"]
    assert "is_error" not in results["content"][0]
    assert results["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "call-2",
        "content": [{"type": "text", "text": "y"}],
        "is_error": True,
        "cache_control": {"type": "ephemeral"},
    }


async def test_responses_carry_encrypted_reasoning(vendor: Vendor) -> None:
    request = first("openai", TURNS)
    one = answered(
        await turn(vendor, "openai", request),
        ToolAnswer("call-1", "x", images=(PNG,)),
        ToolAnswer("call-2", "y"),
    )
    await turn(vendor, "openai", replace(request, rounds=(one,)))
    body = (await bodies(vendor))[1]
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    kinds = [item.get("type", item.get("role")) for item in body["input"][3:]]
    assert kinds == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert body["input"][4]["content"][0]["text"] == "Let me look."
    image, text = body["input"][-2]["output"][1], body["input"][-2]["output"][0]
    assert text == {"type": "input_text", "text": "x"}
    assert image["image_url"].startswith("data:image/png;base64,iVBOR")
    assert body["input"][-1]["output"] == "y"


@pytest.mark.parametrize(("model", "effort"), [("gpt-4.1-mini", None), ("gpt-6-luna", "none")])
async def test_models_that_do_not_reason_are_not_asked_for_it(
    vendor: Vendor, model: str, effort: str | None
) -> None:
    request = replace(first("openai", TURNS), model=model, effort=effort)
    one = answered(
        await turn(vendor, "openai", request), ToolAnswer("call-1", "x"), ToolAnswer("call-2", "y")
    )
    assert one.carried == ()
    await turn(vendor, "openai", replace(request, rounds=(one,)))
    before, after = await bodies(vendor)
    assert "include" not in before
    assert after["input"][3:] == [
        {"role": "assistant", "content": "Let me look."},
        {
            "type": "function_call",
            "call_id": "call-1",
            "name": "read_cell",
            "arguments": '{"id": "\\u00e41"}',
        },
        {"type": "function_call", "call_id": "call-2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call-1", "output": "x"},
        {"type": "function_call_output", "call_id": "call-2", "output": "y"},
    ]


async def test_completions_get_images_behind_the_results(vendor: Vendor) -> None:
    request = first("chat", TURNS, images=(PNG,))
    one = answered(
        await turn(vendor, "chat", request),
        ToolAnswer("call-1", "x", images=(PNG,)),
        ToolAnswer("call-2", "y"),
    )
    await turn(vendor, "chat", replace(request, rounds=(one,)))
    messages = (await bodies(vendor))[1]["messages"]
    assert [message["role"] for message in messages[3:]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert messages[3]["content"][1]["type"] == "image_url"
    assert messages[4]["content"] == "Let me look."
    assert messages[-1]["content"][1]["image_url"]["url"] == PNG.url


@pytest.mark.parametrize(
    ("kind", "choice"), [("openai", "none"), ("anthropic", {"type": "none"}), ("chat", "none")]
)
async def test_at_the_limit_the_model_may_not_call(
    vendor: Vendor, kind: str, choice: object
) -> None:
    await turn(vendor, kind, first(kind, {"text": "So."}, tools_off=True))
    await turn(vendor, kind, replace(first(kind, {"text": "So."}, tools_off=True), tools=()))
    with_tools, without = await bodies(vendor)
    assert with_tools["tool_choice"] == choice
    assert len(with_tools["tools"]) == 2
    assert "tool_choice" not in without


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_that_are_no_json_can_be_told_of(vendor: Vendor, kind: str) -> None:
    call = ToolCall("call-1", "read_cell", '{"id": ')
    told = ToolRound("", (call,), (ToolAnswer("call-1", "That is no JSON.", failed=True),))
    events = await turn(vendor, kind, replace(first(kind, {"text": "So."}), rounds=(told,)))
    assert events[-1] == TurnEnded(EndReason.COMPLETE)


@pytest.mark.parametrize("kind", KINDS)
async def test_cut_characters_survive_being_carried(vendor: Vendor, kind: str) -> None:
    script = {"turns": [{"deltas": ["a\ud83d", "\ude00b"], "thinking": 1, "tools": [NOW]}, {}]}
    request = first(kind, script)
    one = answered(await turn(vendor, kind, request), ToolAnswer("call-2", "noon"))
    assert one.text == "a😀b"
    await turn(vendor, kind, replace(request, rounds=(one,)))


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unanswered_call_is_what_the_vendor_refuses(vendor: Vendor, kind: str) -> None:
    calls = (ToolCall("call-1", "now", "{}"), ToolCall("call-2", "now", "{}"))
    half = ToolRound("", calls, (ToolAnswer("call-1", "noon"),))
    with pytest.raises(BadModelRequest):
        await turn(vendor, kind, replace(first(kind, {"text": "So."}), rounds=(half,)))


async def test_markers_stay_within_four(vendor: Vendor) -> None:
    messages = tuple(
        Message(role, f"{role} {place}", cache=True)
        for place in range(4)
        for role in ("user", "assistant")
    )
    call = ToolRound("", (ToolCall("c", "now", "{}"),), (ToolAnswer("c", "noon"),))
    request = ModelRequest(
        "claude-sonnet-5-5",
        ("A.", "B.", "C."),
        (*messages, Message("user", Vendor.prompt(text="So."))),
        tools=TOOLS,
        rounds=(call, call),
    )
    await turn(vendor, "anthropic", request)
    (body,) = await bodies(vendor)
    assert str(body).count("cache_control") == 4
    assert "cache_control" in body["messages"][-1]["content"][-1]


class TestRules:
    """The rules themselves can fail."""

    @pytest.mark.parametrize(
        ("wire", "body", "part"),
        [
            ("anthropic", {"messages": [{"role": "assistant", "content": "x"}]}, "must be user"),
            ("anthropic", {"messages": [{"role": "user", "content": " "}]}, "non-whitespace"),
            (
                "anthropic",
                {
                    "messages": [
                        {"role": "user", "content": "x"},
                        {
                            "role": "assistant",
                            "content": [{"type": "thinking", "thinking": "x", "signature": "y"}],
                        },
                    ]
                },
                "signature",
            ),
            (
                "responses",
                {"input": [{"type": "function_call_output", "call_id": "a"}]},
                "No tool call",
            ),
            (
                "responses",
                {"input": [{"type": "reasoning", "id": "r"}]},
                "required following item",
            ),
            ("chat", {"messages": [], "tool_choice": "none"}, "tool_choice"),
            (
                "chat",
                {
                    "messages": [
                        {
                            "role": "user",
                            "content": [
                                {
                                    "type": "image_url",
                                    "image_url": {"url": "data:image/png;base64,AAAA"},
                                }
                            ],
                        }
                    ]
                },
                "does not match",
            ),
        ],
    )
    async def test_refuse(self, wire: str, body: dict[str, Any], part: str) -> None:
        assert part in str(rules.problem(wire, body))
