"""What people saw is brought back once, whatever an older file or a replay left of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbinline_agent.document.answer import AnswerCell, RunMark
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.repair import missing_pieces, replay_and_mend
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, prompt

WORDS = st.lists(st.text("abäß 🙂é\n", min_size=1, max_size=6), max_size=12)


def made(standing: str, pieces: list[tuple[int, str]]) -> str:
    for at, piece in reversed(pieces):
        standing = standing[:at] + piece + standing[at:]
    return standing


@given(WORDS, st.data())
def test_a_cut_text_becomes_whole_again(words: list[str], data: st.DataObject) -> None:
    seen = "".join(words)
    start = data.draw(st.integers(0, len(seen)))
    stop = data.draw(st.integers(start, len(seen)))
    for standing in (seen[:start], seen[stop:]):
        assert made(standing, missing_pieces(standing, seen)) == seen


@given(WORDS, WORDS)
def test_nothing_that_stands_is_removed_and_all_that_was_seen_stands(
    standing: list[str], seen: list[str]
) -> None:
    before, wanted = "".join(standing), "".join(seen)
    after = made(before, missing_pieces(before, wanted))
    assert subsequence(before, after)
    assert subsequence(wanted, after)


def subsequence(part: str, whole: str) -> bool:
    left = iter(whole)
    return all(character in left for character in part)


@pytest.mark.asyncio
@pytest.mark.parametrize("kept", range(0, 12, 3))
async def test_a_replay_beside_an_older_file_doubles_nothing(kept: int) -> None:
    """The room was loaded from a file with ``kept`` words; some updates were never stored."""
    words = [f"word{n} " for n in range(12)]
    mark = RunMark(RunId("run"), "ada", "m", "b")
    updates: list[bytes] = []

    async def keep(group: object) -> None:
        updates.extend(group)  # type: ignore[call-overload]

    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Q?", "p")])
        async with rooms.join(PATH) as membership:
            notebook = Notebook(membership.peer)
            membership.peer.set_write_ahead(keep)
            cell = AnswerCell.prepare(notebook, CellId("p"), mark, "running")
            async with AnswerCell.open(notebook, CellId("p"), mark) as answer:
                for word in words[:9]:
                    await answer.write(word)
                    await answer.flush()
                await membership.peer.settled()
                stored = membership.peer.doc.get_update()
                for word in words[9:]:
                    await answer.write(word)
                    await answer.flush()
                await membership.peer.settled()
                await answer.finish("done")
        assert shared.source(cell) == "".join(words)

        # The store had all but the last words; then the older file won, with a text of its own.
        again = await rooms.add("again.ipynb", [])
        again.ynotebook.ydoc.apply_update(stored)
        [source] = [each["source"] for each in again.ynotebook.ycells if each["id"] == cell]
        with again.ynotebook.ydoc.transaction(origin="file"):
            source.clear()
            source.insert(0, "".join(words[:kept]))
        async with rooms.join(again.path) as membership:
            notebook = Notebook(membership.peer)
            replay_and_mend(notebook, cell, updates, "".join(words), "run")
            assert notebook.source(cell) == "".join(words)
