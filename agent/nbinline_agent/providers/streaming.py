"""One model call from its first attempt to its last event, the same for every vendor."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import anyio

from nbinline_agent.errors import BadAnswer, ProviderError
from nbinline_agent.messages import (
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCalled,
    TurnEnded,
)
from nbinline_agent.providers.base import Timeouts
from nbinline_agent.providers.failures import (
    LOST,
    UNREADABLE,
    Call,
    timed_out,
    transport_failure,
    unreadable,
    unsendable_key,
)
from nbinline_agent.providers.retry import Failed, Failure, RetryPolicy

Event = TypeVar("Event")
Stream = TypeVar("Stream", bound="SdkStream[Any]")

Json = dict[str, Any]
"""An event as the SDK reads it off the wire; reading a mangled one raises ``UNREADABLE``."""

_READ_OUT = 0.1  # seconds
_MALFORMED = 500  # characters of a call that was no JSON, to show the model what it wrote


class SdkStream(Generic[Event]):
    """An SDK's stream of events, closed without leaving anything behind.

    Args:
        stream: The SDK's own.
        close: Closes its response.
    """

    def __init__(self, stream: AsyncIterator[Any], close: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._close = close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        # Not by way of the SDK's `__aiter__`, which makes one more generator that nobody closes.
        event: Event = await self._stream.__anext__()
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            await self._unwind()
        finally:
            with anyio.move_on_after(2, shield=True):
                await self._close()

    async def read_out(self) -> None:
        """Read what follows the last event, so that the connection can be used again."""
        with anyio.move_on_after(_READ_OUT), suppress(Exception):
            while True:
                await anext(self)

    async def _unwind(self) -> None:
        """End the generators inside the SDK's stream, which do not close each other.

        Left to the garbage collector, each would be closed later in a task that nobody owns.
        Cancelled in the innermost await, they end from the inside out, here and now.
        """
        with anyio.CancelScope() as scope, suppress(Exception):
            scope.cancel()
            while True:
                await anext(self)


@dataclass(frozen=True, eq=False)
class StreamingProvider(Generic[Stream]):
    """A ``Provider`` made of the three things in which vendors differ.

    Attributes:
        start: Sends the request; returns the SDK's stream once the headers are there.
        read: Turns the SDK's events into ours and ends after ``TurnEnded``; it raises our errors
            (or ``Failed``) for an answer that ended badly.
        explain: Maps an exception of the SDK, or returns None if it is not the SDK's; told whether
            the response had begun.
        address: Scheme, host and port for messages.
        key: Never to be quoted.
        timeouts: How long to wait.
        retries: When to repeat a call of which nothing has streamed.
    """

    start: Callable[[ModelRequest], Awaitable[Stream]]
    read: Callable[[Stream, Call], AsyncGenerator[ModelEvent, None]]
    explain: Callable[[Exception, Call, bool], Failure | None]
    address: str
    key: str | None = field(default=None, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: RetryPolicy = field(default_factory=RetryPolicy)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """See ``Provider.stream``."""
        async with aclosing(self._turn(request)) as events:
            yield events

    async def _turn(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        call = Call(request, self.address, self.key)
        attempt = 0
        while True:
            attempt += 1
            streamed = False
            failure: Failure
            try:
                async with aclosing(self._attempt(call)) as events:
                    async for event in events:
                        streamed = streamed or isinstance(event, (TextDelta, Thinking, ToolCalled))
                        yield event
                return
            except Failed as failed:
                failure = failed.failure
            wait = None if streamed else self.retries.wait(failure, attempt)
            if wait is None:
                # Raised outside of the handler: the SDK's exception, which holds the request and
                # its headers, must not hang on ours.
                raise failure.error
            yield Retrying(attempt, wait, failure.error.code)
            await anyio.sleep(wait)

    async def _attempt(self, call: Call) -> AsyncGenerator[ModelEvent, None]:
        async with await self._open(call) as stream:
            limit = self.timeouts.silence
            text = Surrogates()
            async with aclosing(self.read(stream, call)) as events:
                while (event := await self._next(events, limit, call)) is not None:
                    thinking = isinstance(event, Thinking)
                    limit = self.timeouts.thinking if thinking else self.timeouts.silence
                    if isinstance(event, TurnEnded):
                        await stream.read_out()
                    for whole in text.mend(event):
                        yield whole
                    if isinstance(event, TurnEnded):
                        return
        raise Failed(Failure(BadAnswer()))

    async def _open(self, call: Call) -> Stream:
        # The HTTP client bounds each step; this bounds a service that feeds an error page by drops.
        seconds = self.timeouts.connect + 2 * self.timeouts.silence
        try:
            with anyio.fail_after(seconds):
                return await self.start(call.request)
        except ProviderError as error:
            raise Failed(Failure(error)) from None
        except Exception as exception:
            raise self._failed(exception, call, seconds, opened=False) from None

    async def _next(
        self, events: AsyncGenerator[ModelEvent, None], seconds: float, call: Call
    ) -> ModelEvent | None:
        # A bare scope: `fail_after` costs as much again as all the rest here, per event.
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + seconds):
                return await anext(events, None)
        except ProviderError as error:
            raise Failed(Failure(error)) from None
        except Failed:
            raise
        except Exception as exception:
            raise self._failed(exception, call, seconds, opened=True) from None
        raise Failed(timed_out(call, seconds=seconds))

    def _failed(
        self, exception: Exception, call: Call, seconds: float, *, opened: bool
    ) -> Exception:
        if failure := self.explain(exception, call, opened):
            return Failed(failure)
        if isinstance(exception, TimeoutError):
            return Failed(timed_out(call, seconds=seconds))
        if isinstance(exception, UnicodeEncodeError) and not opened:
            return Failed(unsendable_key())
        if isinstance(exception, LOST):
            return Failed(transport_failure(exception, call, opened=opened))
        if isinstance(exception, UNREADABLE):
            return Failed(unreadable(call))
        return exception


class Surrogates:
    """Makes text that can be stored: halves of a character are joined, lone ones replaced.

    JSON may carry one character as two escapes, and a service may cut between them.
    """

    def __init__(self) -> None:
        self._half = ""

    def mend(self, event: ModelEvent) -> list[ModelEvent]:
        """The events to pass on instead of ``event``; empty while a half is held back."""
        if isinstance(event, TextDelta):
            text = self._half + event.text
            self._half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
            text = well_formed(text.removesuffix(self._half) if self._half else text)
            return [TextDelta(text)] if text else []
        if isinstance(event, TurnEnded) and self._half:
            self._half = ""
            return [TextDelta("\ufffd"), event]
        return [event]


def well_formed(text: str) -> str:
    """The text with halves of one character joined, and lone ones replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_of(value: object) -> str:
    """A text of an event; None counts as empty.

    Raises:
        TypeError: It is something else: the event is mangled.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def count(usage: object, name: str) -> int:
    """A number of tokens, 0 where a service says none."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A complete call; no arguments count as an empty object.

    Raises:
        TypeError: Part of it is not a text.
    """
    return ToolCall(text_of(call_id), text_of(name), text_of(arguments) or "{}")


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as the object that services want back, whatever the model wrote."""
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"malformed": call.arguments[:_MALFORMED]}
