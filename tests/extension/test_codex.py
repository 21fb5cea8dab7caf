"""The Codex connection with the real runtime, against a fake Responses endpoint.

What needs an account at OpenAI is not tried here: a sign-in that ends well, the token's renewal,
the usage of a real plan.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbinline_agent.errors import NotConfigured, TimedOut
from nbinline_rtc import codex_process
from nbinline_rtc.codex_account import CodexAccount
from nbinline_rtc.codex_process import CodexSettings, running
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

CODEX = "openai_codex_subscription"
OVERRIDE = {"backend": CODEX, "model": "gpt-5.5"}
NEWEST = {"backend": CODEX, "model": "gpt-6.1-sol"}
"""A model that calls tools from code, which the runtime runs in a place without anything else."""

KEY = "sk-codex-0123456789abcdef"
SECRET = "sk-ant-server-only-0123456789"
EDIT = {
    "name": "cell_str_replace",
    "arguments": {"cell_id": "code", "old_str": "x = 1", "new_str": "x = 2"},
}
READ = {"name": "read_cell", "arguments": {"cell_id": "code"}}
TOOLS = "&`read_cell` &`cell_str_replace`"


@pytest.fixture
def extra() -> dict[str, Any]:
    """Further settings of the extension; a test may override it."""
    return {}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any],
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, Any],
    tmp_path: Path,
) -> dict[str, Any]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {
        "codex_base_url": vendor.v1,
        "data_dir": str(tmp_path / "nbinline"),
        "idle_seconds": 0.3,
        **extra,
    }
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


@pytest.fixture
def settings(tmp_path: Path, vendor: Vendor) -> CodexSettings:
    return CodexSettings(tmp_path / "nbinline" / "codex", base_url=vendor.v1)


async def sign_in(settings: CodexSettings) -> None:
    """As a person with a key does; a subscription would need an account."""
    async with running(settings) as runtime:
        await runtime.ask("account/login/start", type="apiKey", apiKey=KEY)


def runtimes() -> list[psutil.Process]:
    """The runtimes that this process has started."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "codex" in Path(child.exe()).name:
                found.append(child)
        except (psutil.Error, OSError):
            pass
    return found


class TestRuns:
    async def test_an_answer_streams_and_no_process_stays(
        self, asker: Asker, settings: CodexSettings
    ) -> None:
        async with stopping(asker.ydoc):
            await sign_in(settings)
            words = [f"word{number} " for number in range(40)]
            asker.write(asker.vendor.prompt("Count.", deltas=words, rate=40), "Next?")
            document = await asker.document()
            assert runtimes() == []
            run_id = await asker.ask(override=OVERRIDE)
            await until(lambda: "word3 " in source_of(asker.answer(document)))
            assert "word39" not in source_of(asker.answer(document)), "it comes piece by piece"
            assert len(runtimes()) >= 1
            run = await asker.ended(run_id)
            assert (run["status"], run["error"]) == ("done", None)
            assert run["connection"] == CODEX
            assert run["usage"]["output_tokens"] > 0
            assert source_of(asker.answer(document)) == "".join(words)
            await until(lambda: runtimes() == [])
            [sent] = await asker.vendor.requests()
            assert sent["headers"]["Authorization"] == f"Bearer {KEY}"
            assert SECRET not in json.dumps(sent)

    async def test_the_notebooks_tools_are_its_only_tools(
        self, asker: Asker, settings: CodexSettings
    ) -> None:
        async with stopping(asker.ydoc):
            await sign_in(settings)
            turns = [
                {"text": "Let me look.", "tools": [READ]},
                {"text": "Now I change it.", "tools": [EDIT]},
                {"text": "It is 2 now."},
            ]
            asker.write(asker.vendor.prompt(f"Set x to 2. {TOOLS}", turns=turns))
            run_id = await asker.ask(override=OVERRIDE)
            run = await asker.ended(run_id)
            assert (run["status"], run["error"], run["steps"]) == ("done", None, 2)
            document = await asker.document()
            assert source_of(asker.cells(document)["code"]) == "x = 2"
            text = "Let me look.\n\nNow I change it.\n\nIt is 2 now."
            assert source_of(asker.answer(document)) == text
            bodies = [record["body"] for record in await asker.vendor.requests()]
            assert len(bodies) == 3
            names = {tool["name"] for tool in bodies[0]["tools"]}
            assert {"read_cell", "cell_str_replace"} <= names
            assert not names & {"shell", "exec_command", "apply_patch", "view_image", "web_search"}
            assert names <= {"read_cell", "cell_str_replace", "request_user_input"}
            results = [i for i in bodies[2]["input"] if i.get("type") == "function_call_output"]
            assert "x = 1" in json.dumps(results[0])
            assert "Done: cell code" in json.dumps(results[1])
            _, page = await asker.request("GET", f"runs/{run_id}/events")
            called = [e["name"] for e in page["events"] if e["type"] == "tool-called"]
            assert called == ["read_cell", "cell_str_replace"]

    async def test_models_that_call_tools_from_code(
        self, asker: Asker, settings: CodexSettings
    ) -> None:
        async with stopping(asker.ydoc):
            await sign_in(settings)
            code = """const seen = await tools.read_cell({cell_id: 'code'});
await tools.cell_str_replace({cell_id: 'code', old_str: 'x = 1', new_str: 'x = 2'});
text(seen);
text(String(typeof process) + String(typeof require) + String(typeof fetch));
"""
            turns = [
                {"text": "Let me see.", "tools": [{"name": "custom:exec", "arguments": code}]},
                {"text": "It is 2 now."},
            ]
            asker.write(asker.vendor.prompt(f"Set x to 2. {TOOLS}", turns=turns))
            run_id = await asker.ask(override=NEWEST)
            run = await asker.ended(run_id)
            assert (run["status"], run["error"], run["steps"]) == ("done", None, 2)
            document = await asker.document()
            assert source_of(asker.cells(document)["code"]) == "x = 2"
            first, last = [record["body"] for record in await asker.vendor.requests()]
            assert "read_cell" in json.dumps(first["input"])
            for native in ("apply_patch", "shell_command", "web_search", "view_image"):
                assert f'"name": "{native}"' not in json.dumps(first)
            told = json.dumps(last["input"])
            assert "x = 1" in told
            assert "undefinedundefinedundefined" in told
            await until(lambda: runtimes() == [])

    async def test_approvals_hold_here_too(self, asker: Asker, settings: CodexSettings) -> None:
        async with stopping(asker.ydoc):
            await sign_in(settings)
            turns = [{"text": "I would.", "tools": [EDIT]}, {"text": "Well."}]
            asking = {"nbinlineai": {"toolApproval": {"notebook": "ask"}}}
            asker.write(asker.vendor.prompt(f"Set x. {TOOLS}", turns=turns), metadata=asking)
            run_id = await asker.ask(override=OVERRIDE)
            await asker.reached(run_id, "waiting-approval")
            [approval] = (await asker.run(run_id))["approvals"]
            route = f"runs/{run_id}/approvals/{approval['approval_id']}"
            await asker.request("POST", route, {"allow": False})
            run = await asker.ended(run_id)
            assert run["status"] == "done"
            assert source_of(asker.cells(await asker.document())["code"]) == "x = 1"
            last = (await asker.vendor.requests())[-1]["body"]["input"]
            assert "does not allow" in json.dumps(last)

    async def test_a_stopped_run_leaves_no_process(
        self, asker: Asker, settings: CodexSettings
    ) -> None:
        async with stopping(asker.ydoc):
            await sign_in(settings)
            asker.write(asker.vendor.prompt("Count.", deltas=["a "] * 500, rate=20))
            run_id = await asker.ask(override=OVERRIDE)
            document = await asker.document()
            await until(lambda: source_of(asker.answer(document)).startswith("a a"))
            began = time.monotonic()
            await asker.request("DELETE", f"runs/{run_id}")
            assert (await asker.run(run_id))["status"] == "cancelled"
            assert time.monotonic() - began < 4
            await until(lambda: runtimes() == [])

    async def test_what_the_service_refuses_is_told(
        self, asker: Asker, settings: CodexSettings
    ) -> None:
        async with stopping(asker.ydoc):
            await sign_in(settings)
            error = {"message": "no such key", "type": "invalid_request_error"}
            asker.write(asker.vendor.prompt("Go.", status=401, error=error))
            run = await asker.ended(await asker.ask(override=OVERRIDE))
            assert (run["status"], run["error"]["code"]) == ("error", "not-authenticated")
            assert KEY not in json.dumps(run)
            await until(lambda: runtimes() == [])

    async def test_without_a_sign_in_nothing_starts(self, asker: Asker) -> None:
        async with stopping(asker.ydoc):
            asker.write("Go.")
            body = {"path": "a.ipynb", "cell_id": "p0", "override": OVERRIDE}
            status, told = await asker.request("POST", "runs", body)
            assert (status, told["error"]["code"]) == (409, "not-configured")
            assert runtimes() == []


class TestAccount:
    async def test_models_and_efforts_of_the_account(
        self, asker: Asker, settings: CodexSettings
    ) -> None:
        async with stopping(asker.ydoc):
            _, told = await asker.request("GET", "settings/codex")
            assert (told["installed"], told["signed_in"], told["models"]) == (True, False, [])
            refused = await asker.request("GET", "settings/codex", params={"look": 1})
            assert refused[0] == 400
            await sign_in(settings)
            status, told = await asker.request("GET", "settings/codex", params={"look": 1})
            assert (status, told["account"]["type"]) == (200, "apiKey")
            assert told["models"]
            _, offered = await asker.request("GET", "status")
            connection = offered["connections"][CODEX]
            assert connection["configured"]
            assert connection["models"] == told["models"]
            assert "high" in connection["efforts"][told["models"][0]]
            status, told = await asker.request("DELETE", "settings/codex")
            assert (status, told["signed_in"], told["models"]) == (200, False, [])
            assert not (settings.home / "auth.json").exists()
            assert runtimes() == []

    async def test_a_sign_in_is_begun_and_given_up(self, settings: CodexSettings) -> None:
        """In a browser: the address is made here, nothing is sent."""
        async with CodexAccount(settings) as account:
            login = await account.begin("browser")
            assert login.url.startswith("https://")
            assert (login.state, len(runtimes())) == ("waiting", 1)
            again = await account.begin("browser")
            assert login.state == "cancelled"
            await account.cancel()
            assert again.state == "cancelled"
            await until(lambda: runtimes() == [])

    @pytest.mark.parametrize("body", [{"kind": "fax"}, {"kind": 1}])
    async def test_there_are_two_ways(self, asker: Asker, body: dict[str, Any]) -> None:
        async with stopping(asker.ydoc):
            status, told = await asker.request("POST", "settings/codex/login", body)
            assert (status, told["error"]["code"]) == (400, "bad-request")


class TestProcess:
    async def test_its_home_is_private_and_its_environment_bare(
        self, settings: CodexSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        monkeypatch.setenv("JUPYTER_TOKEN", SECRET)
        async with running(settings) as runtime:
            environment = psutil.Process(runtime.pid).environ()
            assert SECRET not in environment.values()
            assert environment["CODEX_HOME"] == environment["HOME"] == str(settings.home)
        assert settings.home.stat().st_mode & 0o077 == 0
        assert not psutil.pid_exists(runtime.pid)

    async def test_a_hung_runtime_is_named_and_killed(
        self, settings: CodexSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running(settings) as runtime:
            monkeypatch.setattr(codex_process, "ANSWER_DEADLINE", 0.5)
            psutil.Process(runtime.pid).suspend()
            with pytest.raises(TimedOut, match=f"process {runtime.pid}"):
                await runtime.ask("account/read")
            began = time.monotonic()
        assert time.monotonic() - began < 4
        await until(lambda: not psutil.pid_exists(runtime.pid))

    async def test_without_the_package(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setitem(sys.modules, "codex_cli_bin", None)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(NotConfigured, match=r"nbinline-rtc\[codex\]"):
            async with running(CodexSettings(tmp_path)):
                pass


@pytest.mark.parametrize("extra", [{"codex_sandbox": "read-only"}])
async def test_its_own_shell_only_if_the_administrator_wants_it(
    asker: Asker, settings: CodexSettings
) -> None:
    async with stopping(asker.ydoc):
        await sign_in(settings)
        asker.write(asker.vendor.prompt("Go.", text="Yes."))
        run = await asker.ended(await asker.ask(override=OVERRIDE))
        assert run["status"] == "done"
        [sent] = await asker.vendor.requests()
        names = {tool.get("name") for tool in sent["body"]["tools"]}
        assert names & {"shell", "shell_command", "exec_command", "local_shell"}
