"""Watching: the feed, who may see what, stopping others, pauses."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from nbinline_agent.errors import Paused
from nbinline_agent.ids import CellId, FileId, NotebookPath, RunId
from nbinline_agent.journal import Author, RunRecord, RunStatus, StoredEvent
from nbinline_rtc.activity import KEPT, PAGE, ActivityFeed
from nbinline_rtc.pauses import Pauses
from nbinline_rtc.styles import SettingsUnusable
from tests.extension.conftest import stopping
from tests.extension.people import NamedByHeader, People, people
from tests.extension.running import Asker
from tests.vendor.plugin import Vendor

STALL: dict[str, Any] = {"deltas": ["Some ", "words ", "and"], "stall": {"after": 3}}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A course server of the account ``teacher``."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("JUPYTERHUB_USER", "teacher")
    server = jp_server_config["ServerApp"]
    server["jpserver_extensions"]["nbinline_rtc"] = True
    server["identity_provider_class"] = NamedByHeader
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, "idle_seconds": 0.3}
    return jp_server_config


@pytest.fixture
def person(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> People:
    """Somebody by name."""
    return people(jp_fetch, jp_root_dir, ydoc, vendor)


async def feed(asker: Asker, **query: Any) -> dict[str, Any]:
    status, told = await asker.request("GET", "activity", params=query)
    assert status == 200, told
    return told


async def follow(asker: Asker, after: int, wanted: str) -> tuple[list[dict[str, Any]], int]:
    """All events until one whose type or status is the wanted one."""
    seen: list[dict[str, Any]] = []
    with anyio.fail_after(30):
        while True:
            page = await feed(asker, after=after, wait=10)
            assert page["gap"] is False
            seen += page["events"]
            after = page["last_seq"]
            if any(wanted in (e["type"], e["data"].get("status")) for e in page["events"]):
                return seen, after


async def test_one_sees_oneself_and_the_owner_sees_all(person: People) -> None:
    ada, bob, teacher = person("ada"), person("bob"), person("teacher")
    async with stopping(ada.ydoc):
        start = await feed(teacher)
        assert (start["events"], start["runs"], start["pauses"]) == ([], [], [])
        ada.write(ada.vendor.prompt(deltas=["Hel", "lo"], rate=100))
        run_id = await ada.ask()
        seen, _ = await follow(teacher, start["last_seq"], "done")
        statuses = [e["data"]["status"] for e in seen if e["type"] == "status"]
        assert statuses == ["queued", "preparing", "streaming", "done"]
        assert {e["run_id"] for e in seen} == {run_id}
        assert seen[0]["author"] == {"username": "ada", "display_name": "Ada"}
        assert seen[0]["path"] == "a.ipynb"
        numbers = [e["seq"] for e in seen]
        assert numbers == sorted(set(numbers))

        own, _ = await follow(ada, start["last_seq"], "done")
        assert [e["seq"] for e in own if e["type"] == "status"] == [
            e["seq"] for e in seen if e["type"] == "status"
        ]
        others = await feed(bob, after=start["last_seq"])
        assert others["events"] == []
        assert others["last_seq"] >= numbers[-1]
        assert (await feed(bob))["runs"] == []
        assert [run["run_id"] for run in (await feed(ada))["runs"]] == [run_id]
        assert [run["run_id"] for run in (await feed(teacher))["runs"]] == [run_id]
        assert (await feed(teacher, path="other"))["runs"] == []


async def test_that_somebody_watched_stands_in_the_record(person: People) -> None:
    ada, teacher = person("ada"), person("teacher")
    async with stopping(ada.ydoc):
        ada.write(ada.vendor.prompt(text="Yes."))
        run_id = await ada.ask()
        await ada.ended(run_id)
        start = (await feed(ada))["last_seq"]
        await feed(teacher)
        await feed(teacher)
        seen, _ = await follow(ada, start, "watched")
        _, page = await ada.request("GET", f"runs/{run_id}/events")
        watched = [e for e in page["events"] if e["type"] == "watched"]
        assert [(e["username"], e["what"]) for e in watched] == [("teacher", "live")]
        assert [e["data"]["username"] for e in seen if e["type"] == "watched"] == ["teacher"]
        _, status = await ada.request("GET", "status")
        assert "record" in status["recording"]["notice"]
        assert status["recording"]["may_watch"] is False
        _, status = await teacher.request("GET", "status")
        assert status["recording"]["may_watch"] is True


async def test_the_feed_is_close_behind(person: People) -> None:
    ada, teacher = person("ada"), person("teacher")
    async with stopping(ada.ydoc):
        after = (await feed(teacher))["last_seq"]
        ada.write(ada.vendor.prompt(deltas=["a "] * 20, rate=100))
        lags: list[float] = []

        async def watch() -> None:
            nonlocal after
            while True:
                page = await feed(teacher, after=after, wait=10)
                after = page["last_seq"]
                now = time.time()
                happened = [e for e in page["events"] if e["type"] != "watched"]
                lags.extend(now - _seconds(each["at"]) for each in happened)
                if any(e["data"].get("status") == "done" for e in page["events"]):
                    return

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                await ada.ask()
        print("activity feed behind, ms:", [round(1000 * lag) for lag in lags])
        assert len(lags) >= 4
        assert sorted(lags)[len(lags) // 2] < 1.0  # 0.3 s on a machine with nothing else to do


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


async def test_an_instructor_stops_anothers_run(person: People) -> None:
    ada, teacher = person("ada"), person("teacher")
    async with stopping(ada.ydoc):
        ada.write(ada.vendor.prompt(**STALL))
        run_id = await ada.ask()
        await ada.reached(run_id, "streaming")
        [live] = (await feed(teacher))["runs"]
        assert live["live"] is True
        status, _ = await teacher.request("DELETE", f"runs/{run_id}")
        assert status == 202
        run = await ada.ended(run_id)
        assert run["status"] == "cancelled"
        _, page = await ada.request("GET", f"runs/{run_id}/events")
        [stopped] = [e for e in page["events"] if e["type"] == "stopped"]
        assert stopped["username"] == "teacher"


@pytest.mark.parametrize("path", ["", "course", "course/a.ipynb"])
async def test_a_pause_refuses_with_a_sentence_and_ends(
    person: People, path: str, jp_root_dir: Path
) -> None:
    ada, teacher = person("ada"), person("teacher")
    (jp_root_dir / "course").mkdir()
    notebook = "course/a.ipynb"
    async with stopping(ada.ydoc):
        ada.write(ada.vendor.prompt(**STALL), ada.vendor.prompt(text="Yes."), path=notebook)
        run_id = await ada.ask(path=notebook)
        await ada.reached(run_id, "streaming")
        body = {"path": path, "reason": "exam", "stop": True}
        assert (await ada.request("PUT", "pauses", body))[0] == 403
        status, told = await teacher.request("PUT", "pauses", body)
        assert (status, told["stopped"]) == (200, [run_id])
        assert (await ada.ended(run_id))["status"] == "cancelled"

        asked = {"path": notebook, "cell_id": "p1"}
        status, told = await ada.request("POST", "runs", asked)
        assert (status, told["error"]["code"]) == (409, "ai-paused")
        assert "Teacher (exam)" in told["error"]["message"]
        assert (await ada.request("POST", f"runs/{run_id}/continue", {}))[0] == 409
        assert (await ada.request("POST", "context-preview", asked))[0] == 200
        _, told = await ada.request("GET", "pauses")
        assert [each["path"] for each in told["pauses"]] == [path]

        query = {"path": path}
        assert (await ada.request("DELETE", "pauses", params=query))[0] == 403
        status, told = await teacher.request("DELETE", "pauses", params=query)
        assert (status, told["pauses"]) == (200, [])
        assert (await ada.ended(await ada.ask("p1", notebook)))["status"] == "done"


async def test_a_pause_elsewhere_does_not_count(person: People, jp_root_dir: Path) -> None:
    ada, teacher = person("ada"), person("teacher")
    (jp_root_dir / "course").mkdir()
    async with stopping(ada.ydoc):
        ada.write(ada.vendor.prompt(text="Yes."), path="course2.ipynb")
        assert (await teacher.request("PUT", "pauses", {"path": "course"}))[0] == 200
        assert (await teacher.request("PUT", "pauses", {"path": "../x"}))[0] == 400
        assert (await ada.ended(await ada.ask(path="course2.ipynb")))["status"] == "done"


async def test_pauses_outlive_a_server(tmp_path: Path) -> None:
    file = tmp_path / "state" / "pauses.json"
    first = Pauses(file)
    await anyio.to_thread.run_sync(first.load)
    await first.pause("a.ipynb", "file-1", "ada", "Ada", "")
    await first.pause("week1", "", "ada", "Ada", "exam")
    second = Pauses(file)
    await anyio.to_thread.run_sync(second.load)
    assert [pause.path for pause in second.all()] == ["a.ipynb", "week1"]
    for path, file_id in (("renamed.ipynb", "file-1"), ("week1/b.ipynb", "file-2")):
        with pytest.raises(Paused, match="paused"):
            second.check(NotebookPath(path), FileId(file_id))
    second.check(NotebookPath("week10/b.ipynb"), FileId("file-2"))
    assert await second.resume("nowhere") is None
    ended = await second.resume("week1")
    assert ended is not None
    assert ended.reason == "exam"
    await anyio.to_thread.run_sync(first.load)
    assert [pause.path for pause in first.all()] == ["a.ipynb"]


def test_a_damaged_file_of_pauses_is_not_taken_for_none(tmp_path: Path) -> None:
    file = tmp_path / "pauses.json"
    file.write_text("{")
    with pytest.raises(SettingsUnusable):
        Pauses(file).load()
    file.write_text(json.dumps({"pauses": [{"path": 1}, 7]}))
    pauses = Pauses(file)
    pauses.load()
    assert pauses.all() == []


def record(number: int, username: str = "ada") -> RunRecord:
    return RunRecord(
        run_id=RunId(f"run-{number}"),
        path=NotebookPath("a.ipynb"),
        file_id=FileId("file-1"),
        prompt_cell_id=CellId("p0"),
        answer_cell_id=None,
        status=RunStatus.QUEUED,
        author=Author(username, username),
        connection="openai_api",
        model="m",
        created_at=float(number),
    )


def everyone(record: RunRecord) -> bool:
    return True


class TestFeed:
    def test_a_reader_that_is_too_far_behind_is_told_of_the_gap(self) -> None:
        feed = ActivityFeed()
        feed.saved(record(1))
        start = feed.last_seq
        for number in range(KEPT + 3):
            feed.happened(RunId("run-1"), StoredEvent(number, 0.0, "round", {"number": number}))
        page = feed.page(start, everyone)
        assert page.gap is True
        assert page.entries[0].data == {"number": 3}
        assert feed.page(start + 3, everyone).gap is False
        assert len(page.entries) == PAGE
        seen = list(page.entries)
        while page.entries:
            page = feed.page(page.last_seq, everyone)
            assert page.gap is False
            seen += page.entries
        assert [entry.data["number"] for entry in seen] == list(range(3, KEPT + 3))

    def test_a_cursor_from_before_a_restart_is_a_gap(self) -> None:
        before = ActivityFeed(clock=lambda: 1_000.0)
        before.add("paused", {})
        after = ActivityFeed(clock=lambda: 1_001.0)
        assert after.page(before.last_seq, everyone).gap is True
        assert after.page(after.last_seq, everyone).gap is False
        assert after.page(after.last_seq + 1, everyone).gap is True

    def test_others_entries_move_the_cursor_on(self) -> None:
        feed = ActivityFeed()
        start = feed.last_seq
        for number, name in enumerate(("ada", "bob")):
            feed.saved(record(number, name))
            feed.happened(RunId(f"run-{number}"), StoredEvent(1, 0.0, "round", {}))
        page = feed.page(start, lambda record: record.author.username == "ada")
        assert [entry.record and entry.record.author.username for entry in page.entries] == ["ada"]
        assert page.last_seq == feed.last_seq

    async def test_waiting_ends_with_the_first_entry_one_may_see(self) -> None:
        feed = ActivityFeed()
        feed.saved(record(1))
        feed.saved(record(2, "bob"))
        start = feed.last_seq

        async def later() -> None:
            for number in (2, 1):
                await anyio.sleep(0.01)
                feed.happened(RunId(f"run-{number}"), StoredEvent(1, 0.0, "round", {}))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(later)
                page = await feed.wait(start, lambda r: r.author.username == "ada", 9)
        assert [entry.record and entry.record.run_id for entry in page.entries] == ["run-1"]
        assert (await feed.wait(feed.last_seq, everyone, 0.01)).entries == []
