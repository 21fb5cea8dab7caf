"""Everything that people typed or saw, compared with what is left of it.

The check of every row: all human text and all visible answer text is intact (none lost, misplaced
or doubled) in the room, in the file and for somebody who comes later, and the status is true.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.extension.running import ENDED, PROMPT
from tests.extension.server_process import ServerProcess
from tests.node.plugin import Page
from tests.vendor.plugin import Vendor

NOTEBOOK = "a.ipynb"
PATIENCE = 45.0
"""Seconds until something that must happen has happened, on a busy machine."""

Cell = dict[str, Any]


@dataclass
class Witness:
    """One person's page, and what they typed."""

    page: Page
    name: str
    typed: list[str] = field(default_factory=list)
    seen: str = ""

    async def type(self, word: str, *, cell: str, at: int | None = None) -> None:
        """Type a word that occurs nowhere else."""
        self.typed.append(word)
        place = {} if at is None else {"at": at}
        await self.page.do("type", id=cell, text=word, **place)

    async def look(self) -> list[Cell]:
        """The cells on this page."""
        cells: list[Cell] = (await self.page.do("cells"))["cells"]
        answer = answer_in(cells)
        if answer is not None and len(source_of(answer)) >= len(self.seen):
            self.seen = source_of(answer)
        return cells

    async def sees(self, holds: Callable[[list[Cell]], Any], what: str = "") -> list[Cell]:
        """Wait until the page shows something."""
        cells: list[Cell] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(cells := await self.look()):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{self.name} never saw {what or holds}: {cells}") from None
        return cells


class Place:
    """A server, its notebook, and who is there."""

    def __init__(self, home: Path, open_page: Callable[[], Any], vendor: Vendor) -> None:
        self.server = ServerProcess(home)
        self.vendor = vendor
        self.witnesses: list[Witness] = []
        self._open_page = open_page
        self._stack = contextlib.AsyncExitStack()
        self._names: list[str] = []

    @property
    def file(self) -> Path:
        """The notebook."""
        return self.server.root / NOTEBOOK

    def write(self, *questions: str, path: str = NOTEBOOK) -> None:
        """A code cell, a text cell, then the questions p0, p1 and so on."""
        cells = [new_code_cell("x = 1", id="code"), new_markdown_cell("Notes.", id="notes")]
        cells += [
            new_markdown_cell(question, id=f"p{number}", metadata=PROMPT)
            for number, question in enumerate(questions)
        ]
        file = self.server.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(nbformat.writes(new_notebook(cells=cells)), "utf-8")

    async def person(self, name: str, path: str = NOTEBOOK) -> Witness:
        """Somebody opens the notebook."""
        page = await self._stack.enter_async_context(self._open_page())
        witness = Witness(page, name)
        self.witnesses.append(witness)
        await page.do("join", url=await self.server.room_url(path), retry=20_000)
        return witness

    async def back(self, witness: Witness, path: str = NOTEBOOK) -> None:
        """A page that was cut off connects again, with what it holds."""
        url = await self.server.room_url(path)
        await witness.page.do("join", url=url, retry=20_000)

    async def ask(self, cell: str = "p0", path: str = NOTEBOOK, **fields: Any) -> str:
        """Run a prompt; the run's id."""
        told = await self.server.request(
            "POST", "nbinline/runs", {"path": path, "cell_id": cell, **fields}
        )
        run_id: str = told["run_id"]
        return run_id

    async def refused(self, cell: str = "p0", path: str = NOTEBOOK) -> tuple[int, str, str]:
        """Run a prompt that must be refused: status, code and sentence."""
        async with httpx.AsyncClient(timeout=30) as client:
            answer = await client.post(
                self.server.url("nbinline/runs"), json={"path": path, "cell_id": cell}
            )
        error = answer.json()["error"]
        assert answer.status_code >= 400
        return answer.status_code, error["code"], error["message"]

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run once it has ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                run: dict[str, Any] = await self.server.request("GET", f"nbinline/runs/{run_id}")
                if run["status"] in ENDED:
                    return run
                await asyncio.sleep(0.1)

    async def leave(self) -> None:
        """Close every page and end the server."""
        try:
            await self._stack.aclose()
        finally:
            await self.server.kill()

    # -- the check ----------------------------------------------------------------------------

    async def check(
        self,
        *,
        answer: str,
        whole: bool,
        statuses: set[str],
        people: list[Witness] | None = None,
        restart: bool = True,
        path: str = NOTEBOOK,
    ) -> str:
        """Nothing that anybody typed or saw is lost, misplaced or doubled, now and ever after.

        Args:
            answer: All that the model said or would have said.
            whole: Whether all of it must be there; else what was seen is enough.
            statuses: What the answer may truly say of itself.
            people: Whose pages are still open; all by default.
            restart: Whether to stop and start the server and look once more.
            path: Where the notebook is now.

        Returns:
            The status that the answer has.
        """
        words = [word for witness in self.witnesses for word in witness.typed]
        seen = max((without(w.seen, words) for w in self.witnesses), key=len, default="")
        assert answer.startswith(seen), "somebody saw an answer that was never given"
        open_pages = self.witnesses if people is None else people

        def intact(cells: list[Cell]) -> str | None:
            return fault(cells, words, answer, seen, statuses, whole=whole)

        views = {witness.name: witness.look for witness in open_pages}
        fresh = await self.person("somebody who comes later", path)
        views[fresh.name] = fresh.look
        for name, look in views.items():
            await holds_soon(look, intact, name)
        await self._alike(list(views.values()))
        if restart:
            await self.server.stop()
            intact_file = intact(on_disk(self.server.root / path))
            assert intact_file is None, f"in the file: {intact_file}"
            await self.server.start()
            later = await self.person("somebody after a restart", path)
            await holds_soon(later.look, intact, later.name)
        found = answer_in(await fresh.look())
        return str(mark_of(found).get("status")) if found else "none"

    async def _alike(self, looks: list[Any]) -> None:
        async def same() -> list[Any]:
            return [comparable(await look()) for look in looks]

        async with asyncio.timeout(PATIENCE):
            while len({json.dumps(view) for view in await same()}) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def holds_soon(look: Any, intact: Callable[[list[Cell]], str | None], who: str) -> None:
    """Wait until a view is intact; say what is wrong with it otherwise."""
    wrong: str | None = "not looked at"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while (wrong := intact(await look())) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    assert wrong is None, f"{who}: {wrong}"


def fault(
    cells: list[Cell],
    words: list[str],
    answer: str,
    seen: str,
    statuses: set[str],
    *,
    whole: bool,
) -> str | None:
    """What is wrong with a notebook, or None."""
    ids = [cell["id"] for cell in cells]
    if len(set(ids)) < len(ids):
        return f"a cell is doubled: {ids}"
    text = "\n".join(source_of(cell) for cell in cells)
    for word in words:
        if text.count(word) != 1:
            return f"{word!r} stands there {text.count(word)} times: {text}"
    answers = [cell for cell in cells if mark_of(cell).get("promptCellId") == "p0"]
    if len(answers) != 1:
        return f"{len(answers)} answers" if statuses else None
    left = without(source_of(answers[0]), words)
    if whole and left != answer:
        return f"not the answer: {left!r} instead of {answer!r}"
    if not answer.startswith(left):
        return f"misplaced or doubled: {left!r}"
    if not left.startswith(seen):
        return f"lost: {left!r} instead of {seen!r}"
    status = mark_of(answers[0]).get("status")
    return None if status in statuses else f"status {status}"


def without(text: str, words: list[str]) -> str:
    """An answer without what people typed into it."""
    for word in words:
        text = text.replace(word, "")
    return text


def source_of(cell: Cell) -> str:
    """A cell's text, as a page or a file has it."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def mark_of(cell: Cell) -> dict[str, Any]:
    """What we keep in a cell's metadata."""
    mark = (cell.get("metadata") or {}).get("nbinlineai")
    return mark if isinstance(mark, dict) else {}


def answer_in(cells: list[Cell], prompt: str = "p0") -> Cell | None:
    """The answer cell of a prompt, or None."""
    return next((cell for cell in cells if mark_of(cell).get("promptCellId") == prompt), None)


def comparable(cells: list[Cell]) -> list[Any]:
    """Ids and texts in order."""
    return [(cell["id"], cell["cell_type"], source_of(cell)) for cell in cells]


def on_disk(file: Path) -> list[Cell]:
    """The cells in a file."""
    cells: list[Cell] = json.loads(file.read_text("utf-8"))["cells"]
    return cells
