"""Questions that look at, call and run what a real kernel has, on a real server."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from jupyter_server.auth import Authorizer

from nbinline_agent.document.edits import short_hash
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.extension.test_tool_runs import bodies, call, events, told
from tests.vendor.plugin import Vendor


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {
        "openai_base_url": vendor.v1,
        "idle_seconds": 0.3,
        "silence_timeout": 20.0,
        "tool_approval": {"execution": "auto", "functions": "auto"},
    }
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


@pytest.fixture
def kernel(jp_fetch: Any, jp_serverapp: Any) -> Any:
    """Starts the kernel of a.ipynb and runs code in it."""

    async def start(code: str, *, wait: bool = True) -> Any:
        body = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python3"}}
        answer = await jp_fetch("api/sessions", method="POST", body=json.dumps(body))
        kernel_id = json.loads(answer.body)["kernel"]["id"]
        client = jp_serverapp.kernel_manager.get_kernel(kernel_id).client()
        client.start_channels(hb=False, stdin=False)
        await client.wait_for_ready(timeout=60)
        if wait:
            await client.execute_interactive(code, timeout=60, output_hook=lambda _: None)
        else:
            client.execute(code)
        return client

    return start


def question_of(body: dict[str, Any]) -> str:
    """What the model was asked."""
    return json.dumps(body["input"][-1])


async def test_values_go_along_and_the_preview_is_what_is_sent(asker: Asker, kernel: Any) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("Look at $`answer`, $`rows[1]` and $`nope`.", text="Yes."))
        client = await kernel("answer = 41; rows = ['a', 'second row']")
        fields = {"path": "a.ipynb", "cell_id": "p0"}
        status, preview = await asker.request("POST", "context-preview", fields)
        assert status == 200
        run = await asker.ended(await asker.ask())
        assert run["status"] == "done"
        assert run["report"]["request_sha256"] == preview["report"]["request_sha256"]
        [body] = await bodies(asker)
        question = question_of(body)
        assert "value 1 - int" in question
        assert "41" in question
        assert "second row" in question
        assert "no value: not defined in the kernel" in question
        assert [each["problem"] for each in run["report"]["variables"]] == ["", "", "undefined"]
        client.stop_channels()


async def test_without_a_kernel_the_question_is_asked_all_the_same(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("What is $`x`?", text="Unknown."))
        run = await asker.ended(await asker.ask())
        assert run["status"] == "done"
        assert "no running kernel" in question_of((await bodies(asker))[0])
        assert run["report"]["variables"][0]["problem"] == "no-kernel"


async def test_a_busy_kernel_does_not_hold_the_question_up(asker: Asker, kernel: Any) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("What is $`x`?", text="Three."))
        client = await kernel("import time; x = 3; time.sleep(60)", wait=False)
        with anyio.fail_after(30):
            run = await asker.ended(await asker.ask(wait_for_kernel=True))
        assert run["report"]["variables"] == [
            {"expression": "x", "type": "int", "problem": "", "cut": False, "images": 0}
        ]
        client.stop_channels()


async def test_functions_and_cells_for_the_model(asker: Asker, kernel: Any) -> None:
    async with stopping(asker.ydoc):
        turns = [
            {"tools": [call("double", value=21), call("double", wrong=1)]},
            {
                "tools": [
                    call("run_cell", cell_id="code", expected_source=short_hash("x = 1")),
                    call("run_code", code="x * 100"),
                    call("list_variables"),
                ]
            },
            {"text": "Done."},
        ]
        asker.write(
            asker.vendor.prompt("&`double` &`run_cell` &`run_code` &`list_variables`", turns=turns)
        )
        client = await kernel(
            "def double(value: int) -> int:\n"
            "    'Twice a value.'\n"
            "    print('doubling')\n"
            "    return 2 * value"
        )
        run = await asker.ended(await asker.ask())
        assert (run["status"], run["error"]) == ("done", None)
        first, second, third = await bodies(asker)
        double = next(tool for tool in first["tools"] if tool["name"] == "double")
        assert double["description"] == "Twice a value."
        assert double["parameters"]["required"] == ["value"]
        good, bad = told(second)
        assert "42" in good
        assert "doubling" in good
        assert "do not fit double" in bad
        cell, scratch, names = told(third)[2:]
        assert "ran without an error" in cell
        assert "100" in scratch
        assert "x: int" in names
        await until(lambda: asker.saved() and asker.saved()[0]["execution_count"])
        await until(lambda: asker.saved() and source_of(asker.saved()[-1]).endswith("Done."))
        outcomes = [
            event["outcome"] for event in await events(asker, run["run_id"], "tool-finished")
        ]
        assert outcomes == ["ok", "error", "ok", "ok", "ok"]
        client.stop_channels()


async def test_a_stopped_run_stops_its_cell(asker: Asker, kernel: Any) -> None:
    async with stopping(asker.ydoc):
        turns = [{"tools": [call("run_code", code="import time; time.sleep(60)", timeout=100)]}]
        asker.write(asker.vendor.prompt("&`run_code`", turns=turns))
        client = await kernel("x = 1")
        run_id = await asker.ask()
        await asker.reached(run_id, "running-tool")
        await anyio.sleep(1)
        await asker.request("DELETE", f"runs/{run_id}")
        await asker.ended(run_id)
        with anyio.fail_after(15):
            await client.execute_interactive("x", timeout=15, output_hook=lambda _: None)
        client.stop_channels()


async def test_marks_of_cells_that_nobody_runs_are_settled(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(deltas=["a "] * 200, rate=20))
        document = await asker.document()
        with document.ydoc.transaction(origin="page"):
            document.ycells[0]["execution_state"] = "running"
        run_id = await asker.ask()
        await until(lambda: document.ycells[0]["execution_state"] == "idle", 15)
        await asker.request("DELETE", f"runs/{run_id}")


class NoKernels(Authorizer):
    """Everybody may do anything but execute in kernels."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return not (resource == "kernels" and action == "execute")


class TestWithoutTheRight:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        jp_server_config["ServerApp"]["authorizer_class"] = NoKernels
        return jp_server_config

    async def test_no_value_no_function_no_run(self, asker: Asker, jp_serverapp: Any) -> None:
        async with stopping(asker.ydoc):
            sessions = jp_serverapp.session_manager
            await sessions.create_session(
                path="a.ipynb", name="a", type="notebook", kernel_name="python3"
            )
            turns = [{"tools": [call("run_code", code="1 + 1")]}, {"text": "No."}]
            asker.write(
                asker.vendor.prompt("$`secret` &`run_code` &`print` &`list_cells`", turns=turns)
            )
            run = await asker.ended(await asker.ask())
            first, second = await bodies(asker)
            assert [tool["name"] for tool in first["tools"]] == ["list_cells"]
            assert "may not use the kernels" in question_of(first)
            assert "not available" in told(second)[0]
            assert run["report"]["variables"][0]["problem"] == "not-allowed"
            for session in await sessions.list_sessions():
                await sessions.delete_session(session["id"])
