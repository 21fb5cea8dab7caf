"""The update store: whole, healing, cheap under load, and honest about failing disks."""

import asyncio
import gc
import os
import sqlite3
import stat
import time
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook
from pycrdt import Array, Doc, Map, Text
from pycrdt.store import SQLiteYStore as StockStore
from pycrdt.store import YDocNotFound
from traitlets.config import Config

from nbinline_rtc import store_tables as tables
from nbinline_rtc.store import SafeSQLiteYStore, close_writers, keep_marks
from nbinline_rtc.store_writer import StoreWriter, writer_of

NAME = ".notebook:some-id.y"


@pytest.fixture(autouse=True)
def data_dir(tmp_path, monkeypatch):
    """The Jupyter data directory; writers end with the test."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    yield tmp_path / "data"
    close_writers()


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "ystore.db")


@pytest.fixture
def new_store(database):
    """A store on the test's file, as a newly opened room would build it."""

    def make(name=NAME):
        return SafeSQLiteYStore(
            path=name, config=Config({"SafeSQLiteYStore": {"db_path": database}})
        )

    return make


def recording(doc):
    """The document's updates from now on."""
    updates = []
    doc.observe(lambda event: updates.append(event.update))
    return updates


def texts(doc):
    return {name: str(doc.get(name, type=Text)) for name in ("a", "b")}


async def stored(store):
    doc = Doc()
    await store.apply_updates(doc)
    return doc


async def done(writer, statement):
    """A statement on the writer's own connection."""
    await asyncio.wrap_future(writer.call(lambda db: db.execute(statement).fetchall()))


async def rows_of(store):
    return [row async for row in store.read()]


class TestWriting:
    async def test_what_was_written_is_read_back_in_order(self, new_store):
        store, doc = new_store(), Doc()
        updates = recording(doc)
        await store.start()
        doc.get("a", type=Text).insert(0, "one")
        doc.get("b", type=Text).insert(0, "two")
        for update in updates:
            await store.write(update)

        again = Doc()
        for update, metadata, timestamp in await rows_of(store):
            again.apply_update(update)
            assert metadata == b""
            assert abs(time.time() - timestamp) < 60
        assert texts(again) == {"a": "one", "b": "two"}

    async def test_many_rooms_share_a_transaction(self, new_store, database):
        doc = Doc()
        updates = recording(doc)
        text = doc.get("a", type=Text)
        for _ in range(50):
            text += "word "
        stores = [new_store(f".notebook:{i}.y") for i in range(20)]
        statements = []
        writer = writer_of(database)
        await asyncio.wrap_future(writer.call(lambda db: db.set_trace_callback(statements.append)))
        for update in updates:
            for store in stores:
                await store.write(update)
        await stores[0].flush()

        assert statements.count("COMMIT") <= 5
        for store in stores:
            assert str((await stored(store)).get("a", type=Text)) == "word " * 50

    async def test_nothing_is_stored_of_an_unknown_document(self, new_store):
        with pytest.raises(YDocNotFound):
            await stored(new_store())
        with pytest.raises(YDocNotFound):
            await rows_of(new_store())

    async def test_the_stock_store_reads_our_file_and_we_read_its(self, new_store, database):
        class Stock(StockStore):
            db_path = database

        doc = Doc()
        updates = recording(doc)
        doc.get("a", type=Text).insert(0, "ours")
        await new_store().write(updates[0])
        await new_store().flush()
        async with Stock(NAME) as stock:
            theirs = Doc()
            await stock.apply_updates(theirs)
            assert texts(theirs)["a"] == "ours"
            doc.get("b", type=Text).insert(0, "theirs")
            await stock.write(updates[1])
        assert texts(await stored(new_store())) == {"a": "ours", "b": "theirs"}

    async def test_a_checkpoint_of_the_stock_store_is_taken_over(self, new_store, database):
        class Stock(StockStore):
            db_path = database
            checkpoint_interval = 5

        doc = Doc()
        updates = recording(doc)
        for i in range(6):
            doc.get("a", type=Text).insert(0, str(i))
        async with Stock(NAME) as stock:
            for update in updates:
                await stock.write(update)
        with sqlite3.connect(database) as connection:
            assert connection.execute("SELECT count(*) FROM ycheckpoints").fetchone() == (1,)
            # As after the stock store's faulty squash: only the checkpoint still has the text.
            connection.execute("DELETE FROM yupdates WHERE rowid < 5")
        connection.close()

        assert texts(await stored(new_store()))["a"] == "543210"
        assert texts(await stored(new_store()))["a"] == "543210"

    async def test_files_are_private(self, data_dir):
        store = SafeSQLiteYStore(path=NAME)
        await store.write(Doc().get_update())
        await store.flush()

        assert store.db_path == str(data_dir / "nbinline" / "ystore.db")
        assert stat.S_IMODE(os.stat(store.db_path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(data_dir / "nbinline").st_mode) == 0o700

    async def test_as_a_context_manager_it_commits_at_the_end(self, new_store):
        doc = Doc()
        updates = recording(doc)
        doc.get("a", type=Text).insert(0, "x")
        async with new_store() as store:
            await store.write(updates[0])
        assert texts(await stored(new_store()))["a"] == "x"


class TestWholeness:
    async def test_the_start_of_each_opening_is_stored(self, new_store):
        """The room's first operation comes before the store is told of anything."""
        for opening in range(3):
            room, store = Doc(), new_store()
            room.get("state", type=Map)["path"] = f"a-{opening}.ipynb"
            try:
                await store.apply_updates(room)
            except YDocNotFound:
                await store.encode_state_as_update(room)
            updates = recording(room)
            room.get("a", type=Text).insert(0, str(opening))
            for update in updates:
                await store.write(update)
            await store.flush()

            replayed = tables.replay([row[0] for row in await rows_of(store)])
            assert not replayed.holed
        assert texts(await stored(new_store()))["a"] == "210"

    @pytest.mark.parametrize("missing", [0, 1, 2])
    async def test_a_history_with_a_hole_is_set_aside_and_forgotten(
        self, new_store, data_dir, missing
    ):
        notebook = YNotebook()
        updates = recording(notebook.ydoc)
        notebook.set({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        base = list(updates)
        updates.clear()
        other = Doc()
        for update in base:
            other.apply_update(update)
        others = recording(other)
        for key in ("one", "two", "three", "four"):
            other.get("state", type=Map)[key] = key
        store = new_store()
        for update in base + [u for i, u in enumerate(others) if i != missing]:
            await store.write(update)
            await store.flush()

        with pytest.raises(YDocNotFound):
            await stored(store)
        with pytest.raises(YDocNotFound):
            await rows_of(store)
        kept = sorted(path.suffix for path in (data_dir / "nbinline" / "rescued").iterdir())
        assert kept == [".ipynb", ".yupdates"]

    async def test_bytes_that_are_no_updates_are_set_aside(self, new_store, data_dir):
        store = new_store()
        await store.write(b"no update")
        with pytest.raises(YDocNotFound):
            await stored(store)
        (kept,) = (data_dir / "nbinline" / "rescued").iterdir()
        assert b"no update" in kept.read_bytes()

    async def test_an_out_of_sync_document_is_stored_as_a_difference(self, new_store):
        doc, store = Doc(), new_store()
        doc.get("a", type=Text).insert(0, "x" * 100_000)
        await store.encode_state_as_update(doc)
        room, store = Doc(), new_store()
        await store.apply_updates(room)
        room.get("b", type=Text).insert(0, "from the file")
        await store.encode_state_as_update(room)

        rows = await rows_of(store)
        assert sum(len(row[0]) for row in rows) < 101_000
        assert texts(await stored(new_store()))["b"] == "from the file"


class TestOneFile:
    async def test_the_configured_file_is_used_without_a_config_too(
        self, jp_configurable_serverapp, tmp_path
    ):
        wanted = str(tmp_path / "elsewhere" / "y.db")
        jp_configurable_serverapp(config={"SafeSQLiteYStore": {"db_path": wanted}})
        assert SafeSQLiteYStore(path=NAME).db_path == wanted

    async def test_the_stock_stores_setting_is_respected(self, jp_configurable_serverapp, tmp_path):
        wanted = str(tmp_path / "stock.db")
        jp_configurable_serverapp(config={"SQLiteYStore": {"db_path": wanted}})
        assert SafeSQLiteYStore(path=NAME).db_path == wanted


class TestGrowth:
    def test_a_long_answer_in_many_deltas_stays_small(self, database):
        """17 kB in 2,000 deltas, written at 60 a second, each as an update of its own."""
        connection = tables.open_database(database)
        doc = Doc()
        doc.get("a", type=Text)
        updates = recording(doc)
        text = doc.get("a", type=Text)
        for i in range(2_000):
            with doc.transaction(origin="run"):
                text += f"word{i:04} "[:8] + ("." if i % 2 else "")
        before = _size(database, connection)
        # Three updates make up a group of 50 ms; every 40 groups the older ones are merged, and
        # once more when it is quiet.
        after, done, at = 0, 0, 0.0
        for group in range(0, 2_000, 3):
            at = group / 60
            with tables.transaction(connection):
                row = tables.append(connection, NAME, updates[group : group + 3], b"", at)
                done = done or row
            if (group // 3) % 40 == 39:
                after = max(after, tables.bucket(connection, NAME, max(after, done), now=at) - 1)
        tables.bucket(connection, NAME, max(after, done), now=at + 10)
        rows = tables.rows_of(connection, NAME)
        payload = sum(len(row.update) + 64 for row in rows)
        growth = _size(database, connection) - before
        replayed = Doc()
        for row in rows:
            replayed.apply_update(row.update)
        connection.close()

        assert len(str(text)) >= 17_000
        assert str(replayed.get("a", type=Text)) == str(text)
        assert payload <= 60_000
        assert growth <= 60_000

    async def test_a_history_far_larger_than_its_document_is_squashed_at_load(
        self, new_store, monkeypatch
    ):
        monkeypatch.setattr(tables, "LARGE", 10_000)
        doc = Doc()
        updates = recording(doc)
        text = doc.get("a", type=Text)
        for i in range(300):
            text.clear()
            text += f"{i} " * 100
        store = new_store()
        for update in updates:
            await store.write(update)
            if len(update) % 7 == 0:
                await store.flush()
        await store.flush()
        before = sum(len(row[0]) for row in await rows_of(store))
        await stored(new_store())
        after = sum(len(row[0]) for row in await rows_of(store))

        assert before > 100_000
        assert after < 12_000
        assert texts(await stored(new_store()))["a"] == str(text)

    @given(
        edits=st.lists(
            st.tuples(
                st.integers(0, 1),  # who
                st.sampled_from(["insert", "delete", "cell"]),
                st.integers(0, 30),
                st.floats(0, 4),  # seconds since the last one
            ),
            min_size=5,
            max_size=60,
        ),
        limit=st.integers(1, 5_000),
    )
    @settings(max_examples=60, deadline=None)
    def test_merging_and_squashing_lose_nothing(self, tmp_path_factory, edits, limit):
        database = str(tmp_path_factory.mktemp("store") / "y.db")
        docs = [Doc(), Doc()]
        history = []
        for doc in docs:
            doc.get("a", type=Text)
            doc.get("cells", type=Array)
            doc.observe(lambda event: history.append(event.update))
        connection = tables.open_database(database)
        at, whole = 0.0, Doc()
        for who, kind, place, pause in edits:
            at += pause
            history.clear()
            _edit(docs[who], kind, place)
            for update in tuple(history):
                docs[1 - who].apply_update(update)
                whole.apply_update(update)
                with tables.transaction(connection):
                    tables.append(connection, NAME, [update], b"", at)
        if not tables.rows_of(connection, NAME):
            connection.close()
            return
        before = len(tables.rows_of(connection, NAME))
        tables.bucket(connection, NAME, 0, now=at + 100)
        old_large, old_many = tables.LARGE, tables.MANY_ROWS
        try:
            tables.LARGE, tables.MANY_ROWS = limit, 8
            tables.squash(connection, NAME, tables.load(connection, NAME))
        finally:
            tables.LARGE, tables.MANY_ROWS = old_large, old_many
        after = tables.load(connection, NAME)
        rows = tables.rows_of(connection, NAME)
        connection.close()

        assert len(rows) <= before
        assert not after.holed
        again = Doc()
        for row in rows:
            again.apply_update(row.update)
        for doc in (whole, again):
            doc.get("a", type=Text)
            doc.get("cells", type=Array)
        assert again.get("a", type=Text).to_py() == whole.get("a", type=Text).to_py()
        assert again.get("cells", type=Array).to_py() == whole.get("cells", type=Array).to_py()


class TestTrouble:
    async def test_what_the_disk_refuses_is_kept_and_written_later(self, new_store, database):
        store, doc = new_store(), Doc()
        updates = recording(doc)
        doc.get("a", type=Text).insert(0, "before ")
        await store.write(updates[0])
        await store.flush()
        blocker = sqlite3.connect(database, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        doc.get("a", type=Text).insert(7, "during ")
        await store.write(updates[1])
        # Longer than SQLite waits for the lock, so that the group is refused.
        await anyio.sleep(5.5)
        doc.get("a", type=Text).insert(14, "after")
        await store.write(updates[2])
        blocker.execute("ROLLBACK")
        blocker.close()

        assert texts(await stored(new_store()))["a"] == "before during after"

    async def test_a_full_disk_costs_nothing_once_there_is_room_again(self, new_store, database):
        store, doc = new_store(), Doc()
        updates = recording(doc)
        text = doc.get("a", type=Text)
        text += "begin "
        await store.write(updates[0])
        await store.flush()
        writer = writer_of(database)
        await done(writer, "PRAGMA max_page_count = 1")
        for word in ("x" * 50_000, " end"):
            text += word
            await store.write(updates[-1])
            await store.flush()
        await done(writer, "PRAGMA max_page_count = 100000")

        assert texts(await stored(new_store()))["a"] == str(text)
        rows = await rows_of(store)
        assert not tables.replay([row[0] for row in rows]).holed

    @pytest.mark.parametrize("stopping", [False, True])
    async def test_a_closed_document_is_not_compared_unless_the_server_was_stopping(
        self, new_store, database, stopping
    ):
        store = new_store()
        await store.encode_state_as_update(Doc())
        await stored(store)
        if stopping:
            keep_marks()
        del store
        gc.collect()
        await asyncio.to_thread(close_writers)
        marks = await asyncio.wrap_future(writer_of(database).dead_marks())
        assert [mark.path for mark in marks] == ([NAME] if stopping else [])

    async def test_a_damaged_file_is_put_aside(self, new_store, database):
        Path(database).write_bytes(  # noqa: ASYNC240
            b"this is no database at all" * 100
        )
        store, doc = new_store(), Doc()
        doc.get("a", type=Text).insert(0, "new")
        await store.encode_state_as_update(doc)

        assert texts(await stored(new_store()))["a"] == "new"
        assert [p.name for p in Path(database).parent.glob("*.set-aside-*")]

    async def test_a_room_goes_on_where_the_folder_cannot_be_written(self, tmp_path):
        blocked = tmp_path / "file"
        blocked.write_text("not a folder")
        store = SafeSQLiteYStore(path=NAME, db_path=str(blocked / "y.db"))
        await store.start()
        with pytest.raises(YDocNotFound):
            await stored(store)
        await store.write(Doc().get_update())

    def test_the_thread_rests_and_is_started_again(self, database, monkeypatch):
        monkeypatch.setattr("nbinline_rtc.store_writer.IDLE", 0.05)
        writer = StoreWriter(database)
        writer.put(NAME, b"1")
        first = writer._thread
        first.join(5)
        assert not first.is_alive()
        writer.put(NAME, b"2")
        rows = writer.call(lambda connection: tables.read(connection, NAME)).result(5)
        assert [row[0] for row in rows] == [b"1", b"2"]
        writer.close()

    def test_closing_commits_what_waits(self, database):
        writer = writer_of(database)
        for i in range(100):
            writer.put(NAME, b"%d" % i)
        close_writers()
        with sqlite3.connect(database) as connection:
            rows = connection.execute("SELECT yupdate FROM yupdates ORDER BY rowid").fetchall()
        connection.close()
        assert [row[0] for row in rows] == [b"%d" % i for i in range(100)]


class TestLoad:
    async def test_three_thousand_updates_a_second_leave_no_backlog(self, new_store):
        doc = Doc()
        updates = recording(doc)
        text = doc.get("a", type=Text)
        for _ in range(6_000):
            with doc.transaction(origin="run"):
                text += "word "
        stores = [new_store(f".notebook:{i}.y") for i in range(10)]
        start = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for i, update in enumerate(updates):
                # As a room does it: a task for each update.
                tasks.start_soon(stores[i % 10].write, update)
                if i % 30 == 0:
                    await asyncio.sleep(max(0, start + i / 3_000 - time.perf_counter()))
        written = time.perf_counter()
        await stores[0].flush()

        assert time.perf_counter() - written < 0.5
        assert written - start < 4.0


def _edit(doc, kind, place):
    text = doc.get("a", type=Text)
    cells = doc.get("cells", type=Array)
    if kind == "insert":
        text.insert(min(place, len(text)), "word ")
    elif kind == "delete" and len(text) > 5:
        start = min(place, len(text) - 5)
        del text[start : start + 3]
    elif kind == "cell":
        if len(cells) > 3:
            del cells[place % len(cells)]
        else:
            cells.append(Map({"source": Text("cell"), "n": place}))


def _size(database, connection):
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return os.path.getsize(database)
