"""Notebooks of all kinds: asked in, saved, opened again; the rest of the file is as it was."""

import copy
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Map, Text

from nbinline_agent.ids import NotebookPath
from nbinline_rtc.rooms import RoomsOfServer
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

Notebook = dict[str, Any]

SHARED = Path(
    os.environ.get("NBINLINE_CASES", Path(__file__).parents[3] / "shared" / "cases")
).joinpath("notebooks")
CASES = sorted(SHARED.glob("*.ipynb"))
PLACES = ("top", "middle", "end")
NAME_WITHOUT = NotebookPath("without.ipynb")
HIDDEN = ("### BEGIN SOLUTION", "### BEGIN HIDDEN TESTS")


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The server with our extension and one configured connection."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1}
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    """Somebody who asks."""
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


def markdown(source: Any, id: str, **mark: Any) -> Notebook:
    metadata = {"nbinlineai": mark} if mark else {}
    return {"cell_type": "markdown", "id": id, "metadata": metadata, "source": source}


def code(source: Any, id: str, outputs: list[Any] | None = None, **metadata: Any) -> Notebook:
    return {
        "cell_type": "code",
        "id": id,
        "metadata": metadata,
        "source": source,
        "outputs": outputs or [],
        "execution_count": None,
    }


def notebook(*cells: Notebook, **metadata: Any) -> Notebook:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def stream(text: str) -> Notebook:
    return {"output_type": "stream", "name": "stdout", "text": text}


def answered(source: str, id: str, prompt: str, status: str = "done") -> Notebook:
    return markdown(source, id, **answer_mark(prompt, status))


def answer_mark(prompt: str, status: str = "done") -> dict[str, Any]:
    return {"isOutputCell": True, "promptCellId": prompt, "status": status}


KINDS: dict[str, Callable[[], Notebook]] = {
    "Windows line ends": lambda: notebook(code("a = 1\r\nb = 2\r\n", "c"), markdown("x\r\ny", "m")),
    "tabs and line separators": lambda: notebook(
        code("if a:\n\tb()", "c"), markdown("\u2028", "m")
    ),
    "right to left": lambda: notebook(markdown("שלום עולם \u202bعربي\u202c", "m")),
    "combining marks and emoji families": lambda: notebook(
        markdown("e\u0301 👩‍👩‍👧‍👦 🇩🇪 \U0001f468\u200d\U0001f52c", "m"), code("'👨‍👩‍👦'", "c")
    ),
    "a line of a megabyte": lambda: notebook(code("x = '" + "y" * 1_000_000 + "'", "c")),
    "an output of 30 MB": lambda: notebook(
        code("print(x)", "c", [stream(f"{'x' * 999}\n" * 30_000)])
    ),
    "unknown metadata": lambda: notebook(
        code("1", "c", tags=["a"], deep={"list": [1, {"x": None}]}), odd={"key": [1.5, True]}
    ),
    "source as a list": lambda: notebook(code(["a = 1\n", "b = 2"], "c"), markdown(["# T\n"], "m")),
    "an answer above its prompt": lambda: notebook(
        markdown("Earlier answer.", "a", **answer_mark("p-end")), code("1", "c")
    ),
    "two answers to one prompt": lambda: notebook(
        markdown("One.", "a1", **answer_mark("p-top")),
        markdown("Two.", "a2", **answer_mark("p-top")),
    ),
    "an answer without a prompt": lambda: notebook(markdown("Orphan.", "a", **answer_mark("gone"))),
    "a prompt flagged on a code cell": lambda: notebook(
        code("1", "c", nbinlineai={"isPromptCell": True})
    ),
    "our metadata is no object": lambda: notebook(code("1", "c", nbinlineai=["x"]), nbinlineai="y"),
    "left running by the earlier extension": lambda: notebook(
        markdown("Half an ans", "a", **answer_mark("gone", "running"))
    ),
    "empty": notebook,
}


def with_questions(content: Notebook) -> Notebook:
    """The notebook with a question at the top, in the middle and at the end."""
    asked = copy.deepcopy(content)
    cells = asked["cells"]
    for place, at in (("end", len(cells)), ("middle", len(cells) // 2), ("top", 0)):
        question = markdown(f"What about the {place}?", f"p-{place}", isPromptCell=True)
        if (asked["nbformat"], asked["nbformat_minor"]) < (4, 5):
            del question["id"]
        cells.insert(at, question)
    return asked


def rest(content: Notebook, answers: set[str], *, old: bool) -> Notebook:
    """The notebook without the answers of a test; of an old format, without its new ids."""
    kept = copy.deepcopy(content)
    kept["cells"] = [cell for cell in kept["cells"] if cell.get("id") not in answers]
    if old:
        del kept["nbformat_minor"]
        for cell in kept["cells"]:
            cell.pop("id", None)
    return kept


def load(path: Path) -> Notebook:
    content: Notebook = json.loads(path.read_text("utf-8"))
    return content


def prompts_of(cells: list[Notebook]) -> dict[str, str]:
    """The ids of the test's questions by place."""
    return {
        place: cell["id"]
        for place in PLACES
        for cell in cells
        if source_of(cell) == f"What about the {place}?"
    }


async def ask_everywhere(asker: Asker, serverapp: Any, content: Notebook) -> None:
    asked = with_questions(content)
    old = (asked["nbformat"], asked["nbformat_minor"]) < (4, 5)
    for name in ("with.ipynb", "without.ipynb"):
        (asker.root / name).write_text(json.dumps(asked), "utf-8")

    # What jupyter-collaboration itself changes on saving, without us.
    async with RoomsOfServer(serverapp) as rooms, rooms.join(NAME_WITHOUT) as membership:
        assert await membership.save()

    document = await asker.document("with.ipynb")
    prompts = prompts_of([cell.to_py() for cell in document.ycells])
    assert set(prompts) == set(PLACES)
    said = {place: f"An answer about the {place}: ünï 🙂." for place in PLACES}
    answers: dict[str, str] = {}
    for place, prompt in prompts.items():
        await asker.vendor.script({"text": said[place]})
        run = await asker.ended(await asker.ask(prompt, "with.ipynb"))
        assert run["status"] == "done", run["error"]
        answers[place] = run["answer_cell_id"]

    def saved() -> bool:
        cells = {cell.get("id"): cell for cell in asker.saved("with.ipynb")}
        return all(source_of(cells.get(answers[place])) == said[place] for place in PLACES)

    await until(saved, 30)
    for room in list(asker.ydoc.ywebsocket_server.rooms.values()):
        await asker.ydoc.ywebsocket_server.delete_room(room=room)

    reopened = await asker.document("with.ipynb")
    cells = asker.cells(reopened)
    for place in PLACES:
        answer = cells[answers[place]]
        assert source_of(answer) == said[place]
        assert answer["metadata"]["nbinlineai"]["promptCellId"] == prompts[place]
        assert answer["metadata"]["nbinlineai"]["status"] == "done"
        assert cells[prompts[place]]["cell_type"] == "markdown"

    mine = rest(load(asker.root / "with.ipynb"), set(answers.values()), old=old)
    theirs = rest(load(asker.root / "without.ipynb"), set(answers.values()), old=old)
    for cell in (*mine["cells"], *theirs["cells"]):
        mark = cell["metadata"].get("nbinlineai")
        if isinstance(mark, dict) and mark.get("status") in ("running", "interrupted"):
            # An old mark is settled; nothing else of it changes.
            cell["metadata"]["nbinlineai"] = {**mark, "status": "settled", "endedAt": None}
    assert json.dumps(mine, sort_keys=True) == json.dumps(theirs, sort_keys=True)


@pytest.mark.parametrize("kind", KINDS)
async def test_kinds_made_here(asker: Asker, jp_serverapp: Any, kind: str) -> None:
    async with stopping(asker.ydoc):
        await ask_everywhere(asker, jp_serverapp, KINDS[kind]())


@pytest.mark.skipif(not CASES, reason="the shared cases are not beside this checkout")
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
async def test_shared_cases(asker: Asker, jp_serverapp: Any, case: Path) -> None:
    async with stopping(asker.ydoc):
        content = load(case)
        with warnings.catch_warnings():
            # Files of these formats are what the case is about.
            warnings.simplefilter("ignore")
            await ask_everywhere(asker, jp_serverapp, content)

        sent = json.dumps([request["body"] for request in await asker.vendor.requests()])
        if any(mark in json.dumps(content) for mark in HIDDEN):
            for cell in content["cells"]:
                for secret in hidden_lines(source_of(cell)):
                    assert json.dumps(secret)[1:-1] not in sent, secret
        assert "image/png;base64" not in sent


def hidden_lines(source: str) -> list[str]:
    """What stands between nbgrader's marks, short lines left out."""
    lines: list[str] = []
    inside = False
    for line in source.splitlines():
        if "### END" in line:
            inside = False
        elif any(mark in line for mark in HIDDEN):
            inside = True
        elif inside and len(line.strip()) > 12:
            lines.append(line.strip())
    return lines


async def test_ten_thousand_cells(asker: Asker, jp_serverapp: Any) -> None:
    async with stopping(asker.ydoc):
        cells = [code(f"value_{number} = {number}", f"c{number}") for number in range(10_000)]
        content = with_questions(notebook(*cells))
        (asker.root / "large.ipynb").write_text(json.dumps(content))
        await asker.vendor.script({"text": "About the middle."})
        run = await asker.ended(await asker.ask("p-middle", "large.ipynb"))
        assert run["status"] == "done"
        await until(lambda: len(asker.saved("large.ipynb")) == 10_004, 60)
        places = {cell["id"]: at for at, cell in enumerate(asker.saved("large.ipynb"))}
        assert places[run["answer_cell_id"]] == places["p-middle"] + 1


async def test_damaged_cells_are_no_obstacle(asker: Asker) -> None:
    """Kinds a file cannot hold (the server refuses it) but a shared document can."""
    async with stopping(asker.ydoc):
        asker.write("Which?")
        document = await asker.document()
        odd = [
            {"id": "twice", "cell_type": "markdown", "metadata": {}, "source": Text("A.")},
            {"id": "twice", "cell_type": "markdown", "metadata": {}, "source": Text("B.")},
            {"id": "odd", "cell_type": "holographic", "metadata": {}, "source": Text("C.")},
            {"id": "plain", "cell_type": "markdown", "metadata": "text", "source": Text("D.")},
        ]
        with document.ydoc.transaction(origin="person"):
            for cell in odd:
                document.ycells.append(Map(cell))
        await asker.vendor.script({"text": "An answer."})
        run = await asker.ended(await asker.ask())
        assert run["status"] == "done"
        assert source_of(asker.answer(document)) == "An answer."
        sources = [source_of(cell.to_py()) for cell in document.ycells]
        assert [source for source in sources if len(source) == 2] == ["A.", "B.", "C.", "D."]
