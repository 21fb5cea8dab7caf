"""Carrying out the calls of a round: side by side or in order, in time, told and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from pydantic import Field

from nbinline_agent.errors import JournalUnavailable, NoProgress, RoomLost
from nbinline_agent.ids import CellId
from nbinline_agent.messages import Image, JsonValue, ToolAnswer, ToolCall
from nbinline_agent.tools.approval import Approvals, about
from nbinline_agent.tools.base import Arguments, Preview, Tool, ToolContext, ToolError, ToolResult
from nbinline_agent.tools.calling import Caller, CallLimits
from nbinline_agent.tools.modes import (
    DEFAULT_MODES,
    Mode,
    mode_of,
    must_ask,
    parse_modes,
    stricter_modes,
)
from nbinline_agent.tools.results import ResultBounds, Results, cut
from nbinline_agent.tools.toolbox import Toolbox

pytestmark = pytest.mark.asyncio


class Number(Arguments):
    n: int = Field(0, ge=0)


class Place:
    """Implements ``Site``; its tools find it as their context."""

    def __init__(self) -> None:
        self.room = 1
        self.events: list[tuple[str, Mapping[str, JsonValue]]] = []
        self.own = True
        self.word = "allowed"
        self.asked: list[str] = []
        self.broken = False

    async def context(self) -> ToolContext:
        return self  # type: ignore[return-value]

    async def note(self, kind: str, data: Mapping[str, JsonValue], *, later: bool = False) -> None:
        if self.broken:
            raise JournalUnavailable
        await anyio.lowlevel.checkpoint()
        self.events.append((kind, data))

    def alone(self) -> bool:
        return self.own

    async def approved(self, tool: Tool, preview: Preview) -> str:
        await anyio.lowlevel.checkpoint()
        self.asked.append(preview.summary)
        return self.word


def caller(
    place: Place,
    *tools: Tool,
    calls: int = 100,
    parallel: int = 4,
    bounds: ResultBounds | None = None,
    takes_images: bool = True,
    disabled: Mapping[str, str] | None = None,
) -> Caller:
    box = Toolbox({tool.name: tool for tool in tools}, disabled or {})
    limits = CallLimits(calls, parallel, bounds or ResultBounds())
    results = Results(limits.results, takes_images=takes_images, fit=lambda image: image)
    return Caller(box, place, limits, results)


def tool(name: str, do: Any, **fields: Any) -> Tool:
    return Tool(name, fields.pop("group", "notebook"), "Does it.", Number, do, **fields)


def ask(name: str, arguments: str = "{}", call_id: str = "") -> ToolCall:
    return ToolCall(call_id or f"{name}-id", name, arguments)


class TestOrder:
    async def test_reads_run_side_by_side_and_writes_alone(self) -> None:
        running, most, log = 0, 0, list[str]()

        async def read(context: ToolContext, arguments: Number) -> ToolResult:
            nonlocal running, most
            running += 1
            most = max(most, running)
            log.append(f"read {arguments.n}")
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            running -= 1
            return ToolResult(f"r{arguments.n}")

        async def write(context: ToolContext, arguments: Number) -> ToolResult:
            assert running == 0
            log.append(f"write {arguments.n}")
            await anyio.lowlevel.checkpoint()
            return ToolResult(f"w{arguments.n}")

        calls = [
            ask(name, f'{{"n": {n}}}', f"{name}{n}")
            for name, n in (
                *(("read", n) for n in range(6)),
                ("write", 6),
                ("write", 7),
                ("read", 8),
            )
        ]
        place = Place()
        work = caller(place, tool("read", read), tool("write", write, writes=True), parallel=3)
        answers = await work.answer(calls)
        assert [answer.text for answer in answers] == [f"{c.name[0]}{c.call_id[-1]}" for c in calls]
        assert [answer.call_id for answer in answers] == [call.call_id for call in calls]
        assert most == 3
        assert log[6:] == ["write 6", "write 7", "read 8"]
        assert [kind for kind, _ in place.events].count("tool-finished") == 9

    async def test_what_is_asked_for_stands_alone_too(self) -> None:
        place = Place()
        place.own = False

        async def run(context: ToolContext, arguments: Number) -> ToolResult:
            assert len(place.asked) == arguments.n
            return ToolResult("ran")

        work = caller(place, tool("run", run, group="functions"))
        await work.answer([ask("run", '{"n": 1}', "a"), ask("run", '{"n": 2}', "b")])
        assert place.asked == ["run(n=1)", "run(n=2)"]


class TestTrouble:
    @pytest.mark.parametrize(
        ("call", "part"),
        [
            (ask("f", "{"), "bad-arguments"),
            (ask("f", "[1]"), "bad-arguments"),
            (ask("f", '{"n": -1}'), "greater than or equal to 0"),
            (ask("f", '{"m": 1}'), "m: Extra inputs are not permitted"),
            (ask("f", "[" * 100_000), "bad-arguments"),
            (ask("f", '{"n": "' + "1" * 400_000 + '"}'), "smaller steps"),
            (ask("g"), "The tools are: f"),
            (ask("h"), "h is not available here: off"),
            (ask(""), "unknown-tool"),
        ],
    )
    async def test_of_the_models_own_making(self, call: ToolCall, part: str) -> None:
        async def never(context: ToolContext, arguments: Number) -> ToolResult:
            raise AssertionError("it was called")

        work = caller(Place(), tool("f", never), disabled={"h": "off"})
        [answer] = await work.answer([call])
        assert answer.failed
        assert answer.text.startswith("Error (")
        assert part in answer.text
        assert len(answer.text) < 1_500

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (ToolError("Not there."), "Error (tool-failed): Not there."),
            (
                ToolError("No.", reason="stale", current="x"),
                'Error (stale): No.\n{"current":"x"}',
            ),
            (RoomLost(), "Error (room-lost): The shared notebook was closed"),
            (ZeroDivisionError("secret"), "Error (internal): The tool broke."),
        ],
    )
    async def test_inside_a_tool(self, error: Exception, text: str) -> None:
        async def fail(context: ToolContext, arguments: Number) -> ToolResult:
            raise error

        place = Place()
        [answer] = await caller(place, tool("f", fail)).answer([ask("f")])
        assert answer.failed
        assert answer.text.startswith(text)
        assert "secret" not in answer.text
        assert place.events[-1][1]["outcome"] == "error"

    async def test_a_tool_that_does_not_end(self) -> None:
        async def sleep(context: ToolContext, arguments: Number) -> ToolResult:
            await anyio.sleep_forever()
            raise AssertionError

        work = caller(
            Place(),
            tool("f", sleep, deadline=0.02),
            tool("g", sleep, deadline=60, deadline_of=lambda arguments: arguments.n / 100),
        )
        answers = await work.answer([ask("f"), ask("g", '{"n": 3}')])
        assert [answer.text for answer in answers] == [
            "Error (timed-out): f did not end within 0.02 seconds.",
            "Error (timed-out): g did not end within 0.03 seconds.",
        ]

    async def test_cancelling_ends_the_call_and_records_it(self) -> None:
        place = Place()
        began = anyio.Event()

        async def sleep(context: ToolContext, arguments: Number) -> ToolResult:
            began.set()
            await anyio.sleep_forever()
            raise AssertionError

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller(place, tool("f", sleep)).answer, [ask("f")])
            await began.wait()
            tasks.cancel_scope.cancel()
        assert [kind for kind, _ in place.events] == ["tool-called", "tool-finished"]
        assert place.events[1][1]["outcome"] == "cancelled"

    async def test_without_a_journal_nothing_is_called(self) -> None:
        async def never(context: ToolContext, arguments: Number) -> ToolResult:
            raise AssertionError("it was called")

        place = Place()
        place.broken = True
        with pytest.raises(JournalUnavailable):
            await caller(place, tool("f", never)).answer([ask("f")])

    async def test_a_room_that_is_replaced_during_a_call(self) -> None:
        place = Place()

        async def edit(context: ToolContext, arguments: Number) -> ToolResult:
            place.room += 1
            return ToolResult("Edited.")

        [answer] = await caller(place, tool("f", edit, writes=True)).answer([ask("f")])
        assert answer.text.startswith("Edited.\n\n[The shared notebook was opened anew")

    async def test_ids_that_come_again_in_every_round(self) -> None:
        place = Place()
        work = caller(place, tool("f", _text))
        for _ in range(2):
            await work.answer([ask("f", call_id="call_0")])
        ids = [data["call_id"] for kind, data in place.events if kind == "tool-called"]
        assert ids == ["call_0", "call_0-2"]

    async def test_the_journal_is_bounded(self) -> None:
        place = Place()

        async def long(context: ToolContext, arguments: Number) -> ToolResult:
            return ToolResult("word " * 1000 + "\nmore", cells=(CellId("c"),))

        call = ask("f", '{"n": 1' + " " * 5000 + "}")
        await caller(place, tool("f", long)).answer([call])
        (_, called), (_, finished) = place.events
        assert len(str(called["arguments"])) == 2000
        assert len(str(finished["summary"])) == 200
        assert finished["cell_ids"] == ["c"]


async def _text(context: ToolContext, arguments: Number) -> ToolResult:
    return ToolResult(f"n is {arguments.n}")


class TestBrake:
    async def test_told_at_three_ended_at_five(self) -> None:
        work = caller(Place(), tool("f", _text))
        texts = [(await work.answer([ask("f", '{"n":1}')]))[0].text for _ in range(4)]
        assert ["Do not repeat" in text for text in texts] == [False, False, True, True]
        with pytest.raises(NoProgress, match="f 5 times"):
            await work.answer([ask("f", '{ "n": 1 }')])

    async def test_another_result_is_progress(self) -> None:
        count = 0

        async def counting(context: ToolContext, arguments: Number) -> ToolResult:
            nonlocal count
            count += 1
            return ToolResult(str(count))

        work = caller(Place(), tool("f", counting))
        for _ in range(10):
            [answer] = await work.answer([ask("f")])
            assert "repeat" not in answer.text

    async def test_something_done_between_is_progress(self) -> None:
        work = caller(Place(), tool("f", _text), tool("w", _text, writes=True))
        for n in range(6):
            await work.answer([ask("f")])
            [answer] = await work.answer([ask("w", f'{{"n": {n}}}')])
            assert "repeat" not in answer.text

    async def test_the_same_again_within_a_round_counts_once(self) -> None:
        work = caller(Place(), tool("f", _text))
        answers = await work.answer([ask("f", call_id=str(n)) for n in range(6)])
        assert all("repeat" not in answer.text for answer in answers)

    async def test_errors_count_as_well(self) -> None:
        work = caller(Place(), tool("f", _text))
        for _ in range(4):
            await work.answer([ask("g")])
        with pytest.raises(NoProgress):
            await work.answer([ask("g")])


class TestBounds:
    async def test_one_total_with_head_and_tail(self) -> None:
        async def long(context: ToolContext, arguments: Number) -> ToolResult:
            lines = "\n".join(f"line {n}" for n in range(10_000))
            return ToolResult(f"FIRST\n{lines}\nLAST", data={"rows": [1] * 20_000})

        [answer] = await caller(Place(), tool("f", long)).answer([ask("f")])
        assert len(answer.text) <= 16_000
        assert answer.text.startswith("FIRST\n")
        assert "characters in all, the middle is left out" in answer.text
        assert answer.text.endswith("1]}")

    @pytest.mark.parametrize("limit", [100, 1_000, 16_000])
    @pytest.mark.parametrize("text", ["x" * 50_000, "line\n" * 20_000, "ü🦊" * 20_000])
    async def test_never_longer(self, limit: int, text: str) -> None:
        assert len(cut(text, limit)) <= limit
        assert cut(text[:limit], limit) == text[:limit]

    async def test_half_characters_are_mended(self) -> None:
        async def half(context: ToolContext, arguments: Number) -> ToolResult:
            return ToolResult("a\ud83d\ude00b\ud800c")

        [answer] = await caller(Place(), tool("f", half)).answer([ask("f")])
        assert answer.text == "a😀b\ufffdc"

    async def test_nothing_at_all(self) -> None:
        async def nothing(context: ToolContext, arguments: Number) -> ToolResult:
            return ToolResult("")

        [answer] = await caller(Place(), tool("f", nothing)).answer([ask("f")])
        assert answer.text == "(nothing)"

    async def test_nothing_is_sent_twice(self) -> None:
        async def long(context: ToolContext, arguments: Number) -> ToolResult:
            return ToolResult("word " * 400, images=(Image("image/png", b"x"),) * 2)

        work = caller(Place(), tool("f", long), tool("g", long))
        [first] = await work.answer([ask("f")])
        assert len(first.images) == 1
        assert "image 2: shown before" in first.text
        [second] = await work.answer([ask("g")])
        assert second.images == ()
        [third] = await work.answer([ask("f", '{"n": 1}')])
        assert third.text == "[Unchanged: word for word what g (call 2) gave before.]"

    async def test_images_are_few_and_small(self) -> None:
        async def many(context: ToolContext, arguments: Number) -> ToolResult:
            images = [Image("image/png", bytes([n]) * 10) for n in range(5)]
            return ToolResult("see", images=(Image("image/png", b"x" * 200), *images))

        bounds = ResultBounds(images=2, image_bytes=100)
        [answer] = await caller(Place(), tool("f", many), bounds=bounds).answer([ask("f")])
        assert [image.data[0] for image in answer.images] == [0, 1]
        assert "[image 1: left out, it is too large or cannot be read]" in answer.text
        assert "[image 4: left out, at most 2 are shown]" in answer.text
        work = caller(Place(), tool("f", many), takes_images=False)
        [answer] = await work.answer([ask("f")])
        assert answer.images == ()
        assert "6 images: this model takes none" in answer.text

    async def test_all_calls_together(self) -> None:
        work = caller(Place(), tool("f", _text), calls=2)
        answers = await work.answer([ask("f", f'{{"n": {n}}}', str(n)) for n in range(3)])
        assert [answer.failed for answer in answers] == [False, False, True]
        assert work.used_up


class TestApproval:
    @pytest.mark.parametrize(
        ("word", "outcome", "part"),
        [
            ("allowed", "ok", "n is 0"),
            ("denied", "denied", "does not allow"),
            ("timed-out", "denied", "in time"),
        ],
    )
    async def test_the_answer_decides(self, word: str, outcome: str, part: str) -> None:
        place = Place()
        place.own, place.word = False, word
        work = caller(place, tool("f", _text, group="execution", writes=True))
        [answer] = await work.answer([ask("f")])
        assert part in answer.text
        assert answer.failed is (outcome != "ok")
        assert place.events[-1][1]["outcome"] == outcome

    async def test_a_call_that_cannot_work_is_not_asked_for(self) -> None:
        async def refuse(context: ToolContext, arguments: Number) -> Preview:
            raise ToolError("Stale.")

        place = Place()
        place.own = False
        work = caller(place, tool("f", _text, group="execution", writes=True, preview=refuse))
        [answer] = await work.answer([ask("f")])
        assert answer == ToolAnswer("f-id", "Error (tool-failed): Stale.", failed=True)
        assert place.asked == []

    async def test_what_a_card_shows_by_default(self) -> None:
        shown = about("run_code", {"code": "print(1)", "timeout": 30.0, "cell_id": "c"})
        assert shown == Preview("run_code(timeout=30.0)", CellId("c"), None, "print(1)")
        shown = about("run_shell", {"command": "ls", "cwd": "x" * 200})
        assert shown.code == "ls"
        assert len(shown.summary) < 120

    async def test_the_first_answer_counts(self) -> None:
        approvals = Approvals()
        approval = approvals.ask("f", Preview("f()"), 60)
        assert approvals.waiting is approval
        approval.settle("allowed", "ann")
        approval.settle("denied", "bob")
        assert (await approval.wait(), approval.by) == ("allowed", "ann")
        assert approvals.waiting is None

    async def test_no_answer_in_time(self) -> None:
        approval = Approvals().ask("f", Preview("f()"), 0.02)
        assert await approval.wait() == "timed-out"


class TestModes:
    async def test_defaults(self) -> None:
        expected = {
            ("notebook", False): Mode.AUTO,
            ("notebook", True): Mode.AUTO,
            ("execution", False): Mode.AUTO,
            ("execution", True): Mode.OWN,
            ("functions", True): Mode.OWN,
            ("files", False): Mode.AUTO,
            ("files", True): Mode.OWN,
            ("web", False): Mode.OFF,
            ("shell", True): Mode.OFF,
            ("something-new", True): Mode.ASK,
        }
        for (group, writes), mode in expected.items():
            made = tool("f", _text, group=group, writes=writes)
            assert mode_of(made, DEFAULT_MODES) is mode, group

    async def test_own_means_alone_on_ones_own_server(self) -> None:
        run = tool("f", _text, group="execution", writes=True)
        assert not must_ask(run, DEFAULT_MODES, own=True)
        assert must_ask(run, DEFAULT_MODES, own=False)

    async def test_a_notebook_is_never_laxer(self) -> None:
        wished = {"notebook": "ask", "execution": "auto", "web": "auto", "files": 3, "shell": "on"}
        held = stricter_modes(DEFAULT_MODES, wished)
        assert held["notebook"] is Mode.ASK
        assert held["execution"] is Mode.OWN
        assert held["web"] is Mode.OFF
        assert held["files"] is Mode.OWN
        assert held["shell"] is Mode.OFF
        assert stricter_modes(DEFAULT_MODES, {"execution": "off"})["execution"] is Mode.OFF

    async def test_asking_for_reads_is_too_much(self) -> None:
        modes = {"files": Mode.ASK, "web": Mode.ASK}
        assert mode_of(tool("f", _text, group="files"), modes) is Mode.AUTO
        assert mode_of(tool("f", _text, group="web"), modes) is Mode.ASK
        off = {"files": Mode.OFF}
        assert mode_of(tool("f", _text, group="files"), off) is Mode.OFF

    async def test_settings_that_make_no_sense_are_passed_over(self) -> None:
        assert parse_modes({"a": "auto", "b": "AUTO", "c": None}) == {"a": Mode.AUTO}
