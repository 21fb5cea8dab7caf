"""Streams under stress: any bytes, any cut, any moment of cancellation, every kind of trouble."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Generator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbinline_agent.errors import ProviderError
from nbinline_agent.messages import (
    EndReason,
    Message,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Thinking,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers.base import Provider, Timeouts
from nbinline_agent.providers.opening import open_provider
from nbinline_agent.providers.retry import RetryPolicy
from nbinline_agent.providers.streaming import Surrogates
from tests.vendor.plugin import Vendor

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

KINDS = ["openai", "anthropic", "chat"]
KEY = "sk-test-0123456789abcdef"


@asynccontextmanager
async def provider_for(
    vendor: Vendor, kind: str, *, silence: float = 5.0, thinking: float = 5.0
) -> AsyncIterator[Provider]:
    async with open_provider(
        kind,
        base_url=vendor.base_url(kind),
        api_key=KEY,
        timeouts=Timeouts(connect=2, silence=silence, thinking=thinking),
        retries=RetryPolicy(first=0.01, longest=0.02),
    ) as provider:
        yield provider


def request_for(**script: Any) -> ModelRequest:
    return ModelRequest("m-1", ("Be brief.",), (Message("user", Vendor.prompt(**script)),))


async def collect(
    provider: Provider, request: ModelRequest, into: list[ModelEvent] | None = None
) -> list[ModelEvent]:
    events: list[ModelEvent] = [] if into is None else into
    async with provider.stream(request) as stream:
        async for event in stream:
            events += (event,)
    return events


def text_in(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def outcome(provider: Provider, **script: Any) -> tuple[list[ModelEvent], str]:
    """What came, and the code of the error or ``ok``."""
    events: list[ModelEvent] = []
    try:
        await collect(provider, request_for(**script), events)
    except ProviderError as error:
        ended: ProviderError | None = error
    else:
        ended = None
    if ended is None:
        return events, "ok"
    assert ended.message.endswith((".", "”"))
    assert KEY not in ended.message
    return events, ended.code


# Also what some programs take for the end of a line.
any_text = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from("\r\n\x0b\x0c\x1c\x85\u2028\u2029\ufeff"),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
class TestBytes:
    async def test_text_survives_any_cut_of_the_bytes(self, vendor: Vendor, kind: str) -> None:
        # One loop and one connection pool for all examples; Hypothesis only chooses.
        async with provider_for(vendor, kind) as provider:
            await anyio.to_thread.run_sync(self._examples, provider)

    @staticmethod
    def _examples(provider: Provider) -> None:
        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            st.lists(any_text, min_size=1, max_size=8),
            st.lists(st.integers(1, 40), min_size=1, max_size=5),
            st.booleans(),
        )
        def check(pieces: list[str], chunks: list[int], crlf: bool) -> None:
            request = request_for(deltas=pieces, chunks=chunks, crlf=crlf)
            events = anyio.from_thread.run(collect, provider, request)
            assert text_in(events) == "".join(pieces)
            assert [e.text for e in events if isinstance(e, TextDelta)] == pieces
            assert events[-1] == TurnEnded(EndReason.COMPLETE)

        check()

    @pytest.mark.parametrize(
        "garbage",
        [
            "\xff\xfe\x00\x80",
            "data: {not json}\n\n",
            "event: message_start\ndata: [1, 2\n\n",
            'event: content_block_delta\ndata: {"type": "content_block_delta"}\n\n',
            'data: {"type": "content_block_delta", "delta": {"type": "text_delta"}}\n\n',
            'data: {"type": "response.output_text.delta", "delta": 7}\n\n',
            'data: {"choices": 5}\n\n',
            'data: {"choices": [{"delta": {"content": ["x"]}}]}\n\n',
            "data: null\n\n",
            "data: " + "[" * 30_000 + "\n\n",
            "<html><body>Gateway</body></html>\n",
        ],
        ids=range(11),
    )
    async def test_garbage_never_becomes_text(
        self, vendor: Vendor, kind: str, garbage: str
    ) -> None:
        async with provider_for(vendor, kind) as provider:
            script = {"deltas": ["one ", "two"], "garbage": {"after": 1, "bytes": garbage}}
            events, code = await outcome(provider, **script)
        assert code in {"ok", "bad-answer"}
        assert text_in(events) in {"one ", "one two"}
        assert (code == "ok") == (text_in(events) == "one two")

    async def test_another_kind_of_page_is_no_answer(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind) as provider:
            page = {"after": 0, "bytes": "<html>login</html>"}
            script = {"begin": False, "deltas": 0, "garbage": page, "cut": {"after": 0}}
            events, code = await outcome(provider, content_type="text/html", **script)
        assert (text_in(events), code) == ("", "bad-answer")


@pytest.mark.parametrize("kind", KINDS)
class TestTrouble:
    @pytest.mark.parametrize("after", [0, 2])
    async def test_a_response_that_ends_without_its_end(
        self, vendor: Vendor, kind: str, after: int
    ) -> None:
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, deltas=["a", "b", "c"], cut={"after": after})
        assert (text_in(events), code) == ("ab"[:after], "bad-answer")

    async def test_a_connection_lost_before_anything_is_tried_again(
        self, vendor: Vendor, kind: str
    ) -> None:
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, deltas=["ok"], drop={"after": 0}, times=1)
        assert (text_in(events), code) == ("ok", "ok")
        assert isinstance(events[0], Retrying)

    async def test_a_connection_closed_on_us_is_replaced_at_once(
        self, vendor: Vendor, kind: str
    ) -> None:
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, deltas=["ok"], hang_up=True, times=1)
            assert (text_in(events), code) == ("ok", "ok")
            assert events[0] == Retrying(1, 0.0, "connect-failed")
            events, code = await outcome(provider, hang_up=True)
            assert [e.delay > 0 for e in events if isinstance(e, Retrying)] == [False, True]
            assert code == "connect-failed"

    async def test_overload_before_anything_is_tried_again(self, vendor: Vendor, kind: str) -> None:
        error = {"after": 0, "type": "overloaded_error", "code": "server_error"}
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, deltas=["ok"], error_event=error, times=1)
        assert (text_in(events), code) == ("ok", "ok")
        assert events[0] == Retrying(1, events[0].delay, "unavailable")  # type: ignore[union-attr]

    async def test_overload_in_the_middle_is_not(self, vendor: Vendor, kind: str) -> None:
        error = {"after": 1, "type": "overloaded_error", "code": "server_error"}
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, deltas=["a", "b"], error_event=error, times=1)
        assert (text_in(events), code) == ("a", "unavailable")
        assert len(await vendor.requests()) == 1

    async def test_thinking_counts_as_streamed(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, thinking=1, drop={"after": 0}, times=1)
        assert code == "bad-answer"
        assert not any(isinstance(event, Retrying) for event in events)

    async def test_an_empty_balance_is_not_waited_for(self, vendor: Vendor, kind: str) -> None:
        error = {
            "openai": {"code": "insufficient_quota", "type": "insufficient_quota"},
            "chat": {"code": "insufficient_quota", "type": "insufficient_quota"},
            "anthropic": {"type": "billing_error"},
        }[kind]
        async with provider_for(vendor, kind) as provider:
            events, code = await outcome(provider, status=429, error=error)
        assert (events, code) == ([], "quota-exhausted")
        assert len(await vendor.requests()) == 1

    async def test_a_long_wait_is_told_instead_of_waited(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind) as provider:
            with pytest.raises(ProviderError, match="asks to wait 15 minutes") as raised:
                await collect(provider, request_for(status=429, headers={"Retry-After": "900"}))
        assert raised.value.code == "rate-limited"
        assert raised.value.details == {"retry_after": 900}

    async def test_retries_come_to_an_end(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind) as provider:
            limited, limited_code = await outcome(provider, status=429)
            down, down_code = await outcome(provider, status=503)
        assert [e.attempt for e in limited if isinstance(e, Retrying)] == [1, 2, 3, 4]
        assert [e.attempt for e in down if isinstance(e, Retrying)] == [1, 2]
        assert (limited_code, down_code) == ("rate-limited", "unavailable")

    async def test_an_error_page_that_drips_for_ever_ends(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind, silence=0.2) as provider:
            started = anyio.current_time()
            _, code = await outcome(provider, header_delay=30)
            assert anyio.current_time() - started < 2
        assert code == "timed-out"

    async def test_no_redirect_is_followed(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind) as provider:
            _, code = await outcome(
                provider, status=307, headers={"Location": f"{vendor.url}/elsewhere"}
            )
        assert code == "connect-failed"
        assert len(await vendor.requests()) == 1

    async def test_nobody_listens(self, vendor: Vendor, kind: str) -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        await listener.aclose()
        async with open_provider(
            kind,
            base_url=f"http://127.0.0.1:{port}/v1",
            api_key=KEY,
            retries=RetryPolicy(first=0.01),
        ) as provider:
            events, code = await outcome(provider)
            with pytest.raises(ProviderError, match=f"127.0.0.1:{port} could not be reached"):
                await collect(provider, request_for())
        assert code == "connect-failed"
        assert len(events) == 2

    async def test_a_connection_that_is_never_taken(self, vendor: Vendor, kind: str) -> None:
        with socket.socket() as listener, ExitStack() as stack:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for _ in range(2):  # the queue is full
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            port = listener.getsockname()[1]
            timeouts = Timeouts(connect=0.3, silence=20, thinking=20)
            async with open_provider(
                kind, base_url=f"http://127.0.0.1:{port}", api_key=KEY, timeouts=timeouts
            ) as provider:
                started = anyio.current_time()
                with pytest.raises(ProviderError, match="could be made in time") as raised:
                    await collect(provider, request_for())
                assert anyio.current_time() - started < 3
        assert raised.value.code == "timed-out"

    async def test_a_service_that_does_not_speak_tls(self, vendor: Vendor, kind: str) -> None:
        async def answer(stream: SocketStream) -> None:
            async with stream:
                await stream.receive()
                await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, answer)
            async with open_provider(
                kind,
                base_url=f"https://127.0.0.1:{port}",
                api_key=KEY,
                retries=RetryPolicy(first=0.01),
            ) as provider:
                _, code = await outcome(provider)
            group.cancel_scope.cancel()
        assert code == "connect-failed"

    async def test_a_key_no_header_can_carry(self, vendor: Vendor, kind: str) -> None:
        async with open_provider(
            kind, base_url=vendor.base_url(kind), api_key="sk-01234\n56789"
        ) as provider:
            with pytest.raises(ProviderError, match="no key has") as raised:
                await collect(provider, request_for())
        assert raised.value.code == "not-authenticated"
        assert await vendor.requests() == []

    async def test_a_service_that_accepts_and_is_silent(self, vendor: Vendor, kind: str) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(SocketAttribute.local_port)
            async with open_provider(
                kind,
                base_url=f"http://127.0.0.1:{port}",
                api_key=KEY,
                timeouts=Timeouts(connect=5, silence=0.2, thinking=5),
            ) as provider:
                started = anyio.current_time()
                _, code = await outcome(provider)
                assert anyio.current_time() - started < 2
        assert code == "timed-out"

    async def test_a_pause_while_thinking_may_be_longer(self, vendor: Vendor, kind: str) -> None:
        script = {"thinking": 1, "thinking_pause": 0.6, "deltas": ["ok"]}
        async with provider_for(vendor, kind, silence=0.2, thinking=5) as provider:
            events, code = await outcome(provider, **script)
        assert (text_in(events), code) == ("ok", "ok")
        async with provider_for(vendor, kind, silence=0.2, thinking=0.3) as provider:
            _, code = await outcome(provider, **script)
        assert code == "timed-out"

    async def test_signs_of_life_without_content_do_not_count(
        self, vendor: Vendor, kind: str
    ) -> None:
        async with provider_for(vendor, kind, silence=0.3, thinking=5) as provider:
            events, code = await outcome(
                provider, deltas=["a", "b"], stall={"after": 1, "ping": 0.05}
            )
        assert (text_in(events), code) == ("a", "timed-out")


ENDINGS = [
    ("openai", "incomplete:max_output_tokens", "output-truncated"),
    ("openai", "incomplete:content_filter", "content-filtered"),
    ("openai", "incomplete:max_messages", "output-truncated"),
    ("openai", "incomplete:", "bad-answer"),
    ("openai", "failed:server_error", "unavailable"),
    ("openai", "failed:rate_limit_exceeded", "rate-limited"),
    ("openai", "failed:invalid_prompt", "bad-model-request"),
    ("openai", "failed:bio_policy", "content-filtered"),
    ("openai", "failed:something_new", "unavailable"),
    ("openai", "failed:", "unavailable"),
    ("anthropic", "end_turn", "ok"),
    ("anthropic", "stop_sequence", "ok"),
    ("anthropic", "max_tokens", "output-truncated"),
    ("anthropic", "pause_turn", "output-truncated"),
    ("anthropic", "refusal", "refused"),
    ("anthropic", "model_context_window_exceeded", "context-overflow"),
    ("anthropic", "something_new", "ok"),
    ("chat", "stop", "ok"),
    ("chat", "length", "output-truncated"),
    ("chat", "content_filter", "content-filtered"),
    ("chat", "eos", "ok"),
    ("chat", "STOP", "ok"),
    ("chat", "something_new", "ok"),
    ("chat", "error", "unavailable"),
    ("chat", None, "ok"),
]


@pytest.mark.parametrize(("kind", "finish", "code"), ENDINGS)
async def test_endings(vendor: Vendor, kind: str, finish: str | None, code: str) -> None:
    async with provider_for(vendor, kind) as provider:
        events, ended = await outcome(
            provider, deltas=["part"], finish=finish, usage={"input": 9, "output": 4}
        )
    assert ended == code
    assert text_in(events) == "part"
    # What was used is told however it ended.
    assert [event for event in events if isinstance(event, Usage)] == [Usage(9, 4, 0, 0)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_is_told_in_the_models_words(vendor: Vendor, kind: str) -> None:
    async with provider_for(vendor, kind) as provider:
        with pytest.raises(ProviderError, match="I would rather not") as raised:
            await collect(provider, request_for(refusal="I would rather not."))
    assert raised.value.code == "refused"


class TestLooseServers:
    async def test_no_usage(self, vendor: Vendor) -> None:
        async with provider_for(vendor, "chat") as provider:
            events = await collect(provider, request_for(deltas=["a"], usage=False))
        assert events == [TextDelta("a"), TurnEnded(EndReason.COMPLETE)]

    async def test_no_mark_of_the_end_but_a_reason(self, vendor: Vendor) -> None:
        async with provider_for(vendor, "chat") as provider:
            events = await collect(provider, request_for(deltas=["a"], usage=False, done=False))
        assert events == [TextDelta("a"), TurnEnded(EndReason.COMPLETE)]

    async def test_neither(self, vendor: Vendor) -> None:
        async with provider_for(vendor, "chat") as provider:
            events, code = await outcome(
                provider, deltas=["a"], usage=False, done=False, finish=None
            )
        assert (events, code) == ([TextDelta("a")], "bad-answer")


class Stepper:
    """Awaits a coroutine and does something at its n-th suspension."""

    def __init__(self, inner: Awaitable[Any], at: int, do: Any) -> None:
        self._inner, self._at, self._do = inner, at, do
        self.steps = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._inner.__await__()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waited = inner.throw(thrown) if thrown else inner.send(sent)
            except StopIteration as stop:
                return stop.value
            sent = thrown = None
            self.steps += 1
            if self.steps == self._at:
                self._do()
            try:
                sent = yield waited
            except BaseException as error:
                thrown = error


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_at_every_await_leaves_nothing_behind(vendor: Vendor, kind: str) -> None:
    script = {
        "deltas": ["a", "b"],
        "rate": 200,
        "thinking": 1,
        "status": 429,
        "times": 1,
        "headers": {"Retry-After": "0.01"},
    }
    async with provider_for(vendor, kind) as provider:
        before = asyncio.all_tasks()
        at = 0
        while True:
            at += 1
            vendor_key = {"key": f"{kind} {at}"}
            with anyio.CancelScope() as scope:
                stepper = Stepper(
                    collect(provider, request_for(**script, **vendor_key)), at, scope.cancel
                )
                with anyio.fail_after(3):
                    await stepper
            assert asyncio.all_tasks() == before
            if stepper.steps < at:
                break
            assert scope.cancelled_caught
        assert at > 10
        requests = await vendor.requests()
        for record in requests:
            ended = await vendor.ended(record["number"], wait=1)
            assert ended["ended"], record
        # The provider still serves.
        events = await collect(provider, request_for(deltas=["still here"]))
        assert text_in(events) == "still here"


@pytest.mark.parametrize("where", ["header_delay", "delay", "retry", "stall"])
@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_is_quick_whatever_it_waits_for(
    vendor: Vendor, kind: str, where: str
) -> None:
    script: dict[str, Any] = {
        "header_delay": {"header_delay": 30},
        "delay": {"delay": 30},
        "retry": {"status": 429, "headers": {"Retry-After": "30"}},
        "stall": {"stall": {"after": 1}, "deltas": 2},
    }[where]
    async with provider_for(vendor, kind, silence=20) as provider:
        got = anyio.Event()

        async def ask() -> None:
            async with provider.stream(request_for(**script)) as stream:
                async for _ in stream:
                    got.set()

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            with anyio.fail_after(5):
                await vendor.came()
                if not where.endswith("delay"):
                    await got.wait()
            left = time.time()
            group.cancel_scope.cancel()
        assert time.time() - left < 0.2
        record = await vendor.ended(0)
        assert record["ended"]
        assert record["ended_at"] - left < 0.2
        assert record["disconnected"] == (where != "retry")


async def test_many_streams_share_one_provider(vendor: Vendor) -> None:
    async def one(place: int) -> None:
        events = await collect(provider, request_for(deltas=[f"{place}:", "x", "y"], rate=50))
        assert text_in(events) == f"{place}:xy"

    async with provider_for(vendor, "chat") as provider, anyio.create_task_group() as group:
        for place in range(40):
            group.start_soon(one, place)


units = st.text(st.characters(codec=None) | st.sampled_from("\ud83d\ude42"), max_size=6)


class TestSurrogates:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_character_cut_in_half_is_joined(self, vendor: Vendor, kind: str) -> None:
        async with provider_for(vendor, kind) as provider:
            events = await collect(provider, request_for(deltas=["a\ud83d", "\ude42b\ud83d"]))
        assert text_in(events) == "a🙂b\ufffd"

    @given(st.lists(units, max_size=6))
    async def test_what_comes_out_can_be_stored(self, pieces: list[str]) -> None:
        mending = Surrogates()
        events: list[ModelEvent] = [
            *map(TextDelta, pieces),
            Thinking(),
            TurnEnded(EndReason.COMPLETE),
        ]
        out = [made for event in events for made in mending.mend(event)]
        joined = "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        assert text_in(out) == joined
        assert out[-1] == TurnEnded(EndReason.COMPLETE)
        assert Thinking() in out
