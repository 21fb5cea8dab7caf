"""Commands that read notebooks: the file as it is, the live document where a server has it open."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import nbinline_rtc
from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.execution import execution_tools
from nbinline_rtc.toolset import server_tools
from tests.extension.command_line import Shell
from tests.extension.server_process import server_in

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    """These tests have no server in this process."""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder with two notebooks, and no server."""
    folder = tmp_path / "work"
    (folder / "more").mkdir(parents=True)
    (folder / "a.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    (folder / "more" / "b.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    return Shell(folder, tmp_path / "home")


def notebook() -> dict[str, Any]:
    cells = [
        {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "# Title\n\nSome text."},
        {
            "cell_type": "code",
            "id": "c",
            "metadata": {},
            "source": ["x = 1\n", "### BEGIN SOLUTION\n", "x = 42\n", "### END SOLUTION\n"],
            "execution_count": 3,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "line\n" * 100}],
        },
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


async def test_a_file_as_text(shell: Shell) -> None:
    plain = await shell.run("text", "a.ipynb")
    assert plain.returncode == 0
    assert plain.stdout.startswith("# a.ipynb: 2 cells\n")
    assert "[80 lines left out]" in plain.stdout
    assert "x = 42" not in plain.stdout
    assert "x = 42" in (await shell.run("text", "a.ipynb", "--show-hidden")).stdout
    told = await shell.json("text", "a.ipynb", "--budget", "60", "--tokenizer", "estimate:4")
    assert told["tokens"] <= 60
    assert told["mode"] == "token-budget"
    assert told["from"] == "file"
    assert told["tokenizer"] == "estimate of 4 bytes a token"
    assert told["left_out"][0] == {"part": "outputs", "gone": [2], "shortened": []}
    focused = await shell.json("text", "a.ipynb", "--budget", "150", "--focus", "c")
    assert "x = 1" in focused["text"]
    for mode in ("minimal", "standard", "full"):
        assert (await shell.json("text", "a.ipynb", "--mode", mode))["budget"] is None


async def test_cells_are_listed_found_and_printed(shell: Shell) -> None:
    told = await shell.json("inspect", "a.ipynb")
    assert [cell["id"] for cell in told["cells"]] == ["m", "c"]
    assert told["cells"][0]["headings"] == ["# Title"]
    assert told["cells"][1]["outputs"] == ["line [99 more lines left out]"]
    assert "In [3]" in (await shell.run("inspect", "a.ipynb")).stdout

    found = await shell.run("search", "SOME", ".")
    assert found.stdout.splitlines() == [
        "a.ipynb:1:source:3: Some text.",
        "more/b.ipynb:1:source:3: Some text.",
    ]
    assert (await shell.run("search", "SOME", "a.ipynb", "--case")).returncode == 1
    outputs = await shell.json("search", "^li.e$", "a.ipynb", "--regex", "--outputs")
    assert len(outputs["hits"]) == 100

    assert (await shell.run("get", "a.ipynb", "1")).stdout == "# Title\n\nSome text.\n"
    [cell] = (await shell.json("get", "a.ipynb", "c"))["cells"]
    assert cell["outputs"][0]["text"] == "line\n" * 100
    assert "# outputs\nline" in (await shell.run("get", "a.ipynb", "c", "--outputs", "full")).stdout


async def test_tokens_are_counted_cell_by_cell(shell: Shell) -> None:
    told = await shell.json("tokens", "a.ipynb", "--breakdown", "--tokenizer", "characters")
    assert told["tokens"]["minimal"] < told["tokens"]["standard"] < told["tokens"]["full"]
    assert told["cells"][1]["outputs"] == len("line\n" * 100) - 1
    assert told["cells"][1]["outputs_summarized"] < 150
    text = (await shell.run("tokens", "a.ipynb", "--breakdown")).stdout
    assert text.index("cell 2") < text.index("cell 1")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["text", "none.ipynb"], 3, "There is no file none.ipynb."),
        (["get", "a.ipynb", "zz"], 3, "There is no cell 'zz' in a.ipynb. inspect lists them."),
        (["text", "a.ipynb", "--tokenizer", "zz"], 2, "There is no tokenizer 'zz'."),
        (["text", "a.ipynb", "--budget", "5", "--mode", "full"], 2, "--budget belongs to"),
        (["search", "(", "a.ipynb", "--regex"], 2, "That is no regular expression"),
        (["text", "a.ipynb", "--url", "http://127.0.0.1:9"], 5, "No server answers at"),
        (["text", "a.ipynb", "--url", "file:///x"], 2, "is not the address"),
        (["text", "a.ipynb", "--token-file", "none"], 0, ""),
        (["text", "a.ipynb", "--budget", "0"], 2, "must be 1 at least"),
        (["get"], 2, "usage:"),
    ],
)
async def test_exit_codes(shell: Shell, words: list[str], code: int, sentence: str) -> None:
    ended = await shell.run(*words)
    assert (ended.returncode, ended.stderr.count("Traceback")) == (code, 0), ended.stderr
    assert sentence in ended.stderr


async def test_what_is_no_notebook_is_said_to_be_none(shell: Shell) -> None:
    for data in (b"", b"[1]", b"{}", b'{"cells": 3}', b"\xff\xfe", b"[" * 100_000):
        (shell.folder / "bad.ipynb").write_bytes(data)
        ended = await shell.run("text", "bad.ipynb")
        assert (ended.returncode, "not a notebook" in ended.stderr) == (1, True), data[:10]
    surrogate = json.dumps(notebook()).replace("Some", "\\ud800")
    (shell.folder / "bad.ipynb").write_text(surrogate)
    assert (await shell.run("text", "bad.ipynb")).returncode == 0


async def test_long_lines_stay_whole_in_a_pipe_and_a_closed_pipe_is_no_error(shell: Shell) -> None:
    found = notebook()
    found["cells"] = [
        {"cell_type": "raw", "id": f"r{n}", "metadata": {}, "source": f"{n} " + "word " * 1_000}
        for n in range(300)
    ]
    (shell.folder / "long.ipynb").write_text(json.dumps(found))
    lines = (await shell.run("inspect", "long.ipynb", COLUMNS="40")).stdout.splitlines()
    assert all(len(line) > 5_000 for line in lines[1:])
    reader = "| head -1; echo ${PIPESTATUS[0]}"
    with anyio.fail_after(60):
        ended = await anyio.run_process(
            ["bash", "-c", f"{sys.executable} -m nbinline_rtc.cli inspect long.ipynb {reader}"],
            cwd=shell.folder,
            env=shell.environment,
            check=False,
        )
    assert ended.stderr == b""
    assert ended.stdout.splitlines()[-1] == b"0"


async def test_the_live_document_is_read_where_a_server_has_it_open(
    tmp_path: Path, open_page: Callable[[], Any]
) -> None:
    async with server_in(tmp_path) as server, open_page() as page:
        file = server.root / "a.ipynb"
        file.write_text(json.dumps(notebook()), encoding="utf-8")
        await server.start(save_delay=60)
        shell = Shell(server.root, tmp_path)
        # Nobody has it open: looking does not open it either.
        assert (await shell.json("inspect", "a.ipynb"))["from"] == "file"
        assert (await server.request("GET", "nbinline/notebook?path=a.ipynb"))["open"] is False

        await page.do("join", url=await server.room_url())
        await page.do("type", text=" typed now")
        live = await shell.json("get", "a.ipynb", "m")
        assert live["from"] == "live"
        assert "typed now" in live["cells"][0]["source"]
        saved = await shell.json("get", "a.ipynb", "m", "--saved")
        assert (saved["from"], "typed now" in saved["cells"][0]["source"]) == ("file", False)
        assert "x = 42" not in (await shell.run("text", "a.ipynb")).stdout
        hits = await shell.json("search", "typed", str(server.root))
        assert [hit["from"] for hit in hits["hits"]] == ["live"]

        # By address, as from another machine: only what is open there.
        away = Shell(tmp_path, tmp_path / "elsewhere")
        url = ("--url", server.url(""))
        assert (await away.json("inspect", "a.ipynb", *url))["from"] == "live"
        (server.root / "b.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
        assert (await away.run("text", "b.ipynb", *url)).returncode == 3
        assert (await away.run("text", "none.ipynb", *url)).returncode == 3
        # A server that is gone but whose file is still there is no server.
        await server.kill()
        assert (await shell.json("inspect", "a.ipynb"))["from"] == "file"
        assert os.listdir(tmp_path / "runtime")


SKILL = (Path(nbinline_rtc.__file__).parent / "skill" / "SKILL.md").read_text(encoding="utf-8")
SHELL_LINES = re.search("```sh\n(.*?)```", SKILL, re.DOTALL)[1].splitlines()


@pytest.mark.parametrize("line", SHELL_LINES)
async def test_what_the_skill_tells_to_type_works(shell: Shell, line: str) -> None:
    (shell.folder / "a.ipynb").rename(shell.folder / "notebook.ipynb")
    ended = await shell.run(*shlex.split(line)[2:])
    assert (ended.returncode, ended.stderr) == (0, ""), line
    assert ended.stdout


def test_the_skill_names_tools_that_are_there() -> None:
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", SKILL)) - {"expected_source"}
    offered = {tool.name for tool in (*cell_tools(), *execution_tools(), *server_tools())}
    assert named
    assert named <= offered
