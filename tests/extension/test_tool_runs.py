"""Runs that call tools, on a real server: rounds, limits, approvals, rooms that go away."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nbinline_agent.document.edits import short_hash
from tests.extension.conftest import stopping, until
from tests.extension.running import ENDED, Asker, source_of
from tests.vendor.plugin import Vendor

EDITING = "&`list_cells` &`read_cell` &`cell_str_replace` &`insert_code` &`replace_cell`"


@pytest.fixture
def settings() -> dict[str, Any]:
    """Further settings of the extension; a test may override it."""
    return {}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any],
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
) -> dict[str, Any]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {
        "openai_base_url": vendor.v1,
        "idle_seconds": 0.3,
        "silence_timeout": 20.0,
        **settings,
    }
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def events(asker: Asker, run_id: str, kind: str = "") -> list[dict[str, Any]]:
    _, page = await asker.request("GET", f"runs/{run_id}/events")
    return [event for event in page["events"] if kind in ("", event["type"])]


async def bodies(asker: Asker) -> list[dict[str, Any]]:
    return [record["body"] for record in await asker.vendor.requests()]


def told(body: dict[str, Any]) -> list[str]:
    """What the model was told about its calls."""
    return [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]


def mark_of(asker: Asker, document: Any) -> dict[str, Any]:
    """What the answer's metadata says."""
    answer = asker.answer(document)
    mark: dict[str, Any] = answer["metadata"]["nbinlineai"] if answer else {}
    return mark


async def waiting(asker: Asker, run_id: str) -> dict[str, Any]:
    """The approval a run waits for."""
    await asker.reached(run_id, "waiting-approval")
    run = await asker.run(run_id)
    assert run["status"] == "waiting-approval"
    [approval] = [each for each in run["approvals"] if each["answer"] is None]
    found: dict[str, Any] = approval
    return found


REPLACE = call("cell_str_replace", cell_id="code", old_str="x = 1", new_str="x = 2")


class TestRounds:
    async def test_read_then_edit_then_answer(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [
                {"text": "Let me look.", "tools": [call("read_cell", cell_id="code")]},
                {"text": "Now I change it.\n", "tools": [REPLACE]},
                {"text": "It is 2 now."},
            ]
            asker.write(asker.vendor.prompt(f"Set x to 2. {EDITING}", turns=turns))
            run = await asker.ended(await asker.ask())

            assert (run["status"], run["error"], run["steps"]) == ("done", None, 2)
            document = await asker.document()
            assert source_of(asker.cells(document)["code"]) == "x = 2"
            text = "Let me look.\n\nNow I change it.\n\nIt is 2 now."
            assert source_of(asker.answer(document)) == text
            await until(lambda: asker.saved() and source_of(asker.saved()[-1]) == text)
            assert source_of(asker.saved()[0]) == "x = 2"

            first, second, third = await bodies(asker)
            names = {tool["name"] for tool in first["tools"]}
            assert names == {"list_cells", "read_cell", "cell_str_replace", "insert_code"} | {
                "replace_cell"
            }
            assert told(second) == [
                f"cell code (index 0, code), lines 1-1 of 1, hash {short_hash('x = 1')}\n1| x = 1"
            ]
            assert short_hash("x = 2") in told(third)[1]
            assert first["input"] == second["input"][: len(first["input"])]
            assert first["instructions"] == third["instructions"]

    async def test_the_journal_tells_each_step(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [{"deltas": [], "tools": [call("list_cells"), REPLACE]}, {"text": "Done."}]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns))
            run_id = await asker.ask()
            await asker.ended(run_id)
            called = await events(asker, run_id, "tool-called")
            finished = await events(asker, run_id, "tool-finished")
            assert [each["name"] for each in called] == ["list_cells", "cell_str_replace"]
            assert called[1]["cell_id"] == "code"
            assert json.loads(called[1]["arguments"])["new_str"] == "x = 2"
            assert [each["outcome"] for each in finished] == ["ok", "ok"]
            assert finished[1]["cell_ids"] == ["code"]
            assert all(0 <= each["seconds"] < 10 for each in finished)
            statuses = [each["status"] for each in await events(asker, run_id, "status")]
            assert statuses == [
                "queued",
                "preparing",
                "running-tool",
                "streaming",
                "done",
            ]

    async def test_usage_is_summed(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            usage = {"input": 100, "output": 10}
            turns = [{"tools": [REPLACE]}, {"text": "Done."}]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns, usage=usage))
            run = await asker.ended(await asker.ask())
            assert run["usage"]["input_tokens"] == 200
            assert run["usage"]["output_tokens"] == 20

    async def test_the_preview_has_the_same_tools(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            metadata = {"nbinlineai": {"toolGroups": ["notebook"]}}
            question = asker.vendor.prompt("Go. &`no_such_thing` &`read_url`", text="Yes.")
            asker.write(question, metadata=metadata)
            body = {"path": "a.ipynb", "cell_id": "p0"}
            status, preview = await asker.request("POST", "context-preview", body)
            assert status == 200
            run = await asker.ended(await asker.ask())
            assert run["report"]["request_sha256"] == preview["report"]["request_sha256"]
            offered = preview["report"]["tools_offered"]
            assert "apply_edits" in offered
            assert "set_cell_type" in offered
            assert preview["report"]["tool_problems"] == {
                "no_such_thing": "no-kernel",
                "read_url": "off",
            }
            [sent] = await bodies(asker)
            assert [tool["name"] for tool in sent["tools"]] == offered

    async def test_at_the_limit_it_concludes(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [{"tools": [call("list_cells")]}, {"tools": [REPLACE]}, {"text": "So far."}]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns))
            run = await asker.ended(await asker.ask(override={"maxToolSteps": 2}))
            assert (run["status"], run["steps"]) == ("done", 2)
            sent = await bodies(asker)
            assert [body.get("tool_choice") for body in sent] == [None, None, "none"]
            assert "No further tool calls" in told(sent[2])[-1]
            assert "No further tool calls" not in told(sent[1])[-1]

    async def test_a_model_that_calls_on_beyond_the_limit(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [{"deltas": [], "tools": [call("list_cells", start=n)]} for n in range(3)]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns))
            run = await asker.ended(await asker.ask(override={"maxToolSteps": 1}))
            assert (run["status"], run["error"]["code"]) == ("error", "no-progress")
            assert len(await bodies(asker)) == 2

    async def test_no_steps_no_tools(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            metadata = {"nbinlineai": {"defaults": {"maxToolSteps": 0}}}
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", text="Yes."), metadata=metadata)
            run = await asker.ended(await asker.ask())
            assert run["report"]["tool_problems"]["read_cell"] == "no-steps"
            [sent] = await bodies(asker)
            assert "tools" not in sent

    async def test_what_is_called_wrongly_can_be_mended(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [
                {"tools": [{"name": "read_cell", "arguments": '{"cell_id": '}]},
                {"tools": [call("read_cell", cell="code")]},
                {"tools": [call("delete_cell", cell_id="code", expected_source="x = 1")]},
                {"tools": [call("teleport")]},
                {
                    "tools": [
                        call("replace_cell", cell_id="code", expected_source="y", new_source="")
                    ]
                },
                {"text": "Sorry."},
            ]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns))
            run_id = await asker.ask()
            run = await asker.ended(run_id)
            assert (run["status"], run["steps"]) == ("done", 5)
            answers = told((await bodies(asker))[-1])
            parts = ["not valid JSON", "cell_id: Field required", "delete_cell", "teleport"]
            for part, answer in zip(parts, answers, strict=False):
                assert answer.startswith("Error (")
                assert part in answer
            assert '"current_source":"x = 1"' in answers[4]
            assert short_hash("x = 1") in answers[4]
            outcomes = {e["outcome"] for e in await events(asker, run_id, "tool-finished")}
            assert outcomes == {"error"}

    async def test_repeating_the_same_call_is_told_then_ended(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            again = {"deltas": [], "tools": [call("read_cell", cell_id="code")]}
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=[again]))
            run = await asker.ended(await asker.ask())
            assert (run["status"], run["error"]["code"]) == ("error", "no-progress")
            assert "read_cell 5 times" in run["error"]["message"]
            sent = await bodies(asker)
            assert len(sent) == 5
            assert "Do not repeat it" not in told(sent[2])[-1]
            assert "Do not repeat it" in told(sent[3])[-1]

    async def test_insertions_keep_their_order_below_the_answer(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            first = [call("insert_code", content=f"step_{n} = {n}") for n in range(2)]
            turns = [
                {"text": "Two cells.", "tools": first},
                {"tools": [call("insert_code", content="step_2 = 2")]},
                {"tools": [call("insert_code", content="top", after_cell_id="index:0")]},
                {"text": "Done."},
            ]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns), "Next?")
            await asker.ended(await asker.ask())
            document = await asker.document()
            sources = [source_of(cell) for cell in asker.cells(document).values()]
            assert sources[0] == "top"
            assert sources[3].startswith("Two cells.")
            assert sources[4:] == ["step_0 = 0", "step_1 = 1", "step_2 = 2", "Next?"]

    @pytest.mark.parametrize("settings", [{"max_run_tokens": 150}])
    async def test_the_limit_of_tokens(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            usage = {"input": 100, "output": 10}
            turn = {"text": "On.", "tools": [call("list_cells")]}
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=[turn], usage=usage))
            run = await asker.ended(await asker.ask())
            assert (run["error"]["code"], run["steps"]) == ("run-limit", 1)
            assert "220" in run["error"]["message"]

    @pytest.mark.parametrize("settings", [{"max_tool_calls": 3}])
    async def test_the_limit_of_calls(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            many = [call("list_cells", start=n) for n in range(5)]
            asker.write(
                asker.vendor.prompt(f"Go. {EDITING}", turns=[{"tools": many}, {"text": "Well."}])
            )
            run = await asker.ended(await asker.ask())
            assert (run["status"], run["steps"]) == ("done", 1)
            _, second = await bodies(asker)
            assert [answer.startswith("Error (limit)") for answer in told(second)] == [
                False,
                False,
                False,
                True,
                True,
            ]
            assert second["tool_choice"] == "none"

    async def test_tools_without_words(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [{"deltas": [], "tools": [REPLACE]}, {"deltas": []}]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns))
            run = await asker.ended(await asker.ask())
            assert run["status"] == "done"
            answer = source_of(asker.answer(await asker.document()))
            assert answer == "*(The model used its tools in one round and wrote nothing.)*"

    async def test_a_deleted_answer_ends_the_run_also_between_words(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            metadata = {"nbinlineai": {"toolApproval": {"notebook": "ask"}}}
            turns = [{"text": "First.", "tools": [REPLACE]}, {"text": "Second."}]
            asker.write(asker.vendor.prompt(f"Go. {EDITING}", turns=turns), metadata=metadata)
            run_id = await asker.ask()
            approval = await waiting(asker, run_id)
            document = await asker.document()
            with document.ydoc.transaction(origin="person"):
                del document.ycells[2]
            route = f"runs/{run_id}/approvals/{approval['approval_id']}"
            await asker.request("POST", route, {"allow": False})
            run = await asker.ended(run_id)
            assert (run["status"], run["error"]["code"]) == ("cancelled", "cell-gone")
            assert len(await bodies(asker)) == 1


ASKING = {"nbinlineai": {"toolApproval": {"notebook": "ask"}}}
EDIT_TURNS = [{"text": "I would.", "tools": [REPLACE]}, {"text": "Well."}]


class TestApprovals:
    async def start(self, asker: Asker, turns: list[dict[str, Any]] = EDIT_TURNS) -> str:
        asker.write(asker.vendor.prompt(f"Set x. {EDITING}", turns=turns), metadata=ASKING)
        return await asker.ask()

    async def answer(
        self, asker: Asker, run_id: str, approval_id: str, **body: Any
    ) -> tuple[int, Any]:
        status, told = await asker.request("POST", f"runs/{run_id}/approvals/{approval_id}", body)
        return status, told.get("error", {}).get("code")

    async def test_the_card_shows_the_change_and_allowing_makes_it(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run_id = await self.start(asker)
            approval = await waiting(asker, run_id)
            assert approval["tool"] == "cell_str_replace"
            assert approval["cell_id"] == "code"
            assert approval["diff"].splitlines()[-2:] == ["-x = 1", "+x = 2"]
            assert approval["expires_at"].endswith("Z")
            document = await asker.document()
            await until(lambda: mark_of(asker, document).get("approvalId"))
            mark = mark_of(asker, document)
            assert (mark["status"], mark["approvalId"]) == ("running", approval["approval_id"])
            assert source_of(asker.cells(document)["code"]) == "x = 1"

            assert await self.answer(asker, run_id, approval["approval_id"], allow=True) == (
                202,
                None,
            )
            run = await asker.ended(run_id)
            assert run["status"] == "done"
            assert [each["answer"] for each in run["approvals"]] == ["allowed"]
            assert source_of(asker.cells(document)["code"]) == "x = 2"
            assert "approvalId" not in mark_of(asker, document)
            statuses = [each["status"] for each in await events(asker, run_id, "status")]
            assert statuses[-5:] == [
                "running-tool",
                "waiting-approval",
                "running-tool",
                "streaming",
                "done",
            ]

    async def test_denied(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run_id = await self.start(asker)
            approval = await waiting(asker, run_id)
            assert await self.answer(asker, run_id, "nonsense", allow=True) == (
                404,
                "unknown-approval",
            )
            key = approval["approval_id"]
            assert (await self.answer(asker, run_id, key, allow="yes"))[1] == "bad-request"
            assert (await self.answer(asker, run_id, key, allow=False))[0] == 202
            run = await asker.ended(run_id)
            assert (run["status"], run["approvals"][0]["answer"]) == ("done", "denied")
            assert await self.answer(asker, run_id, key, allow=True) == (409, "approval-answered")
            assert source_of(asker.cells(await asker.document())["code"]) == "x = 1"
            assert "does not allow" in told((await bodies(asker))[1])[0]
            [finished] = await events(asker, run_id, "tool-finished")
            assert finished["outcome"] == "denied"

    async def test_once_only(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run_id = await self.start(asker)
            key = (await waiting(asker, run_id))["approval_id"]
            assert (await self.answer(asker, run_id, key, allow=True))[0] == 202
            assert await self.answer(asker, run_id, key, allow=False) == (409, "approval-answered")
            run = await asker.ended(run_id)
            assert run["approvals"][0]["answer"] == "allowed"

    async def test_somebody_else_may_not(
        self, asker: Asker, jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor
    ) -> None:
        async with stopping(asker.ydoc):
            other = Asker(jp_fetch, jp_root_dir, ydoc, vendor)
            run_id = await self.start(asker)
            approval = await waiting(asker, run_id)
            seen = await other.run(run_id)
            assert seen["approvals"][0]["approval_id"] == approval["approval_id"]
            assert seen["may_answer"] is False
            assert (await asker.run(run_id))["may_answer"] is True
            assert await self.answer(other, run_id, approval["approval_id"], allow=True) == (
                403,
                "not-yours",
            )
            assert (await asker.run(run_id))["status"] == "waiting-approval"
            await asker.request("DELETE", f"runs/{run_id}")

    @pytest.mark.parametrize("settings", [{"approval_seconds": 1.0}])
    async def test_the_time_runs_out(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run = await asker.ended(await self.start(asker))
            assert (run["status"], run["approvals"][0]["answer"]) == ("done", "timed-out")
            assert "in time" in told((await bodies(asker))[1])[0]

    @pytest.mark.parametrize("settings", [{"answer_seconds": 1.5}])
    async def test_the_time_of_a_run_covers_its_tools_and_questions(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run = await asker.ended(await self.start(asker))
            assert (run["status"], run["error"]["code"]) == ("error", "timed-out")
            assert run["approvals"][0]["answer"] == "cancelled"
            assert source_of(asker.answer(await asker.document())) == "I would."

    async def test_stopping_a_run_that_waits(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run_id = await self.start(asker)
            await waiting(asker, run_id)
            began = time.monotonic()
            await asker.request("DELETE", f"runs/{run_id}")
            run = await asker.ended(run_id)
            assert time.monotonic() - began < 2
            assert (run["status"], run["approvals"][0]["answer"]) == ("cancelled", "cancelled")
            assert "approvalId" not in mark_of(asker, await asker.document())
            [finished] = await events(asker, run_id, "tool-finished")
            assert finished["outcome"] == "cancelled"

    async def test_from_now_on(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            back = call("cell_str_replace", cell_id="code", old_str="x = 2", new_str="x = 3")
            run_id = await self.start(
                asker, [{"tools": [REPLACE]}, {"tools": [back]}, {"text": "Done."}]
            )
            key = (await waiting(asker, run_id))["approval_id"]
            await self.answer(asker, run_id, key, allow=True, remember=True)
            run = await asker.ended(run_id)
            assert len(run["approvals"]) == 1
            assert source_of(asker.cells(await asker.document())["code"]) == "x = 3"

    async def test_a_room_replaced_while_somebody_is_asked(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            run_id = await self.start(asker)
            approval = await waiting(asker, run_id)
            await until(lambda: asker.saved() and "I would." in source_of(asker.saved()[-1]), 30)
            await asker.ydoc.ywebsocket_server.delete_room(room=asker.room())
            document = await asker.document()

            wanted = approval["approval_id"]
            await until(lambda: mark_of(asker, document).get("approvalId") == wanted)
            await self.answer(asker, run_id, approval["approval_id"], allow=True)
            run = await asker.ended(run_id)
            assert run["status"] == "done"
            assert source_of(asker.cells(document)["code"]) == "x = 2"
            assert source_of(asker.answer(document)) == "I would.\n\nWell."
            assert "opened anew" in told((await bodies(asker))[1])[0]

    async def test_metadata_cannot_loosen(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            metadata = {"nbinlineai": {"toolApproval": {"shell": "auto", "web": "auto"}}}
            question = asker.vendor.prompt("Go. &`run_shell` &`read_url`", text="No.")
            asker.write(question, metadata=metadata)
            run = await asker.ended(await asker.ask())
            assert run["report"]["tool_problems"] == {"run_shell": "off", "read_url": "off"}

    @pytest.mark.parametrize("settings", [{"tool_approval": {"shell": "ask"}}])
    async def test_the_server_may_switch_it_on(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            turns = [{"tools": [call("run_shell", command="echo hi")]}, {"text": "No."}]
            asker.write(asker.vendor.prompt("Go. &`run_shell`", turns=turns))
            run_id = await asker.ask()
            approval = await waiting(asker, run_id)
            assert (approval["tool"], approval["code"]) == ("run_shell", "echo hi")
            _, status = await asker.request("GET", "status")
            told_modes = status["policy"]["tool_approval"]
            assert (told_modes["shell"], told_modes["web"]) == ("ask", "off")
            await self.answer(asker, run_id, approval["approval_id"], allow=True)
            await asker.ended(run_id)
            assert "hi" in told((await bodies(asker))[1])[0]


async def test_the_run_says_where_it_works(asker: Asker) -> None:
    """In its activity, and by its presence, which moves to the cell it works on."""
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(f"Set x. {EDITING}", turns=EDIT_TURNS), metadata=ASKING)
        await asker.document()
        room = asker.room()
        run_id = await asker.ask()
        await waiting(asker, run_id)
        run = await asker.run(run_id)
        assert run["activity"]["cell_id"] == "code"

        def shown() -> dict[str, Any]:
            states = room.awareness.states.values()
            [state] = [each for each in states if each.get("user", {}).get("agent") is True]
            found: dict[str, Any] = state
            return found

        await until(lambda: shown()["nbinline"]["cell_id"] == "code")
        assert shown()["cursors"]
        await asker.request("DELETE", f"runs/{run_id}")
        assert (await asker.run(run_id))["status"] in ENDED


@pytest.mark.parametrize(
    "override",
    [{"maxToolSteps": 51}, {"maxToolSteps": True}, {"toolGroups": "web"}, {"toolGroups": ["x"]}],
)
async def test_overrides_that_make_no_sense(asker: Asker, override: dict[str, Any]) -> None:
    async with stopping(asker.ydoc):
        asker.write("Go.")
        body = {"path": "a.ipynb", "cell_id": "p0", "override": override}
        status, told = await asker.request("POST", "runs", body)
        assert (status, told["error"]["code"]) == (400, "bad-request")


async def test_groups_for_one_run(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("Go.", text="Yes."))
        await asker.ended(await asker.ask(override={"toolGroups": ["notebook"]}))
        [sent] = await bodies(asker)
        assert len(sent["tools"]) == 17
