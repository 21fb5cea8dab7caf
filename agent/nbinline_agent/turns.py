"""The turns of a model within one run: its words into the answer, its calls to the tools."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import anyio.abc
import structlog

from .context.build import Built
from .context.continuation import Seam
from .context.secret_forms import Left
from .context.serialising import measure, measure_rounds
from .document.answer import AnswerCell
from .errors import (
    BadAnswer,
    CellGone,
    NbinlineError,
    NoProgress,
    OutputTruncated,
    RunLimit,
    TimedOut,
)
from .journal import RunStatus
from .messages import (
    EndReason,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCalled,
    ToolRound,
    TurnEnded,
    Usage,
)
from .providers.base import Provider
from .render.images import fit
from .run import Run
from .tools.calling import Caller
from .tools.results import ResultBounds, Results
from .tools.toolbox import Toolbox
from .workplace import Workplace

BACKLOG = 1_000
"""Events of a model that may wait to be written before its stream is read no further."""

AT_ONCE = 0.001
"""Seconds in which an event comes that had been received already."""

TOO_LONG = "The answer took longer than this server allows. Continue it to get the rest."
TOO_MUCH = "The answer is as long as this server allows. Continue it to get the rest."
LAST_ROUND = (
    "\n\n[No further tool calls are possible in this run. Answer now with what you have, and say "
    "what is left to do.]"
)

Rebuild = Callable[[tuple[ToolRound, ...]], Awaitable[Built]]
"""Builds the request anew, with less context, for the tool traffic so far."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """The model has said its words of a round; its calls come next."""


Event = ModelEvent | RoundEnded | NbinlineError | None


@dataclass
class Turn:
    """What one model call gave.

    Attributes:
        text: The model's words.
        calls: What it wants to call.
        ended: How it ended; None if the stream broke off.
    """

    text: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    ended: TurnEnded | None = None


class Turns:
    """The model's turns of one run; they outlive the rooms they are written to.

    Args:
        run: The run.
        site: Where its tools work.

    Attributes:
        started: Whether the model was asked.
    """

    def __init__(self, run: Run, site: Workplace) -> None:
        self.started = False
        self._run = run
        self._site = site
        self._wrote = False
        self._written = 0
        self._parted = False
        self._seam = Seam(run.answer_text)
        self._events: deque[Event] = deque()
        self._changed = anyio.Event()
        self._tasks: anyio.abc.TaskGroup
        self._recording: _Recording | None = None

    # Asking

    def begin(
        self, tasks: anyio.abc.TaskGroup, request: ModelRequest, box: Toolbox, rebuild: Rebuild
    ) -> None:
        """Ask the model, and go on asking as long as it calls tools."""
        self.started = True
        self._tasks = tasks
        tasks.start_soon(self._drive, request, box, rebuild)

    async def _drive(self, request: ModelRequest, box: Toolbox, rebuild: Rebuild) -> None:
        run = self._run
        try:
            with anyio.fail_after(run.around.bounds.seconds):
                async with run.around.connections.open(run.record.connection) as provider:
                    await self._rounds(provider, _Requests(run, request, rebuild), box)
        except TimeoutError:
            await self._put(TimedOut(TOO_LONG))
        except NbinlineError as error:
            await self._put(error)
        except Exception:
            log.exception("run failed", run=run.run_id)
            await self._put(NbinlineError())

    async def _rounds(self, provider: Provider, requests: _Requests, box: Toolbox) -> None:
        run = self._run
        limits = run.around.tools.calls
        results = Results(
            requests.bounds(limits.results), takes_images=run.plan.takes_images, fit=fit
        )
        caller = Caller(box, self._site, limits, results)
        while True:
            steps = run.record.steps
            last = steps >= run.plan.max_steps or caller.used_up
            turn = await self._turn(provider, await requests.next(tools_off=last and bool(steps)))
            if self._recording is not None:
                await self._recording.done()
            if turn.ended is None:
                raise BadAnswer
            if not turn.calls:
                await self._put(turn.ended)
                return
            await self._put(RoundEnded())
            await self._drained()
            self._check(box, turn, last=last and bool(steps))
            if last:
                await self._put(TurnEnded(EndReason.COMPLETE))
                return
            requests.add(await self._call(caller, turn, last=steps + 1 >= run.plan.max_steps))

    def _check(self, box: Toolbox, turn: Turn, *, last: bool) -> None:
        """Whether the calls of a turn can be carried out."""
        run = self._run
        if not box.tools:
            raise BadAnswer("The model called a tool that it was not offered. Run again.")
        if last and not (turn.text or self._wrote):
            raise NoProgress(
                f"The model used all its {run.record.steps} rounds of tool calls and gave no "
                "answer. Ask for less at once, or allow more rounds."
            )
        spent = run.record.usage.input_tokens + run.record.usage.output_tokens
        most = run.around.tools.tokens
        if most and spent >= most:
            raise RunLimit(
                f"This run has used {spent:,} tokens; the server allows {most:,}. Continue it to "
                "get the rest."
            )

    async def _call(self, caller: Caller, turn: Turn, *, last: bool) -> ToolRound:
        run, calls = self._run, tuple(turn.calls)
        self._site.due = RunStatus.RUNNING_TOOL
        try:
            answers = await caller.answer(calls)
        except NbinlineError:
            await self._site.flush()
            raise
        run.record = replace(run.record, steps=run.record.steps + 1)
        ended = ("round", {"number": run.record.steps, "calls": len(calls)})
        # Nobody waits for the disk: the model is asked meanwhile.
        self._recording = _Recording(partial(self._site.flush, ended, status=RunStatus.STREAMING))
        self._tasks.start_soon(self._recording.run)
        if self._site.answer_gone:
            raise CellGone
        if last or caller.used_up:
            ending = answers[-1]
            answers = (*answers[:-1], replace(ending, text=ending.text + LAST_ROUND))
        assert turn.ended is not None
        left = Left(run.plan.policy.known_secrets)
        answers = tuple(map(left.answer, answers))
        run.provenance.secrets += left.counts.total()
        return ToolRound("".join(turn.text), calls, answers, turn.ended.carried)

    async def _turn(self, provider: Provider, request: ModelRequest) -> Turn:
        """Collect one model call's events; its words go to the answer as they come."""
        turn = Turn()
        async with provider.stream(request) as events:
            asked = anyio.current_time()
            async for event in events:
                came_late = anyio.current_time() - asked > AT_ONCE
                match event:
                    case ToolCalled(call=call):
                        turn.calls.append(call)
                    case TurnEnded():
                        turn.ended = event
                    case _:
                        if isinstance(event, TextDelta):
                            turn.text.append(event.text)
                        await self._put(event)
                if came_late and (rest := self._run.around.pacer.rest):
                    await anyio.sleep(rest)
                asked = anyio.current_time()
        return turn

    async def _put(self, event: Event) -> None:
        while len(self._events) >= BACKLOG:
            await self._change()
        self._events.append(event)
        self._changed.set()

    async def _drained(self) -> None:
        """Wait until everything said so far is on its way into the answer."""
        while self._events:
            await self._change()

    async def _change(self) -> None:
        # Made anew by whoever waits: one for each event would cost more than the event.
        if self._changed.is_set():
            self._changed = anyio.Event()
        await self._changed.wait()

    # Writing

    async def write_to(self, answer: AnswerCell) -> None:
        """Write what has arrived and arrives until the last turn has ended.

        An event leaves the buffer in the same step that takes it to the answer: cancelling loses
        none and doubles none.

        Raises:
            ProviderError: The service failed, or sent nothing.
            NoProgress: The model repeats itself.
            RunLimit: A limit of the run was reached.
            CellGone: The answer cell was deleted.
        """
        while True:
            while not self._events:
                await self._change()
            text = isinstance(self._events[0], TextDelta)
            if text and self._run.record.status is not RunStatus.STREAMING:
                await self._run.move(RunStatus.STREAMING)
            event = self._events.popleft()
            self._changed.set()
            if await self._take(event, answer):
                return

    async def _take(self, event: Event, answer: AnswerCell) -> bool:
        """Act on one event; True if it was the last."""
        run = self._run
        match event:
            case TextDelta(text=text):
                await self._add(answer, self._seam.feed(text))
            case Usage():
                run.record = replace(run.record, usage=run.record.usage + event)
            case Retrying(attempt=attempt, delay=delay, code=code):
                await run.note("retrying", {"attempt": attempt, "delay": delay, "code": code})
            case RoundEnded():
                await self._add(answer, self._seam.end())
                self._parted = True
            case TurnEnded():
                await self._add(answer, self._seam.end())
                if not self._wrote:
                    await self._say_nothing(answer)
                return True
            case NbinlineError():
                await self._add(answer, self._seam.end())
                raise event
            case Thinking() | ToolCalled():
                pass
            case None:
                raise BadAnswer
        return False

    async def _say_nothing(self, answer: AnswerCell) -> None:
        steps = self._run.record.steps
        if not steps:
            raise BadAnswer("The model sent an empty answer. Run the prompt again.")
        rounds = "one round" if steps == 1 else f"{steps} rounds"
        await self._add(answer, f"*(The model used its tools in {rounds} and wrote nothing.)*")

    async def _add(self, answer: AnswerCell, text: str) -> None:
        text = self._after_a_round(text)
        if not text:
            return
        room = self._run.around.bounds.characters - self._written
        if room > 0:
            self._wrote = True
            self._written += len(text[:room])
            self._run.answer_text += text[:room]
            await answer.write(text[:room])
        if len(text) > room:
            raise OutputTruncated(TOO_MUCH)

    def _after_a_round(self, text: str) -> str:
        """Words of another round begin a paragraph of their own."""
        if not self._parted:
            return text
        text = text.lstrip("\n")
        if not text:
            return ""
        self._parted = False
        if not self._wrote:
            return text
        before = self._run.answer_text
        return "\n" * max(0, 2 - (len(before) - len(before.rstrip("\n")))) + text


class _Recording:
    """Something being journalled while the run goes on."""

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        self._write = write
        self._ended = anyio.Event()
        self._failure: NbinlineError | None = None

    async def run(self) -> None:
        """Write it."""
        try:
            await self._write()
        except NbinlineError as error:
            self._failure = error
        finally:
            self._ended.set()

    async def done(self) -> None:
        """Wait until it is written.

        Raises:
            JournalUnavailable: It could not be.
        """
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure


class _Requests:
    """The requests of a run: the first one, then the same with the tool traffic behind it."""

    def __init__(self, run: Run, first: ModelRequest, rebuild: Rebuild) -> None:
        self._limits = run.plan.limits
        self._first = first
        self._rebuild = rebuild
        self._rounds: tuple[ToolRound, ...] = ()
        self._size = measure(first, self._limits) if first.tools else 0

    def bounds(self, wished: ResultBounds) -> ResultBounds:
        """Bounds of a result: one alone may not fill the window."""
        return replace(wished, characters=min(wished.characters, self._limits.room // 4))

    def add(self, finished: ToolRound) -> None:
        """Put a finished round behind the others."""
        self._rounds = (*self._rounds, finished)

    async def next(self, *, tools_off: bool) -> ModelRequest:
        """The next request; old context is dropped only if it would not fit otherwise.

        Raises:
            ContextTooLarge: It does not fit without any context either.
        """
        if not self._rounds:
            return self._first
        traffic = measure_rounds(self._rounds, self._limits)
        if self._size + traffic > self._limits.room:
            self._first = replace((await self._rebuild(self._rounds)).request, rounds=())
            self._size = measure(self._first, self._limits)
        return replace(self._first, rounds=self._rounds, tools_off=tools_off)
