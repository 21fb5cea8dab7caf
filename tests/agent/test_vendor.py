"""The fake vendor speaks the wires as the SDKs' own strict types describe them."""

import json
import subprocess
import sys
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anyio import to_thread
from openai import AsyncOpenAI

from tests.vendor import script
from tests.vendor.plugin import SERVER, Vendor

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

FULL: dict[str, Any] = {
    "deltas": ["a ", "b"],
    "thinking": 2,
    "tools": [{"name": "f", "arguments": {"x": 1}}],
    "usage": {"input": 3, "output": 2, "thinking": 1},
}
PROMPT: Any = [{"role": "user", "content": Vendor.prompt(**FULL)}]


async def test_responses_are_strictly_typed(vendor: Vendor) -> None:
    async with AsyncOpenAI(
        base_url=vendor.v1, api_key="none", _strict_response_validation=True
    ) as client:
        stream = await client.responses.create(model="m", input=PROMPT, stream=True)
        events = [event async for event in stream]
    assert events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(1, len(events) + 1))


async def test_completions_are_strictly_typed(vendor: Vendor) -> None:
    async with AsyncOpenAI(
        base_url=vendor.v1, api_key="none", _strict_response_validation=True
    ) as client:
        stream = await client.chat.completions.create(
            model="m", messages=PROMPT, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].usage is not None
    assert chunks[-2].choices[0].finish_reason == "tool_calls"


async def test_messages_are_strictly_typed(vendor: Vendor) -> None:
    async with AsyncAnthropic(
        base_url=vendor.url, api_key="none", _strict_response_validation=True
    ) as client:
        async with client.messages.stream(model="m", max_tokens=10, messages=PROMPT) as stream:
            message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("style", ["plain", "rich", "unicode", "code"])
async def test_the_same_script_gives_the_same_answer(style: str) -> None:
    told = {"deltas": 300, "style": style, "seed": 7}
    assert script.pieces(told) == script.pieces(told)
    assert len(script.pieces(told)) == 300
    assert script.pieces(told) != script.pieces({**told, "seed": 8})


async def test_a_script_is_found_wherever_it_stands() -> None:
    assert script.find('Why "vendor"? {"a": {"vendor": {"deltas": 3}}} {"vendor": {}}') == {
        "deltas": 3
    }
    assert script.find('{"vendor": 5} {"vendor": {"rate": 2}} tail') == {"rate": 2}
    assert script.find('"vendor" {"vendor": {') is None


async def test_queued_scripts_are_used_in_order(vendor: Vendor) -> None:
    await vendor.script({"deltas": ["one"]}, {"deltas": ["two"]})
    texts = []
    async with AsyncOpenAI(base_url=vendor.v1, api_key="none") as client:
        for _ in range(2):
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            texts.append("".join([c.choices[0].delta.content or "" async for c in stream]))
    assert texts == ["one", "two"]


async def test_it_runs_from_a_shell_and_ends_with_its_starter() -> None:
    command = [sys.executable, str(SERVER), "--port", "0", "--until-stdin-closes"]

    def run() -> tuple[dict[str, Any], int]:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            told = json.loads(process.stdout.readline())
            process.stdin.close()
            return told, process.wait(20)

    told, status = await to_thread.run_sync(run)
    assert told["url"].endswith(f":{told['port']}")
    assert status == 0
