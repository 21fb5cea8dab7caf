"""A Codex subscription as a model service: one runtime a run, our tools as its only tools.

The runtime keeps a turn open while the model's calls are carried out. To a run it looks like every
other service: a stream ends with the calls of a round, the next one begins with their results. So
rounds, limits, approvals, locks and the journal are those of every run, under the asker's rights,
and the runtime needs no credential of this server.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from nbinline_agent.errors import (
    BadModelRequest,
    ConnectFailed,
    NotAuthenticated,
    Overflow,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    Refused,
    Unavailable,
)
from nbinline_agent.messages import (
    EndReason,
    Image,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Thinking,
    ToolAnswer,
    ToolCall,
    ToolCalled,
    ToolSpec,
    TurnEnded,
    Usage,
)
from nbinline_agent.providers.base import Timeouts, check_allowed

from .codex_process import CodexProcess, CodexSettings, RuntimeRefused, running

INTERRUPTION = 0.5
"""Seconds a turn has to end when it is interrupted."""

SIGN_IN = "Sign in to Codex again with AI Connections and Keys…."

_ERRORS: Mapping[str, type[ProviderError]] = {
    "contextWindowExceeded": Overflow,
    "sessionBudgetExceeded": QuotaExhausted,
    "usageLimitExceeded": QuotaExhausted,
    "rateLimitExceeded": RateLimited,
    "serverOverloaded": Unavailable,
    "internalServerError": Unavailable,
    "badRequest": BadModelRequest,
    "cyberPolicy": Refused,
    "httpConnectionFailed": ConnectFailed,
    "responseStreamConnectionFailed": ConnectFailed,
    "responseStreamDisconnected": ConnectFailed,
    "responseTooManyFailedAttempts": ConnectFailed,
}


@contextlib.asynccontextmanager
async def codex_provider(
    settings: CodexSettings, timeouts: Timeouts
) -> AsyncIterator[CodexProvider]:
    """The service for one run; the runtime starts with its first request and ends with the block.

    Args:
        settings: How the runtime is started.
        timeouts: How long to wait for a sign of life.
    """
    async with contextlib.AsyncExitStack() as stack:
        provider = CodexProvider(settings, timeouts, stack)
        try:
            yield provider
        finally:
            await provider.interrupt()


@dataclass(frozen=True, slots=True)
class _Pending:
    """A call that the runtime waits for, by the number of its request."""

    number: object
    call: ToolCall


class CodexProvider:
    """Implements the agent's ``Provider`` for one run; use :func:`codex_provider`."""

    def __init__(
        self, settings: CodexSettings, timeouts: Timeouts, stack: contextlib.AsyncExitStack
    ) -> None:
        self._settings = settings
        self._timeouts = timeouts
        self._stack = stack
        self._runtime: CodexProcess | None = None
        self._thread = ""
        self._turn = ""
        self._pending: dict[str, _Pending] = {}
        self._attempts = 0

    @property
    def pid(self) -> int | None:
        """The runtime's process id, once there is one."""
        return self._runtime.pid if self._runtime is not None else None

    @contextlib.asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        """See ``Provider``."""
        yield self._events(request)

    async def _events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            if request.rounds:
                await self._answer(request.rounds[-1].answers)
            else:
                await self._begin(request)
        except RuntimeRefused as refused:
            raise BadModelRequest(f"Codex did not take the request: {refused}") from None
        runtime = self._live()
        silence = self._timeouts.thinking
        while True:
            message = await runtime.next(silence)
            for event in self._read(message):
                yield event
                if isinstance(event, TurnEnded):
                    return
            if message["method"] == "item/tool/call":
                # The runtime asks for one call after the other.
                yield ToolCalled(self._called(message))
                yield TurnEnded(EndReason.TOOL_CALLS)
                return
            await self._decline(message)

    # Asking

    async def _begin(self, request: ModelRequest) -> None:
        settings = self._settings
        check_allowed(settings.host)
        if not await anyio.to_thread.run_sync(lambda: settings.signed_in):
            raise NotAuthenticated(SIGN_IN)
        if self._runtime is None:
            self._runtime = await self._stack.enter_async_context(running(settings))
        started = await self._runtime.ask(
            "thread/start",
            model=request.model,
            ephemeral=True,
            approvalPolicy="never",
            baseInstructions="\n\n".join(request.system),
            dynamicTools=[_dynamic(tool) for tool in request.tools],
            **_place(settings),
        )
        self._thread = started["thread"]["id"]
        *earlier, question = request.messages
        if earlier:
            items = [_item(each.role, each.text, each.images) for each in earlier]
            await self._runtime.ask("thread/inject_items", threadId=self._thread, items=items)
        images = [{"type": "image", "url": image.url} for image in question.images]
        turn = await self._runtime.ask(
            "turn/start",
            threadId=self._thread,
            input=[{"type": "text", "text": question.text}, *images],
            effort=request.effort,
        )
        self._turn = turn["turn"]["id"]

    async def _answer(self, answers: tuple[ToolAnswer, ...]) -> None:
        runtime = self._live()
        for answer in answers:
            pending = self._pending.pop(answer.call_id, None)
            if pending is None:
                continue
            content: list[dict[str, str]] = [{"type": "inputText", "text": answer.text}]
            content += [{"type": "inputImage", "imageUrl": image.url} for image in answer.images]
            result = {"contentItems": content, "success": not answer.failed}
            await runtime.tell({"id": pending.number, "result": result})

    def _live(self) -> CodexProcess:
        if self._runtime is None:
            raise Unavailable("The Codex runtime has not started.")
        return self._runtime

    # Listening

    def _read(self, message: Mapping[str, Any]) -> Iterator[ModelEvent]:
        params = message.get("params") or {}
        match message["method"]:
            case "item/agentMessage/delta":
                yield TextDelta(str(params.get("delta", "")))
            case "thread/tokenUsage/updated":
                yield _usage(params["tokenUsage"]["last"])
            case "error" if params.get("willRetry"):
                self._attempts += 1
                yield Retrying(self._attempts, 0.0, _failure(params["error"]).code)
            case "turn/completed":
                self._turn = ""
                yield _ending(params["turn"])
            case "item/started" | "item/completed" | "item/reasoning/summaryTextDelta":
                yield Thinking()
            case _:
                pass

    def _called(self, message: Mapping[str, Any]) -> ToolCall:
        params = message["params"]
        call = ToolCall(str(params["callId"]), str(params["tool"]), _text(params["arguments"]))
        self._pending[call.call_id] = _Pending(message["id"], call)
        return call

    async def _decline(self, message: Mapping[str, Any]) -> None:
        """What the runtime asks a person for is not granted: only our tools can be."""
        if "id" in message and message["method"] != "item/tool/call":
            error = {"code": -32601, "message": "Nobody can be asked here."}
            await self._live().tell({"id": message["id"], "error": error})

    async def interrupt(self) -> None:
        """Stop the turn that still goes on; the process ends in any case."""
        if self._runtime is None or not self._turn:
            return
        with (
            anyio.move_on_after(INTERRUPTION, shield=True),
            contextlib.suppress(ProviderError, RuntimeRefused),
        ):
            await self._runtime.ask("turn/interrupt", threadId=self._thread, turnId=self._turn)


def _place(settings: CodexSettings) -> dict[str, Any]:
    if settings.native:
        return {"sandbox": settings.sandbox, "cwd": str(settings.root)}
    # Without an environment the runtime has neither shell nor files to offer.
    return {"sandbox": "read-only", "cwd": str(settings.home), "environments": []}


def _dynamic(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "inputSchema": dict(tool.parameters),
    }


def _item(role: str, text: str, images: tuple[Image, ...]) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    content: list[dict[str, str]] = [{"type": kind, "text": text}]
    content += [{"type": "input_image", "image_url": image.url} for image in images]
    return {"type": "message", "role": role, "content": content}


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _usage(last: Mapping[str, int]) -> Usage:
    return Usage(
        input_tokens=last.get("inputTokens", 0),
        output_tokens=last.get("outputTokens", 0),
        cached_input_tokens=last.get("cachedInputTokens", 0),
        thinking_tokens=last.get("reasoningOutputTokens", 0),
    )


def _ending(turn: Mapping[str, Any]) -> TurnEnded:
    """The end of a turn.

    Raises:
        ProviderError: It failed.
    """
    if turn.get("status") == "completed":
        return TurnEnded(EndReason.COMPLETE)
    raise _failure(turn.get("error") or {})


def _failure(error: Mapping[str, Any]) -> ProviderError:
    info = error.get("codexErrorInfo")
    kind = next(iter(info)) if isinstance(info, Mapping) and info else str(info)
    details = info.get(kind) if isinstance(info, Mapping) else None
    status = details.get("httpStatusCode") if isinstance(details, Mapping) else None
    said = _said(str(error.get("message") or ""))
    if kind == "unauthorized" or status == 401:
        return NotAuthenticated(f"Codex is not signed in any more. {SIGN_IN}")
    if status == 429:
        return RateLimited()
    made = _ERRORS.get(kind, Unavailable)
    return made(f"Codex failed: {said}" if said and made is Unavailable else None)


def _said(message: str) -> str:
    """The sentence in an error, which may be the service's JSON."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        message = str(json.loads(message)["error"]["message"])
    return message[:300]
