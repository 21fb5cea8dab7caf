"""``nbinline_rtc.tools`` as people use it: imports, catalog, declarations, calls, notes."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import nbinline_rtc.tools
from nbinline_agent.context.references import MAX_NAMES, declared, find
from nbinline_agent.document.notebook import Cell
from nbinline_agent.ids import CellId, NotebookPath
from nbinline_agent.tools.base import ToolError
from nbinline_agent.tools.catalog import DECLARED, GROUPS
from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.inspect import inspect_tools
from nbinline_agent.tools.schema import compact
from nbinline_rtc.handlers import ROUTES
from nbinline_rtc.kernels import KernelsOfServer
from nbinline_rtc.notes import asked_for
from nbinline_rtc.tools import insert_tools, tool_catalog, tools_markdown, view_file
from nbinline_rtc.tools.declaring import MOST
from nbinline_rtc.toolset import server_tools
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

TYPES = {str: "string", int: "integer", bool: "boolean", list[str]: "array"}


def test_every_declared_tool_exists_with_the_same_arguments() -> None:
    tools = {tool.name: tool for tool in (*cell_tools(), *inspect_tools(), *server_tools())}
    assert set(DECLARED) <= set(tools)
    for name, function in DECLARED.items():
        schema = compact(tools[name].arguments.model_json_schema())
        fields: Any = schema.get("properties", {})
        parameters = inspect.signature(function, eval_str=True).parameters
        assert list(fields) == list(parameters), name
        required = [key for key, each in parameters.items() if each.default is each.empty]
        assert sorted(required) == sorted(schema.get("required", [])), name  # type: ignore[type-var,arg-type]
        for key, each in parameters.items():
            kind = fields[key].get("type", "string" if "enum" in fields[key] else None)
            assert kind == TYPES[each.annotation], f"{name}.{key}"
            if each.default is not each.empty:
                assert fields[key]["default"] == each.default, f"{name}.{key}"


def test_every_name_can_be_imported_and_keeps_its_signature() -> None:
    for name, function in DECLARED.items():
        ours = getattr(nbinline_rtc.tools, name)
        assert inspect.signature(ours) == inspect.signature(function)
        assert ours.__doc__ == function.__doc__
        assert name in nbinline_rtc.tools.__all__


def test_importing_starts_nothing_and_reads_little() -> None:
    script = (
        "import sys, threading\n"
        "import nbinline_rtc.tools\n"
        "heavy = {'pydantic', 'tornado', 'jupyter_server', 'pycrdt', 'httpx2', 'openai', 'anyio'}\n"
        "print(sorted(heavy & set(sys.modules)), threading.active_count())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout == "[] 1\n"


def test_the_catalog_declares_nothing() -> None:
    everything = tool_catalog()
    assert "view_file(path: str, start_line: int = 1, end_line: int = 40)" in everything
    assert "run_cell(" in everything
    assert all(f"\n{name}(" in f"\n{everything}" for name in DECLARED)
    assert find(everything) == []
    web = tool_catalog("web")
    assert [line.split("(")[0] for line in web.split("\n")[::2]] == list(GROUPS["web"])
    with pytest.raises(ValueError, match="the groups are starter"):
        tool_catalog("nothing")


def offered(markdown: str) -> list[str]:
    note = Cell(CellId("note"), "markdown", markdown)
    question = Cell(CellId("q"), "markdown", "?", {"nbinlineai": {"isPromptCell": True}})
    return list(declared([note, question], 1).offered)


def test_notes_declare() -> None:
    assert offered(tools_markdown()) == list(GROUPS["starter"])
    for group, names in GROUPS.items():
        assert offered(tools_markdown(group=group)) == list(names)
    assert offered(tools_markdown(["read_cell", view_file])) == ["read_cell", "view_file"]
    assert offered(tools_markdown("read_cell")) == ["read_cell"]

    def add_bonus(value: int) -> int:
        return value

    own = tools_markdown([], custom=[add_bonus, "other"])
    assert offered(own) == ["add_bonus", "other"]
    assert offered(tools_markdown(custom=["f"])) == [*GROUPS["starter"], "f"]
    for wrong in ({"names": ["nothing"]}, {"group": "x"}, {"custom": ["not a name"]}):
        with pytest.raises(ValueError, match="There is no|not the name"):
            tools_markdown(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="20 tools at most"):
        tools_markdown(custom=[f"f{number}" for number in range(2)])
    assert MOST == MAX_NAMES


def test_calling_them_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    assert "2  two" in view_file("a.txt")
    nbinline_rtc.tools.file_str_replace("a.txt", "one", "eins")
    assert (tmp_path / "a.txt").read_text() == "eins\ntwo\n"
    assert "a.txt:2: two" in nbinline_rtc.tools.search_files("two")
    assert "items in a container" in nbinline_rtc.tools.inspect_python("len")
    with pytest.raises(ToolError, match="the agent's to call"):
        nbinline_rtc.tools.insert_markdown("x")
    with pytest.raises(TypeError):
        nbinline_rtc.tools.view_file()  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="less than or equal"):
        nbinline_rtc.tools.list_files(limit=1_000)
    with pytest.raises(RuntimeError, match="from a notebook"):
        insert_tools()


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    """The server with our extension."""
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    """Somebody at the server."""
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


NOTES = """
from nbinline_rtc.tools import insert_tools
first = insert_tools(["read_cell"])
second = insert_tools(["view_file"])
print(first.status, second.status)
"""


async def test_a_note_stands_when_the_call_returns(asker: Asker, jp_serverapp: Any) -> None:
    """The page whose cell asks vouches for it; the call in the kernel waits for the note."""
    path = NotebookPath("a.ipynb")
    asker.write("?")
    messages: list[Any] = []
    async with stopping(asker.ydoc), KernelsOfServer(jp_serverapp) as kernels:
        document = await asker.document()
        kernel = kernels.of(path)
        await kernel.start()
        try:
            async with anyio.create_task_group() as tasks:

                async def vouch() -> None:
                    """What the plugin does for a cell of its own page."""
                    for _ in range(2):
                        await until(lambda: messages)
                        request = asked_for(messages.pop())
                        assert request is not None
                        status, told = await asker.request(
                            "POST",
                            "notes",
                            {
                                "path": path,
                                "cell_id": "code",
                                "request_id": request.request_id,
                                "source": request.source,
                                "after": request.after,
                            },
                        )
                        assert status == 201, told

                tasks.start_soon(vouch)
                printed: list[str] = []

                def take(message: Any) -> None:
                    if asked_for(message):
                        messages.append(message)
                    printed.append(message["content"].get("text", ""))

                done = await kernel.execute(NOTES, on_output=take, deadline=60)
            assert done.status == "ok", done.error
            assert "inserted inserted" in "".join(printed)
        finally:
            for session in await jp_serverapp.session_manager.list_sessions():
                await jp_serverapp.session_manager.delete_session(session["id"])
        sources = [source_of(cell) for cell in asker.cells(document).values()]
        assert "&`read_cell`" in sources[1]
        assert "&`view_file`" in sources[2]
        assert sources[3] == "?"
        mark = list(asker.cells(document).values())[1]["metadata"]
        assert mark == {}


async def test_nobody_vouches(asker: Asker, jp_serverapp: Any) -> None:
    """A message that anything in the kernel could have sent changes nothing by itself."""
    path = NotebookPath("a.ipynb")
    asker.write("?")
    code = (
        "import nbinline_rtc.tools.notes as notes\n"
        "notes.WAIT = 0.3\n"
        "print(notes.insert_tools(['read_cell']).status)\n"
    )
    async with stopping(asker.ydoc), KernelsOfServer(jp_serverapp) as kernels:
        document = await asker.document()
        kernel = kernels.of(path)
        await kernel.start()
        printed: list[str] = []
        try:
            await kernel.execute(
                code, on_output=lambda m: printed.append(m["content"].get("text", "")), deadline=60
            )
        finally:
            for session in await jp_serverapp.session_manager.list_sessions():
                await jp_serverapp.session_manager.delete_session(session["id"])
        assert "requested" in "".join(printed)
        assert len(asker.cells(document)) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_id": "x"},
        {"source": ""},
        {"source": "x" * 16_001},
        {"after": 3},
        {"cell_id": "gone"},
        {"cell_id": ""},
        {"path": "../a.ipynb"},
        {"path": "none.ipynb"},
    ],
)
async def test_requests_that_are_refused(asker: Asker, wrong: dict[str, Any]) -> None:
    asker.write("?")
    body = {"path": "a.ipynb", "cell_id": "code", "request_id": "a" * 32, "source": "note"}
    async with stopping(asker.ydoc):
        document = await asker.document()
        status, told = await asker.request("POST", "notes", {**body, **wrong})
        assert status in (400, 404), told
        assert len(asker.cells(document)) == 2


def test_the_route_is_known() -> None:
    assert r"/nbinline/notes" in [route for route, _ in ROUTES]


def test_declarations_of_the_earlier_extension_still_work() -> None:
    """Its import in a code cell may fail in the kernel; the note needs no import."""
    cells = [
        new_code_cell("from nbinlineai.tools import list_cells, read_url", id="import"),
        new_markdown_cell("Use &`list_cells`, &`read_url` and &`my_function`.", id="note"),
        new_markdown_cell("?", id="q", metadata={"nbinlineai": {"isPromptCell": True}}),
    ]
    notebook = json.loads(json.dumps(new_notebook(cells=cells)))
    read = [
        Cell(CellId(each["id"]), each["cell_type"], each["source"], each["metadata"])
        for each in notebook["cells"]
    ]
    assert list(declared(read, 2).offered) == ["list_cells", "read_url", "my_function"]
    tools = {tool.name for tool in (*cell_tools(), *inspect_tools(), *server_tools())}
    assert {"list_cells", "read_url"} <= tools
