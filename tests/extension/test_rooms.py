"""Joining, holding, saving and leaving the rooms of a real server."""

import contextlib
import json
import os
import time
import warnings
from collections import Counter

import anyio
import pytest
from pycrdt.websocket.websocket import HttpxWebsocket

from nbinline_agent.document.peer import Peer
from nbinline_agent.errors import ReadOnlyNotebook, RoomLost, UnknownNotebook
from nbinline_rtc.rooms import GLOBAL_AWARENESS, RoomsOfServer, keep_rooms_until
from tests.extension.conftest import stopping, until
from tests.extension.notebooks import content_of, notebook, sources_on_disk


def texts(peer):
    return [cell["source"].to_py() for cell in peer.ynotebook.ycells]


def write(peer, text, cell=0):
    source = peer.ynotebook.ycells[cell]["source"]
    with peer.doc.transaction(origin="run"):
        source += text


def room_of(ydoc):
    rooms = ydoc.ywebsocket_server.rooms
    (room,) = (room for name, room in rooms.items() if name.startswith("json:notebook:"))
    return room


def no_rooms(ydoc):
    return not [r for r in ydoc.ywebsocket_server.rooms if r.startswith("json:notebook:")]


class TestJoining:
    async def test_opens_without_a_browser_and_saves_on_leaving(self, ydoc, write_notebook, joined):
        file = write_notebook("hello")
        async with stopping(ydoc):
            async with joined() as membership:
                assert texts(membership.peer) == ["hello"]
                assert len(room_of(ydoc).clients) == 1
                write(membership.peer, " world")
            assert sources_on_disk(file) == ["hello world"]

    async def test_reading_writes_nothing(self, ydoc, write_notebook, joined):
        file = write_notebook("hello")
        before = file.read_bytes(), file.stat().st_mtime_ns
        async with stopping(ydoc):
            async with joined() as membership:
                assert texts(membership.peer) == ["hello"]
            assert (file.read_bytes(), file.stat().st_mtime_ns) == before

    async def test_meets_the_browser_in_the_room(
        self, ydoc, write_notebook, joined, open_page, room_url
    ):
        write_notebook("hello")
        async with stopping(ydoc), open_page() as page:
            await page.do("join", url=await room_url())
            async with joined() as membership:
                write(membership.peer, " from the agent")
                assert (await page.do("see", text="hello from the agent"))["seen"]
                await page.do("type", text=" and me")
                await membership.peer.changed_until(
                    lambda: texts(membership.peer) == ["hello from the agent and me"]
                )

    @pytest.mark.parametrize(
        ("path", "error"),
        [
            ("nope.ipynb", UnknownNotebook),
            ("folder", UnknownNotebook),
            ("text.txt", UnknownNotebook),
            ("", UnknownNotebook),
            (".", UnknownNotebook),
            ("../outside.ipynb", UnknownNotebook),
            ("a\0b.ipynb", UnknownNotebook),
            ("broken.ipynb", UnknownNotebook),
        ],
    )
    async def test_refuses_what_is_no_notebook_and_leaves_no_room(
        self, ydoc, jp_serverapp, jp_root_dir, path, error
    ):
        (jp_root_dir / "folder").mkdir()
        (jp_root_dir / "text.txt").write_text("x")
        (jp_root_dir / "broken.ipynb").write_text("{ no json")
        (jp_root_dir.parent / "outside.ipynb").write_text(notebook("x"))
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            with pytest.raises(error):
                async with rooms.join(path):
                    pass
            assert no_rooms(ydoc)

    async def test_refuses_a_read_only_file_without_opening_it(
        self, ydoc, jp_serverapp, write_notebook, monkeypatch
    ):
        write_notebook("x")
        # Root may write whatever the file's mode says.
        monkeypatch.setattr(
            "jupyter_server.services.contents.filemanager.os.access", lambda *_: False
        )
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            with pytest.raises(ReadOnlyNotebook):
                await rooms.resolve("a.ipynb")
            with pytest.raises(ReadOnlyNotebook):
                async with rooms.join("a.ipynb"):
                    pass
            assert no_rooms(ydoc)

    async def test_one_file_has_one_id(self, ydoc, jp_serverapp, write_notebook):
        write_notebook("x", path="folder/a.ipynb")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            found = {
                await rooms.resolve(path)
                for path in (
                    "folder/a.ipynb",
                    "/folder/a.ipynb",
                    "folder//a.ipynb/",
                    "folder/./a.ipynb",
                )
            }
            assert len(found) == 1

    async def test_without_collaboration_it_says_so(self, jp_serverapp, ydoc, write_notebook):
        write_notebook("x")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            jp_serverapp.web_app.settings.pop("jupyter_server_ydoc")
            with pytest.raises(RoomLost, match="collaboration"):
                async with rooms.join("a.ipynb"):
                    pass

    async def test_an_error_of_the_block_comes_out_as_it_is(self, ydoc, write_notebook, joined):
        file = write_notebook("x")
        async with stopping(ydoc):
            with pytest.raises(RoomLost, match="mine"):  # noqa: PT012
                async with joined() as membership:
                    write(membership.peer, "!")
                    raise RoomLost("mine")
            assert sources_on_disk(file) == ["x!"]

    async def test_the_last_words_of_a_cancelled_block_are_saved(
        self, ydoc, jp_serverapp, write_notebook
    ):
        file = write_notebook("x")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            with anyio.CancelScope() as scope:
                async with rooms.join("a.ipynb") as membership:
                    for i in range(200):
                        write(membership.peer, f" {i}")
                    scope.cancel()
                    await anyio.sleep_forever()
            assert sources_on_disk(file)[0].endswith(" 198 199")

    async def test_a_large_notebook_is_loaded_whole_when_loading_is_progressive(
        self, jp_server_config, jp_serverapp, ydoc, write_notebook, joined
    ):
        ydoc.document_load_progressively = True
        write_notebook(*(f"cell {i}" for i in range(300)))
        async with stopping(ydoc), joined() as membership:
            assert texts(membership.peer) == [f"cell {i}" for i in range(300)]


class TestSaving:
    async def test_saves_while_it_writes_without_a_pause(self, ydoc, write_notebook, joined):
        file = write_notebook("x")
        seen = set()
        async with stopping(ydoc), joined(save_every=0.3) as membership:
            async with membership.writing():
                for i in range(60):
                    write(membership.peer, f" {i}")
                    await anyio.sleep(0.025)
                    seen.add(file.stat().st_mtime_ns)
        assert len(seen) >= 4

    async def test_saves_at_most_one_tenth_of_the_time(
        self, ydoc, write_notebook, joined, monkeypatch
    ):
        write_notebook("x")
        async with stopping(ydoc), joined(save_every=0.05) as membership:
            save, times = membership._room.save, []

            async def slow():
                times.append(time.monotonic())
                await anyio.sleep(0.1)
                return await save()

            monkeypatch.setattr(membership._room, "save", slow)
            async with membership.writing():
                for i in range(100):
                    write(membership.peer, f" {i}")
                    await anyio.sleep(0.025)
            assert 2 <= len(times) <= 4

    async def test_many_notebooks_share_the_time_for_saving(
        self, ydoc, jp_serverapp, write_notebook, monkeypatch
    ):
        names = "abcdef"
        for name in names:
            write_notebook("x", path=f"{name}.ipynb")
        times = []
        async with (
            stopping(ydoc),
            RoomsOfServer(jp_serverapp, save_every=0.05) as rooms,
            contextlib.AsyncExitStack() as stack,
        ):
            for name in names:
                membership = await stack.enter_async_context(rooms.join(f"{name}.ipynb"))

                async def slow(name=name):
                    times.append(name)
                    await anyio.sleep(0.05)
                    return False

                monkeypatch.setattr(membership._room, "save", slow)
                membership._room.unsaved = True
                await stack.enter_async_context(membership.writing())
            times.clear()
            await anyio.sleep(3.5)
        # Each takes 0.05 s of every half; who waits longest comes first.
        assert 4 <= len(times) <= 8
        assert max(Counter(times).values()) <= 2
        assert len(set(times)) >= min(len(times), len(names)) - 1

    async def test_saves_of_all_notebooks_take_turns(
        self, ydoc, jp_serverapp, write_notebook, monkeypatch
    ):
        for name in ("a", "b", "c"):
            write_notebook("x", path=f"{name}.ipynb")
        active, most = 0, 0
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            async with (
                rooms.join("a.ipynb") as a,
                rooms.join("b.ipynb") as b,
                rooms.join("c.ipynb") as c,
            ):
                for membership in (a, b, c):
                    save = membership._room.save

                    async def counted(save=save):
                        nonlocal active, most
                        active += 1
                        most = max(most, active)
                        await anyio.sleep(0.02)
                        saved = await save()
                        active -= 1
                        return saved

                    monkeypatch.setattr(membership._room, "save", counted)
                async with anyio.create_task_group() as tasks:
                    for membership in (a, b, c):
                        tasks.start_soon(membership.save)
        assert most == 1

    async def test_what_changes_during_a_save_is_saved_by_the_room_as_well(
        self, ydoc, write_notebook, joined, open_page, room_url, monkeypatch
    ):
        """Our older text may be written behind the room's newer one; nobody would save again."""
        file = write_notebook("x")
        async with stopping(ydoc), open_page() as page, joined() as membership:
            await page.do("join", url=await room_url())
            read = membership._room._content
            overtaken = anyio.Event()

            async def slow():
                content = await read()
                overtaken.set()
                await until(lambda: "newer" in sources_on_disk(file)[0])
                return content

            monkeypatch.setattr(membership._room, "_content", slow)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(membership.save)
                await overtaken.wait()
                await page.do("type", text=" newer")
            await until(lambda: "newer" not in sources_on_disk(file)[0])
            await until(lambda: "newer" in sources_on_disk(file)[0])

    async def test_two_cells_with_one_id_are_told_apart_when_saved(
        self, ydoc, write_notebook, joined
    ):
        file = write_notebook("one", "two")
        async with stopping(ydoc), joined() as membership:
            with membership.peer.doc.transaction(origin="run"):
                membership.peer.ynotebook.ycells[1]["id"] = "cell-0"
            await membership.peer.settled()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Non-unique cell ID", UserWarning)
                assert await membership.save()
        assert sources_on_disk(file) == ["one", "two"]
        assert len({cell["id"] for cell in content_of(file)["cells"]}) == 2

    async def test_tells_that_a_deleted_file_was_not_saved(
        self, ydoc, write_notebook, joined, jp_fetch
    ):
        file = write_notebook("x")
        async with stopping(ydoc), joined() as membership:
            assert await membership.save()
            await jp_fetch("api/contents/a.ipynb", method="DELETE")
            write(membership.peer, "!")
            assert not await membership.save()
            assert not await membership.file_exists()
            assert not file.exists()

    async def test_tells_that_a_file_moved_behind_the_servers_back_was_not_saved(
        self, ydoc, write_notebook, joined
    ):
        file = write_notebook("x")
        async with stopping(ydoc), joined() as membership:
            file.rename(file.with_name("moved.ipynb"))
            write(membership.peer, "!")
            assert not await membership.save()
            assert not await membership.file_exists()

    async def test_tells_that_a_full_disk_took_nothing(
        self, ydoc, write_notebook, joined, monkeypatch
    ):
        file = write_notebook("x")
        async with stopping(ydoc), joined() as membership:
            assert await membership.save()
            write(membership.peer, "!")
            await membership.peer.settled()

            def full(*_, **__):
                raise OSError(28, "No space left on device")

            with monkeypatch.context() as patch:
                patch.setattr("jupyter_server.services.contents.fileio.os.fsync", full)
                patch.setattr("nbformat.write", full)
                assert not await membership.save()
            assert sources_on_disk(file) == ["x"]
            assert await membership.save()
            assert sources_on_disk(file) == ["x!"]

    async def test_tells_that_a_file_made_read_only_was_not_saved(
        self, ydoc, write_notebook, joined, monkeypatch
    ):
        write_notebook("x")
        async with stopping(ydoc), joined() as membership:
            write(membership.peer, "!")
            await membership.peer.settled()
            with monkeypatch.context() as patch:
                patch.setattr(
                    "jupyter_server.services.contents.filemanager.os.access", lambda *_: False
                )
                assert not await membership.save()

    async def test_somebody_elses_change_of_the_file_wins_and_is_seen(
        self, ydoc, write_notebook, joined
    ):
        ydoc.file_loaders.file_poll_interval = None
        file = write_notebook("one", "two")
        async with stopping(ydoc), joined() as membership:
            content = content_of(file)
            content["cells"][0]["source"] = "changed by git"
            later = file.stat().st_mtime + 5
            file.write_text(json.dumps(content))
            os.utime(file, (later, later))
            assert not await membership.save()
            await membership.peer.changed_until(
                lambda: texts(membership.peer) == ["changed by git", "two"]
            )
            assert await membership.save()

    async def test_follows_a_rename_made_through_the_server(
        self, ydoc, write_notebook, joined, jp_fetch, jp_root_dir
    ):
        write_notebook("x")
        async with stopping(ydoc), joined() as membership:
            assert membership.path == "a.ipynb"
            await jp_fetch(
                "api/contents/a.ipynb", method="PATCH", body=json.dumps({"path": "b.ipynb"})
            )
            await until(lambda: membership.path == "b.ipynb")
            write(membership.peer, "!")
            await membership.peer.settled()
            assert await membership.save()
            assert sources_on_disk(jp_root_dir / "b.ipynb") == ["x!"]
            assert not (jp_root_dir / "a.ipynb").exists()

    async def test_a_notebook_of_many_cells_is_saved_like_any_other(
        self, ydoc, write_notebook, joined
    ):
        file = write_notebook(*(f"cell {i}" for i in range(600)))
        async with stopping(ydoc):
            async with joined() as membership:
                write(membership.peer, "!", cell=599)
            assert sources_on_disk(file) == [*(f"cell {i}" for i in range(599)), "cell 599!"]
            assert [cell["id"] for cell in content_of(file)["cells"]] == [
                f"cell-{i}" for i in range(600)
            ]


class TestLeaving:
    async def test_the_room_is_closed_after_the_delay(self, ydoc, jp_serverapp, write_notebook):
        write_notebook("x")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            async with rooms.join("a.ipynb"):
                pass
            assert not no_rooms(ydoc)
            await until(lambda: no_rooms(ydoc))
            assert not list(ydoc.file_loaders._FileLoaderMapping__dict)

    async def test_coming_back_in_time_keeps_it(self, ydoc, jp_serverapp, write_notebook):
        write_notebook("x")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms:
            async with rooms.join("a.ipynb"):
                room = room_of(ydoc)
            async with rooms.join("a.ipynb") as membership:
                await anyio.sleep(1.0)
                assert room_of(ydoc) is room
                assert not membership.lost.is_set()

    async def test_a_browser_that_comes_in_time_keeps_it(
        self, ydoc, jp_serverapp, write_notebook, open_page, room_url
    ):
        ydoc.document_cleanup_delay = 3.0
        write_notebook("x")
        async with stopping(ydoc), RoomsOfServer(jp_serverapp) as rooms, open_page() as page:
            url = await room_url()
            async with rooms.join("a.ipynb"):
                room = room_of(ydoc)
            await page.do("join", url=url)
            await anyio.sleep(3.3)
            assert room_of(ydoc) is room
            await page.do("type", text="!")
            await until(lambda: room._document.ycells[0]["source"].to_py() == "x!")

    async def test_it_outlives_the_browsers(
        self, ydoc, write_notebook, joined, open_page, room_url
    ):
        file = write_notebook("x")
        async with stopping(ydoc):
            async with joined() as membership:
                async with open_page() as page:
                    await page.do("join", url=await room_url())
                    await page.do("cut")
                await anyio.sleep(1.0)
                assert not membership.lost.is_set()
                write(membership.peer, " after the browser")
            assert sources_on_disk(file) == ["x after the browser"]

    async def test_a_room_that_is_replaced_is_noticed(self, ydoc, write_notebook, joined):
        write_notebook("x")
        async with stopping(ydoc):
            async with joined() as membership:
                room = room_of(ydoc)
                await ydoc.ywebsocket_server.delete_room(room=room)
                with anyio.fail_after(2):
                    await membership.lost.wait()
                assert not await membership.save()
            async with joined() as membership:
                assert texts(membership.peer) == ["x"]

    async def test_a_stopped_server_is_noticed(self, ydoc, write_notebook, joined):
        write_notebook("x")
        async with joined() as membership:
            await ydoc.stop_extension()
            with anyio.fail_after(2):
                await membership.lost.wait()

    async def test_stopping_the_server_waits_for_runs_and_saves(
        self, jp_serverapp, ydoc, write_notebook, open_page, room_url
    ):
        ydoc.document_save_delay = 30.0
        file = write_notebook("x")
        order = []

        async def stop_runs():
            order.append(no_rooms(ydoc))

        keep_rooms_until(jp_serverapp, stop_runs)
        async with open_page() as page:
            await ydoc.get_document(
                path="a.ipynb", content_type="notebook", file_format="json", create=True
            )
            await page.do("join", url=await room_url())
            await page.do("type", text=" last word")
            await until(lambda: room_of(ydoc)._saving_document is not None)
            assert sources_on_disk(file) == ["x"]
            await jp_serverapp.extension_manager.stop_all_extensions()
        assert order == [False]
        assert sources_on_disk(file) == ["x last word"]


class TestShowing:
    async def test_the_list_of_collaborators_has_the_agent_while_it_is_there(
        self, ydoc, write_notebook, joined, open_page, room_url
    ):
        write_notebook("x")
        entry = {
            "user": {"username": "agent", "name": "Agent"},
            "current": "notebook:a.ipynb",
            "documents": ["a.ipynb"],
        }
        async with stopping(ydoc), open_page() as page:
            url = await room_url()
            global_url = url[: url.index("json:notebook:")] + GLOBAL_AWARENESS
            async with joined() as membership:
                await membership.announce(entry)
                await page.do("join", url=global_url)
                seen = await page.do("seeAwareness", key="current")
                assert seen["seen"]
                assert entry in [state for _, state in seen["states"]]
                await membership.announce(None)
                assert (await page.do("seeAwareness", key="current", present=False))["seen"]
                await membership.announce(entry)
                assert (await page.do("seeAwareness", key="current"))["seen"]
            assert (await page.do("seeAwareness", key="current", present=False))["seen"]


async def test_the_timeline_of_a_document_reads_our_store(ydoc, write_notebook, joined, jp_fetch):
    write_notebook("x")
    async with stopping(ydoc), joined() as membership:
        for word in (" one", " two"):
            write(membership.peer, word)
            await membership.peer.settled()
            await anyio.sleep(0.7)
        reply = await jp_fetch(
            "api/collaboration/timeline/a.ipynb", params={"format": "json", "type": "notebook"}
        )
        assert len(json.loads(reply.body)["timestamps"]) >= 2


async def test_the_same_peer_joins_over_the_documented_websocket(
    ydoc, write_notebook, rtc_connect_doc_client, joined
):
    file = write_notebook("x")
    async with stopping(ydoc):
        websocket, room = await rtc_connect_doc_client("json", "notebook", "a.ipynb")
        async with websocket as connection:
            async with Peer(HttpxWebsocket(connection, room)) as peer:
                await peer.synced()
                async with joined() as inside:
                    await peer.set_awareness({"user": {"username": "outside"}})
                    for i in range(300):
                        write(peer, f" {i}")
                    await inside.peer.changed_until(lambda: texts(inside.peer)[0].endswith(" 299"))
                    assert [user["username"] for user in inside.peer.others()] == ["outside"]
                    assert await inside.save()
        assert sources_on_disk(file) == [" ".join(["x", *map(str, range(300))])]
