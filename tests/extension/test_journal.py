"""What every journal promises, on memory and on SQLite; then what only a file can do."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nbinline_agent.errors import JournalUnavailable
from nbinline_agent.ids import CellId, FileId, NotebookPath, RunId
from nbinline_agent.journal import Author, Journal, MemoryJournal, RunRecord, RunStatus
from nbinline_agent.messages import Usage
from nbinline_rtc.sqlite_journal import SqliteJournal, open_journal

pytestmark = pytest.mark.asyncio

PROCESS = Path(__file__).with_name("journal_process.py")
FILE = FileId("file")


NOW = 100_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def run(name: str, **changes: object) -> RunRecord:
    record = RunRecord(
        run_id=RunId(name),
        path=NotebookPath("a/lab.ipynb"),
        file_id=FILE,
        prompt_cell_id=CellId("question"),
        answer_cell_id=None,
        status=RunStatus.QUEUED,
        author=Author("ada", "Ada L."),
        connection="local",
        model="tiny",
        created_at=NOW,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


class Servers:
    """Starts one server's journal after the other."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._memory = MemoryJournal(max_events_per_run=5)

    @asynccontextmanager
    async def next(self) -> AsyncIterator[Journal]:
        if self._directory is None:
            self._memory = self._memory.successor()
            yield self._memory
        else:
            async with open_journal(
                self._directory, max_events_per_run=5, clock=Clock()
            ) as journal:
                yield journal


@pytest.fixture(params=["memory", "sqlite"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Servers:
    return Servers(None if request.param == "memory" else tmp_path / "journal")


async def test_a_saved_run_comes_back_whole(servers: Servers) -> None:
    whole = run(
        "r1",
        answer_cell_id=CellId("answer"),
        status=RunStatus.ERROR,
        started_at=NOW + 1.5,
        ended_at=NOW + 2.5,
        usage=Usage(1, 2, 3, 4),
        steps=2,
        error_code="timed-out",
        error_message="No answer – try again. 💥",
        report={"included": ["c1"], "trimmed": True, "n": None},
        continues=RunId("r0"),
    )
    async with servers.next() as journal:
        assert await journal.run(RunId("r1")) is None
        await journal.save(run("r1"))
        await journal.save(whole)
        assert await journal.run(RunId("r1")) == whole
    async with servers.next() as journal:
        assert await journal.run(RunId("r1")) == whole


async def test_file_names_that_are_not_utf8_survive(servers: Servers) -> None:
    odd = run("r1", path=NotebookPath("caf\udce9/x.ipynb"), error_message="\ud800")
    async with servers.next() as journal:
        await journal.save(odd)
        await journal.record_text(odd.run_id, "half \ud83d")
        assert await journal.run(odd.run_id) == odd
        assert list(await journal.runs(path=odd.path)) == [odd]
        assert await journal.text(odd.run_id) == "half \ud83d"


async def test_runs_are_listed_newest_first_and_filtered(servers: Servers) -> None:
    async with servers.next() as journal:
        for number in range(6):
            other = number % 2
            await journal.save(
                run(
                    f"r{number}",
                    created_at=1000.0 + number // 2,
                    path=NotebookPath("b.ipynb" if other else "a.ipynb"),
                    author=Author("bob" if number > 3 else "ada", ""),
                )
            )
        await journal.save(run("r0", created_at=1000.0, path=NotebookPath("a.ipynb")))

        async def names(**wanted: object) -> list[str]:
            return [found.run_id for found in await journal.runs(**wanted)]  # type: ignore[arg-type]

        assert await names() == ["r5", "r4", "r3", "r2", "r1", "r0"]
        assert await names(limit=2) == ["r5", "r4"]
        assert await names(path="a.ipynb") == ["r4", "r2", "r0"]
        assert await names(username="bob") == ["r5", "r4"]
        assert await names(path="b.ipynb", username="ada") == ["r3", "r1"]
        assert await names(path="c.ipynb") == []


async def test_events_are_numbered_and_the_oldest_drop_out_with_a_gap(servers: Servers) -> None:
    async with servers.next() as journal:
        first = await journal.events(RunId("r1"))
        assert (tuple(first.events), first.last_seq, first.gap) == ((), 0, False)
        for number in range(1, 4):
            assert await journal.append(RunId("r1"), "step", {"n": number}) == number
        assert await journal.append(RunId("r2"), "step", {}) == 1
        page = await journal.events(RunId("r1"), after=1, limit=1)
        assert [event.data for event in page.events] == [{"n": 2}]
        assert (page.last_seq, page.gap) == (3, False)
        for number in range(4, 9):
            await journal.append(RunId("r1"), "step", {"n": number})
    async with servers.next() as journal:
        page = await journal.events(RunId("r1"))
        assert [event.seq for event in page.events] == [4, 5, 6, 7, 8]
        assert (page.last_seq, page.gap) == (8, True)
        assert not (await journal.events(RunId("r1"), after=3)).gap
        assert await journal.append(RunId("r1"), "step", {}) == 9


async def test_updates_are_kept_in_order_until_forgotten(servers: Servers) -> None:
    async with servers.next() as journal:
        await journal.append_updates(RunId("r1"), [b"1", b"2"])
        await journal.append_updates(RunId("r2"), [b"x"])
        await journal.append_updates(RunId("r1"), [b"", b"\x003"])
        await journal.append_updates(RunId("r1"), [])
        assert list(await journal.updates(RunId("r1"))) == [b"1", b"2", b"", b"\x003"]
        await journal.forget_updates(RunId("r1"))
        assert list(await journal.updates(RunId("r1"))) == []
        assert list(await journal.updates(RunId("r2"))) == [b"x"]


async def test_the_last_text_counts(servers: Servers) -> None:
    async with servers.next() as journal:
        assert await journal.text(RunId("r1")) == ""
        await journal.record_text(RunId("r1"), "a")
        await journal.record_text(RunId("r1"), "ab 𝄞\x00")
        assert await journal.text(RunId("r1")) == "ab 𝄞\x00"


async def test_cells_are_noted_per_file(servers: Servers) -> None:
    cells = [CellId("b"), CellId("a")]
    async with servers.next() as journal:
        assert list(await journal.last_cells(FILE)) == []
        await journal.note_cells(FILE, [CellId("x")])
        await journal.note_cells(FILE, cells)
        await journal.note_cells(FileId("other"), [])
    async with servers.next() as journal:
        assert list(await journal.last_cells(FILE)) == cells


async def test_unfinished_are_only_runs_of_dead_servers_that_had_not_ended(
    servers: Servers,
) -> None:
    async with servers.next() as journal:
        await journal.save(run("ended", status=RunStatus.DONE))
        await journal.save(run("live", status=RunStatus.STREAMING))
        await journal.append_updates(RunId("live"), [b"1", b"2"])
        await journal.record_text(RunId("live"), "so far")
        assert await journal.unfinished() == []
        assert await journal.owner_alive(RunId("live"))
        assert not await journal.owner_alive(RunId("ended"))
        assert not await journal.owner_alive(RunId("unknown"))
    async with servers.next() as journal:
        (left,) = await journal.unfinished()
        assert (left.record, list(left.updates), left.text) == (
            run("live", status=RunStatus.STREAMING),
            [b"1", b"2"],
            "so far",
        )
        assert not await journal.owner_alive(RunId("live"))
        await journal.save(run("mine", status=RunStatus.PREPARING))
        assert [one.record.run_id for one in await journal.unfinished()] == ["live"]
        await journal.save(run("live", status=RunStatus.INTERRUPTED))
        assert await journal.unfinished() == []


async def test_many_writers_share_a_transaction(servers: Servers) -> None:
    async with servers.next() as journal:
        # One transaction each would take five seconds at least.
        with anyio.fail_after(3):
            async with anyio.create_task_group() as tasks:
                for number in range(1000):
                    tasks.start_soon(journal.append_updates, RunId(f"r{number % 10}"), [b"u"])
        for number in range(10):
            assert len(await journal.updates(RunId(f"r{number}"))) == 100


async def test_a_fault_of_one_caller_does_not_harm_the_others(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "journal") as journal:
        outcome: list[BaseException] = []

        async def fail() -> None:
            try:
                await journal.append(RunId("bad"), "x", {"not json": object()})  # type: ignore[dict-item]
            except TypeError as error:
                outcome.append(error)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(journal.append, RunId(f"r{number}"), "x", {})
                tasks.start_soon(journal.append_updates, RunId(f"r{number}"), [b"u"])
                if number == 7:
                    tasks.start_soon(fail)
        assert len(outcome) == 1
        for number in range(20):
            assert (await journal.events(RunId(f"r{number}"))).last_seq == 1
            assert len(await journal.updates(RunId(f"r{number}"))) == 1


async def test_what_a_cancelled_caller_wrote_is_still_committed(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "journal") as journal:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await journal.append_updates(RunId("r1"), [b"u"])
        assert scope.cancelled_caught
        await journal.append_updates(RunId("r1"), [b"v"])
        assert list(await journal.updates(RunId("r1"))) == [b"u", b"v"]


async def test_leaving_writes_the_rest_and_frees_the_slot(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with anyio.create_task_group() as tasks:
        async with open_journal(directory) as journal:
            tasks.start_soon(journal.append_updates, RunId("r1"), [b"u"])
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    with pytest.raises(JournalUnavailable, match="stopping"):
        await journal.append_updates(RunId("r1"), [b"v"])
    async with open_journal(directory) as journal:
        assert list(await journal.updates(RunId("r1"))) == [b"u"]
    assert sorted(path.name for path in directory.iterdir()) == ["0.lock", "0.sqlite"]


async def test_an_error_in_the_body_is_not_wrapped(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with open_journal(tmp_path / "journal"):
            raise LookupError("mine")


async def test_files_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "nbinline" / "journal"
    directory.mkdir(parents=True, mode=0o755)
    async with open_journal(directory) as journal:
        await journal.save(run("r1"))
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        for path in directory.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize("name", ["0.sqlite", "0.sqlite-wal", "0.lock", "."])
async def test_symbolic_links_are_refused(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    directory = tmp_path / "journal"
    if name == ".":
        elsewhere.mkdir()
        directory.symlink_to(elsewhere)
    else:
        elsewhere.touch()
        directory.mkdir()
        (directory / name).symlink_to(elsewhere)
    with pytest.raises(JournalUnavailable):
        async with open_journal(directory):
            pytest.fail("opened")
    assert not elsewhere.is_file() or elsewhere.stat().st_size == 0


@contextmanager
def server_process(directory: Path, run_id: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, str(PROCESS), str(directory), run_id], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def committed(process: subprocess.Popen[str], at_least: int) -> int:
    """The number of the last update that the process says is committed."""

    def wait() -> int:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= at_least:
                return int(line)
        pytest.fail("the process ended")

    with anyio.fail_after(30):
        return await anyio.to_thread.run_sync(wait)


async def kill(process: subprocess.Popen[str]) -> int:
    """Kill the process; the number of the last update that it said was committed."""
    process.send_signal(signal.SIGKILL)
    out, _ = await anyio.to_thread.run_sync(process.communicate)
    lines = out.splitlines(keepends=True)
    return max((int(line) for line in lines if line.endswith("\n")), default=0)


async def test_what_was_awaited_survives_kill_9(tmp_path: Path) -> None:
    with server_process(tmp_path / "journal", "doomed") as process:
        last = await committed(process, 40)
        last = max(last, await kill(process))
    async with open_journal(tmp_path / "journal") as journal:
        (left,) = await journal.unfinished()
        assert left.record.run_id == "doomed"
        updates = list(left.updates)
        assert len(updates) in (last + 1, last + 2)
        assert updates == [f"update {number}".encode() for number in range(len(updates))]
        assert left.text in (f"text {last}", f"text {last + 1}")
        assert (await journal.events(RunId("doomed"))).last_seq == 1


async def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        await journal.save(run("mine", created_at=1.0))
        with server_process(directory, "theirs") as process:
            await committed(process, 3)
            assert [one.run_id for one in await journal.runs()] == ["theirs", "mine"]
            theirs = await journal.run(RunId("theirs"))
            assert theirs is not None
            assert theirs.status is RunStatus.STREAMING
            assert (await journal.text(RunId("theirs"))).startswith("text ")
            assert (await journal.events(RunId("theirs"))).last_seq == 1
            assert await journal.owner_alive(RunId("theirs"))
            assert await journal.unfinished() == []
            last = await kill(process)
        assert not await journal.owner_alive(RunId("theirs"))
        (left,) = await journal.unfinished()
        assert left.record.run_id == "theirs"
        assert len(left.updates) > last
        assert not (directory / "1.sqlite").exists()
        await journal.save(replace(left.record, status=RunStatus.INTERRUPTED))
        assert [one.run_id for one in await journal.runs()] == ["theirs", "mine"]
        assert await journal.unfinished() == []


async def test_adopting_twice_changes_nothing(tmp_path: Path) -> None:
    """A server that dies between copying and removing leaves both files."""
    directory = tmp_path / "journal"
    async with open_journal(directory) as first:
        async with open_journal(directory) as second:
            await second.save(run("theirs", status=RunStatus.STREAMING))
            await second.append_updates(RunId("theirs"), [b"1", b"2"])
            await second.append(RunId("theirs"), "status", {})
            await second.note_cells(FILE, [CellId("new")])
        copy = (directory / "1.sqlite").read_bytes()
        for _ in range(2):
            (left,) = await first.unfinished()
            assert list(left.updates) == [b"1", b"2"]
            assert (await first.events(RunId("theirs"))).last_seq == 1
            assert list(await first.last_cells(FILE)) == ["new"]
            (directory / "1.sqlite").write_bytes(copy)


async def test_a_damaged_file_is_set_aside_and_reported(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    directory.mkdir()
    (directory / "0.sqlite").write_bytes(b"this is no database" * 1000)
    async with open_journal(directory) as journal:
        await journal.save(run("r1"))
        assert len(journal.problems) == 1
        assert "set aside" in journal.problems[0]
    (aside,) = directory.glob("0.sqlite.corrupt-*")
    assert aside.read_bytes().startswith(b"this is no database")


async def test_a_file_of_a_dead_server_that_is_damaged_is_set_aside(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        (directory / "1.sqlite").write_bytes(b"this is no database" * 1000)
        assert await journal.unfinished() == []
        await journal.save(run("r1"))
        assert len(journal.problems) == 1
    assert len(list(directory.glob("1.sqlite.corrupt-*"))) == 1


async def test_a_file_damaged_while_it_is_open_is_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        await journal.save(run("before"))
        for number in range(200):
            await journal.record_text(RunId(f"r{number}"), "x" * 2000)
        with sqlite3.connect(directory / "0.sqlite") as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        _overwrite(directory / "0.sqlite", start=4096)
        for number in range(200):
            await journal.record_text(RunId(f"r{number}"), "y" * 2000)
        await journal.save(run("after"))
        found = await journal.run(RunId("after"))
        assert found == run("after")
        assert journal.problems
    assert list(directory.glob("0.sqlite.corrupt-*"))


def _overwrite(path: Path, start: int) -> None:
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(start)
        file.write(os.urandom(size - start))


async def test_a_removed_directory_is_made_again(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        await journal.save(run("before"))
        shutil.rmtree(directory)
        await journal.prune()
        assert "was removed" in journal.problems[0]
        await journal.save(run("after"))
        assert await journal.run(RunId("after")) == run("after")
    assert (directory / "0.sqlite").exists()


async def test_a_fresh_start_that_fails_is_tried_again(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        await journal.save(run("before"))
        shutil.rmtree(directory)
        directory.touch()
        for _ in range(2):
            with pytest.raises(JournalUnavailable):
                await journal.prune()
        with pytest.raises(JournalUnavailable):
            await journal.save(run("lost"))
        directory.unlink()
        await journal.save(run("after"))
        assert await journal.run(RunId("after")) == run("after")


async def _ended_runs(journal: SqliteJournal, clock: Clock, numbers: range) -> None:
    for number in numbers:
        ended = run(f"r{number}", status=RunStatus.DONE, created_at=clock.now, ended_at=clock.now)
        await journal.save(ended)
        await journal.append(ended.run_id, "status", {"status": "done"})
        await journal.record_text(ended.run_id, "x" * 20_000)
        clock.now += 3600


async def test_old_ended_runs_are_pruned_and_live_ones_never(tmp_path: Path) -> None:
    clock = Clock()
    async with open_journal(
        tmp_path / "journal", max_age_days=1, maintenance=None, clock=clock
    ) as journal:
        await journal.save(run("live", status=RunStatus.STREAMING, created_at=0.0))
        await _ended_runs(journal, clock, range(48))
        await journal.prune()
        left = {one.run_id for one in await journal.runs()}
        assert left == {"live", *(f"r{number}" for number in range(24, 48))}
        assert await journal.text(RunId("r23")) == ""
        assert (await journal.events(RunId("r23"))).last_seq == 0


async def test_beyond_the_size_the_oldest_ended_runs_go_first(tmp_path: Path) -> None:
    clock = Clock()
    directory = tmp_path / "journal"
    async with open_journal(
        directory, max_bytes=1_000_000, maintenance=None, clock=clock
    ) as journal:
        await journal.save(run("live", status=RunStatus.STREAMING, created_at=0.0))
        await journal.append_updates(RunId("live"), [b"x" * 300_000])
        await _ended_runs(journal, clock, range(60))
        await journal.prune()
        left = [one.run_id for one in await journal.runs()]
        assert left[-1] == "live"
        assert 20 < len(left) < 45
        assert left[:-1] == [f"r{number}" for number in range(59, 60 - len(left), -1)]
        assert (directory / "0.sqlite").stat().st_size <= 1_000_000
        assert len(await journal.updates(RunId("live"))) == 1


async def test_a_full_journal_says_so_and_works_again_after_pruning(tmp_path: Path) -> None:
    clock = Clock()
    async with open_journal(
        tmp_path / "journal", max_bytes=200_000, maintenance=None, clock=clock
    ) as journal:
        await journal.save(run("done", status=RunStatus.DONE, ended_at=clock.now))
        await journal.record_text(RunId("done"), "x" * 100_000)
        with anyio.fail_after(10), pytest.raises(JournalUnavailable, match="full"):
            await _fill(journal)
        await journal.prune()
        await journal.append_updates(RunId("live"), [b"y" * 50_000])
        assert (await journal.updates(RunId("live")))[-1] == b"y" * 50_000


async def _fill(journal: SqliteJournal) -> None:
    while True:
        await journal.append_updates(RunId("live"), [b"x" * 50_000])


async def test_a_locked_file_fails_within_five_seconds_and_recovers(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        await journal.save(run("r1"))
        other = sqlite3.connect(directory / "0.sqlite", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        try:
            with anyio.fail_after(6), pytest.raises(JournalUnavailable, match="locked"):
                await journal.append_updates(RunId("r1"), [b"u"])
            assert await journal.run(RunId("r1")) == run("r1")
        finally:
            other.close()
        await journal.append_updates(RunId("r1"), [b"v"])
        assert list(await journal.updates(RunId("r1"))) == [b"v"]


async def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalUnavailable, match="directory"):
        async with open_journal(tmp_path / "file" / "journal"):
            pytest.fail("opened")


@pytest.mark.parametrize("change", ["directory", "file"])
async def test_a_read_only_place_is_refused(tmp_path: Path, change: str) -> None:
    """In a process without root's rights, which would overlook the mode."""
    directory = tmp_path / "journal"
    async with open_journal(directory) as journal:
        await journal.save(run("r1"))
    script = f"""
        import os, sys, anyio
        from pathlib import Path
        from nbinline_agent.errors import JournalUnavailable
        from nbinline_rtc.sqlite_journal import open_journal

        async def main():
            try:
                async with open_journal(Path({str(directory)!r})):
                    print("opened")
            except JournalUnavailable as error:
                print("refused", error.message)

        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        anyio.run(main)
    """
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    for path in directory.iterdir():
        path.chmod(0o444 if change == "file" else 0o666)
    directory.chmod(0o555 if change == "directory" else 0o777)
    with anyio.fail_after(60):
        done = await anyio.run_process([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.stdout.startswith(b"refused"), done
