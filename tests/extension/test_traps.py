"""Each trap of the stack under us: without its cure the fault shows, with it not.

The cures of the document layer (offsets, positions, panics, dead handles) have theirs in
tests/agent; crashes are in test_crash.py.
"""

import asyncio
import contextlib
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from jupyter_server_ydoc.stores import SQLiteYStore as StockServerStore
from jupyter_ydoc import YNotebook
from pycrdt import Assoc, Awareness, Doc, Provider, Text, create_awareness_message
from pycrdt.store import SQLiteYStore as StockStore
from pycrdt.websocket.websocket import HttpxWebsocket
from tornado.web import HTTPError
from traitlets.config import Config

from nbinline_agent.document.channel import memory_channels
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Peer
from nbinline_agent.document.presence import AgentUser, Presence, end_cursor
from nbinline_rtc.rooms import RoomsOfServer
from nbinline_rtc.store import SafeSQLiteYStore
from tests.extension.conftest import stopping, until
from tests.extension.notebooks import content_of, sources_on_disk
from tests.extension.test_rooms import no_rooms, room_of, texts, write

NOTEBOOK = {"path": "a.ipynb", "content_type": "notebook", "file_format": "json"}
STOCK = "jupyter_server_ydoc.stores.SQLiteYStore"
SAFE = "nbinline_rtc.store.SafeSQLiteYStore"

cured = pytest.mark.parametrize("cured", [False, True], ids=["fault", "cure"])
stores = pytest.mark.parametrize(
    "ystore_class", [STOCK, SAFE], ids=["fault", "cure"], indirect=True
)


@pytest.fixture
def ystore_class(request):
    """The store named by the test."""
    return getattr(request, "param", SAFE)


async def opened(ydoc):
    """The room's own document, once it may be written."""
    document = await ydoc.get_document(**NOTEBOOK, copy=False, create=True)
    await room_of(ydoc).ydoc_observed.wait()
    return document


async def closed(ydoc):
    """Close the room as its cleaner does."""
    await ydoc.ywebsocket_server.delete_room(room=room_of(ydoc))
    await ydoc.file_loaders.clear()


def add(document, text, cell=0):
    """Write into a document of the server itself."""
    source = document.ycells[cell]["source"]
    with document.ydoc.transaction(origin="server"):
        source += text


class TestStore:
    @stores
    async def test_what_the_server_writes_reaches_a_browser_after_reopening(
        self, ydoc, write_notebook, yjs_view, ystore_class
    ):
        """Stock: the room's first operation is never stored, and Yjs waits for it for ever."""
        write_notebook("one")
        async with stopping(ydoc):
            for opening in range(3):
                document = await opened(ydoc)
                add(document, f" +{opening}")
                report = await asyncio.to_thread(yjs_view, [document.ydoc.get_update()])
                await until(lambda: room_of(ydoc)._saving_document.done())
                await anyio.sleep(0.2)
                await closed(ydoc)
        whole = report["pending"] is None
        assert whole == (ystore_class == SAFE)
        assert (report["cells"][0]["source"] == "one +0 +1 +2") == whole

    @cured
    async def test_an_agent_that_is_a_peer_gets_past_the_hole(
        self, ydoc, jp_serverapp, write_notebook, yjs_view, cured, monkeypatch
    ):
        """With the stock store too: joining completes the store, and our operations are ours."""
        monkeypatch.setattr(ydoc, "ystore_class", _stock_in(jp_serverapp.root_dir))
        write_notebook("one")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            for opening in range(3):
                if cured:
                    async with rooms.join("a.ipynb") as membership:
                        write(membership.peer, f" +{opening}")
                        await membership.peer.settled()
                        update = room_of(ydoc).ydoc.get_update()
                else:
                    add(await opened(ydoc), f" +{opening}")
                    update = room_of(ydoc).ydoc.get_update()
                report = await asyncio.to_thread(yjs_view, [update])
                with contextlib.suppress(ValueError):
                    await until(lambda: "+" in sources_on_disk(ydoc_file(ydoc))[0])
                await anyio.sleep(0.5)
                if not no_rooms(ydoc):
                    await closed(ydoc)
        assert (report["cells"][0]["source"] == "one +0 +1 +2") == cured

    @stores
    async def test_a_document_has_one_store_whoever_opened_its_room(
        self, ydoc, jp_serverapp, write_notebook, ystore_class
    ):
        """Stock: get_document(create=True) builds its store without the config."""
        configured = str(jp_serverapp.root_dir) + "/.rtc_test.db"
        write_notebook("one")
        async with stopping(ydoc):
            await opened(ydoc)
            used = room_of(ydoc).ystore.db_path
        assert (used == configured) == (ystore_class == SAFE)

    @cured
    async def test_squashing_does_not_wipe_the_document(self, tmp_path, cured):
        """Stock: the squash applies no update unless it is compressed, and deletes them all."""
        database, doc, updates = str(tmp_path / "y.db"), Doc(), []
        doc.observe(lambda event: updates.append(event.update))
        settings = Config({"SQLiteYStore": {"db_path": database, "squash_after_inactivity_of": 1}})

        class Stock(StockStore):
            db_path = database
            squash_after_inactivity_of = 1

        text = doc.get("t", type=Text)
        async with SafeSQLiteYStore(path="x", config=settings) if cured else Stock("x") as store:
            text += "hello"
            await store.write(updates[0])
            await anyio.sleep(1.5)
            text += " world"
            await store.write(updates[1])
            read = Doc()
            await store.apply_updates(read)
        assert (str(read.get("t", type=Text)) == "hello world") == cured


class TestRoom:
    @cured
    async def test_nothing_is_written_before_the_document_is_observed(
        self, ydoc, write_notebook, joined, cured
    ):
        """An open room is observed one turn of the loop later; what comes before reaches nobody."""
        write_notebook("one")
        async with stopping(ydoc):
            if cured:
                async with joined() as membership:
                    write(membership.peer, " early")
                    await membership.peer.settled()
                    stored = await replayed(room_of(ydoc).ystore)
            else:
                add(await ydoc.get_document(**NOTEBOOK, copy=False, create=True), " early")
                await room_of(ydoc).ydoc_observed.wait()
                await anyio.sleep(0.3)
                stored = await replayed(room_of(ydoc).ystore)
        assert (texts_of(stored) == ["one early"]) == cured

    @cured
    async def test_a_failed_opening_leaves_no_dead_room(
        self, ydoc, jp_serverapp, write_notebook, cured
    ):
        """The dead room is served to everybody from then on: empty, and never loaded."""
        file = write_notebook("one")
        hidden = file.with_name("hidden")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            await rooms.resolve("a.ipynb")
            file.rename(hidden)
            with pytest.raises(HTTPError):
                await ydoc.get_document(**NOTEBOOK, copy=False, create=True)
            hidden.rename(file)
            if cured:
                async with rooms.join("a.ipynb") as membership:
                    seen = texts(membership.peer)
            else:
                seen = texts_of(await ydoc.get_document(**NOTEBOOK, copy=False, create=True))
        assert (seen == ["one"]) == cured

    @cured
    async def test_the_room_stays_while_the_agent_is_in_it(
        self, ydoc, jp_serverapp, write_notebook, open_page, room_url, cured
    ):
        """Holding the document is not enough: the last browser's leaving closes the room."""
        file = write_notebook("one")
        async with stopping(ydoc), contextlib.AsyncExitStack() as stack:
            rooms = await stack.enter_async_context(RoomsOfServer(jp_serverapp))
            if cured:
                membership = await stack.enter_async_context(rooms.join("a.ipynb"))
            else:
                document = await opened(ydoc)
            async with open_page() as page:
                await page.do("join", url=await room_url())
                await page.do("cut")
            await anyio.sleep(1.2)
            assert no_rooms(ydoc) != cured
            if cured:
                write(membership.peer, " later")
            else:
                add(document, " later")
            await anyio.sleep(1.0)
            assert (sources_on_disk(file) == ["one later"]) == cured

    @cured
    async def test_the_room_is_closed_after_the_agent(
        self, ydoc, jp_serverapp, write_notebook, cured
    ):
        """Only a websocket's closing schedules that; a channel's end does not."""
        write_notebook("one")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            if cured:
                async with rooms.join("a.ipynb"):
                    pass
            else:
                await opened(ydoc)
                async with in_room(ydoc) as channel, Peer(channel) as peer:
                    await peer.synced()
            await anyio.sleep(1.5)
            assert no_rooms(ydoc) == cured

    @cured
    async def test_an_answer_without_pauses_is_saved(self, ydoc, write_notebook, joined, cured):
        """Autosave waits for a pause that a stream does not make."""
        file = write_notebook("one")
        before = file.stat().st_mtime_ns
        async with stopping(ydoc), joined(save_every=0.4) as membership:
            async with membership.writing() if cured else contextlib.nullcontext():
                for i in range(50):
                    write(membership.peer, f" {i}")
                    await anyio.sleep(0.03)
                assert (file.stat().st_mtime_ns != before) == cured

    @cured
    async def test_a_person_who_switched_autosave_off_does_not_lose_the_answer(
        self, ydoc, write_notebook, joined, open_page, room_url, cured
    ):
        """The agent does not vote; where nobody wants autosave only a forced save saves."""
        file = write_notebook("one")
        async with stopping(ydoc), open_page() as page:
            await page.do("join", url=await room_url())
            await page.do("announce", state={"user": {"name": "me"}, "autosave": False})
            async with joined() as membership:
                presence = Presence(membership.peer, AgentUser())
                await presence.show("run", "running", "cell-0", "me")
                await until(lambda: _votes(ydoc) == [False, False])
                write(membership.peer, " answer")
                await membership.peer.settled()
                await anyio.sleep(0.8)
                assert sources_on_disk(file) == ["one"]
                if cured:
                    assert await membership.save()
                assert (sources_on_disk(file) == ["one answer"]) == cured

    @cured
    async def test_a_save_that_failed_is_not_reported_as_done(
        self, ydoc, write_notebook, joined, cured
    ):
        """The room logs the failure and its save task ends as if all were well."""
        file = write_notebook("one")
        async with stopping(ydoc), joined() as membership:
            write(membership.peer, "!")
            await membership.peer.settled()
            file.rename(file.with_name("moved.ipynb"))
            if cured:
                noticed = not await membership.save()
            else:
                task = room_of(ydoc)._save_to_disc()
                await task
                noticed = task.exception() is not None
        assert noticed == cured

    @cured
    async def test_our_transactions_do_not_clash_with_the_rooms(
        self, ydoc, write_notebook, joined, cured
    ):
        """The room's own may stay open across awaits, with another origin than ours."""
        write_notebook("one", *(f"cell {i}" for i in range(200)))
        async with stopping(ydoc), joined() as membership:
            room = room_of(ydoc)
            content = await room._document.aget()
            content["cells"][0]["source"] = "changed on disk"
            clashed = False
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(room._document.aset, content)
                await anyio.lowlevel.checkpoint()
                try:
                    if cured:
                        write(membership.peer, " ours", cell=1)
                    else:
                        add(room._document, " ours", cell=1)
                except RuntimeError:
                    clashed = True
        assert clashed != cured

    @cured
    async def test_the_rooms_undo_stack_does_not_grow_for_ever(
        self, ydoc, write_notebook, joined, monkeypatch, cured
    ):
        """Updates of clients come without an origin, and the document keeps each to undo it."""
        monkeypatch.setattr("nbinline_rtc.rooms.CLEAR_UNDO_EVERY", 0.0 if cured else 60.0)
        monkeypatch.setattr("nbinline_rtc.rooms.WATCH_EVERY", 0.05)
        write_notebook("one")
        async with stopping(ydoc), joined() as membership:
            # Each pause ends a step of undoing.
            for i in range(4):
                write(membership.peer, f" {i}")
                await anyio.sleep(0.6)
            await membership.peer.settled()
            await anyio.sleep(0.3)
            steps = len(room_of(ydoc)._document.undo_manager.undo_stack)
        assert (steps == 0) == cured


class TestPages:
    @cured
    async def test_an_agent_outside_does_not_lose_its_last_words(
        self, ydoc, write_notebook, rtc_connect_doc_client, cured
    ):
        """Who leaves right behind a burst takes with it what was not sent and applied yet."""
        write_notebook("")
        words = [f"word{i} " for i in range(80)]
        async with stopping(ydoc):
            document = await opened(ydoc)
            websocket, name = await rtc_connect_doc_client("json", "notebook", "a.ipynb")
            async with websocket as connection:
                channel = HttpxWebsocket(connection, name)
                with anyio.CancelScope() as leaving:
                    if cured:
                        async with Peer(channel) as peer:
                            await peer.synced()
                            for word in words:
                                write(peer, word)
                            leaving.cancel()
                            await anyio.sleep_forever()
                    else:
                        notebook = YNotebook()
                        async with Provider(notebook.ydoc, channel) as provider:
                            await provider.synced.wait()
                            for word in words:
                                add(notebook, word)
                            leaving.cancel()
                            await anyio.sleep_forever()
            await anyio.sleep(0.5)
        assert (texts_of(document) == ["".join(words)]) == cured

    @cured
    async def test_a_page_that_comes_later_sees_the_agent_at_once(
        self, ydoc, write_notebook, joined, open_page, room_url, cured
    ):
        """Rooms do not tell newcomers who is there; they would wait for the next renewal."""
        write_notebook("one")
        state = {"user": AgentUser().shown(), "cursors": [], "autosave": False, "nbinline": {}}
        async with stopping(ydoc), joined() as membership, open_page() as page:
            url = await room_url()
            if cured:
                await membership.peer.set_awareness(state)
                await membership.peer.settled()
                await page.do("join", url=url)
                seen = await page.do("seeAwareness", key="nbinline", timeout=2000)
            else:
                async with in_room(ydoc) as channel:
                    awareness = Awareness(Doc())
                    awareness.set_local_state(state)
                    update = awareness.encode_awareness_update([awareness.client_id])
                    await channel.send(create_awareness_message(update))
                    await until(lambda: awareness.client_id in room_of(ydoc).awareness.states)
                    await page.do("join", url=url)
                    seen = await page.do("seeAwareness", key="nbinline", timeout=2000)
        assert seen["seen"] == cured

    @cured
    async def test_the_cursor_does_not_break_the_editors(
        self, ydoc, write_notebook, joined, open_page, room_url, cured
    ):
        """Pycrdt leaves out what is empty; Yjs then reads into nothing, in every editor."""
        write_notebook("one 🎉")
        async with stopping(ydoc), joined() as membership, open_page() as page:
            await page.do("join", url=await room_url())
            if cured:
                (cursor,) = end_cursor(membership.peer.index, "cell-0")
                position = cursor["head"]
            else:
                source = membership.peer.ynotebook.ycells[0]["source"]
                position = source.sticky_index(0, Assoc.BEFORE).to_json()
                position.pop("item", None)
            try:
                found = await page.do("resolve", position=position)
            except AssertionError as error:
                assert "TypeError" in str(error)  # noqa: PT017
                found = {"index": None}
            if cured:
                write(membership.peer, " and more")
                assert (await page.do("see", text="and more"))["seen"]
                found = await page.do("resolve", position=position)
        assert (found["index"] == len("one 🎉 and more".encode("utf-16-le")) // 2) == cured

    async def test_a_persons_undo_leaves_the_agents_text(
        self, ydoc, write_notebook, joined, open_page, room_url
    ):
        write_notebook("one")
        async with stopping(ydoc), joined() as membership, open_page() as page:
            await page.do("join", url=await room_url())
            await page.do("type", text=" me")
            await membership.peer.changed_until(lambda: texts(membership.peer) == ["one me"])
            write(membership.peer, " agent")
            assert (await page.do("see", text="one me agent"))["seen"]
            assert (await page.do("undo"))["undone"]
            assert await page.sources() == ["one agent"]
            assert not (await page.do("undo"))["undone"]
            await membership.peer.changed_until(lambda: texts(membership.peer) == ["one agent"])

    @cured
    async def test_cell_ids_of_an_old_file_hold_when_it_is_opened_again(
        self, ydoc, jp_serverapp, write_notebook, cured
    ):
        """Before nbformat 4.5 ids are stripped when the file is saved, and made up at loading."""
        file = write_notebook("one", "two", minor=4)
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            async with rooms.join("a.ipynb") as membership:
                notebook = Notebook(membership.peer)
                if cured:
                    assert notebook.raise_format("run")
                write(membership.peer, "!")
                before = notebook.ids()
            await until(lambda: no_rooms(ydoc))
            await forget_history(ydoc)
            async with rooms.join("a.ipynb") as membership:
                after = Notebook(membership.peer).ids()
        assert content_of(file)["nbformat_minor"] == (5 if cured else 4)
        assert (before == after) == cured


@contextlib.asynccontextmanager
async def in_room(ydoc):
    """A channel into the open room, without what RoomsOfServer does around it."""
    near, far = memory_channels(room_of(ydoc).room_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ydoc.ywebsocket_server.serve, far)
        yield near
        await near.aclose()
    await far.aclose()


async def replayed(store):
    """A new document from what is stored."""
    notebook = YNotebook()
    async for update, *_ in store.read():
        notebook.ydoc.apply_update(update)
    return notebook


async def forget_history(ydoc):
    """As after a year, or on another machine: only the file is there."""
    store = SafeSQLiteYStore(path="any")
    await asyncio.wrap_future(store._writer.call(lambda db: db.execute("DELETE FROM yupdates")))


def texts_of(document):
    return [cell["source"].to_py() for cell in document.ycells]


def ydoc_file(ydoc):
    return Path(ydoc.serverapp.root_dir) / "a.ipynb"


def _stock_in(folder):
    class Stock(StockServerStore):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            self.db_path = f"{folder}/stock.db"

    return Stock


def _votes(ydoc):
    return [state.get("autosave") for state in room_of(ydoc).awareness.states.values() if state]
