"""A peer takes part in a room: nothing echoed, nothing lost, everything in order."""

from collections.abc import Sequence
from typing import Any, ClassVar

import anyio
import pytest
from jupyter_ydoc import YNotebook
from pycrdt import (
    Awareness,
    Doc,
    Text,
    YMessageType,
    YSyncMessageType,
    create_awareness_message,
    create_update_message,
)

from nbinline_agent.document.channel import MemoryChannel, memory_channels
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Peer
from nbinline_agent.document.vectors import read_vector
from nbinline_agent.errors import BadRequest, NotCaughtUp, RoomLost, UnknownCell
from nbinline_agent.testing import PATH, MemoryRooms, code, markdown, open_notebook, two_peers

pytestmark = pytest.mark.asyncio

CELLS = [markdown("one", "a"), code("1 + 1", "b")]


class FarEnd:
    """The other side of a peer, played message by message."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel
        self.doc: Doc[Any] = Doc()
        self.notebook = YNotebook(self.doc)

    async def receive(self) -> tuple[int, int | None, bytes]:
        """The next message: kind, kind of synchronisation, payload."""
        with anyio.fail_after(5):
            message = await self.channel.recv()
        if message[0] == YMessageType.SYNC:
            return message[0], message[1], message[2:]
        return message[0], None, message[1:]

    async def answer_sync(self) -> None:
        """Take what comes until asked for the document, and give it."""
        while (await self.receive())[:2] != (YMessageType.SYNC, YSyncMessageType.SYNC_STEP1):
            pass
        await self.give()

    async def give(self) -> None:
        update = self.doc.get_update()
        message = create_update_message(update)
        await self.channel.send(bytes([message[0], YSyncMessageType.SYNC_STEP2]) + message[2:])


def far_peer() -> tuple[FarEnd, MemoryChannel]:
    near, far = memory_channels("room")
    return FarEnd(far), near


async def append(peer: Peer, cell_id: str, words: str) -> None:
    text = Notebook(peer).entry(cell_id).ycell["source"]
    with peer.doc.transaction(origin="test"):
        text.insert(len(text), words)


async def test_the_whole_document_is_there_once_synced() -> None:
    async with open_notebook(CELLS) as (notebook, _):
        assert notebook.ids() == ("a", "b")
        assert notebook.source("b") == "1 + 1"


async def test_both_ways() -> None:
    async with two_peers(CELLS) as (first, second, shared):
        await append(first, "a", " two")
        await append(second, "b", " + 1")
        assert await first.settled()
        assert await second.settled()
        await first.changed_until(lambda: Notebook(first).source("b") == "1 + 1 + 1")
        await second.changed_until(lambda: Notebook(second).source("a") == "one two")
        assert shared.source("a") == "one two"


async def test_what_others_wrote_is_never_sent_back() -> None:
    far, near = far_peer()
    far.notebook.set({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    async with Peer(near) as peer:
        await far.answer_sync()
        await peer.synced()
        updates: list[bytes] = []
        far.doc.observe(lambda event: updates.append(event.update))
        text = far.notebook.ycells[0]["source"]
        for number in range(10):
            with far.doc.transaction(origin="person"):
                text.insert(len(text), str(number))
        for update in updates:
            await far.channel.send(create_update_message(update))
        await peer.changed_until(lambda: Notebook(peer).source("a") == "one0123456789")
        await append(peer, "a", "!")
        kind, sync, _ = await far.receive()
        assert (kind, sync) == (YMessageType.SYNC, YSyncMessageType.SYNC_UPDATE)
        await anyio.wait_all_tasks_blocked()
        assert far.channel._incoming.statistics().current_buffer_used == 0
        await far.channel.aclose()
    await near.aclose()


async def test_remote_changes_do_not_fill_the_undo_stack() -> None:
    async with two_peers(CELLS) as (first, second, _):
        before = len(second.ynotebook.undo_manager.undo_stack)
        for _ in range(20):
            await append(first, "a", "x")
        await second.changed_until(lambda: Notebook(second).source("a") == "one" + "x" * 20)
        assert len(second.ynotebook.undo_manager.undo_stack) == before


async def test_leaving_brings_the_last_words_across() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, CELLS)
        async with rooms.join(PATH) as membership:
            for number in range(500):
                await append(membership.peer, "a", f" w{number}")
        assert shared.source("a").endswith(" w499")


async def test_a_cancelled_peer_brings_its_last_words_across() -> None:
    async with MemoryRooms() as rooms:
        shared = await rooms.add(PATH, CELLS)
        with anyio.CancelScope() as scope:
            async with rooms.join(PATH) as membership:
                await append(membership.peer, "a", " last words")
                scope.cancel()
                await anyio.sleep_forever()
        assert shared.source("a") == "one last words"


async def test_settled_means_that_the_far_end_has_everything() -> None:
    async with open_notebook(CELLS) as (notebook, shared):
        for number in range(500):
            await append(notebook.peer, "a", f" w{number}")
        assert await notebook.peer.settled()
        assert shared.source("a").endswith(" w499")


async def test_settled_says_so_when_nobody_answers() -> None:
    far, near = far_peer()
    async with Peer(near) as peer:
        await far.answer_sync()
        await peer.synced()
        assert not await peer.settled(timeout=0.01)
        await far.channel.aclose()
        assert not await peer.settled(timeout=5)
    await near.aclose()


async def test_a_document_that_does_not_come_is_a_lost_room() -> None:
    far, near = far_peer()
    async with Peer(near) as peer:
        with pytest.raises(RoomLost):
            await peer.synced(timeout=0.01)
        await far.channel.aclose()
        with anyio.fail_after(1):
            with pytest.raises(RoomLost):
                await peer.synced(timeout=60)
    await near.aclose()


async def test_the_end_of_the_channel_is_noticed() -> None:
    async with MemoryRooms() as rooms:
        await rooms.add(PATH, CELLS)
        async with rooms.join(PATH) as membership:
            await rooms.replace(PATH)
            with anyio.fail_after(1):
                await membership.peer.closed.wait()
                await membership.lost.wait()
            with pytest.raises(RoomLost):
                await membership.peer.changed_until(lambda: False)
            with pytest.raises(RoomLost):
                await membership.peer.caught_up(b"\x01\x07\x01", timeout=60)


async def test_an_error_inside_comes_out_as_it_is() -> None:
    async with MemoryRooms() as rooms:
        await rooms.add(PATH, CELLS)
        with pytest.raises(UnknownCell):
            async with rooms.join(PATH) as membership:
                Notebook(membership.peer).cell("nowhere")


class TestBarrier:
    async def test_waits_for_what_somebody_else_has(self) -> None:
        far, near = far_peer()
        async with Peer(near) as peer:
            await far.answer_sync()
            await peer.synced()
            person: Doc[Any] = Doc()
            person.get("other", type=Text).insert(0, "hello")
            reached = False

            async def wait() -> None:
                nonlocal reached
                await peer.caught_up(person.get_state())
                reached = True

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                assert not reached
                await far.channel.send(create_update_message(person.get_update()))
            assert reached
            await far.channel.aclose()
        await near.aclose()

    async def test_gives_up_in_time(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            with pytest.raises(NotCaughtUp):
                await notebook.peer.caught_up(b"\x01\x07\x01", timeout=0.01)

    async def test_an_old_vector_is_covered_at_once(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            vector = notebook.peer.doc.get_state()
            await append(notebook.peer, "a", "more")
            await notebook.peer.caught_up(vector, timeout=0)
            await notebook.peer.caught_up(b"\x00", timeout=0)

    @pytest.mark.parametrize(
        "nonsense",
        [b"", b"\x01", b"\x02\x01\x01", b"\x00\x00", b"\xff" * 40, b"\x01" + b"\xff" * 9],
    )
    async def test_nonsense_is_a_bad_request(self, nonsense: bytes) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            with pytest.raises(BadRequest):
                await notebook.peer.caught_up(nonsense, timeout=0)

    async def test_a_vector_is_read_as_pycrdt_writes_it(self) -> None:
        doc: Doc[Any] = Doc(client_id=2**40 + 5)
        text = doc.get("t", type=Text)
        text.insert(0, "x" * 300)
        assert read_vector(doc.get_state()) == {2**40 + 5: 300}


class TestWriteAhead:
    async def test_updates_are_kept_before_anybody_sees_them(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            kept: list[bytes] = []
            seen_then: list[str] = []
            asked = anyio.Event()
            go_on = anyio.Event()

            async def keep(updates: Sequence[bytes]) -> None:
                asked.set()
                await go_on.wait()
                seen_then.append(shared.source("a"))
                kept.extend(updates)

            notebook.peer.set_write_ahead(keep)
            await append(notebook.peer, "a", " two")
            with anyio.fail_after(1):
                await asked.wait()
            assert shared.source("a") == "one"
            go_on.set()
            await notebook.peer.settled()
            assert seen_then == ["one"]
            assert shared.source("a") == "one two"
            assert len(kept) == 1

    async def test_what_is_written_meanwhile_makes_up_the_next_group(self) -> None:
        async with open_notebook(CELLS) as (notebook, _):
            groups: list[int] = []
            go_on = anyio.Event()

            async def keep(updates: Sequence[bytes]) -> None:
                groups.append(len(updates))
                await go_on.wait()

            notebook.peer.set_write_ahead(keep)
            await append(notebook.peer, "a", "1")
            await anyio.wait_all_tasks_blocked()
            for number in range(7):
                await append(notebook.peer, "a", str(number))
            go_on.set()
            await notebook.peer.settled()
            assert groups == [1, 7]

    async def test_kept_updates_make_up_what_was_written(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):
            kept: list[bytes] = []
            before = notebook.peer.doc.get_update()

            async def keep(updates: Sequence[bytes]) -> None:
                kept.extend(updates)

            notebook.peer.set_write_ahead(keep)
            for number in range(20):
                await append(notebook.peer, "a", str(number))
            await notebook.peer.settled()
            again: Doc[Any] = Doc()
            again.apply_update(before)
            for update in kept:
                again.apply_update(update)
            assert YNotebook(again).get()["cells"][0]["source"] == shared.source("a")

    async def test_a_sync_reply_does_not_overtake_it(self) -> None:
        """The far end asks for our state while our update is still being kept."""
        far, near = far_peer()
        far.notebook.set({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        go_on = anyio.Event()

        async def keep(updates: Sequence[bytes]) -> None:
            await go_on.wait()

        async with Peer(near) as peer:
            await far.answer_sync()
            await peer.synced()
            peer.set_write_ahead(keep)
            await append(peer, "a", " secret")
            await anyio.wait_all_tasks_blocked()
            await far.channel.send(b"\x00\x00\x01\x00")
            await anyio.wait_all_tasks_blocked()
            assert far.channel._incoming.statistics().current_buffer_used == 0
            go_on.set()
            kinds = [(await far.receive())[1] for _ in range(2)]
            assert kinds == [YSyncMessageType.SYNC_UPDATE, YSyncMessageType.SYNC_STEP2]
            await far.channel.aclose()
        await near.aclose()

    async def test_a_failing_one_does_not_hide_the_answer(self) -> None:
        async with open_notebook(CELLS) as (notebook, shared):

            async def fail(updates: Sequence[bytes]) -> None:
                raise OSError("disk full")

            notebook.peer.set_write_ahead(fail)
            await append(notebook.peer, "a", " two")
            assert await notebook.peer.settled()
            assert shared.source("a") == "one two"

    async def test_one_at_work_when_the_room_goes_away_comes_to_its_end(self) -> None:
        """Else nobody could say whether a later replay brings these words."""
        async with MemoryRooms() as rooms:
            await rooms.add(PATH, CELLS)
            asked, go_on, done = anyio.Event(), anyio.Event(), False

            async def keep(updates: Sequence[bytes]) -> None:
                nonlocal done
                asked.set()
                await go_on.wait()
                done = True

            async with anyio.create_task_group() as tasks:
                with anyio.CancelScope() as scope:
                    async with rooms.join(PATH) as membership:
                        membership.peer.set_write_ahead(keep)
                        await append(membership.peer, "a", " two")
                        await asked.wait()
                        await rooms.replace(PATH)
                        scope.cancel()
                        tasks.start_soon(self.later, go_on)
                        await anyio.sleep_forever()
                assert done

    @staticmethod
    async def later(event: anyio.Event) -> None:
        await anyio.wait_all_tasks_blocked()
        event.set()

    async def test_a_cancelled_peer_keeps_what_it_sends(self) -> None:
        async with MemoryRooms() as rooms:
            shared = await rooms.add(PATH, CELLS)
            kept: list[bytes] = []
            asked = anyio.Event()

            async def keep(updates: Sequence[bytes]) -> None:
                asked.set()
                await anyio.lowlevel.checkpoint()
                kept.extend(updates)

            with anyio.CancelScope() as scope:
                async with rooms.join(PATH) as membership:
                    membership.peer.set_write_ahead(keep)
                    await append(membership.peer, "a", " two")
                    await asked.wait()
                    scope.cancel()
                    await anyio.sleep_forever()
            assert shared.source("a") == "one two"
            assert kept


class TestAwareness:
    STATE: ClassVar = {
        "user": {"username": "agent", "name": "Agent"},
        "cursors": [],
        "autosave": False,
    }

    async def test_the_room_knows_us_until_we_leave(self) -> None:
        async with MemoryRooms() as rooms:
            shared = await rooms.add(PATH, CELLS)
            async with rooms.join(PATH) as membership:
                await membership.peer.set_awareness(self.STATE)
                await membership.peer.settled()
                states = shared.room.awareness.states
                assert states[membership.peer.client_id] == self.STATE
            assert shared.users == []

    async def test_leaving_takes_us_out_also_when_cancelled(self) -> None:
        async with MemoryRooms() as rooms:
            shared = await rooms.add(PATH, CELLS)
            with anyio.CancelScope() as scope:
                async with rooms.join(PATH) as membership:
                    await membership.peer.set_awareness(self.STATE)
                    await membership.peer.settled()
                    assert len(shared.users) == 1
                    scope.cancel()
                    await anyio.sleep_forever()
            assert shared.users == []

    async def test_nothing_is_announced_unasked(self) -> None:
        async with two_peers(CELLS) as (first, second, shared):
            await first.settled()
            assert shared.users == []
            assert second.others() == []

    async def test_others_see_us_and_we_see_them(self) -> None:
        async with two_peers(CELLS) as (first, second, _):
            await first.set_awareness(self.STATE)
            await second.changed_until(lambda: bool(second.others()))
            assert second.others() == [self.STATE["user"]]
            assert first.others() == []
            await first.set_awareness(None)
            await second.changed_until(lambda: not second.others())

    async def test_a_newcomer_is_told_at_once(self) -> None:
        """A room does not tell who is there: we say so again when somebody comes."""
        async with MemoryRooms() as rooms:
            await rooms.add(PATH, CELLS)
            async with rooms.join(PATH) as membership:
                await membership.peer.set_awareness(self.STATE)
                await membership.peer.settled()
                async with rooms.join(PATH) as late:
                    await late.peer.set_awareness({"user": {"username": "ann"}})
                    with anyio.fail_after(2):
                        await late.peer.changed_until(lambda: bool(late.peer.others()))
                    assert late.peer.others() == [self.STATE["user"]]

    async def test_it_is_renewed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nbinline_agent.document.peer.RENEWAL", 0.02)
        async with two_peers(CELLS) as (first, second, _):
            await first.set_awareness(self.STATE)
            await second.changed_until(lambda: bool(second.others()))
            clock = second.awareness.meta[first.client_id]["clock"]
            with anyio.fail_after(5):
                await second.changed_until(
                    lambda: second.awareness.meta[first.client_id]["clock"] > clock + 2
                )

    async def test_a_state_that_is_not_renewed_goes_away(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nbinline_agent.document.peer.RENEWAL", 0.02)
        monkeypatch.setattr("nbinline_agent.document.peer.OUTDATED", 0.05)
        far, near = far_peer()
        async with Peer(near) as peer:
            await far.answer_sync()
            await peer.synced()
            ghost = Awareness(Doc())
            ghost.set_local_state({"user": {"username": "ghost"}})
            update = ghost.encode_awareness_update([ghost.client_id])
            await far.channel.send(create_awareness_message(update))
            await peer.changed_until(lambda: bool(peer.others()))
            with anyio.fail_after(5):
                await peer.changed_until(lambda: not peer.others())
            await far.channel.aclose()
        await near.aclose()

    async def test_a_delayed_state_is_overruled_by_a_later_one(self) -> None:
        async with two_peers(CELLS) as (first, second, _):
            await first.set_awareness({**self.STATE, "n": 1}, delay=0.05)
            await first.set_awareness({**self.STATE, "n": 2}, delay=0.02)
            with anyio.fail_after(2):
                await second.changed_until(lambda: bool(second.awareness_states))
            assert [state["n"] for state in second.awareness_states.values()] == [2]


class TestNonsense:
    @pytest.mark.parametrize(
        "message",
        [
            b"",
            b"\x00",
            b"\x00\x02",
            b"\x00\x02\x05garbage",
            b"\x00\x01\x80",
            b"\x01\xff",
            b"\x00\x01\x03\xff\xff\xff",
            b"\x01\x05hello",
            b"\x01\x00",
            b"\x02\x00\x00",
            b"\x7d{}",
            b"\x01\x0b\x01\x07\x01\x07{broken",
        ],
    )
    async def test_a_broken_message_does_not_cost_the_room(self, message: bytes) -> None:
        far, near = far_peer()
        far.notebook.set({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        async with Peer(near) as peer:
            await far.channel.send(message)
            await far.answer_sync()
            await peer.synced()
            assert Notebook(peer).ids() == ("a", "b")
            assert not peer.closed.is_set()
            await far.channel.aclose()
        await near.aclose()
