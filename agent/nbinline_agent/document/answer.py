"""The cell an answer is streamed into: found or made, written piece by piece, finished."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import anyio
from pycrdt import Map, Text

from nbinline_agent.errors import CellGone, NbinlineError
from nbinline_agent.ids import CellId, RunId

from .alignment import align
from .background import background
from .index import Entry
from .locks import may_edit
from .notebook import Notebook
from .peer import panics_as_errors
from .position import Tail

SPENT = (
    "error",
    "endedAt",
    "stale",
    "approvalId",
    "note",
    "inputsSha256",
    "contextTrimmed",
    "secretsLeftOut",
)
"""Metadata of an ended run that a new one takes away."""

LATENESS_WEIGHT = 4.0
"""Seconds of window for each second that the event loop is late on average."""

FORMAT_RAISED = "format-raised"
"""Note on the first answer in a file of an old format: from now on it is saved as nbformat 4.5."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """What an answer cell says about the run that writes it.

    Attributes:
        run_id: The run, and the origin of all its transactions.
        author: Username of the person who asked.
        model: Model id.
        backend: Connection id.
        author_name: What that person is called, for when they are gone.
    """

    run_id: RunId
    author: str
    model: str
    backend: str
    author_name: str = ""

    def metadata(self) -> dict[str, Any]:
        """The mark as cell metadata."""
        named = self.author_name not in ("", self.author)
        return {
            "runId": self.run_id,
            "author": self.author,
            **({"authorName": self.author_name} if named else {}),
            "model": self.model,
            "backend": self.backend,
        }


class Pacer:
    """Decides how long text is collected before it is written; one for all answers of a server.

    Every write costs the same however long it is, so what counts is writes per second of the whole
    server. Below its budget each answer is written every ``narrowest`` seconds; beyond, all of them
    more slowly, so that together they stay within it. They also slow down while the event loop is
    late, whatever it is that keeps it.

    Args:
        budget: Writes per second of all answers together.
        narrowest: Seconds between two writes of one answer, at least.
        widest: And at most, whatever the load.
    """

    def __init__(self, budget: float = 300.0, narrowest: float = 0.04, widest: float = 0.4) -> None:
        self._budget = budget
        self._narrowest = narrowest
        self._widest = widest
        self._writers: OrderedDict[object, float] = OrderedDict()
        self._lateness = 0.0

    @property
    def window(self) -> float:
        """Seconds between two writes of one answer at the present load."""
        self._forget_idle(anyio.current_time())
        wanted = max(len(self._writers) / self._budget, LATENESS_WEIGHT * self._lateness)
        return min(self._widest, max(self._narrowest, wanted))

    @property
    def slowness(self) -> float:
        """How many times longer than without load the window is."""
        return self.window / self._narrowest if self._narrowest else 1.0

    @property
    def rest(self) -> float:
        """Seconds to let a service's words gather before they are read: 0 below the budget.

        Reading many at once costs a third of reading each as it comes.
        """
        window = self.window
        return window / 3 if window > self._narrowest else 0.0

    def woke(self, late: float) -> None:
        """Note how many seconds later than planned the event loop woke a writer."""
        self._lateness += (late - self._lateness) / 16

    def written(self, writer: object) -> None:
        """Note that an answer was written just now."""
        now = anyio.current_time()
        self._writers[writer] = now
        self._writers.move_to_end(writer)
        self._forget_idle(now)

    def _forget_idle(self, now: float) -> None:
        while self._writers and now - next(iter(self._writers.values())) > 1.0:
            self._writers.popitem(last=False)


class AnswerCell:
    """The answer of one run; made by :meth:`open` or :meth:`resume`.

    ::

        async with AnswerCell.open(notebook, prompt_id, mark, pacer=pacer) as answer:
            await answer.write("Hello ")
            await answer.write("world")
            await answer.finish("done")

    Left without :meth:`finish`, what was written is flushed and the answer marked ``interrupted``.

    Attributes:
        id: The answer cell.
        missing_tail: Text that was to stand in the cell when it was resumed, and did not.
        gone: Set when the cell was found deleted.
    """

    def __init__(self, notebook: Notebook, cell_id: CellId, mark: RunMark, pacer: Pacer) -> None:
        self.id = cell_id
        self.missing_tail = ""
        self.gone = anyio.Event()
        self._notebook = notebook
        self._mark = mark
        self._pacer = pacer
        self._tail: Tail | None = None
        self._old: str | None = None
        self._written: list[str] = []
        self._buffer: list[str] = []
        self._half = ""
        self._flushed = 0.0
        self._news = anyio.Event()
        self._failure: NbinlineError | None = None
        self._ended = False

    # Opening

    @staticmethod
    def prepare(
        notebook: Notebook,
        prompt_id: CellId,
        mark: RunMark,
        status: str = "queued",
        *,
        old: str | None = None,
        raise_format: bool = True,
    ) -> CellId:
        """Find or make the answer cell of a question and mark it; its text stays as it is.

        The first linked answer below the question is taken, else any linked one, else a new
        Markdown cell right below the question. A locked answer is left alone.

        Args:
            notebook: Where.
            prompt_id: The question.
            mark: The run.
            status: Word for the metadata, ``queued`` or ``running``.
            old: What stood in the answer when the run first prepared it, in a room that was
                replaced since; what was typed there meanwhile stays.
            raise_format: Raise an old file format in the same step, so that the link is saved.

        Raises:
            UnknownCell: The question is not in the notebook.
        """
        position = notebook.position(prompt_id)
        entry = _find_answer(notebook, prompt_id, mark)
        cell_id = entry.cell_id if entry else CellId(str(uuid4()))
        notebook.before_change(cell_id, mark.run_id)
        with panics_as_errors(), notebook.peer.doc.transaction(origin=mark.run_id):
            value = _opened(entry.mark if entry else {}, prompt_id, mark, status)
            if raise_format and notebook.raise_format(mark.run_id):
                value["note"] = FORMAT_RAISED
            if entry is None:
                _insert(notebook, position + 1, cell_id, value)
            else:
                notebook.set_cell_metadata(cell_id, value, mark.run_id)
        _follow(notebook, cell_id, old)
        return cell_id

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        notebook: Notebook,
        prompt_id: CellId,
        mark: RunMark,
        *,
        pacer: Pacer | None = None,
        status: str = "running",
        old: str | None = None,
        raise_format: bool = True,
    ) -> AsyncIterator[AnswerCell]:
        """Open the answer cell of a question for writing, as :meth:`prepare` finds or makes it.

        Opening changes metadata only. The first words written replace the old answer; what people
        have typed into the cell since it was prepared or opened stays, behind them.

        Raises:
            UnknownCell: The question is not in the notebook.
        """
        cell_id = cls.prepare(notebook, prompt_id, mark, status, old=old, raise_format=raise_format)
        answer = cls(notebook, cell_id, mark, pacer or Pacer())
        answer._tail = notebook.peer.index.tails.pop(cell_id, None)
        answer._old = notebook.source(cell_id) if old is None else old
        async with answer._living():
            yield answer

    @classmethod
    @asynccontextmanager
    async def resume(
        cls,
        notebook: Notebook,
        answer_id: CellId,
        mark: RunMark,
        *,
        text_so_far: str,
        pacer: Pacer | None = None,
        prompt_id: CellId | None = None,
    ) -> AsyncIterator[AnswerCell]:
        """Go on behind the last character of an answer that stands there already.

        What is missing of ``text_so_far`` at its end is written again first.

        Args:
            notebook: Where.
            answer_id: The answer cell.
            mark: The run that goes on; it may be another one.
            text_so_far: What was written before.
            pacer: Shared by all answers of a server.
            prompt_id: The question; with it, a cell that is gone is made again below it.

        Raises:
            CellGone: The answer cell is not in the notebook, nor is the question.
        """
        answer = cls(notebook, answer_id, mark, pacer or Pacer())
        _claim(notebook, answer_id, mark, prompt_id, "running")
        answer._take_up(text_so_far)
        async with answer._living():
            yield answer

    @staticmethod
    def mark_ended(
        notebook: Notebook,
        answer_id: CellId,
        mark: RunMark,
        status: str,
        *,
        error: tuple[str, str] | None = None,
        ended_at: float | None = None,
    ) -> None:
        """Mark an answer that was prepared and never opened as ended; its text stays.

        Nothing happens if the cell is gone, or belongs to another run by now.
        """
        tail = notebook.peer.index.tails.pop(answer_id, None)
        if tail is not None:
            tail.close()
        if notebook.has(answer_id) and notebook.nbinline(answer_id).get("runId") == mark.run_id:
            value = _ended(notebook.nbinline(answer_id), status, error, ended_at)
            notebook.set_cell_metadata(answer_id, value, mark.run_id)

    @staticmethod
    def mark_interrupted(notebook: Notebook, answer_id: CellId, *, origin: str) -> None:
        """Mark an answer whose writer is dead, whoever that was; nothing happens if it is gone."""
        if notebook.has(answer_id):
            value = _ended(notebook.nbinline(answer_id), "interrupted", None, None)
            notebook.set_cell_metadata(answer_id, value, origin)

    @staticmethod
    def restore(
        notebook: Notebook, prompt_id: CellId, answer_id: CellId, mark: RunMark, text: str
    ) -> int:
        """Bring back what people had seen of an answer whose server died; mark it interrupted.

        Only what does not stand there is written. A cell that is gone is made again, if it had
        text and its question is still there.

        Returns:
            Characters that had to be written.
        """
        if not notebook.has(answer_id) and (not text or not notebook.has(prompt_id)):
            return 0
        answer = AnswerCell(notebook, answer_id, mark, Pacer())
        _claim(notebook, answer_id, mark, prompt_id, "running")
        if text:
            answer._take_up(text)
        answer._flush_now(_ended(notebook.nbinline(answer_id), "interrupted", None, None))
        answer._close()
        return len(answer.missing_tail)

    @asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        try:
            async with background(self._flush_regularly):
                yield
        finally:
            try:
                if not self._ended and not self.closed:
                    value = self._metadata()
                    self._flush_now(_ended(value, "interrupted", None, None))
            except NbinlineError:
                pass  # the cell or the room is gone: there is nothing left to mark
            finally:
                self._close()

    def _take_up(self, text_so_far: str) -> None:
        entry = self._entry()
        text = _text_of(entry)
        if text is None:
            raise CellGone
        standing = str(text)
        found = align(text_so_far, standing)
        if not text_so_far:
            self._tail = Tail(text, 0, key=(entry, entry.text_number))
        elif found.related:
            self._tail = Tail(
                text, len(standing[: found.end].encode()), ours=True, key=(entry, entry.text_number)
            )
            self.missing_tail = found.missing
        else:
            self._tail = Tail(text, 0, key=(entry, entry.text_number))
            self.missing_tail = text_so_far
        self._written = [text_so_far]
        if self.missing_tail:
            self._buffer = [self.missing_tail]
            self._news.set()

    # Writing

    @property
    def text(self) -> str:
        """Everything written so far, also what is not flushed yet."""
        if len(self._written) > 1:
            self._written = ["".join(self._written)]
        return self._written[0] if self._written else ""

    @property
    def keep_old(self) -> bool:
        """Whether nothing was written, so that the previous answer stands as it was."""
        return not self._written

    @property
    def closed(self) -> bool:
        """Whether the room went away, so that nobody sees what is written."""
        return self._notebook.peer.closed.is_set()

    async def write(self, text: str) -> None:
        """Add words to the answer; they are written within the pacer's window.

        Raises:
            CellGone: The cell was deleted. If it comes back, writing goes on.
            RoomLost: The replica broke.
        """
        whole = self._whole_characters(text)
        if whole:
            self._written.append(whole)
            self._buffer.append(whole)
            self._news.set()
        if self._failure is not None:
            raise self._failure
        self._entry()
        await anyio.lowlevel.checkpoint()

    async def flush(self) -> None:
        """Write now what was collected.

        Raises:
            CellGone: The cell was deleted.
        """
        self._flush_now(None)
        await anyio.lowlevel.checkpoint()

    async def set_status(self, status: str, **fields: Any) -> None:
        """Set the status word, and further values, in the cell's metadata.

        Raises:
            CellGone: The cell was deleted.
        """
        value = {**self._metadata(), "status": status, **fields}
        if value != self._metadata():
            self._flush_now(value)
        await anyio.lowlevel.checkpoint()

    async def finish(
        self,
        status: str,
        *,
        error: tuple[str, str] | None = None,
        ended_at: float | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the rest of the text and the ending, in one transaction.

        Args:
            status: ``done``, ``error``, ``cancelled`` or ``interrupted``.
            error: Code and message, if it failed.
            ended_at: Seconds since the epoch; now if None.
            more: Further values for the metadata.

        Raises:
            CellGone: The cell was deleted.
        """
        if self._half:
            self._half = ""
            self._written.append("\ufffd")
            self._buffer.append("\ufffd")
        self._flush_now(_ended(self._metadata(), status, error, ended_at) | dict(more or {}))
        self._ended = True
        await anyio.lowlevel.checkpoint()

    async def _flush_regularly(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            window = self._pacer.window
            wait = self._flushed + window - anyio.current_time()
            if wait > 0:
                await anyio.sleep(wait)
                self._pacer.woke(anyio.current_time() - self._flushed - window)
            try:
                self._flush_now(None)
            except CellGone:
                continue  # told to whoever writes next; the words stay collected
            except NbinlineError as error:
                self._failure = error

    def _flush_now(self, metadata: Mapping[str, Any] | None) -> None:
        words = "".join(self._buffer)
        if not words and metadata is None:
            return
        tail = self._place()
        with (
            panics_as_errors(),
            self._notebook.peer.doc.transaction(origin=self._mark.run_id),
        ):
            if words:
                tail.write(words)
            if metadata is not None:
                self._notebook.set_cell_metadata(self.id, metadata, self._mark.run_id)
        self._buffer.clear()
        self._flushed = anyio.current_time()
        if words:
            self._pacer.written(self)

    def _place(self) -> Tail:
        entry = self._entry()
        key = (entry, entry.text_number)
        if self._tail is not None and self._tail.key == key:
            return self._tail
        # The cell was deleted and came back, or its text was replaced: it is another one now.
        text = _text_of(entry)
        if text is None:
            raise CellGone
        self._close()
        flushed = self.text.removesuffix("".join(self._buffer))
        if not flushed:
            self._tail = Tail(text, 0, old=self._old, key=key)
            return self._tail
        standing = str(text)
        found = align(flushed, standing)
        self._tail = Tail(text, len(standing[: found.end].encode()), ours=True, key=key)
        return self._tail

    def _entry(self) -> Entry:
        if not self._notebook.has(self.id):
            self.gone.set()
            raise CellGone
        return self._notebook.entry(self.id)

    def _metadata(self) -> dict[str, Any]:
        return dict(self._entry().mark)

    def _close(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _whole_characters(self, text: str) -> str:
        # Services cut text anywhere, also between the two halves that JSON escapes an emoji in.
        text = self._half + text
        self._half = ""
        try:
            text.encode()
        except UnicodeEncodeError:
            if "\ud800" <= text[-1] <= "\udbff":
                self._half, text = text[-1], text[:-1]
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text


def _find_answer(notebook: Notebook, prompt_id: CellId, mark: RunMark) -> Entry | None:
    """The cell to answer in: ours already, else the first linked one below, else any linked one.

    An earlier answer that may not be edited stays as it is.
    """
    index = notebook.peer.index
    linked = [
        entry
        for entry in index.entries
        if entry.mark.get("isOutputCell") is True
        and entry.mark.get("promptCellId") == prompt_id
        and index.find(entry.cell_id) is entry
        and _text_of(entry) is not None
        and (entry.mark.get("runId") == mark.run_id or may_edit(notebook.metadata(entry.cell_id)))
    ]
    position = notebook.position(prompt_id)
    own = [entry for entry in linked if entry.mark.get("runId") == mark.run_id]
    below = [entry for entry in linked if index.position(entry) > position]
    return next(iter(own + below + linked), None)


def _text_of(entry: Entry) -> Text | None:
    """The shared text of a Markdown cell; None if it is another cell or damaged."""
    if not isinstance(entry.ycell, Map) or entry.ycell.get("cell_type") != "markdown":
        return None
    source = entry.ycell.get("source")
    return source if isinstance(source, Text) else None


def _follow(notebook: Notebook, cell_id: CellId, old: str | None) -> None:
    """Tell from now on what people type into a cell from what stood there."""
    entry = notebook.entry(cell_id)
    tails = notebook.peer.index.tails
    waiting = tails.get(cell_id)
    key = (entry, entry.text_number)
    if waiting is not None and waiting.key == key:
        return
    if waiting is not None:
        waiting.close()
    text = _text_of(entry)
    if text is not None:
        tails[cell_id] = Tail(text, 0, old=old, key=key)


def _insert(notebook: Notebook, position: int, cell_id: CellId, value: Mapping[str, Any]) -> None:
    ynotebook = notebook.peer.ynotebook
    cell = {
        "cell_type": "markdown",
        "id": cell_id,
        "metadata": {"nbinlineai": dict(value)},
        "source": "",
    }
    ynotebook.ycells.insert(position, ynotebook.create_ycell(cell))


def _claim(
    notebook: Notebook, answer_id: CellId, mark: RunMark, prompt_id: CellId | None, status: str
) -> None:
    """Mark a standing answer as the run's, or make it again below its question."""
    origin = mark.run_id
    if notebook.has(answer_id):
        mark_now = notebook.nbinline(answer_id)
        linked = prompt_id or mark_now.get("promptCellId")
        with panics_as_errors():
            notebook.set_cell_metadata(answer_id, _opened(mark_now, linked, mark, status), origin)
        return
    if prompt_id is None or not notebook.has(prompt_id):
        raise CellGone
    value = _opened({}, prompt_id, mark, status)
    notebook.before_change(answer_id, origin)
    with panics_as_errors(), notebook.peer.doc.transaction(origin=origin):
        notebook.raise_format(origin)
        _insert(notebook, notebook.position(prompt_id) + 1, answer_id, value)


def _opened(
    before: Mapping[str, Any], prompt_id: object, mark: RunMark, status: str
) -> dict[str, Any]:
    same = before.get("runId") == mark.run_id
    kept = {k: v for k, v in before.items() if k not in SPENT or (same and k == "note")}
    kept.pop("authorName", None)
    link = {"isOutputCell": True, "promptCellId": prompt_id, "status": status}
    return kept | link | mark.metadata()


def _ended(
    before: Mapping[str, Any],
    status: str,
    error: tuple[str, str] | None,
    ended_at: float | None,
) -> dict[str, Any]:
    kept = {k: v for k, v in before.items() if k not in SPENT or k == "note"}
    at = datetime.now(UTC) if ended_at is None else datetime.fromtimestamp(ended_at, UTC)
    value = kept | {"status": status, "endedAt": at.isoformat(timespec="seconds")}
    return value | ({"error": {"code": error[0], "message": error[1]}} if error else {})
