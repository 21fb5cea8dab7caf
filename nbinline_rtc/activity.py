"""What happens in the runs of this server, in order, for those who may watch."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from nbinline_agent.ids import RunId
from nbinline_agent.journal import RunRecord, StoredEvent
from nbinline_agent.messages import JsonValue

from . import wire

KEPT = 5_000
"""Entries that are kept; whoever is further behind is told of a gap."""

PAGE = 500
"""Entries of one answer."""

RECORDS = 1_000
"""Runs whose last state is kept."""

QUIET = frozenset({"inputs", "context"})
"""Events of a run that are of no interest while it is watched; the run's own journal has them."""

_ABOUT = frozenset(
    {
        "run_id",
        "path",
        "file_id",
        "prompt_cell_id",
        "answer_cell_id",
        "status",
        "author",
        "connection",
        "model",
    }
)

Sees = Callable[[RunRecord], bool]
"""Whether somebody may see what happens in a run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened.

    Attributes:
        seq: Rises from entry to entry. The first number of a server is higher than all numbers
            of servers before it.
        at: Seconds since the epoch, UTC.
        type: As in the run's own journal; ``paused`` and ``resumed`` belong to no run.
        record: The run as it stood; None for what belongs to no run.
        data: What the event says.
    """

    seq: int
    at: float
    type: str
    record: RunRecord | None
    data: Mapping[str, JsonValue]

    def to_json(self) -> dict[str, JsonValue]:
        """The entry as clients see it."""
        shown = wire.shown(StoredEvent(self.seq, self.at, self.type, self.data))
        whole = {} if self.record is None else wire.run_json(self.record)
        about = {name: value for name, value in whole.items() if name in _ABOUT}
        return {
            "seq": self.seq,
            "at": wire.iso(self.at),
            "type": self.type,
            **about,
            "data": dict(shown),
        }


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A slice of the feed; ``gap`` says that entries before it are not there any more."""

    entries: Sequence[Entry]
    last_seq: int
    gap: bool


@dataclass(eq=False)
class ActivityFeed:
    """A ``JournalListener`` that numbers what it hears and lets people wait for more.

    It lives and dies with the server: a cursor from before a restart gets a gap, never silence.
    """

    clock: Callable[[], float] = time.time
    _entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=KEPT))
    _records: OrderedDict[RunId, RunRecord] = field(default_factory=OrderedDict)
    _seq: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)
    _sinks: list[Callable[[Entry], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Microseconds: no server before this one can have counted so far.
        self._seq = self._first = int(self.clock() * 1_000_000)

    def tell(self, sink: Callable[[Entry], None]) -> None:
        """Call somebody with every entry, as it happens."""
        self._sinks.append(sink)

    # What the journal tells

    def saved(self, record: RunRecord) -> None:
        """See ``JournalListener``."""
        self._records[record.run_id] = record
        self._records.move_to_end(record.run_id)
        while len(self._records) > RECORDS:
            self._records.popitem(last=False)

    def happened(self, run_id: RunId, event: StoredEvent) -> None:
        """See ``JournalListener``."""
        record = self._records.get(run_id)
        if record is not None and event.type not in QUIET:
            self.add(event.type, event.data, record, event.at)

    def add(
        self,
        type: str,
        data: Mapping[str, JsonValue],
        record: RunRecord | None = None,
        at: float | None = None,
    ) -> None:
        """Append an entry and wake whoever waits."""
        self._seq += 1
        entry = Entry(self._seq, self.clock() if at is None else at, type, record, data)
        self._entries.append(entry)
        self._news.set()
        self._news = anyio.Event()
        for sink in self._sinks:
            sink(entry)

    # What people ask

    @property
    def last_seq(self) -> int:
        """Number of the newest entry."""
        return self._seq

    def runs(self, sees: Sees) -> list[RunRecord]:
        """The runs that somebody may see, as far as this server remembers them, newest first."""
        found = [record for record in self._records.values() if sees(record)]
        return sorted(found, key=lambda record: record.created_at, reverse=True)

    def page(self, after: int, sees: Sees) -> FeedPage:
        """The entries above ``after`` that somebody may see."""
        oldest = self._entries[0].seq if self._entries else self._seq + 1
        gap = after + 1 < oldest or after > self._seq
        start = 0 if gap else after + 1 - oldest
        found: list[Entry] = []
        last = self._seq
        for number in range(start, len(self._entries)):
            entry = self._entries[number]
            if entry.record is None or sees(entry.record):
                found.append(entry)
                if len(found) == PAGE:
                    last = entry.seq
                    break
        return FeedPage(found, last, gap)

    async def wait(self, after: int, sees: Sees, seconds: float) -> FeedPage:
        """The same; while there is nothing, it waits."""
        page = self.page(after, sees)
        with anyio.move_on_after(seconds):
            while not page.entries and not page.gap:
                await self._news.wait()
                page = self.page(page.last_seq, sees)
        return page
