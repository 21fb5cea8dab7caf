"""Running code and commands as tools: bounds, groups, and an environment without secrets."""

import os
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from nbinline_agent.tools.base import ToolError
from nbinline_agent.tools.modes import DEFAULT_MODES, Mode, mode_of
from nbinline_rtc.toolset import server_tools
from nbinline_rtc.toolset.processes import MAX_OUTPUT, run, scrubbed_environment
from tests.extension.conftest import until
from tests.extension.toolcalls import Calls, Context


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "course").mkdir()
    return tmp_path


@pytest.fixture
def call(root: Path) -> Calls:
    return Calls(server_tools(), Context(root))


async def test_code_runs_in_the_notebooks_folder(call: Calls, root: Path) -> None:
    told = await call("run_python", code="import os, sys; print(os.getcwd()); sys.exit(3)")
    assert told == f"Exit code 3. Output:\n{root / 'course'}"
    told = await call("run_shell", command="echo out; echo err >&2; pwd", cwd="..")
    assert told == f"Exit code 0. Output:\nout\nerr\n{root}"
    assert "SIGKILL" not in told
    assert "Ended by signal 9" in await call("run_shell", command="kill -9 $$")
    with pytest.raises(ToolError, match="outside"):
        await call("run_shell", command="pwd", cwd="/etc")


async def test_nothing_is_read_from_the_input(call: Calls) -> None:
    assert await call("run_shell", command="cat; echo done") == "Exit code 0. Output:\ndone"


async def test_time_is_bounded_and_the_group_killed(call: Calls, root: Path) -> None:
    began = time.monotonic()
    command = f"sleep 60 & echo $! > {root}/pid; echo started; sleep 60"
    told = await call("run_shell", command=command, timeout=1)
    assert "Stopped after 1 seconds" in told
    assert "started" in told
    assert time.monotonic() - began < 10
    pid = int((root / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_what_a_finished_command_left_behind_is_killed(call: Calls, root: Path) -> None:
    command = f"sleep 60 & echo $! > {root}/pid; echo done"
    began = time.monotonic()
    assert "done" in await call("run_shell", command=command, timeout=20)
    assert time.monotonic() - began < 10
    pid = int((root / "pid").read_text())
    await until(lambda: not alive(pid))


async def test_who_leaves_the_group_does_not_hold_up_the_call(call: Calls, root: Path) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(root / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(20)\n"
        "else:\n"
        "    print('parent')\n"
    )
    began = time.monotonic()
    assert "parent" in await call("run_python", code=code)
    assert time.monotonic() - began < 10
    await until(lambda: (root / "pid").exists() and (root / "pid").read_text() != "")
    os.kill(int((root / "pid").read_text()), 9)


async def test_cancelling_kills(call: Calls, root: Path) -> None:
    with anyio.move_on_after(30):
        async with anyio.create_task_group() as tasks:
            command = f"echo $$ > {root}/pid; sleep 60"
            tasks.start_soon(lambda: call("run_shell", command=command, timeout=20))
            await until(lambda: (root / "pid").exists() and (root / "pid").read_text() != "")
            tasks.cancel_scope.cancel()
    pid = int((root / "pid").read_text())
    await until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def test_output_is_bounded(root: Path) -> None:
    code = f"import sys; sys.stdout.write('x' * {MAX_OUTPUT + 500_000}); print('end')"
    finished = await run([sys.executable, "-c", code], cwd=root, timeout=20)
    assert len(finished.output) == MAX_OUTPUT
    assert finished.left_out == 500_004
    assert finished.code == 0
    assert "500,004 more bytes" in finished.text


async def test_arguments_are_bounded(call: Calls) -> None:
    for wrong in ({"timeout": 0}, {"timeout": 21}, {"code": "x" * 8_001}, {"code": ""}):
        with pytest.raises(ValidationError):
            await call("run_python", **{"code": "1", **wrong})


async def test_the_environment_holds_no_secrets(
    call: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "OPENAI_API_KEY": "s1",
        "ANTHROPIC_AUTH_TOKEN": "s2",
        "JUPYTERHUB_API_TOKEN": "s3",
        "AWS_SECRET_ACCESS_KEY": "s4",
        "PGPASSWORD": "s5",
        "DATABASE_URL": "postgres://u:s6@h/d",
        "MY_CREDENTIALS": "s7",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, f"sentinel-{value}")
    monkeypatch.setenv("COURSE_NAME", "physics")
    told = await call("run_shell", command="env")
    assert "sentinel" not in told
    assert "COURSE_NAME=physics" in told
    assert "PATH=" in told
    assert not set(secrets) & set(scrubbed_environment())


def test_they_are_off_unless_somebody_switches_them_on() -> None:
    tools = {tool.name: tool for tool in server_tools()}
    for name in ("run_python", "run_shell", "tmux_sessions", "tmux_read"):
        assert mode_of(tools[name], DEFAULT_MODES) is Mode.OFF
    for name in ("read_url", "read_url_section", "url_to_note"):
        assert mode_of(tools[name], DEFAULT_MODES) is Mode.OFF
    assert mode_of(tools["view_file"], DEFAULT_MODES) is Mode.AUTO


async def test_what_would_run_is_shown_to_whoever_allows_it(call: Calls) -> None:
    assert (await call.preview("run_shell", command="rm -rf x")).code == "rm -rf x"
    assert (await call.preview("run_python", code="1 + 1")).code == "1 + 1"


TMUX = """#!/bin/sh
# Answers as tmux does, for panes of a test.
case "$1" in
  list-panes) echo "%3 work:0.0 python" ;;
  capture-pane) [ "$5" = "%3" ] || { echo "can't find pane" >&2; exit 1; }; seq 1 60; echo ;;
esac
"""


async def test_tmux(call: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ToolError, match="not installed"):
        await call("tmux_sessions")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "tmux"
    program.write_text(TMUX)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.defpath}")
    assert await call("tmux_sessions") == "%3 work:0.0 python"
    assert (await call("tmux_read", pane="%3", lines=2)).split() == ["59", "60"]
    with pytest.raises(ToolError, match="can't find pane"):
        await call("tmux_read", pane="%4")
    for wrong in ({"pane": "work"}, {"pane": "%3", "lines": 101}, {"pane": "%3; rm"}):
        with pytest.raises(ValidationError):
            await call("tmux_read", **wrong)


async def test_skills_are_read_without_importing(
    call: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    package = site / "teach" / "inner"
    package.mkdir(parents=True)
    (site / "teach" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "plots.py").write_text(
        '"""Plot well.\n\nAlways label axes.\n"""\nraise SystemExit\n'
    )
    info = site / "teach-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: teach\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pyskills]\nplots = teach.inner.plots\n")
    monkeypatch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}")
    assert "plots  teach.inner.plots  Plot well." in await call("list_skills")
    assert "plots" in await call("list_skills", query="PLOT WELL")
    assert "No installed package" in await call("list_skills", query="nowhere")
    assert "Always label axes." in await call("read_skill", module="teach.inner.plots")
    assert "Always label axes." in await call("read_skill", module="plots")
    with pytest.raises(ToolError, match="offers a skill 'os'"):
        await call("read_skill", module="os")


def test_a_job_starts_quickly() -> None:
    began = time.monotonic()
    command = [sys.executable, "-P", "-X", "importtime", "-c", "import nbinline_rtc.jobs.searching"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    heavy = [name for name in ("pydantic", "tornado", "pycrdt", "httpx2") if f" {name}\n" in told]
    assert heavy == []
    assert time.monotonic() - began < 30
