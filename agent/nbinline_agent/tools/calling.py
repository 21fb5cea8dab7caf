"""Carrying out what a model calls in one round: reads side by side, writes in order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.to_thread
import structlog
from pydantic import BaseModel, ValidationError

from nbinline_agent.errors import JournalUnavailable, NbinlineError
from nbinline_agent.ids import CellId
from nbinline_agent.messages import Image, JsonValue, ToolAnswer, ToolCall

from .approval import ALLOWED, TIMED_OUT, about
from .base import Preview, Tool, ToolContext, ToolError, ToolResult
from .brake import Brake
from .modes import must_ask
from .results import ResultBounds, Results, as_details, brief
from .toolbox import Toolbox

MOST_ARGUMENTS = 400_000
"""Characters that the arguments of one call may have as JSON."""

JOURNALLED_ARGUMENTS = 2_000
"""Characters of the arguments that the journal keeps."""

MOST_PROBLEMS = 8
"""Wrong arguments that a model is told of at once."""

REOPENED = (
    "\n\n[The shared notebook was opened anew during this call. Read the cells again before you "
    "rely on it.]"
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Bounds of the calls of one run.

    Attributes:
        calls: All calls of the run together.
        parallel: Calls that run side by side.
        results: Bounds of each result.
    """

    calls: int = 100
    parallel: int = 4
    results: ResultBounds = field(default_factory=ResultBounds)


class Site(Protocol):
    """Where calls are carried out: the run in its room."""

    @property
    def room(self) -> int:
        """A number that goes up whenever the run comes into another room."""

    async def context(self) -> ToolContext:
        """What tools get to use, once the run is in a room."""

    async def note(self, kind: str, data: Mapping[str, JsonValue], *, later: bool = False) -> None:
        """Journal an event; with ``later`` together with what comes next, at the latest then."""

    def alone(self) -> bool:
        """Whether it is the asker's own server, and nobody else is in the notebook."""

    async def approved(self, tool: Tool, preview: Preview) -> str:
        """Ask a person; ``allowed``, ``denied`` or ``timed-out``."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How one call ended."""

    text: str
    outcome: str = "ok"
    images: tuple[Image, ...] = ()
    cells: tuple[CellId, ...] = ()
    changed: bool = False


class Caller:
    """Carries out the calls of one run.

    Args:
        box: What may be called.
        site: Where.
        limits: How much.
        results: Bounds what the model is told.
    """

    def __init__(self, box: Toolbox, site: Site, limits: CallLimits, results: Results) -> None:
        self._box = box
        self._site = site
        self._limits = limits
        self._results = results
        self._brake = Brake()
        self._ids: set[str] = set()
        self._made = 0

    @property
    def used_up(self) -> bool:
        """Whether no further call is carried out."""
        return self._made >= self._limits.calls

    async def answer(self, calls: Sequence[ToolCall]) -> tuple[ToolAnswer, ...]:
        """Carry out the calls of a round; one answer for each, in the same order.

        Whatever goes wrong in a call is told to the model.

        Raises:
            NoProgress: The model repeats itself.
            JournalUnavailable: The calls cannot be recorded.
        """
        outcomes: list[_Outcome] = []
        self._brake.next_round()
        for batch in self._batches(calls):
            outcomes += await self._together(batch, last=len(outcomes) + len(batch) == len(calls))
        return tuple(
            ToolAnswer(
                call.call_id,
                self._told(call, outcome, number),
                images=outcome.images,
                failed=outcome.outcome != "ok",
            )
            for number, (call, outcome) in enumerate(
                zip(calls, outcomes, strict=True), self._made - len(calls) + 1
            )
        )

    def _told(self, call: ToolCall, outcome: _Outcome, number: int) -> str:
        besides = self._brake.note(call, outcome.text, changed=outcome.changed)
        text = outcome.text
        if not besides and not outcome.images:
            text = self._results.once(text, f"{call.name} (call {number})")
        return text + besides

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Calls that may run side by side; whatever changes something stands alone."""
        reads: list[ToolCall] = []
        for call in calls:
            tool = self._box.tools.get(call.name)
            if tool is None or (not tool.writes and not self._asks(tool)):
                reads.append(call)
                continue
            if reads:
                yield reads
            reads = []
            yield [call]
        if reads:
            yield reads

    async def _together(self, calls: Sequence[ToolCall], *, last: bool) -> list[_Outcome]:
        outcomes: dict[int, _Outcome] = {}
        failures: list[Exception] = []
        places = anyio.CapacityLimiter(self._limits.parallel)

        async def one(place: int, number: int, call: ToolCall) -> None:
            async with places:
                try:
                    outcomes[place] = await self._recorded(call, number, last=last)
                except Exception as error:
                    failures.append(error)

        async with anyio.create_task_group() as tasks:
            for place, call in enumerate(calls):
                self._made += 1
                tasks.start_soon(one, place, self._made, call)
        if failures:
            raise failures[0]
        return [outcomes[place] for place in range(len(calls))]

    # One call

    async def _recorded(self, call: ToolCall, number: int, *, last: bool) -> _Outcome:
        call_id = self._unique(call.call_id)
        await self._site.note(
            "tool-called",
            {
                "call_id": call_id,
                "name": call.name[:100],
                "arguments": call.arguments[:JOURNALLED_ARGUMENTS],
                "cell_id": _cell_of(call),
            },
        )
        began = time.monotonic()
        outcome = _Outcome("", "cancelled")
        try:
            outcome = await self._outcome(call, number)
        finally:
            with anyio.move_on_after(1, shield=True):
                await self._site.note(
                    "tool-finished",
                    {
                        "call_id": call_id,
                        "name": call.name[:100],
                        "outcome": outcome.outcome,
                        "seconds": round(time.monotonic() - began, 3),
                        "summary": brief(outcome.text),
                        "cell_ids": list(outcome.cells),
                    },
                    # The end of the round is journalled right behind it.
                    later=last and outcome.outcome != "cancelled",
                )
        return outcome

    def _unique(self, call_id: str) -> str:
        """Some services count their calls from 0 in every round."""
        unique, number = call_id, 1
        while unique in self._ids:
            number += 1
            unique = f"{call_id}-{number}"
        self._ids.add(unique)
        return unique

    async def _outcome(self, call: ToolCall, number: int) -> _Outcome:
        room = self._site.room
        try:
            outcome = await self._carried_out(call, number)
        except JournalUnavailable:
            raise
        except _Denied as denied:
            return _Outcome(str(denied), "denied")
        except NbinlineError as error:
            outcome = _Outcome(_sentence(error), "error")
        except Exception:
            log.exception("tool failed", tool=call.name)
            outcome = _Outcome("Error (internal): The tool broke. Do without it.", "error")
        if self._site.room == room:
            return outcome
        return _Outcome(
            outcome.text + REOPENED, outcome.outcome, outcome.images, outcome.cells, changed=True
        )

    async def _carried_out(self, call: ToolCall, number: int) -> _Outcome:
        if number > self._limits.calls:
            raise ToolError(
                f"This run may make {self._limits.calls} calls, and it has made them. Answer now.",
                reason="limit",
            )
        tool = self._tool(call.name)
        arguments = read_arguments(tool.name, tool.arguments, read_json(tool, call.arguments))
        context = await self._site.context()
        if self._asks(tool):
            await self._ask(tool, arguments, context)
            context = await self._site.context()
        result = await _within_deadline(tool, arguments, context)
        images: tuple[Image, ...] = ()
        note = ""
        if result.images:
            images, note = await anyio.to_thread.run_sync(self._results.images, result)
        return _Outcome(
            self._results.text(result, extra=note),
            images=images,
            cells=result.cells,
            changed=tool.writes,
        )

    def _tool(self, name: str) -> Tool:
        tool = self._box.tools.get(name)
        if tool is not None:
            return tool
        reason = self._box.disabled.get(name)
        if reason is not None:
            raise ToolError(f"{name} is not available here: {reason}.", reason="not-available")
        known = ", ".join(self._box.tools) or "none"
        raise ToolError(
            f"There is no tool called {name[:100]!r}. The tools are: {known}.",
            reason="unknown-tool",
        )

    def _asks(self, tool: Tool) -> bool:
        return must_ask(tool, self._box.modes, own=self._site.alone())

    async def _ask(self, tool: Tool, arguments: BaseModel, context: ToolContext) -> None:
        if tool.preview is not None:
            preview = await tool.preview(context, arguments)
        else:
            preview = about(tool.name, arguments.model_dump(mode="json"))
        answer = await self._site.approved(tool, preview)
        if answer == TIMED_OUT:
            raise _Denied(
                f"Nobody allowed {tool.name} in time, so it was not done. Do not ask again; say "
                "in the answer what is left to do."
            )
        if answer != ALLOWED:
            raise _Denied(
                f"The person does not allow {tool.name} now, so it was not done. Do not ask for "
                "the same again; find another way, or say what is left to do."
            )


class _Denied(Exception):
    """A person said no, or nothing in time."""


async def _within_deadline(tool: Tool, arguments: BaseModel, context: ToolContext) -> ToolResult:
    seconds = tool.deadline_of(arguments) if tool.deadline_of else tool.deadline
    with anyio.move_on_after(seconds):
        return await tool.call(context, arguments)
    raise ToolError(f"{tool.name} did not end within {seconds:g} seconds.", reason="timed-out")


def read_json(tool: Tool, text: str) -> JsonValue:
    """The arguments of a call as the model wrote them.

    Raises:
        ToolError: They are no JSON, or too long; the message says how to mend it.
    """
    if len(text) > MOST_ARGUMENTS:
        raise ToolError(
            f"The arguments of {tool.name} have {len(text):,} characters; {MOST_ARGUMENTS:,} are "
            "allowed. Do it in smaller steps.",
            reason="bad-arguments",
        )
    try:
        value: JsonValue = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"The arguments of {tool.name} are not valid JSON ({error}). Send one JSON object.",
            reason="bad-arguments",
        ) from None
    return value


def read_arguments(name: str, model: type[BaseModel], value: Any) -> BaseModel:
    """The arguments of a call, checked.

    Args:
        name: Of the tool, for the message.
        model: What they must fit.
        value: What the model wrote.

    Raises:
        ToolError: They do not fit; the message says how to mend it.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        fields = [
            field if info.is_required() else f"{field} (optional)"
            for field, info in model.model_fields.items()
        ]
        raise ToolError(
            f"The arguments of {name} do not fit: {_problems(error)}. "
            f"It takes: {', '.join(fields) or 'none'}.",
            reason="bad-arguments",
        ) from None


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    told = [
        f"{'.'.join(map(str, each['loc'])) or 'the whole'}: {each['msg']}"
        for each in found[:MOST_PROBLEMS]
    ]
    more = len(found) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def _cell_of(call: ToolCall) -> JsonValue:
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    cell = value.get("cell_id") if isinstance(value, dict) else None
    return cell[:200] if isinstance(cell, str) else None


def _sentence(error: NbinlineError) -> str:
    details: dict[str, JsonValue] = dict(error.details)
    reason = details.pop("reason", error.code)
    return f"Error ({reason}): {error.message}{as_details(details)}"
