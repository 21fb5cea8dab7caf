"""Looking after other people's runs: who did it stands in the run's own record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
import structlog

from nbinline_agent.errors import NbinlineError
from nbinline_agent.ids import RunId
from nbinline_agent.journal import Author, RunRecord

from .activity import ActivityFeed
from .pauses import Pauses
from .sqlite_journal import SqliteJournal

WATCHED = "watched"
"""Event in the record of a run that somebody else looked at."""

LIVE = "live"
TRANSCRIPT = "transcript"
"""What was looked at: the feed, or the record with the answer's text."""

AT_ONCE = 200
"""Runs of one answer at most, the newest first."""

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Watching:
    """The feed, the pauses, and the record of who looked at whose runs.

    Attributes:
        feed: What happens on this server.
        pauses: Where AI is paused.
        journal: Where runs are recorded.
    """

    feed: ActivityFeed
    pauses: Pauses
    journal: SqliteJournal
    _told: set[tuple[RunId, str]] = field(default_factory=set)

    async def note(self, records: Iterable[RunRecord], by: Author, what: str) -> None:
        """Write into the runs of others that somebody looked at them.

        Watching live is noted once for each run and watcher as long as the server lives; reading a
        transcript every time.

        Args:
            records: What was looked at; one's own is passed over.
            by: Who looked.
            what: ``LIVE`` or ``TRANSCRIPT``.
        """
        others = {r.run_id: r for r in records if r.author.username != by.username}
        async with anyio.create_task_group() as tasks:
            for run_id in others:
                key = (run_id, by.username)
                if what == LIVE and key in self._told:
                    continue
                self._told.add(key)
                tasks.start_soon(partial(self._note, run_id, by, what))

    async def _note(self, run_id: RunId, by: Author, what: str) -> None:
        data = {"username": by.username, "display_name": by.display_name, "what": what}
        try:
            kept = await self.journal.remark(run_id, WATCHED, data)
        except NbinlineError as error:
            log.warning("access not journalled", run=run_id, by=by.username, code=error.code)
            return
        log.info("run watched", run=run_id, by=by.username, what=what, journalled=kept)

    def live_runs(self, path: str, file_id: str) -> Sequence[RunRecord]:
        """Runs below a path, or in a notebook, that have not ended as far as this server knows."""

        def wanted(record: RunRecord) -> bool:
            if record.status.ended:
                return False
            if file_id:
                return record.file_id == file_id
            return not path or record.path.startswith(f"{path}/")

        return self.feed.runs(wanted)
