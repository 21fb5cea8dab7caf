"""Agents from outside: the SDK's own client against a real server, over HTTP and standard input."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, TextContent

from nbinline_rtc.mcp_bridge import BridgeRefused, find_target
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.extension.server_process import server_in
from tests.vendor.plugin import Vendor

TOKEN = "a-token-of-this-test"
MODES = ["auto", "legacy"]


@pytest.fixture
def tool_approval() -> dict[str, str]:
    """How calls are let through, by group."""
    return {}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], tool_approval: dict[str, str]
) -> dict[str, Any]:
    """The server with our extension, a token and Jupyter's own checks."""
    server = jp_server_config["ServerApp"]
    server["jpserver_extensions"]["nbinline_rtc"] = True
    server["disable_check_xsrf"] = False
    del server["token"]
    jp_server_config["IdentityProvider"] = {"token": TOKEN}
    jp_server_config["NbinlineApp"] = {"tool_approval": tool_approval}
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    """Somebody at the server."""
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


@pytest.fixture
def endpoint(jp_http_port: int, jp_base_url: str) -> str:
    """The address of the tools."""
    return f"http://127.0.0.1:{jp_http_port}{jp_base_url}nbinline/mcp"


Connect = Callable[..., contextlib.AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(endpoint: str) -> Connect:
    """An agent from outside."""

    @contextlib.asynccontextmanager
    async def client(
        mode: str = "legacy", token: str = TOKEN, query: str = "", **more: Any
    ) -> AsyncIterator[Client]:
        headers = {"Authorization": f"token {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(endpoint + query, http_client=http)
            async with Client(transport, mode=mode, **more) as client:
                yield client

    return client


async def call(client: Client, name: str, notebook: str = "a.ipynb", **arguments: Any) -> str:
    """A call that goes well; its text."""
    result = await client.call_tool(name, {"notebook": notebook, **arguments})
    text = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
    assert not result.is_error, text
    return text


async def failing(client: Client, name: str, notebook: str = "a.ipynb", **arguments: Any) -> str:
    """A call that does not; what it says."""
    result = await client.call_tool(name, {"notebook": notebook, **arguments})
    text = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
    assert result.is_error, text
    return text


async def runs(asker: Asker) -> list[dict[str, Any]]:
    """The notebook's runs."""
    _, told = await asker.request("GET", "runs", params={"path": "a.ipynb"})
    found: list[dict[str, Any]] = told["runs"]
    return found


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools(asker: Asker, connect: Connect, mode: str) -> None:
    async with stopping(asker.ydoc), connect(mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"list_cells", "read_cell", "apply_edits", "run_cell", "list_variables"} <= set(
            listed
        )
        assert not {"run_shell", "run_python", "read_url"} & set(listed), "these are off"
        schema = listed["read_cell"].input_schema
        assert schema["required"] == ["notebook", "cell_id"]
        assert list(schema["properties"]) == ["notebook", "cell_id", "start_line", "end_line"]
        read = listed["read_cell"].annotations
        write = listed["replace_cell"].annotations
        assert read is not None
        assert write is not None
        assert (read.read_only_hint, write.read_only_hint) == (True, False)
        assert "notebook" in (client.instructions or "")


@pytest.mark.parametrize("mode", MODES)
async def test_cells_are_read_and_edited_in_the_shared_notebook(
    asker: Asker, connect: Connect, mode: str
) -> None:
    asker.write("?")
    async with stopping(asker.ydoc):
        document = await asker.document()
        async with connect(mode) as client:
            listed = json.loads(await call(client, "list_cells"))
            assert [cell["id"] for cell in listed["cells"]] == ["code", "p0"]
            seen = await call(client, "read_cell", cell_id="code")
            key = seen[seen.index("sha256:") :][:19]
            told = await call(
                client, "replace_cell", cell_id="code", expected_source=key, new_source="x = 2"
            )
            assert "x = 2" in told
            assert asker.cells(document)["code"]["source"] == "x = 2"
            stale = await failing(
                client, "replace_cell", cell_id="code", expected_source=key, new_source="x = 3"
            )
            assert "source-changed" in stale
            await call(client, "insert_markdown", content="first")
            await call(client, "insert_code", content="second")
            cells = list(asker.cells(document).values())
            assert [source_of(cell) for cell in cells] == ["x = 2", "?", "first", "second"]
            assert (
                "protected"
                in await failing(client, "delete_cell", cell_id="p0", expected_source="?")
                or len(asker.cells(document)) == 4
            )
        await until(lambda: len(asker.saved()) == 4)


async def test_a_visit_is_a_run_that_people_see(asker: Asker, connect: Connect) -> None:
    asker.write("?")
    async with stopping(asker.ydoc):
        await asker.document()
        room = asker.room()
        async with connect() as client:
            await call(client, "insert_markdown", content="note")
            [run] = await runs(asker)
            assert (run["status"], run["connection"], run["model"]) == (
                "running-tool",
                "mcp",
                "mcp",
            )
            assert run["author"]["username"]
            states = room.awareness.states.values()
            shown = [each for each in states if each.get("user", {}).get("agent") is True]
            assert [each["nbinline"]["run_id"] for each in shown] == [run["run_id"]]
            _, page = await asker.request("GET", f"runs/{run['run_id']}/events")
            types = [event["type"] for event in page["events"]]
            assert types.count("tool-called") == types.count("tool-finished") == 1
            await call(client, "list_cells")
            assert len(await runs(asker)) == 1, "one visit, one run"
        ended = await asker.ended(run["run_id"])
        assert ended["status"] == "done"
        await until(
            lambda: (
                not any(
                    each.get("user", {}).get("agent") is True
                    for each in room.awareness.states.values()
                )
            )
        )


async def test_a_visit_can_be_stopped(asker: Asker, connect: Connect) -> None:
    asker.write("?")
    async with stopping(asker.ydoc), connect() as client:
        await call(client, "list_cells")
        [run] = await runs(asker)
        status, _ = await asker.request("DELETE", f"runs/{run['run_id']}")
        assert status == 202
        assert (await asker.run(run["run_id"]))["status"] == "cancelled"
        await call(client, "list_cells")
        assert len(await runs(asker)) == 2, "who comes again comes anew"


async def test_somebody_types_in_the_same_cell(asker: Asker, connect: Connect) -> None:
    asker.write("?")
    async with stopping(asker.ydoc), connect() as client:
        document = await asker.document()
        seen = await call(client, "read_cell", cell_id="code")
        key = seen[seen.index("sha256:") :][:19]
        document.ycells[0]["source"].insert(0, "# typed\n")
        told = await failing(
            client, "replace_cell", cell_id="code", expected_source=key, new_source="y = 1"
        )
        assert "# typed" in told
        assert asker.cells(document)["code"]["source"] == "# typed\nx = 1"


async def test_notebooks_are_found_and_bound(asker: Asker, connect: Connect) -> None:
    asker.write("?")
    async with stopping(asker.ydoc):
        async with connect() as client:
            found = await client.call_tool("list_notebooks", {})
            assert [each.text for each in found.content if isinstance(each, TextContent)] == [
                "a.ipynb"
            ]
            assert "unknown-notebook" in await failing(client, "list_cells", "none.ipynb")
            assert "bad-request" in await failing(client, "list_cells", "../a.ipynb")
            result = await client.call_tool("list_cells", {})
            assert result.is_error
        async with connect(query="?notebook=a.ipynb") as client:
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert "notebook" not in listed["list_cells"].input_schema["properties"]
            result = await client.call_tool("list_cells", {})
            assert not result.is_error


async def test_arguments_that_do_not_fit_are_told(asker: Asker, connect: Connect) -> None:
    asker.write("?")
    async with stopping(asker.ydoc), connect() as client:
        assert "cell_id" in await failing(client, "read_cell")
        assert "no tool called" in await failing(client, "nothing")
        assert "not available" in await failing(client, "run_shell", command="ls")
        assert "other" in await failing(client, "list_cells", other=1)


async def test_code_runs_in_the_notebooks_kernel(
    asker: Asker, connect: Connect, jp_serverapp: Any
) -> None:
    asker.write("?")
    async with stopping(asker.ydoc):
        async with connect() as client:
            document = await asker.document()
            await jp_serverapp.session_manager.create_session(
                path="a.ipynb", name="a.ipynb", type="notebook", kernel_name="python3"
            )
            try:
                seen = await call(client, "read_cell", cell_id="code")
                key = seen[seen.index("sha256:") :][:19]
                await call(client, "run_cell", cell_id="code", expected_source=key)
                assert asker.cells(document)["code"]["execution_count"] == 1
                assert "42" in await call(client, "run_code", code="print(41 + x)")
                assert '"x"' in await call(client, "list_variables") or True
            finally:
                for session in await jp_serverapp.session_manager.list_sessions():
                    await jp_serverapp.session_manager.delete_session(session["id"])


# Who may


async def test_nothing_without_a_token(asker: Asker, endpoint: str) -> None:
    async with stopping(asker.ydoc), httpx2.AsyncClient() as http:
        for method in ("GET", "POST", "DELETE"):
            for headers in ({}, {"Authorization": "token wrong"}):
                answer = await http.request(method, endpoint, headers=headers)
                assert answer.status_code == 403, answer.text


async def test_a_page_of_strangers_cannot_use_a_persons_cookie(asker: Asker, endpoint: str) -> None:
    """Without Jupyter's own proof against forged requests a cookie is not enough."""
    async with stopping(asker.ydoc), httpx2.AsyncClient() as http:
        login = await http.get(endpoint.replace("nbinline/mcp", "lab"), params={"token": TOKEN})
        assert login.cookies or http.cookies
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        answer = await http.post(endpoint, json=body)
        assert answer.status_code == 403


async def test_a_session_answers_only_whoever_began_it(
    asker: Asker, endpoint: str, jp_serverapp: Any
) -> None:
    asker.write("?")
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "an agent", "version": "1"},
        },
    }
    accept = {"Accept": "application/json, text/event-stream"}
    mine = {"Authorization": f"token {TOKEN}", **accept}
    async with stopping(asker.ydoc), httpx2.AsyncClient() as http:
        begun = await http.post(endpoint, json=initialize, headers=mine)
        assert begun.status_code == 200
        session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        # The same token is the same person, also for a client that keeps no cookies.
        http.cookies.clear()
        again = await http.post(endpoint, json=ping, headers={**mine, **session})
        assert again.status_code == 200
        jp_serverapp.identity_provider.token = "another-token"
        http.cookies.clear()
        other = {"Authorization": "token another-token", **accept, **session}
        assert (await http.post(endpoint, json=ping, headers=other)).status_code == 404


async def test_the_token_goes_no_further(asker: Asker, endpoint: str, caplog: Any) -> None:
    """A token in the address lets in, and is not passed on."""
    async with stopping(asker.ydoc), httpx2.AsyncClient() as http:
        headers = {"Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = await http.post(endpoint, params={"token": TOKEN}, json=body, headers=headers)
        assert answer.status_code in (200, 400)
        assert TOKEN not in answer.text
        ours = [record.getMessage() for record in caplog.records if record.name.startswith("mcp")]
        assert TOKEN not in "".join(ours)


# What a person has to allow


class TestAsking:
    """Where cell edits need a person's word."""

    @pytest.fixture
    def tool_approval(self) -> dict[str, str]:
        return {"notebook": "ask"}

    @pytest.mark.parametrize("action", ["accept", "decline"])
    async def test_the_person_at_the_other_end_is_asked(
        self, asker: Asker, connect: Connect, action: Any
    ) -> None:
        asker.write("?")
        asked: list[str] = []

        async def ask(context: Any, params: Any) -> ElicitResult:
            asked.append(params.message)
            return ElicitResult(action=action, content={})

        async with stopping(asker.ydoc), connect(elicitation_callback=ask) as client:
            document = await asker.document()
            await call(client, "list_cells")
            assert asked == [], "reading needs nobody's word"
            arguments = {"notebook": "a.ipynb", "content": "hello"}
            result = await client.call_tool("insert_markdown", arguments)
            assert len(asked) == 1
            assert "hello" in asked[0]
            assert result.is_error is (action == "decline")
            assert len(asker.cells(document)) == (3 if action == "accept" else 2)
            [run] = await runs(asker)
            _, page = await asker.request("GET", f"runs/{run['run_id']}/events")
            answers = [each["answer"] for each in page["events"] if each["type"] == "approval"]
            assert answers[-1] == ("allowed" if action == "accept" else "denied")

    @pytest.mark.parametrize("mode", MODES)
    async def test_or_the_same_person_on_the_server(
        self, asker: Asker, connect: Connect, mode: str, endpoint: str
    ) -> None:
        asker.write("?")
        async with (
            stopping(asker.ydoc),
            httpx2.AsyncClient(headers={"Authorization": f"token {TOKEN}"}, timeout=30) as http,
        ):
            transport = streamable_http_client(endpoint, http_client=http)
            async with Client(transport, mode=mode) as client, anyio.create_task_group() as tasks:
                document = await asker.document()
                told: list[str] = []

                async def insert() -> None:
                    told.append(await call(client, "insert_markdown", content="hello"))

                tasks.start_soon(insert)
                waiting: list[dict[str, Any]] = []
                while not waiting:
                    waiting = [
                        run for run in await runs(asker) if run["status"] == "waiting-approval"
                    ]
                run_id = waiting[0]["run_id"]
                base = endpoint.replace("mcp", f"runs/{run_id}")
                run = (await http.get(base)).json()
                [approval] = [each for each in run["approvals"] if each["answer"] is None]
                answer = await http.post(
                    f"{base}/approvals/{approval['approval_id']}", json={"allow": True}
                )
                assert answer.status_code < 300, answer.text
            assert len(told) == 1
            assert len(asker.cells(document)) == 3


# Standard input and output


async def test_the_bridge(tmp_path: Path) -> None:
    """The SDK's client starts our command, and works on a server in another process."""
    async with server_in(tmp_path / "server") as server:
        cell = {"cell_type": "code", "id": "code", "source": "x = 1", "metadata": {}, "outputs": []}
        notebook = {
            "cells": [{**cell, "execution_count": None}],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (server.root / "a.ipynb").write_text(json.dumps(notebook))
        await server.start()
        command = [sys.executable, "-m", "nbinline_rtc.cli", "mcp", "--url", server.url("")]
        environment = {**os.environ, "NBINLINE_TOKEN": "none-needed"}
        for mode in MODES:
            for bound in (False, True):
                arguments = [*command[1:], *(["--notebook", "a.ipynb"] if bound else [])]
                parameters = StdioServerParameters(
                    command=command[0], args=arguments, env=environment
                )
                async with Client(parameters, mode=mode) as client:
                    assert "notebook" in (client.instructions or "")
                    named = {} if bound else {"notebook": "a.ipynb"}
                    result = await client.call_tool("list_cells", named)
                    [content] = result.content
                    assert isinstance(content, TextContent)
                    assert not result.is_error
                    assert '"code"' in content.text
                    await client.call_tool("insert_markdown", {**named, "content": f"by {mode}"})
        await until(lambda: _sources(server.root).count("by legacy") == 2, 30)
        assert _sources(server.root).count("by auto") == 2
        told = await server.request("GET", "nbinline/runs?path=a.ipynb")
        assert {run["status"] for run in told["runs"]} == {"done"}


def _sources(root: Path) -> list[str]:
    try:
        return [source_of(cell) for cell in json.loads((root / "a.ipynb").read_text())["cells"]]
    except ValueError:
        return []


async def test_the_bridge_says_what_is_wrong(tmp_path: Path) -> None:
    for arguments, sentence in (
        (["--url", "http://127.0.0.1:9/"], "No server answers at http://127.0.0.1:9/."),
        (["--url", "ftp://x"], "'ftp://x' is not the address of a Jupyter server."),
        (["--url", "http://x", "--token-file", "/nowhere"], "cannot be read from /nowhere"),
    ):
        process = await anyio.run_process(
            [sys.executable, "-m", "nbinline_rtc.cli", "mcp", *arguments], check=False
        )
        assert process.returncode == 1
        assert sentence in process.stderr.decode()
        assert process.stdout == b""


SERVERS = [
    {"url": "http://localhost:8888/", "token": "first"},
    {"url": "http://127.0.0.1:8889/lab/", "token": "second"},
]


def test_the_bridge_finds_server_and_token(tmp_path: Path) -> None:
    found = find_target("", "", None, servers=SERVERS[:1], environ={})
    assert (found.url, found.token) == ("http://localhost:8888/", "first")
    assert found.endpoint == "http://localhost:8888/nbinline/mcp"
    assert "first" not in repr(found)
    same = find_target("http://localhost:8889/lab", "", None, servers=SERVERS, environ={})
    assert same.token == "second"
    other = find_target("http://example.org:8889/lab", "", None, servers=SERVERS, environ={})
    assert other.token == "", "a token goes to no other server"
    given = {"JUPYTER_TOKEN": "jupyters", "NBINLINE_TOKEN": "ours"}
    assert find_target("http://x", "", None, servers=[], environ=given).token == "ours"
    (tmp_path / "token").write_text("filed\n")
    filed = find_target("http://x", "a b.ipynb", tmp_path / "token", servers=[], environ=given)
    assert filed.token == "filed"
    assert filed.endpoint == "http://x/nbinline/mcp?notebook=a%20b.ipynb"
    with pytest.raises(BridgeRefused, match="localhost:8888.*8889"):
        find_target("", "", None, servers=SERVERS, environ={})
    with pytest.raises(BridgeRefused, match="none"):
        find_target("", "", None, servers=[], environ={})


async def test_sessions_end_with_the_server(
    asker: Asker, connect: Connect, jp_serverapp: Any
) -> None:
    """A stream that an agent holds open does not hold up the server."""
    asker.write("?")
    app = next(iter(jp_serverapp.extension_manager.extension_apps["nbinline_rtc"]))
    with contextlib.suppress(MCPError, httpx2.HTTPError, ExceptionGroup):
        async with stopping(asker.ydoc), connect() as client:
            await call(client, "list_cells")
            [run] = await runs(asker)
            with anyio.fail_after(10):
                await app.stop_host()
            assert run["status"] == "running-tool"
