"""The answer cell: found or made, written piece by piece behind our own last character."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import anyio
import pytest
from pycrdt import Text

from nbinline_agent.document.answer import AnswerCell, Pacer, RunMark
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import CellGone, UnknownCell
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import (
    PATH,
    MemoryRooms,
    SharedNotebook,
    answer,
    code,
    markdown,
    open_notebook,
    prompt,
    two_peers,
)

pytestmark = pytest.mark.asyncio

Q = CellId("q")
MARK = RunMark(RunId("run-1"), "ann", "model-1", "openai_api")
OTHER = RunMark(RunId("run-2"), "bob", "model-2", "anthropic_api")
CELLS = [code("1", "top"), prompt("Why?", "q"), code("2", "bottom")]
ANSWERED = [prompt("Why?", "q"), answer("old words", "a", to="q", runId="run-0", custom=1)]


def text_of(notebook: Notebook, cell_id: str) -> Text:
    text = notebook.entry(cell_id).ycell["source"]
    assert isinstance(text, Text)
    return text


def person(shared: SharedNotebook, cell_id: str, change: Callable[[Text], None]) -> None:
    """Edit a cell's text as somebody else; offsets are UTF-8 bytes."""
    position = [cell.get("id") for cell in shared.cells].index(cell_id)
    with shared.ynotebook.ydoc.transaction(origin="person"):
        change(shared.ynotebook.ycells[position]["source"])


class TestFinding:
    async def test_a_new_cell_right_below_the_question(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("Because.")
                await opened.finish("done")
            await notebook.peer.settled()
            assert [cell["id"] for cell in shared.cells] == ["top", "q", opened.id, "bottom"]
            cell = shared.cell(opened.id)
            assert (cell["cell_type"], cell["source"]) == ("markdown", "Because.")

    @pytest.mark.parametrize(
        ("order", "found"),
        [
            (["q", "below"], "below"),
            (["above", "q"], "above"),
            (["above", "q", "below"], "below"),
            (["q", "top", "below", "below2"], "below"),
            (["above", "above2", "q"], "above"),
        ],
    )
    async def test_the_first_linked_answer_below_else_any(
        self, order: list[str], found: str
    ) -> None:
        cells = [
            prompt("Why?", "q")
            if name == "q"
            else code("1", "top")
            if name == "top"
            else answer("old", name, to="q")
            for name in order
        ]
        async with open_notebook(cells) as (notebook, _):
            assert AnswerCell.prepare(notebook, Q, MARK) == found
            assert len(notebook.ids()) == len(order)

    @pytest.mark.parametrize("lock", [{"editable": False}, {"nbgrader": {"locked": True}}])
    async def test_a_locked_answer_is_left_alone(self, lock: dict[str, Any]) -> None:
        locked: dict[str, Any] = answer("kept", "locked", to="q")
        locked["metadata"] |= lock
        async with open_notebook([prompt("Why?", "q"), locked]) as (notebook, shared):
            before = shared.cell("locked")
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("new")
                await opened.finish("done")
            assert notebook.ids() == ("q", opened.id, "locked")
            await notebook.peer.settled()
            assert shared.cell("locked") == before

    async def test_only_a_markdown_cell_with_a_text_will_do(self) -> None:
        linked: dict[str, Any] = answer("x", "code", to="q")
        linked["cell_type"] = "code"
        async with open_notebook([prompt("Why?", "q"), linked]) as (notebook, _):
            found = AnswerCell.prepare(notebook, Q, MARK)
            assert found not in ("q", "code")
            assert notebook.ids() == ("q", found, "code")

    async def test_the_cell_that_was_prepared_is_the_one_that_is_opened(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            prepared = AnswerCell.prepare(notebook, Q, MARK)
            assert notebook.nbinline(prepared)["status"] == "queued"
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                assert opened.id == prepared
                assert notebook.nbinline(prepared)["status"] == "running"
                await opened.finish("done")

    @pytest.mark.parametrize(
        ("standing", "left"),
        [
            ("old words", "new"),
            ("old <typed>words", "new<typed>"),
            ("<a>old words<b>", "new<a><b>"),
            ("old", "new"),
            ("quite something else", None),
        ],
    )
    async def test_what_was_typed_in_an_earlier_room_stays(
        self, standing: str, left: str | None
    ) -> None:
        cells = [prompt("Why?", "q"), answer(standing, "a", to="q", runId="run-1")]
        async with open_notebook(cells) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK, old="old words") as opened:
                await opened.write("new")
                await opened.finish("done")
            await notebook.peer.settled()
            source = str(shared.cell("a")["source"])
            assert source.startswith("new")
            assert left is None or source == left

    async def test_no_question_no_answer(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            before = notebook.peer.doc.get_state()
            with pytest.raises(UnknownCell):
                AnswerCell.prepare(notebook, CellId("nowhere"), MARK)
            with pytest.raises(UnknownCell):
                async with AnswerCell.open(notebook, CellId("nowhere"), MARK):
                    pass
            assert notebook.peer.doc.get_state() == before

    async def test_an_old_file_format_is_raised_in_the_same_step(self) -> None:
        async with open_notebook([markdown("x", "a"), prompt("Why?", "q")], nbformat_minor=4) as (
            notebook,
            shared,
        ):
            updates: list[bytes] = []
            notebook.peer.doc.observe(lambda event: updates.append(event.update))
            AnswerCell.prepare(notebook, Q, MARK)
            assert len(updates) == 1
            assert notebook.nbformat_minor == 5
            await notebook.peer.settled()
            assert all("id" in cell for cell in shared.cells)


class TestMetadata:
    async def test_opening_writes_metadata_only(self) -> None:
        async with open_notebook(ANSWERED) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await notebook.peer.settled()
                assert shared.source("a") == "old words"
                assert shared.mark("a") == {
                    "isOutputCell": True,
                    "promptCellId": "q",
                    "status": "running",
                    "runId": "run-1",
                    "author": "ann",
                    "model": "model-1",
                    "backend": "openai_api",
                    "custom": 1,
                }
                assert opened.keep_old
                await opened.finish("cancelled")

    async def test_what_an_earlier_run_left_is_taken_away(self) -> None:
        spent = {
            "endedAt": "2020-01-01T00:00:00+00:00",
            "error": {"code": "x", "message": "y"},
            "stale": True,
            "approvalId": "z",
        }
        cells = [prompt("Why?", "q"), answer("old", "a", to="q", status="error", **spent)]
        async with open_notebook(cells) as (notebook, _):
            AnswerCell.prepare(notebook, Q, MARK)
            assert not set(spent) & set(notebook.nbinline("a"))

    async def test_other_metadata_of_the_cell_stays(self) -> None:
        cell = answer("old", "a", to="q")
        cell["metadata"]["tags"] = ["keep"]
        async with open_notebook([prompt("Why?", "q"), cell]) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("new")
                await opened.finish("done")
            await notebook.peer.settled()
            assert shared.cell("a")["metadata"]["tags"] == ["keep"]

    async def test_text_and_ending_come_in_one_transaction(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                updates: list[bytes] = []
                notebook.peer.doc.observe(lambda event: updates.append(event.update))
                await opened.write("all ")
                opened._news = anyio.Event()  # nothing is flushed before the end
                await opened.finish(
                    "error", error=("timed-out", "The service stopped answering."), ended_at=0.0
                )
                assert len(updates) == 1
            mark = notebook.nbinline(opened.id)
            assert mark["status"] == "error"
            assert mark["error"] == {
                "code": "timed-out",
                "message": "The service stopped answering.",
            }
            assert datetime.fromisoformat(mark["endedAt"]).timestamp() == 0.0
            assert notebook.source(opened.id) == "all "

    async def test_status_and_fields(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.set_status("running", approvalId="x")
                assert notebook.nbinline(opened.id)["approvalId"] == "x"
                before = notebook.peer.doc.get_state()
                await opened.set_status("running", approvalId="x")
                assert notebook.peer.doc.get_state() == before
                await opened.finish("done")
            assert "approvalId" not in notebook.nbinline(opened.id)

    async def test_left_without_an_ending_it_is_interrupted(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            with anyio.CancelScope() as scope:
                async with AnswerCell.open(notebook, Q, MARK) as opened:
                    await opened.write("half ")
                    scope.cancel()
                    await anyio.sleep_forever()
            assert notebook.source(opened.id) == "half "
            assert notebook.nbinline(opened.id)["status"] == "interrupted"

    async def test_a_prepared_answer_can_end_unopened(self) -> None:
        async with open_notebook(ANSWERED) as (notebook, _):
            AnswerCell.prepare(notebook, Q, MARK)
            AnswerCell.mark_ended(notebook, CellId("a"), MARK, "cancelled")
            assert notebook.nbinline("a")["status"] == "cancelled"
            assert notebook.source("a") == "old words"
            AnswerCell.mark_ended(notebook, CellId("a"), OTHER, "done")
            assert notebook.nbinline("a")["status"] == "cancelled"
            AnswerCell.mark_ended(notebook, CellId("gone"), MARK, "done")

    async def test_marks_of_the_dead_are_settled(self) -> None:
        cells = [prompt("Why?", "q"), answer("old", "a", to="q", status="running")]
        async with open_notebook(cells) as (notebook, _):
            AnswerCell.mark_interrupted(notebook, CellId("a"), origin="settle")
            AnswerCell.mark_interrupted(notebook, CellId("gone"), origin="settle")
            assert notebook.nbinline("a")["status"] == "interrupted"
            assert notebook.stale_marks() == []
            assert notebook.source("a") == "old"


class TestWriting:
    async def test_the_old_answer_stays_until_the_first_words(self) -> None:
        async with open_notebook(ANSWERED) as (notebook, shared):
            seen: list[str] = []
            text = text_of(notebook, "a")
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                text.observe(lambda event: seen.append(str(text)))
                await anyio.wait_all_tasks_blocked()
                assert seen == []
                await opened.write("new ")
                await opened.flush()
                await opened.write("words")
                await opened.finish("done")
            assert seen == ["new ", "new words"]
            await notebook.peer.settled()
            assert shared.source("a") == "new words"

    async def test_later_words_are_insertions_only(self) -> None:
        async with open_notebook(ANSWERED) as (notebook, _):
            deltas: list[Any] = []
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("first ")
                await opened.flush()
                text = text_of(notebook, "a")
                text.observe(
                    lambda event: deltas.append(event.delta)  # type: ignore[attr-defined]
                )
                for word in ("second ", "third "):
                    await opened.write(word)
                    await opened.flush()
                await opened.finish("done")
            assert deltas == [
                [{"retain": 6}, {"insert": "second "}],
                [{"retain": 13}, {"insert": "third "}],
            ]

    async def test_words_are_collected_within_the_window(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            updates = 0

            def count(event: object) -> None:
                nonlocal updates
                updates += 1

            async with AnswerCell.open(notebook, Q, MARK) as opened:
                notebook.peer.doc.observe(count)
                started = anyio.current_time()
                for _ in range(300):
                    await opened.write("word ")
                    await anyio.lowlevel.checkpoint()
                    await anyio.sleep(0.001)
                took = anyio.current_time() - started
                await opened.flush()
            assert notebook.source(opened.id) == "word " * 300
            assert updates <= took / 0.04 + 4

    async def test_the_first_words_do_not_wait(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            async with AnswerCell.open(notebook, Q, MARK, pacer=Pacer(narrowest=60)) as opened:
                await opened.write("now")
                await anyio.wait_all_tasks_blocked()
                assert notebook.source(opened.id) == "now"
                await opened.write(" later")
                await anyio.wait_all_tasks_blocked()
                assert notebook.source(opened.id) == "now"
                await opened.flush()
                assert notebook.source(opened.id) == "now later"

    async def test_every_transaction_has_the_runs_origin(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            before = len(notebook.peer.ynotebook.undo_manager.undo_stack)
            origins: set[object] = set()
            notebook.peer.ynotebook.ycells.observe_deep(
                lambda events: origins.update(event.transaction.origin for event in events)
            )
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("words")
                await opened.set_status("running", x=1)
                await opened.finish("done")
            assert origins == {"run-1"}
            assert len(notebook.peer.ynotebook.undo_manager.undo_stack) == before

    @pytest.mark.parametrize(
        ("deltas", "text"),
        [
            (["a\ud83d", "\ude00b"], "a😀b"),
            (["\ud83d", "", "\ude00"], "😀"),
            (["a\ude00b"], "a\ufffdb"),
            (["a\ud83d"], "a\ufffd"),
            (["\ud83d\ude00"], "😀"),
            (["👩‍", "👩‍👧", "\u200d👦"], "👩‍👩‍👧‍👦"),
            (["e", "\u0301"], "e\u0301"),
        ],
    )
    async def test_characters_that_were_cut_in_two(self, deltas: list[str], text: str) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                for delta in deltas:
                    await opened.write(delta)
                await opened.finish("done")
            assert notebook.source(opened.id) == text == opened.text


class TestOtherPeoplesEdits:
    async def written(self, notebook: Notebook, opened: AnswerCell, words: str) -> None:
        await opened.write(words)
        await opened.flush()
        assert await notebook.peer.settled()

    async def typed(
        self, notebook: Notebook, shared: SharedNotebook, opened: AnswerCell, change: Any
    ) -> None:
        person(shared, opened.id, change)
        wanted = shared.source(opened.id)
        await notebook.changed_until(lambda: notebook.source(opened.id) == wanted)

    @pytest.mark.parametrize(
        ("change", "result"),
        [
            (lambda text: text.insert(0, "é😀"), "é😀Héllo wörld and on"),
            (lambda text: text.insert(2, "X"), "HXéllo wörld and on"),
            (lambda text: text.insert(len(text), "!"), "Héllo wörld and on!"),
            (lambda text: text.insert(len(text) - 1, "X"), "Héllo wörlXd and on"),
            (lambda text: text.__delitem__(slice(0, 7)), "wörld and on"),
            (lambda text: text.__delitem__(slice(7, len(text))), "Héllo  and on"),
            (lambda text: text.clear(), " and on"),
        ],
        ids=["before", "inside", "behind", "inside-end", "cut-start", "cut-end", "cut-all"],
    )
    async def test_our_words_go_on_behind_our_last_character(
        self, change: Any, result: str
    ) -> None:
        if result.startswith("HX"):
            change = lambda text: text.insert(1, "X")  # noqa: E731
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await self.written(notebook, opened, "Héllo wörld")
                await self.typed(notebook, shared, opened, change)
                await self.written(notebook, opened, " and on")
                await opened.finish("done")
            await notebook.peer.settled()
            assert shared.source(opened.id) == result

    async def test_what_replaces_our_last_word_is_taken_for_it(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await self.written(notebook, opened, "capital of Frence")

                def correct(text: Text) -> None:
                    del text[len("capital of Fr") : len(text)]

                await self.typed(notebook, shared, opened, correct)
                for letter in "ance":
                    await self.typed(
                        notebook, shared, opened, lambda text, x=letter: text.insert(len(text), x)
                    )
                await self.written(notebook, opened, " is Paris")
                await opened.finish("done")
            assert notebook.source(opened.id) == "capital of France is Paris"

    async def test_what_is_typed_before_the_first_words_stays(self) -> None:
        async with open_notebook(ANSWERED) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await self.typed(notebook, shared, opened, lambda text: text.insert(4, "TYPED "))
                assert notebook.source("a") == "old TYPED words"
                await self.written(notebook, opened, "new")
                await self.written(notebook, opened, " answer ")
                await opened.finish("done")
            assert notebook.source("a") == "new answer TYPED "

    async def test_also_while_the_run_was_queued(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            prepared = AnswerCell.prepare(notebook, Q, MARK)
            await notebook.peer.settled()
            person(shared, prepared, lambda text: text.insert(0, "my own note"))
            await notebook.changed_until(lambda: notebook.source(prepared) == "my own note")
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await self.written(notebook, opened, "answer ")
                await opened.finish("done")
            assert notebook.source(opened.id) == "answer my own note"

    async def test_cells_that_come_and_go_around_it_do_not_matter(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await self.written(notebook, opened, "one ")
                with shared.ynotebook.ydoc.transaction(origin="person"):
                    ycells = shared.ynotebook.ycells
                    ycells.insert(0, shared.ynotebook.create_ycell(markdown("n", "new")))
                    del ycells[1]
                await notebook.changed_until(lambda: notebook.has("new"))
                await self.written(notebook, opened, "two")
                await opened.finish("done")
            assert notebook.source(opened.id) == "one two"

    async def test_the_question_may_go_while_it_is_answered(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                with shared.ynotebook.ydoc.transaction(origin="person"):
                    del shared.ynotebook.ycells[1]
                await notebook.changed_until(lambda: not notebook.has("q"))
                await self.written(notebook, opened, "still here")
                await opened.finish("done")
            assert notebook.source(opened.id) == "still here"


class TestDeletion:
    async def delete(self, notebook: Notebook, shared: SharedNotebook, cell_id: str) -> Any:
        position = [cell["id"] for cell in shared.cells].index(cell_id)
        cell = shared.cells[position]
        with shared.ynotebook.ydoc.transaction(origin="person"):
            del shared.ynotebook.ycells[position]
        await notebook.changed_until(lambda: not notebook.has(cell_id))
        return position, cell

    async def test_a_deleted_answer_is_noticed(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("one ")
                await opened.flush()
                await notebook.peer.settled()
                await self.delete(notebook, shared, opened.id)
                with pytest.raises(CellGone):
                    await opened.write("two ")
                assert opened.gone.is_set()
                with pytest.raises(CellGone):
                    await opened.flush()
                with pytest.raises(CellGone):
                    await opened.set_status("running", x=1)
                with pytest.raises(CellGone):
                    await opened.finish("done")
            assert opened.text == "one two "
            assert notebook.ids() == ("top", "q", "bottom")

    async def test_an_undone_deletion_goes_on_where_it_was(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("one ")
                await opened.flush()
                await notebook.peer.settled()
                person(shared, opened.id, lambda text: text.insert(len(text), "(note)"))
                await notebook.changed_until(lambda: notebook.source(opened.id) == "one (note)")
                position, cell = await self.delete(notebook, shared, opened.id)
                with pytest.raises(CellGone):
                    await opened.write("two ")
                with shared.ynotebook.ydoc.transaction(origin="person"):
                    shared.ynotebook.ycells.insert(position, shared.ynotebook.create_ycell(cell))
                await notebook.changed_until(lambda: notebook.has(opened.id))
                await opened.write("three ")
                await opened.finish("done")
            await notebook.peer.settled()
            assert shared.source(opened.id) == "one two three (note)"
            assert shared.mark(opened.id)["status"] == "done"

    async def test_a_source_that_is_replaced_by_another_text_is_followed(self) -> None:
        """As a program does that does not know that texts are to be edited in place."""
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("one ")
                await opened.flush()
                await notebook.peer.settled()
                with shared.ynotebook.ydoc.transaction(origin="person"):
                    shared.ynotebook.ycells[2]["source"] = Text("ONE one [tail]")
                await notebook.changed_until(lambda: notebook.source(opened.id) == "ONE one [tail]")
                await opened.write("two")
                await opened.finish("done")
            await notebook.peer.settled()
            assert "two" in shared.source(opened.id)
            assert len(shared.source(opened.id)) == len("ONE one [tail]two")

    async def test_a_text_overwritten_in_place_is_gone_on_from_its_end(self) -> None:
        """As the server does when the file was changed behind its back."""
        async with open_notebook(CELLS) as (notebook, shared):
            async with AnswerCell.open(notebook, Q, MARK) as opened:
                await opened.write("one two ")
                await opened.flush()
                await notebook.peer.settled()

                def overwrite(text: Text) -> None:
                    text.clear()
                    text.insert(0, "from the file ")

                person(shared, opened.id, overwrite)
                await notebook.changed_until(lambda: notebook.source(opened.id) == "from the file ")
                await opened.write("three")
                await opened.finish("done")
            assert notebook.source(opened.id) == "from the file three"


class TestResuming:
    async def resume(self, standing: str, text_so_far: str, more: str = "") -> tuple[str, str]:
        cells = [prompt("Why?", "q"), answer(standing, "a", to="q", status="error")]
        async with open_notebook(cells) as (notebook, shared):
            async with AnswerCell.resume(
                notebook, CellId("a"), OTHER, text_so_far=text_so_far
            ) as resumed:
                assert notebook.nbinline("a")["status"] == "running"
                await resumed.write(more)
                await resumed.finish("done")
            await notebook.peer.settled()
            assert resumed.text == text_so_far + more
            assert shared.mark("a")["runId"] == "run-2"
            return shared.source("a"), resumed.missing_tail

    @pytest.mark.parametrize(
        ("standing", "so_far", "result", "missing"),
        [
            ("one two", "one two", "one two NEW", ""),
            ("one", "one two", "one two NEW", " two"),
            ("", "one two", "one two NEW", "one two"),
            ("one two (note)", "one two", "one two NEW (note)", ""),
            ("one X two", "one two", "one X two NEW", ""),
            ("one X two three (n)", "one two three", "one X two three NEW (n)", ""),
            ("one (note)", "one two", "one two NEW(note)", "two"),
            ("quite another answer", "one two", "one two NEW", "one two"),
        ],
    )
    async def test_goes_on_behind_the_last_character(
        self, standing: str, so_far: str, result: str, missing: str
    ) -> None:
        assert await self.resume(standing, so_far, " NEW") == (result, missing)

    async def test_long_texts_are_aligned_in_bounded_time(self) -> None:
        so_far = "".join(f"word{number} " for number in range(5_000))
        standing = "note " + so_far[:20_000] + " inserted " + so_far[20_000:30_000]
        with anyio.fail_after(5):
            source, tail = await self.resume(standing, so_far, "NEW")
        assert source.endswith(so_far[30_000:] + "NEW")
        assert tail == so_far[30_000:]

    async def test_a_cell_that_is_gone_is_made_again_below_its_question(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            async with AnswerCell.resume(
                notebook, CellId("a"), MARK, text_so_far="one ", prompt_id=Q
            ) as resumed:
                await resumed.write("two")
                await resumed.finish("done")
            assert notebook.ids() == ("top", "q", "a", "bottom")
            assert notebook.source("a") == "one two"
            assert notebook.nbinline("a")["promptCellId"] == "q"

    async def test_without_cell_and_question_there_is_nothing_to_resume(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            with pytest.raises(CellGone):
                async with AnswerCell.resume(notebook, CellId("a"), MARK, text_so_far="x"):
                    pass
            gone = CellId("gone")
            with pytest.raises(CellGone):
                async with AnswerCell.resume(
                    notebook, CellId("a"), MARK, text_so_far="x", prompt_id=gone
                ):
                    pass

    async def test_a_run_goes_on_after_its_room_was_lost(self) -> None:
        async with MemoryRooms() as rooms:
            shared = await rooms.add(PATH, CELLS)
            async with rooms.join(PATH) as membership:
                async with AnswerCell.open(Notebook(membership.peer), Q, MARK) as opened:
                    await opened.write("one ")
                    await opened.flush()
                    await membership.peer.settled()
                    await membership.save()
                    await opened.write("two ")
                    await opened.flush()
                    await membership.peer.settled()
                    await rooms.lose(PATH)
            assert shared.source(opened.id) == "one "
            async with rooms.join(PATH) as membership:
                async with AnswerCell.resume(
                    Notebook(membership.peer), opened.id, MARK, text_so_far=opened.text
                ) as resumed:
                    assert resumed.missing_tail == "two "
                    await resumed.write("three")
                    await resumed.finish("done")
                await membership.peer.settled()
            assert shared.source(opened.id) == "one two three"


class TestRestoring:
    @pytest.mark.parametrize(
        ("standing", "text", "result", "written"),
        [
            ("one two", "one two", "one two", 0),
            ("one ", "one two", "one two", 3),
            ("", "one two", "one two", 7),
            ("previous answer", "one two", "one two", 7),
            ("previous answer", "", "previous answer", 0),
            ("one two (note)", "one two", "one two (note)", 0),
        ],
    )
    async def test_what_people_had_seen_comes_back(
        self, standing: str, text: str, result: str, written: int
    ) -> None:
        cells = [
            prompt("Why?", "q"),
            answer(standing, "a", to="q", status="running", runId="run-1"),
        ]
        async with open_notebook(cells) as (notebook, _):
            assert AnswerCell.restore(notebook, Q, CellId("a"), MARK, text) == written
            assert notebook.source("a") == result
            assert notebook.nbinline("a")["status"] == "interrupted"
            assert "endedAt" in notebook.nbinline("a")

    async def test_a_cell_that_was_never_saved_is_made_again(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            assert AnswerCell.restore(notebook, Q, CellId("a"), MARK, "one two") == 7
            assert notebook.ids() == ("top", "q", "a", "bottom")
            assert notebook.nbinline("a")["status"] == "interrupted"

    async def test_nothing_is_made_for_nothing(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            before = notebook.peer.doc.get_state()
            assert AnswerCell.restore(notebook, Q, CellId("a"), MARK, "") == 0
            assert AnswerCell.restore(notebook, CellId("gone"), CellId("a"), MARK, "x") == 0
            assert notebook.peer.doc.get_state() == before


class TestPacer:
    async def test_keeps_the_server_within_its_budget(self) -> None:
        pacer = Pacer(budget=300, narrowest=0.04, widest=0.4)
        assert pacer.window == 0.04
        for number in range(12):
            pacer.written(number)
        assert pacer.window == pytest.approx(0.04)
        for number in range(60):
            pacer.written(number)
        assert pacer.window == pytest.approx(0.2)
        for number in range(1000):
            pacer.written(number)
        assert pacer.window == pytest.approx(0.4)

    async def test_lets_words_gather_only_beyond_its_budget(self) -> None:
        pacer = Pacer(budget=300, narrowest=0.04, widest=0.4)
        assert pacer.rest == 0
        for number in range(60):
            pacer.written(number)
        assert pacer.rest == pytest.approx(0.2 / 3)

    async def test_widens_while_the_loop_is_late_and_narrows_again(self) -> None:
        pacer = Pacer()
        pacer.woke(0.001)
        assert pacer.window == 0.04
        for _ in range(60):
            pacer.woke(0.03)
        assert 0.1 < pacer.window < 0.13
        for _ in range(60):
            pacer.woke(5.0)
        assert pacer.window == 0.4
        for _ in range(200):
            pacer.woke(0.0005)
        assert pacer.window == 0.04

    async def test_forgets_who_has_not_written_for_a_second(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 100.0
        monkeypatch.setattr("anyio.current_time", lambda: now)
        pacer = Pacer()
        for number in range(90):
            pacer.written(number)
        assert pacer.window == pytest.approx(0.3)
        now = 101.5
        assert pacer.window == pytest.approx(0.04)


async def test_two_answers_in_one_notebook_do_not_disturb_each_other() -> None:
    cells = [prompt("Why?", "q"), prompt("How?", "p")]
    async with two_peers(cells) as (first, second, shared):
        async with (
            AnswerCell.open(Notebook(first), Q, MARK) as one,
            AnswerCell.open(Notebook(second), CellId("p"), OTHER) as two,
        ):
            for number in range(30):
                await one.write(f"a{number} ")
                await two.write(f"b{number} ")
                if number % 7 == 0:
                    await first.settled()
            await one.finish("done")
            await two.finish("done")
        await first.settled()
        await second.settled()
        assert shared.source(one.id) == "".join(f"a{number} " for number in range(30))
        assert shared.source(two.id) == "".join(f"b{number} " for number in range(30))
