"""Replaying kept updates doubles nothing, and leaves nothing hanging."""

from collections.abc import Sequence
from typing import Any

import pytest
from pycrdt import Doc, Text

from nbinline_agent.document.answer import AnswerCell, RunMark
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.replay import apply_updates
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, prompt

pytestmark = pytest.mark.asyncio

Q = CellId("q")
MARK = RunMark(RunId("run-1"), "ann", "model-1", "openai_api")


async def answered(rooms: MemoryRooms, kept: list[bytes]) -> CellId:
    """Write an answer in three flushes, keeping its updates."""

    async def keep(updates: Sequence[bytes]) -> None:
        kept.extend(updates)

    async with rooms.join(PATH) as membership:
        membership.peer.set_write_ahead(keep)
        async with AnswerCell.open(Notebook(membership.peer), Q, MARK) as opened:
            for word in ("one ", "two ", "three"):
                await opened.write(word)
                await opened.flush()
            await opened.finish("done")
        return opened.id


async def test_into_the_document_that_has_it_all() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q")])
        kept: list[bytes] = []
        answer = await answered(rooms, kept)
        async with rooms.join(PATH) as membership:
            before = membership.peer.doc.get_state()
            assert apply_updates(membership.peer, kept)
            assert membership.peer.doc.get_state() == before
        assert shared.source(answer) == "one two three"


@pytest.mark.parametrize("known", range(6))
async def test_into_one_that_has_a_part_of_it(known: int) -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q")])
        history = shared.ynotebook.ydoc.get_update()
        kept: list[bytes] = []
        answer = await answered(rooms, kept)
        assert len(kept) == 5

        restored: Doc[Any] = Doc()
        restored.apply_update(history)
        for update in kept[:known]:
            restored.apply_update(update)
        await rooms.add("b.ipynb", [])
        again = rooms.notebooks[PATH] = await rooms.add(PATH, [])
        again.ynotebook.ycells.clear()
        again.ynotebook.ydoc.apply_update(restored.get_update())
        async with rooms.join(PATH) as membership:
            assert apply_updates(membership.peer, kept)
            assert apply_updates(membership.peer, kept)
        assert again.source(answer) == "one two three"
        assert again.mark(answer)["status"] == "done"


async def test_into_one_of_another_history_it_is_refused() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q")])
        kept: list[bytes] = []
        answer = await answered(rooms, kept)
        shared.save()
        await rooms.lose(PATH)
        async with rooms.join(PATH) as membership:
            before = membership.peer.doc.get_update()
            assert not apply_updates(membership.peer, kept[2:])
            assert membership.peer.doc.get_update() == before
        assert shared.source(answer) == "one two three"


async def test_with_a_hole_it_is_refused() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q")])
        history = shared.ynotebook.ydoc.get_update()
        kept: list[bytes] = []
        await answered(rooms, kept)
        again = rooms.notebooks[PATH] = await rooms.add(PATH, [])
        again.ynotebook.ycells.clear()
        again.ynotebook.ydoc.apply_update(history)
        async with rooms.join(PATH) as membership:
            assert not apply_updates(membership.peer, [kept[0], *kept[2:]])
            assert Notebook(membership.peer).ids() == ("q",)


@pytest.mark.parametrize("nonsense", [b"", b"\x01", b"\xff" * 30, b"\x01\x01\x05\x00garbage"])
async def test_nonsense_is_refused(nonsense: bytes) -> None:
    async with MemoryRooms() as rooms:
        await rooms.add(PATH, [prompt("Why?", "q")])
        async with rooms.join(PATH) as membership:
            assert not apply_updates(membership.peer, [nonsense])
            assert Notebook(membership.peer).ids() == ("q",)


async def test_nothing_is_applied_easily() -> None:
    async with MemoryRooms() as rooms:
        await rooms.add(PATH, [prompt("Why?", "q")])
        async with rooms.join(PATH) as membership:
            assert apply_updates(membership.peer, [])


async def test_an_update_that_only_deletes_is_applied() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q")])
        twin: Doc[Any] = Doc()
        twin.apply_update(shared.ynotebook.ydoc.get_update())
        updates: list[bytes] = []
        cells = twin.get("cells", type=type(shared.ynotebook.ycells))
        text = cells[0]["source"]
        assert isinstance(text, Text)
        twin.observe(lambda event: updates.append(event.update))
        with twin.transaction(origin="x"):
            del text[0:2]
        async with rooms.join(PATH) as membership:
            assert apply_updates(membership.peer, updates)
            assert Notebook(membership.peer).source("q") == "y?"


async def test_what_is_replayed_is_sent_and_not_kept_again() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, [prompt("Why?", "q")])
        history = shared.ynotebook.ydoc.get_update()
        kept: list[bytes] = []
        answer = await answered(rooms, kept)
        again = rooms.notebooks[PATH] = await rooms.add(PATH, [])
        again.ynotebook.ycells.clear()
        again.ynotebook.ydoc.apply_update(history)
        new: list[bytes] = []

        async def keep(updates: Sequence[bytes]) -> None:
            new.extend(updates)

        async with rooms.join(PATH) as membership:
            membership.peer.set_write_ahead(keep)
            assert apply_updates(membership.peer, kept)
            assert await membership.peer.settled()
            assert again.source(answer) == "one two three"
        assert new == []
