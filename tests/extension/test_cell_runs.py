"""People's own cells on the server: the route that jupyter-collaboration's executor calls."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import nbformat
import pytest
from jupyter_ydoc import YNotebook
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.extension.conftest import stopping, until

Post = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]


@pytest.fixture
def served() -> bool:
    """Whether the server runs people's cells; a test may override it."""
    return True


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], served: bool) -> dict[str, Any]:
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["YDocExtension"]["server_side_execution"] = served
    jp_server_config["NbinlineApp"] = {"idle_seconds": 0.3}
    return jp_server_config


class Lab:
    """A notebook, its kernel, and somebody who runs its cells."""

    def __init__(self, fetch: Callable[..., Awaitable[Any]], serverapp: Any, ydoc: Any) -> None:
        self._fetch = fetch
        self.ydoc = ydoc
        self.root = Path(serverapp.root_dir)
        self._settings = serverapp.web_app.settings
        self.kernel_id = ""

    async def open(self, *sources: str, session: bool = True) -> YNotebook:
        cells = [new_code_cell(source, id=f"c{n}") for n, source in enumerate(sources)]
        cells.append(new_markdown_cell("text", id="note"))
        (self.root / "a.ipynb").write_text(nbformat.writes(new_notebook(cells=cells)))
        if session:
            body = {"path": "a.ipynb", "name": "a", "type": "notebook"}
            body["kernel"] = {"name": "python3"}  # type: ignore[assignment]
            answer = await self._fetch("api/sessions", method="POST", body=json.dumps(body))
            self.kernel_id = json.loads(answer.body)["kernel"]["id"]
        return await self.document()

    async def document(self) -> YNotebook:
        document = await self.ydoc.get_document(
            path="a.ipynb", content_type="notebook", file_format="json", copy=False, create=True
        )
        await until(lambda: len(document.ycells) > 0)
        return document

    async def run(self, cell: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        file_id = self._settings["file_id_manager"].get_id("a.ipynb")
        body = {"cell_id": cell, "document_id": f"json:notebook:{file_id}", **fields}
        kernel = fields.pop("kernel", self.kernel_id)
        answer = await self._fetch(
            "api/kernels",
            kernel,
            "execute",
            method="POST",
            body=json.dumps(body),
            raise_error=False,
            request_timeout=60,
        )
        return answer.code, json.loads(answer.body)

    def saved(self, cell: str) -> dict[str, Any]:
        try:
            cells = json.loads((self.root / "a.ipynb").read_text())["cells"]
        except ValueError:
            return {}
        found: dict[str, Any] = next(each for each in cells if each["id"] == cell)
        return found


@pytest.fixture
def lab(jp_fetch: Any, jp_serverapp: Any, ydoc: Any) -> Lab:
    return Lab(jp_fetch, jp_serverapp, ydoc)


def cell_of(document: YNotebook, cell: str) -> dict[str, Any]:
    for each in document.ycells:
        if each["id"] == cell:
            found: dict[str, Any] = each.to_py()
            return found
    raise KeyError(cell)


def printed(document: YNotebook, cell: str) -> str:
    outputs = cell_of(document, cell)["outputs"]
    return "".join(str(each["text"]) for each in outputs if each["output_type"] == "stream")


async def test_a_cell_runs_and_is_saved_without_any_page(lab: Lab) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open("print('hello')\n41 + 1")
        status, told = await lab.run("c0")
        assert (status, told) == (200, {"status": "ok", "execution_count": 1})
        cell = cell_of(document, "c0")
        assert (cell["execution_state"], cell["execution_count"]) == ("idle", 1)
        assert printed(document, "c0") == "hello\n"
        await until(lambda: lab.saved("c0").get("execution_count") == 1)
        assert lab.saved("c0")["outputs"][1]["data"]["text/plain"] == ["42"]


async def test_cells_run_in_the_order_they_came_and_an_error_drops_the_rest(lab: Lab) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open(
            "import time; time.sleep(0.5); print('one')", "1 / 0", "print('never')"
        )
        codes: dict[str, int] = {}

        async def run(cell: str) -> None:
            codes[cell], _ = await lab.run(cell)

        async with anyio.create_task_group() as tasks:
            for cell in ("c0", "c1", "c2"):
                tasks.start_soon(run, cell)
                await until(lambda now=cell: cell_of(document, now)["execution_state"] == "running")  # type: ignore[misc]
        assert codes == {"c0": 200, "c1": 422, "c2": 422}
        assert printed(document, "c0") == "one\n"
        assert cell_of(document, "c1")["outputs"][0]["ename"] == "ZeroDivisionError"
        dropped = cell_of(document, "c2")
        assert (dropped["outputs"], dropped["execution_state"]) == ([], "idle")
        # What comes afterwards runs.
        assert (await lab.run("c2"))[0] == 200


async def test_it_goes_on_when_the_page_is_gone(lab: Lab) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open(
            "import time; print('a', flush=True); time.sleep(1.5); print('b')"
        )
        with anyio.move_on_after(0.8):
            await lab.run("c0")
        await until(lambda: printed(document, "c0") == "a\nb\n")
        await until(lambda: cell_of(document, "c0")["execution_state"] == "idle")
        await until(lambda: "b\\n" in json.dumps(lab.saved("c0")))


async def test_the_text_the_person_saw_is_run(lab: Lab) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open("print('old')")
        new = "print('new')"
        answers: list[int] = []

        async def run() -> None:
            digest = hashlib.sha256(new.encode()).hexdigest()
            answers.append((await lab.run("c0", source_sha256=digest))[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.sleep(0.5)
            # The keystrokes come later than the click.
            with document.ydoc.transaction(origin="person"):
                source = document.ycells[0]["source"]
                del source[7:10]
                source.insert(7, "new")
        assert answers == [200]
        assert printed(document, "c0") == "new\n"
        status, told = await lab.run("c0", source_sha256="0" * 64)
        assert (status, told["error"]["code"]) == (409, "not-caught-up")


async def test_stale_marks_are_settled_when_the_notebook_is_opened(
    lab: Lab, rtc_connect_doc_client: Any
) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open("print(1)", "print(2)")
        await lab.run("c1")
        with document.ydoc.transaction(origin="a page that is gone"):
            document.ycells[0]["execution_state"] = "running"
        websocket, _ = await rtc_connect_doc_client("json", "notebook", "a.ipynb")
        async with websocket:
            await until(lambda: cell_of(document, "c0")["execution_state"] == "idle")
            assert cell_of(document, "c0")["outputs"] == []


async def test_a_cell_that_really_runs_keeps_its_mark(
    lab: Lab, rtc_connect_doc_client: Any
) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open("import time; time.sleep(6); print('end')")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lab.run, "c0")
            await until(lambda: cell_of(document, "c0")["execution_state"] == "running")
            websocket, _ = await rtc_connect_doc_client("json", "notebook", "a.ipynb")
            async with websocket:
                await anyio.sleep(4)
                assert cell_of(document, "c0")["execution_state"] == "running"
        assert printed(document, "c0") == "end\n"


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"cell_id": "gone"}, 404, "unknown-cell"),
        ({"cell_id": "note"}, 400, "bad-request"),
        ({"document_id": "json:notebook:nothing"}, 404, "unknown-notebook"),
        ({"document_id": "text:file:x"}, 400, "bad-request"),
        ({"document_id": None}, 400, "bad-request"),
        ({"kernel": "0-0-0-0-0"}, 409, "no-kernel"),
        ({"source_sha256": "x"}, 400, "bad-request"),
    ],
)
async def test_wrong_requests_run_nothing(
    lab: Lab, fields: dict[str, Any], status: int, code: str
) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open("print(1)")
        cell = fields.pop("cell_id", "c0")
        answer, told = await lab.run(cell, **fields)
        assert (answer, told["error"]["code"]) == (status, code)
        assert cell_of(document, "c0")["outputs"] == []


class TestOff:
    @pytest.fixture
    def served(self) -> bool:
        return False

    async def test_the_route_is_not_there_unless_switched_on(self, lab: Lab) -> None:
        async with stopping(lab.ydoc):
            document = await lab.open("print(1)")
            status, _ = await lab.run("c0")
            assert status == 404
            assert cell_of(document, "c0")["outputs"] == []


async def test_a_dying_kernel_is_told(lab: Lab) -> None:
    async with stopping(lab.ydoc):
        document = await lab.open("import os; os._exit(1)")
        status, told = await lab.run("c0")
        assert (status, told["error"]["status"]) == (422, "dead")
        assert "kernel died" in printed(document, "c0")
        assert cell_of(document, "c0")["execution_state"] == "idle"
