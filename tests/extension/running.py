"""Asking a real server in its own process's loop, and looking at what comes of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from jupyter_ydoc import YNotebook
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.extension.conftest import until
from tests.vendor.plugin import Vendor

PROMPT = {"nbinlineai": {"isPromptCell": True}}
ENDED = frozenset({"done", "error", "cancelled", "interrupted"})


class Asker:
    """A client of one running server."""

    def __init__(
        self, fetch: Callable[..., Awaitable[Any]], root: Path, ydoc: Any, vendor: Vendor
    ) -> None:
        self._fetch = fetch
        self.root = root
        self.ydoc = ydoc
        self.vendor = vendor
        self._cookies: dict[str, str] = {}

    def write(
        self,
        *questions: str,
        path: str = "a.ipynb",
        minor: int = 5,
        metadata: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write a notebook: a code cell, then each question as the prompts p0, p1 and so on."""
        cells = [new_code_cell("x = 1", id="code")]
        cells += [
            new_markdown_cell(question, id=f"p{number}", metadata=PROMPT)
            for number, question in enumerate(questions)
        ]
        notebook = new_notebook(cells=cells, metadata=dict(metadata or {}))
        notebook.nbformat_minor = minor
        if minor < 5:
            for cell in cells:
                del cell["id"]
        file = self.root / path
        file.write_text(nbformat.writes(notebook))
        return file

    async def request(
        self, method: str, route: str, body: Any = None, **arguments: Any
    ) -> tuple[int, dict[str, Any]]:
        """Send a request as the same person each time; status and body, whatever they are."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        answer = await self._fetch(
            "nbinline",
            *route.split("/"),
            method=method,
            body=None if body is None else json.dumps(body),
            allow_nonstandard_methods=True,
            raise_error=False,
            headers={"Cookie": cookies} if cookies else {},
            **arguments,
        )
        for header in answer.headers.get_list("Set-Cookie"):
            name, _, value = header.split(";")[0].partition("=")
            self._cookies[name] = value
        return answer.code, json.loads(answer.body)

    async def ask(self, cell: str = "p0", path: str = "a.ipynb", **fields: Any) -> str:
        """Run a prompt; the run's id."""
        status, told = await self.request("POST", "runs", {"path": path, "cell_id": cell, **fields})
        assert status == 202, told
        run_id: str = told["run_id"]
        return run_id

    async def run(self, run_id: str) -> dict[str, Any]:
        """The run as it stands."""
        status, told = await self.request("GET", f"runs/{run_id}")
        assert status == 200, told
        return told

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        after = 0
        while True:
            _, page = await self.request(
                "GET", f"runs/{run_id}/events", params={"after": after, "wait": 10}
            )
            after = page["last_seq"]
            if any(event.get("status") in ENDED for event in page["events"]):
                return await self.run(run_id)

    async def reached(self, run_id: str, status: str) -> None:
        """Wait until the run was in a status."""
        after = 0
        while True:
            _, page = await self.request(
                "GET", f"runs/{run_id}/events", params={"after": after, "wait": 10}
            )
            after = page["last_seq"]
            seen = {event.get("status") for event in page["events"]}
            if status in seen:
                return
            assert not seen & ENDED, f"ended {seen} before it was {status}"

    async def document(self, path: str = "a.ipynb") -> YNotebook:
        """The room's own document, opened if need be."""
        found = await self.ydoc.get_document(
            path=path, content_type="notebook", file_format="json", copy=False, create=True
        )
        await until(lambda: len(found.ycells) > 0)
        return found

    def room(self) -> Any:
        """The only notebook room that is open."""
        rooms = self.ydoc.ywebsocket_server.rooms
        [room] = [room for key, room in rooms.items() if key.startswith("json:notebook:")]
        return room

    @staticmethod
    def cells(document: YNotebook) -> dict[str, dict[str, Any]]:
        """The document's cells by id."""
        return {cell["id"]: cell for cell in (each.to_py() for each in document.ycells)}

    @staticmethod
    def answer(document: YNotebook, prompt: str = "p0") -> dict[str, Any] | None:
        """The answer cell of a prompt, or None."""
        for each in document.ycells:
            cell: dict[str, Any] = each.to_py()
            mark = cell.get("metadata", {}).get("nbinlineai")
            if isinstance(mark, dict) and mark.get("promptCellId") == prompt:
                return cell
        return None

    def status(self, document: YNotebook, prompt: str = "p0") -> str | None:
        """The status word of a prompt's answer, or None."""
        cell = self.answer(document, prompt)
        word: str | None = cell["metadata"]["nbinlineai"].get("status") if cell else None
        return word

    def saved(self, path: str = "a.ipynb") -> list[dict[str, Any]]:
        """The cells in the file; none while it is being written."""
        try:
            cells: list[dict[str, Any]] = json.loads((self.root / path).read_text())["cells"]
        except ValueError:
            return []
        return cells


def source_of(cell: Mapping[str, Any] | None) -> str:
    """A cell's text, as a file or a document has it."""
    source = (cell or {}).get("source", "")
    return source if isinstance(source, str) else "".join(source)
