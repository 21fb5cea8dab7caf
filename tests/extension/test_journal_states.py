"""Any sequence of writes, reads and restarts leaves SQLite and memory with the same journal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nbinline_agent.ids import RunId
from nbinline_agent.journal import Author, MemoryJournal, RunRecord, RunStatus
from nbinline_rtc.sqlite_journal import SqliteJournal, open_journal

RUNS = st.sampled_from([RunId("a"), RunId("b"), RunId("c")])
KEEP = 4


class Journals(RuleBasedStateMachine):
    """Does everything twice and compares."""

    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="journal-"))
        self.portal_context = start_blocking_portal()
        self.portal: BlockingPortal = self.portal_context.__enter__()
        self.memory = MemoryJournal(max_events_per_run=KEEP, clock=lambda: 5.0)
        self.appended: dict[RunId, int] = {}
        self._open()

    def _open(self) -> None:
        self.opened = self.portal.wrap_async_context_manager(
            open_journal(self.directory, max_events_per_run=KEEP, clock=lambda: 5.0)
        )
        self.sqlite: SqliteJournal = self.opened.__enter__()

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            self.opened.__exit__(None, None, None)
            self.portal_context.__exit__(None, None, None)
            shutil.rmtree(self.directory)

    def both(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """The outcome, the same on both."""
        ours = self.portal.call(call, self.sqlite)
        assert ours == self.portal.call(call, self.memory)
        return ours

    @rule(run_id=RUNS, data=st.dictionaries(st.text(max_size=3), st.integers(), max_size=2))
    def append(self, run_id: RunId, data: dict[str, Any]) -> None:
        seq = self.both(lambda journal: journal.append(run_id, "step", data))
        self.appended[run_id] = self.appended.get(run_id, 0) + 1
        assert seq == self.appended[run_id]

    @rule(run_id=RUNS, after=st.integers(0, 12), limit=st.integers(1, 6))
    def read_events(self, run_id: RunId, after: int, limit: int) -> None:
        page = self.both(lambda journal: journal.events(run_id, after, limit))
        last = self.appended.get(run_id, 0)
        first = max(1, last - KEEP + 1)
        wanted = range(max(after + 1, first), last + 1)
        assert [event.seq for event in page.events] == list(wanted)[:limit]
        assert page.last_seq == last
        assert page.gap is (last > 0 and first > after + 1)

    @rule(run_id=RUNS, updates=st.lists(st.binary(max_size=5), max_size=4))
    def append_updates(self, run_id: RunId, updates: list[bytes]) -> None:
        self.both(lambda journal: journal.append_updates(run_id, updates))

    @rule(run_id=RUNS)
    def forget(self, run_id: RunId) -> None:
        self.both(lambda journal: journal.forget_updates(run_id))

    @rule(run_id=RUNS, text=st.text(alphabet=st.characters(), max_size=8))
    def record_text(self, run_id: RunId, text: str) -> None:
        self.both(lambda journal: journal.record_text(run_id, text))

    @rule(run_id=RUNS, status=st.sampled_from(RunStatus), created=st.integers(0, 3))
    def save(self, run_id: RunId, status: RunStatus, created: int) -> None:
        record = RunRecord(
            run_id, "p", "f", "q", None, status, Author("u", ""), "c", "m", float(created)
        )
        self.both(lambda journal: journal.save(record))

    @rule()
    def restart(self) -> None:
        self.opened.__exit__(None, None, None)
        self.memory = self.memory.successor()
        self._open()

    @invariant()
    def nothing_differs(self) -> None:
        if not hasattr(self, "opened"):
            return
        for run_id in ("a", "b", "c"):
            name = RunId(run_id)
            self.both(lambda journal, name=name: journal.run(name))
            self.both(lambda journal, name=name: journal.text(name))
            self.both(lambda journal, name=name: journal.updates(name))
            self.both(lambda journal, name=name: journal.owner_alive(name))

    @rule()
    def list_runs(self) -> None:
        async def listed(journal: Any) -> list[Any]:
            return list(await journal.runs())

        async def unfinished(journal: Any) -> list[Any]:
            found = [(one.record.run_id, one.text) for one in await journal.unfinished()]
            return sorted(found)

        assert {r.run_id for r in self.both(listed)} <= {"a", "b", "c"}
        self.both(unfinished)


TestJournals = Journals.TestCase
TestJournals.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
