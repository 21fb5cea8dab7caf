"""The read view: fast whatever the size, and calm whatever stands in the notebook."""

import json
from typing import Any

import anyio
import pytest
from pycrdt import Array, Map, Text

from nbinline_agent.document.notebook import (
    Cell,
    Notebook,
    Snapshot,
    StaleMark,
    settled_status,
)
from nbinline_agent.errors import RoomLost, UnknownCell
from nbinline_agent.testing import (
    PATH,
    MemoryRooms,
    SharedNotebook,
    answer,
    code,
    markdown,
    open_notebook,
    prompt,
)

pytestmark = pytest.mark.asyncio

STREAM = {"output_type": "stream", "name": "stdout", "text": "hello\n"}
CELLS = [
    markdown("# Title", "title"),
    code("print('hello')", "code", outputs=[STREAM], count=3),
    prompt("Why?", "why", keepAnswer=True),
    answer("Because.", "because", to="why", runId="r1"),
]


def edit(shared: SharedNotebook, change: Any) -> None:
    """Change the room's document as somebody else would."""
    with shared.ynotebook.ydoc.transaction(origin="person"):
        change(shared.ynotebook.ycells)


def insert(shared: SharedNotebook, at: int, cell: dict[str, Any]) -> None:
    edit(shared, lambda ycells: ycells.insert(at, shared.ynotebook.create_ycell(cell)))


class TestReading:
    async def test_cells(self) -> None:
        async with open_notebook(CELLS, {"kernelspec": {"name": "python3"}}) as (notebook, _):
            assert notebook.ids() == ("title", "code", "why", "because")
            assert notebook.cell("code") == Cell(
                id="code",  # type: ignore[arg-type]
                kind="code",
                source="print('hello')",
                execution_count=3,
                outputs=({"name": "stdout", "output_type": "stream", "text": "hello\n"},),
            )
            assert notebook.source("why") == "Why?"
            assert notebook.metadata("why") == {
                "nbinlineai": {"isPromptCell": True, "keepAnswer": True}
            }
            assert notebook.cell("why").nbinline == notebook.nbinline("why")
            assert notebook.has("because")
            assert not notebook.has("nowhere")
            assert not notebook.has("")
            assert notebook.notebook_metadata()["kernelspec"] == {"name": "python3"}
            assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)

    @pytest.mark.parametrize("read", ["cell", "source", "metadata", "nbinline", "position"])
    async def test_a_cell_that_is_not_there(self, read: str) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            with pytest.raises(UnknownCell):
                getattr(notebook, read)("nowhere")

    async def test_numbers_are_whole_again(self) -> None:
        """Yjs keeps every number as a floating one."""
        cell = markdown("x", "a", nbinlineai={"maxToolSteps": 5, "share": 0.5})
        async with open_notebook([cell]) as (notebook, shared):
            edit(shared, lambda ycells: ycells[0]["metadata"].update({"count": 7.0}))
            await notebook.changed_until(lambda: "count" in notebook.metadata("a"))
            text = json.dumps(notebook.cell("a").metadata)
            assert '"maxToolSteps": 5,' in text
            assert '"share": 0.5' in text
            assert '"count": 7' in text.replace("7,", "7")

    async def test_the_same_cell_reads_the_same_bytes(self) -> None:
        """Shared maps come in another order each time; a request must not."""
        metadata = {f"key{number}": {"b": 1, "a": 2, "c": 3} for number in range(30)}
        async with open_notebook([markdown("x", "a", **metadata)]) as (notebook, _):
            seen = {json.dumps(notebook.cell("a").metadata) for _ in range(20)}
            assert len(seen) == 1

    async def test_defaults(self) -> None:
        metadata = {"nbinlineai": {"defaults": {"model": "m"}}}
        async with open_notebook(CELLS, metadata) as (notebook, _):
            assert notebook.defaults() == {"model": "m"}
        async with open_notebook(CELLS) as (notebook, _):
            assert notebook.defaults() == {}
        async with open_notebook(CELLS, {"nbinlineai": [1]}) as (notebook, _):
            assert notebook.defaults() == {}


class TestIndex:
    async def test_follows_insertions_moves_and_deletions(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            insert(shared, 1, markdown("new", "new"))
            edit(shared, lambda ycells: ycells.pop(0))
            await notebook.changed_until(lambda: not notebook.has("title"))
            assert notebook.ids() == ("new", "code", "why", "because")
            assert notebook.position("because") == 3
            moved = shared.cell("because")
            edit(shared, lambda ycells: ycells.pop(3))
            insert(shared, 0, moved)
            await notebook.changed_until(lambda: notebook.ids()[0] == "because")
            assert notebook.source("because") == "Because."
            assert notebook.position("because") == 0

    async def test_one_transaction_may_change_the_order_and_a_cell(self) -> None:
        """Paths in a change count cells as they are after it."""
        async with open_notebook(CELLS) as (notebook, shared):

            def change(ycells: Array[Any]) -> None:
                del ycells[0]
                ycells[2]["metadata"]["nbinlineai"] = {"isOutputCell": True, "status": "running"}

            assert notebook.nbinline("because")["status"] == "done"
            edit(shared, change)
            await notebook.changed_until(lambda: not notebook.has("title"))
            assert notebook.nbinline("because")["status"] == "running"

    async def test_our_own_changes_count_at_once(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            with notebook.peer.doc.transaction(origin="test"):
                del notebook.peer.ynotebook.ycells[0]
            assert notebook.ids() == ("code", "why", "because")
            notebook.set_cell_metadata("why", {"isPromptCell": True}, "test")
            assert notebook.nbinline("why") == {"isPromptCell": True}

    async def test_ten_thousand_cells_are_not_walked(self) -> None:
        """Reading position i of a shared array costs O(i): count how often that happens."""
        cells = [markdown(f"cell {number}", f"c{number}") for number in range(10_000)]
        reads = 0

        class Counted(Array[Any]):
            def __getitem__(self, key: Any) -> Any:
                nonlocal reads
                reads += 1
                return super().__getitem__(key)

        async with open_notebook(cells) as (notebook, shared):
            notebook.peer.ynotebook.ycells.__class__ = Counted
            with anyio.fail_after(20):
                assert len(notebook.ids()) == 10_000
                assert notebook.source("c9999") == "cell 9999"
                assert notebook.cell("c5000").source == "cell 5000"
                assert notebook.position("c9999") == 9_999
                assert notebook.answers_of("c1") == []
                assert notebook.stale_marks() == []
                insert(shared, 5_000, markdown("new", "new"))
                await notebook.changed_until(lambda: notebook.has("new"))
                assert notebook.position("c9999") == 10_000
                assert len((await notebook.snapshot()).cells) == 10_001
            assert reads == 0
            _ = notebook.peer.ynotebook.ycells[0]
            assert reads == 1


class TestAnswers:
    async def test_answers_of(self) -> None:
        cells = [
            answer("above", "a0", to="q"),
            prompt("Why?", "q"),
            answer("below", "a1", to="q"),
            answer("other", "b1", to="p"),
            answer("orphan", "o", to="gone"),
            markdown("not marked", "m", nbinlineai={"promptCellId": "q"}),
        ]
        async with open_notebook(cells) as (notebook, _):
            assert notebook.answers_of("q") == ["a0", "a1"]
            assert notebook.answers_of("gone") == ["o"]
            assert notebook.answers_of("nobody") == []

    async def test_stale_marks_of_any_origin(self) -> None:
        cells = [
            answer("x", "queued", to="q", status="queued", runId="r1"),
            answer("x", "running", to="q", status="running"),
            answer("x", "odd", to="q", status="Streaming"),
            answer("x", "done", to="q", status="done"),
            answer("x", "complete", to="q", status="complete"),
            answer("x", "failed", to="q", status="failed"),
            answer("x", "interrupted", to="q", status="interrupted"),
            answer("x", "number", to="q", status=7),  # type: ignore[arg-type]
            markdown("x", "question", nbinlineai={"isPromptCell": True, "status": "running"}),
            markdown("x", "bare", nbinlineai={"isOutputCell": True, "promptCellId": "q"}),
        ]
        async with open_notebook(cells) as (notebook, _):
            assert notebook.stale_marks() == [
                StaleMark("queued", "r1", "queued"),  # type: ignore[arg-type]
                StaleMark("running", None, "running"),  # type: ignore[arg-type]
                StaleMark("odd", None, "Streaming"),  # type: ignore[arg-type]
                StaleMark("number", None, "7.0"),  # type: ignore[arg-type]
            ]

    @pytest.mark.parametrize(
        ("word", "meaning"),
        [
            ("done", "done"),
            ("Complete", "done"),
            ("completed", "done"),
            ("failed", "error"),
            ("error", "error"),
            ("canceled", "cancelled"),
            (" cancelled ", "cancelled"),
            ("stopped", "cancelled"),
            ("interrupted", "interrupted"),
            (None, "done"),
            ("running", None),
            ("streaming", None),
            ("queued", None),
            ("something new", None),
            (True, None),
        ],
    )
    async def test_words_of_the_earlier_extension(self, word: object, meaning: str | None) -> None:
        assert settled_status(word) == meaning


class TestFormat:
    async def test_an_old_format_is_raised_once(self) -> None:
        async with open_notebook([markdown("x", "a")], nbformat_minor=2) as (notebook, shared):
            assert notebook.nbformat_minor == 2
            assert "id" not in shared.cells[0]
            assert notebook.raise_format("test")
            assert not notebook.raise_format("test")
            await notebook.peer.settled()
            assert notebook.nbformat_minor == 5
            assert shared.cells[0]["id"] == "a"

    async def test_a_current_one_is_left_alone(self) -> None:
        async with open_notebook([markdown("x", "a")]) as (notebook, _):
            before = notebook.peer.doc.get_state()
            assert not notebook.raise_format("test")
            assert notebook.peer.doc.get_state() == before


class TestSnapshot:
    async def test_is_the_whole_notebook(self) -> None:
        async with open_notebook(CELLS, {"a": 1}) as (notebook, _):
            snapshot = await notebook.snapshot()
            assert [cell.id for cell in snapshot.cells] == list(notebook.ids())
            assert snapshot.cells == tuple(notebook.cell(each) for each in notebook.ids())
            assert snapshot.metadata["a"] == 1
            assert snapshot.index("why") == 2
            assert snapshot.cell("why").source == "Why?"
            with pytest.raises(UnknownCell):
                snapshot.index("nowhere")

    async def test_is_of_one_moment(self) -> None:
        """What changes while it is read, in the same transaction, is in it whole or not at all."""
        cells = [markdown("0", f"c{number}") for number in range(2_000)]
        async with open_notebook(cells) as (notebook, _):
            ycells = notebook.peer.ynotebook.ycells
            first, last = ycells[0]["source"], ycells[1_999]["source"]

            async def keep_changing() -> None:
                for number in range(1, 100):
                    with notebook.peer.doc.transaction(origin="test"):
                        for text in (first, last):
                            text.clear()
                            text.insert(0, str(number))
                        if number % 10 == 0:
                            ycells.insert(
                                1, notebook.peer.ynotebook.create_ycell(markdown("0", f"n{number}"))
                            )
                    await anyio.lowlevel.checkpoint()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_changing)
                seen = [await notebook.snapshot() for _ in range(10)]
            assert len({snapshot.cells[0].source for snapshot in seen}) > 1
            for snapshot in seen:
                assert snapshot.cells[0].source == snapshot.cells[-1].source
                expected = 2_000 + int(snapshot.cells[0].source) // 10
                assert len(snapshot.cells) == expected

    async def test_lets_the_loop_turn(self) -> None:
        cells = [markdown("0", f"c{number}") for number in range(2_000)]
        async with open_notebook(cells) as (notebook, _):
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await anyio.lowlevel.checkpoint()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(turn)
                await notebook.snapshot()
                tasks.cancel_scope.cancel()
            assert turns >= 8


class TestDamage:
    """Whatever stands in a notebook, reading it raises nothing but UnknownCell."""

    async def read_everything(self, notebook: Notebook) -> Snapshot:
        for cell_id in notebook.ids():
            if cell_id:
                notebook.cell(cell_id)
                notebook.source(cell_id)
                notebook.metadata(cell_id)
                notebook.nbinline(cell_id)
                notebook.answers_of(cell_id)
        notebook.stale_marks()
        notebook.defaults()
        return await notebook.snapshot()

    async def test_two_cells_with_one_id(self) -> None:
        cells = [markdown("first", "same"), markdown("second", "same"), markdown("third", "c")]
        async with open_notebook(cells) as (notebook, shared):
            assert notebook.source("same") == "first"
            assert notebook.position("same") == 0
            edit(shared, lambda ycells: ycells.pop(0))
            await notebook.changed_until(lambda: len(notebook.ids()) == 2)
            assert notebook.source("same") == "second"

    async def test_the_second_of_two_gets_a_new_id_when_somebody_saves(self) -> None:
        cells = [markdown("first", "same"), markdown("second", "same")]
        async with open_notebook(cells) as (notebook, shared):
            edit(shared, lambda ycells: ycells[1].update({"id": "new"}))
            await notebook.changed_until(lambda: notebook.has("new"))
            assert notebook.ids() == ("same", "new")
            assert notebook.source("new") == "second"
            assert notebook.source("same") == "first"

    @pytest.mark.parametrize(
        "change",
        [
            {"metadata": "text"},
            {"metadata": 7},
            {"metadata": [1, 2]},
            {"metadata": {"nbinlineai": {"isOutputCell": True}}},
            {"metadata": Map({"nbinlineai": "text"})},
            {"metadata": Map({"nbinlineai": Map({"isOutputCell": True, "promptCellId": "b"})})},
            {"source": ["line 1\n", "line 2"]},
            {"source": "plain text"},
            {"source": None},
            {"source": Array(["a", "b"])},
            {"cell_type": "hologram"},
            {"cell_type": None},
            {"cell_type": {}},
            {"id": 7},
            {"id": None},
            {"outputs": "none"},
            {"outputs": Array([1, "x", Map({"output_type": "stream", "text": Text("x")})])},
            {"execution_count": "x"},
            {"execution_count": True},
            {"attachments": []},
        ],
        ids=str,
    )
    async def test_odd_values(self, change: dict[str, Any]) -> None:
        async with open_notebook([code("x", "a"), markdown("y", "b")]) as (notebook, shared):
            edit(shared, lambda ycells: ycells[0].update(change))
            await notebook.peer.settled()
            snapshot = await self.read_everything(notebook)
            assert len(snapshot.cells) == 2
            assert snapshot.cells[1].source == "y"

    @pytest.mark.parametrize("key", ["id", "cell_type", "source", "metadata", "outputs"])
    async def test_missing_keys(self, key: str) -> None:
        async with open_notebook([code("x", "a"), markdown("y", "b")]) as (notebook, shared):
            edit(shared, lambda ycells: ycells[0].pop(key))
            await notebook.peer.settled()
            snapshot = await self.read_everything(notebook)
            assert len(snapshot.cells) == 2

    @pytest.mark.parametrize("cell", [7, "text", None, {"id": "x"}, [1], Text("x"), Array([])])
    async def test_things_that_are_no_cells(self, cell: Any) -> None:
        async with open_notebook([markdown("y", "b")]) as (notebook, shared):
            edit(shared, lambda ycells: ycells.insert(0, cell))
            await notebook.peer.settled()
            snapshot = await self.read_everything(notebook)
            assert [each.kind for each in snapshot.cells] == ["unknown", "markdown"]
            assert notebook.position("b") == 1

    async def test_odd_notebook_metadata(self) -> None:
        async with open_notebook([markdown("y", "b")]) as (notebook, shared):
            meta = shared.ynotebook._ymeta
            for value in ("text", 7, None, [1]):
                with shared.ynotebook.ydoc.transaction(origin="person"):
                    meta["metadata"] = value
                    meta["nbformat"] = value
                    meta["nbformat_minor"] = value
                await shared_and_ours(notebook, value)
                snapshot = await notebook.snapshot()
                assert snapshot.metadata == {}
                assert notebook.defaults() == {}

    async def test_metadata_can_be_written_where_it_was_broken(self) -> None:
        async with open_notebook([markdown("y", "b")]) as (notebook, shared):
            edit(shared, lambda ycells: ycells[0].update({"metadata": "broken"}))
            await notebook.changed_until(lambda: notebook.metadata("b") == {})
            notebook.set_cell_metadata("b", {"isOutputCell": True}, "test")
            assert notebook.nbinline("b") == {"isOutputCell": True}


async def shared_and_ours(notebook: Notebook, value: Any) -> None:
    """Wait until the notebook's own metadata is the given value here as well."""
    await notebook.changed_until(
        lambda: notebook.peer.doc.get("meta", type=Map).get("metadata") == value
    )


async def test_waiting_for_a_change_ends_with_the_room() -> None:
    async with MemoryRooms() as rooms:
        await rooms.add(PATH, CELLS)
        async with rooms.join(PATH) as membership:
            notebook = Notebook(membership.peer)
            await rooms.lose(PATH)
            with anyio.fail_after(2), pytest.raises(RoomLost):
                await notebook.changed_until(lambda: False)
