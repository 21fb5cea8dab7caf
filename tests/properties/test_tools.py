"""Tools on cells while people type in them, move them and delete them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbinline_agent.document.edits import Editor, short_hash
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Peer
from nbinline_agent.errors import EditConflict, NbinlineError
from nbinline_agent.testing import PATH, MemoryRooms, SharedNotebook, answer, code, markdown, prompt
from nbinline_agent.tools.base import ToolError
from nbinline_agent.tools.lines import insert_line, lines_of, replace_lines, split_at
from tests.agent.cell_calls import Calls
from tests.properties.unicode import PEOPLE, words

CELLS = [
    markdown("# Title\nwords", "m1"),
    code("a = 1\nb = 2\nc = 3", "c1"),
    prompt("Why?", "q"),
    answer("Because.", "a", to="q"),
    code("print(1)\nprint(2)", "c2"),
    markdown("notes\nmore", "m2"),
]
ORDINARY = ("m1", "c1", "c2", "m2")
TYPED = PEOPLE[0]
"""What people type; no tool writes it."""

cells = st.sampled_from(ORDINARY)
places = st.sampled_from((*ORDINARY, "a", "index:0"))
numbers = st.integers(1, 4)
text = words

edits = st.one_of(
    st.tuples(st.just("replace_cell"), cells, text),
    st.tuples(st.just("cell_insert_line"), cells, numbers, text),
    st.tuples(st.just("cell_replace_lines"), cells, numbers, text),
    st.tuples(st.just("delete_cell"), cells),
    st.tuples(st.just("move_cell"), cells, places),
    st.tuples(st.just("copy_cell"), cells, places),
    st.tuples(st.just("split_cell"), cells, numbers),
    st.tuples(st.just("merge_cells"), cells, cells),
    st.tuples(st.just("set_cell_type"), cells, st.sampled_from(("code", "markdown"))),
    st.tuples(st.just("insert_markdown"), places, text),
)
people = st.one_of(
    st.tuples(st.just("type"), cells, st.floats(0, 1)),
    st.tuples(st.just("delete"), cells),
    st.tuples(st.just("move"), cells, places),
    st.tuples(st.just("nothing")),
)


def arguments(edit: tuple[Any, ...], seen: dict[str, str]) -> dict[str, Any]:
    """What a model would send that read the cells as ``seen``."""
    name, first, *rest = edit
    expected = short_hash(seen.get(first, ""))
    match name:
        case "replace_cell":
            return {"cell_id": first, "expected_source": expected, "new_source": rest[0]}
        case "cell_insert_line":
            line, content = rest
            return {
                "cell_id": first,
                "line": line,
                "content": content,
                "expected_source": expected,
            }
        case "cell_replace_lines":
            line, content = rest
            return {
                "cell_id": first,
                "start_line": line,
                "end_line": line,
                "content": content,
                "expected_source": expected,
            }
        case "delete_cell":
            return {"cell_id": first, "expected_source": expected}
        case "move_cell" | "copy_cell":
            return {"cell_id": first, "after_cell_id": rest[0]}
        case "split_cell":
            return {"cell_id": first, "line": max(2, rest[0]), "expected_source": expected}
        case "merge_cells":
            return {
                "first_cell_id": first,
                "second_cell_id": rest[0],
                "expected_first": expected,
                "expected_second": short_hash(seen.get(rest[0], "")),
            }
        case "set_cell_type":
            return {"cell_id": first, "cell_type": rest[0], "expected_source": expected}
        case _:
            return {"content": rest[0] or "x", "after_cell_id": first}


@dataclass
class Person:
    """Somebody with a page of their own; what they do arrives when it arrives."""

    peer: Peer

    def do(self, action: tuple[Any, ...]) -> None:
        notebook = Notebook(self.peer)
        kind, *rest = action
        if kind == "nothing" or not notebook.has(rest[0]):
            return
        cell = rest[0]
        if kind == "type":
            source = notebook.entry(cell).ycell["source"]
            standing = str(source)
            at = len(standing[: round(rest[1] * len(standing))].encode())
            with self.peer.doc.transaction(origin="person"):
                source.insert(at, TYPED)
            return
        editor = Editor(notebook, "person")
        if kind == "delete":
            editor.delete(cell, expected=notebook.source(cell))
        elif rest[1] == "index:0" or notebook.has(rest[1]):
            editor.move(cell, after=None if rest[1] == "index:0" else rest[1])


@asynccontextmanager
async def together() -> AsyncIterator[tuple[Calls, Person, SharedNotebook]]:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, CELLS)
        async with rooms.join(PATH) as ours, rooms.join(PATH) as theirs:
            yield Calls(Notebook(ours.peer), shared), Person(theirs.peer), shared


def sources(notebook: Notebook) -> dict[str, str]:
    return {cell: notebook.source(cell) for cell in notebook.ids()}


@given(steps=st.lists(st.tuples(people, edits, st.booleans()), max_size=8))
@settings(max_examples=120, deadline=None)
def test_a_tool_does_the_whole_thing_or_nothing(
    steps: list[tuple[tuple[Any, ...], tuple[Any, ...], bool]],
) -> None:
    """People act before the tool has read, or between its reading and its writing."""

    async def play() -> None:
        async with together() as (call, person, shared):
            for action, edit, between in steps:
                seen = sources(call.notebook)
                person.do(action)
                if between:
                    await person.peer.settled()
                    await call.notebook.peer.settled()
                before = await everything(call)
                try:
                    await call(edit[0], **arguments(edit, seen))
                except (ToolError, EditConflict):
                    assert await everything(call) == before
                await person.peer.settled()
                await call.notebook.peer.settled()
            check(call, person, shared)

    anyio.run(play)


async def everything(call: Calls) -> Any:
    snapshot = await call.notebook.snapshot()
    return snapshot.cells


def check(call: Calls, person: Person, shared: SharedNotebook) -> None:
    """Everybody has the same cells, each once; questions and answers are as they were."""
    ours = sources(call.notebook)
    assert ours == sources(Notebook(person.peer))
    assert ours == {cell["id"]: cell["source"] for cell in shared.cells}
    ids = call.notebook.ids()
    assert len(set(ids)) == len(ids)
    assert (ours["q"], ours["a"]) == ("Why?", "Because.")
    assert ids.index("a") == ids.index("q") + 1
    for cell in shared.cells:
        assert ("outputs" in cell) == (cell["cell_type"] == "code")


@given(
    where=st.floats(0, 1),
    edit=st.sampled_from(["replace_cell", "cell_str_replace", "cell_insert_line"]),
)
@settings(max_examples=60, deadline=None)
def test_what_somebody_types_while_a_tool_writes_stays(where: float, edit: str) -> None:
    """Neither has seen the other's change yet: both stand in the end."""

    async def play() -> None:
        async with together() as (call, person, shared):
            source = CELLS[1]["source"]
            person.do(("type", "c1", where))
            match edit:
                case "replace_cell":
                    new = source.replace("b = 2", "b = 20")
                    fields = {"expected_source": source, "new_source": new}
                case "cell_str_replace":
                    fields = {"old_str": "b = 2", "new_str": "b = 20"}
                case _:
                    fields = {"line": 2, "content": "z = 0", "expected_source": source}
            await call(edit, cell_id="c1", **fields)
            await person.peer.settled()
            await call.notebook.peer.settled()
            written = shared.source("c1")
            assert written.count(TYPED) == 1
            wanted = "z = 0" if edit == "cell_insert_line" else "20"
            assert wanted in written.replace(TYPED, "")

    anyio.run(play)


@given(
    source=st.text(alphabet="ab\n", max_size=12),
    content=st.text(alphabet="xy\n", min_size=1, max_size=6),
    deleting=st.booleans(),
    start=st.integers(0, 8),
    end=st.integers(0, 8),
)
def test_lines_mean_the_same_as_in_a_list(
    source: str, content: str, deleting: bool, start: int, end: int
) -> None:
    plain = source.split("\n")
    if plain[-1] == "":
        plain.pop()
    assert [line.rstrip("\n") for line in lines_of(source)] == plain
    new = content.removesuffix("\n").split("\n")
    if 1 <= start <= len(plain) + 1:
        made = insert_line(source, start, content)
        assert made.removesuffix("\n").split("\n") == [
            *plain[: start - 1],
            *new,
            *plain[start - 1 :],
        ]
    else:
        with pytest.raises(ToolError):
            insert_line(source, start, content)
    if deleting:
        content, new = "", []
    if 1 <= start <= end <= len(plain):
        made = replace_lines(source, start, end, content)
        wanted = [*plain[: start - 1], *new, *plain[end:]]
        assert [line.rstrip("\n") for line in lines_of(made)] == wanted
    else:
        with pytest.raises(NbinlineError):
            replace_lines(source, start, end, content)
    if 2 <= start <= len(plain):
        first, second = split_at(source, start)
        assert f"{first}\n{second}" == source
