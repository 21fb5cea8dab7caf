"""Outputs of a running code cell, written into the shared notebook while they arrive."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from pycrdt import Array, Map, Text

from nbinline_agent.errors import UnknownCell
from nbinline_agent.ids import CellId

from .background import background
from .index import SLICE
from .notebook import Notebook
from .terminal import ScreenText

WINDOW = 0.05
"""Seconds between two writes at least; each is one update for everybody."""

SHARE = 5
"""Writing may take one part in this many of the time."""

RUNNING = "running"
IDLE = "idle"
"""Words of ``execution_state``, which JupyterLab shows as ``[*]`` and as the number."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class OutputBounds:
    """How much of one cell's output goes into the notebook.

    Attributes:
        stream: Characters of printed text; more is cut in its middle.
        tail: Characters of it that are kept from the end.
        one: Bytes, roughly, of one other output.
        total: Bytes, roughly, of all other outputs.
        count: Outputs.
    """

    stream: int = 500_000
    tail: int = 20_000
    one: int = 4_000_000
    total: int = 16_000_000
    count: int = 1_000


class _Stream:
    """Printed text; what is over the bound goes through a short tail that is shown at the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.screen = ScreenText()
        self._tail = ""
        self._left_out = 0

    def feed(self, text: str, room: int, tail: int) -> int:
        """Take text; returns how much of the room it used."""
        if room <= 0:
            self._tail += text
            if len(self._tail) > 4 * tail:
                self._left_out += self._tail.count("\n", 0, -tail)
                self._tail = self._tail[-tail:]
            return 0
        self.screen.feed(text[:room])
        if len(text) > room:
            self.feed(text[room:], 0, tail)
        return min(len(text), room)

    def close(self, tail: int) -> None:
        """Add what was held back, with a line that says how much is missing."""
        if not self._tail:
            return
        self._left_out += self._tail.count("\n", 0, max(0, len(self._tail) - tail))
        note = f"\n[… {self._left_out:,} lines left out …]\n" if self._left_out else ""
        self.screen.feed(note + self._tail[-tail:])
        self._tail = ""

    def as_output(self) -> dict[str, Any]:
        """As nbformat has it."""
        return {"output_type": "stream", "name": self.name, "text": self.screen.text}


@dataclass(slots=True)
class _Bundle:
    """Any other output; ``dirty`` if the shared one is not this one yet."""

    value: dict[str, Any]
    dirty: bool = False

    def as_output(self) -> dict[str, Any]:
        """As nbformat has it."""
        return self.value


class OutputArea:
    """The outputs of one cell during one run.

    Messages are gathered by :meth:`take` and reach the document a little later, many in one
    transaction. If the cell goes away, or somebody clears its outputs meanwhile, for example by
    running it, this goes on gathering and leaves the document alone.

    Args:
        notebook: Gives the live notebook; it may be another one after the room was replaced.
        cell_id: The code cell.
        origin: Of the transactions.
        bounds: How much goes into the notebook.
    """

    def __init__(
        self,
        notebook: Callable[[], Notebook],
        cell_id: CellId,
        origin: str,
        bounds: OutputBounds | None = None,
    ) -> None:
        self._notebook = notebook
        self.cell_id = cell_id
        self._origin = origin
        self._bounds = bounds or OutputBounds()
        self._outputs: list[_Stream | _Bundle] = []
        self._displays: dict[str, list[_Bundle]] = {}
        self._synced = 0
        self._clear_next = False
        self._cleared = False
        self._streamed = self._shown = self._left_out = 0
        self._news = anyio.Event()
        self.abandoned = False

    # Taking

    def take(self, message: Mapping[str, Any]) -> None:
        """Gather a message of the kernel's output channel."""
        content: Mapping[str, Any] = message["content"]
        refused = int(message.get("refused", 0))
        match message["type"]:
            case "clear_output":
                if content.get("wait"):
                    self._clear_next = True
                else:
                    self._clear()
            case "stream":
                self._take_stream(content, refused)
            case "update_display_data":
                self._update(content)
            case "display_data" | "execute_result" | "error" as kind:
                self._take_bundle(kind, content, refused)
            case _:
                return
        self._news.set()

    def _take_stream(self, content: Mapping[str, Any], refused: int) -> None:
        self._clear_if_due()
        text = clean(str(content.get("text", "")))
        if refused:
            tail = clean(str(content.get("tail", "")))
            text = f"{text}\n[… about {refused / 1e6:,.1f} MB left out …]\n{tail}"
        name = "stderr" if content.get("name") == "stderr" else "stdout"
        last = self._outputs[-1] if self._outputs else None
        if not isinstance(last, _Stream) or last.name != name:
            last = _Stream(name)
            if not self._append(last):
                return
        room = self._bounds.stream - self._streamed
        self._streamed += last.feed(text, room, self._bounds.tail)

    def _take_bundle(self, kind: str, content: Mapping[str, Any], refused: int) -> None:
        self._clear_if_due()
        size = refused or _size(content)
        value = _as_output(kind, content)
        if refused or size > self._bounds.one or self._shown + size > self._bounds.total:
            value = _refusal(kind, content, size)
            size = 0
        bundle = _Bundle(value)
        if self._append(bundle):
            self._shown += size
            display_id = content.get("transient", {}).get("display_id")
            if isinstance(display_id, str):
                self._displays.setdefault(display_id, []).append(bundle)

    def _append(self, output: _Stream | _Bundle) -> bool:
        if len(self._outputs) >= self._bounds.count:
            self._left_out += 1
            return False
        self._outputs.append(output)
        return True

    def _update(self, content: Mapping[str, Any]) -> None:
        display_id = content.get("transient", {}).get("display_id")
        size = _size(content)
        if size > self._bounds.one:
            return
        for bundle in self._displays.get(display_id, ()):
            new = _as_output("display_data", content)
            bundle.value = {**bundle.value, "data": new["data"], "metadata": new["metadata"]}
            bundle.dirty = True

    def _clear_if_due(self) -> None:
        if self._clear_next:
            self._clear()

    def _clear(self) -> None:
        self._clear_next = False
        self._cleared = self._cleared or self._synced > 0
        self._outputs.clear()
        self._displays.clear()
        self._streamed = self._shown = 0

    def outputs(self) -> list[dict[str, Any]]:
        """What was gathered and written, as nbformat has it."""
        return [output.as_output() for output in self._outputs]

    # Writing

    def queue(self) -> None:
        """Show that the cell waits for its turn; its old outputs stay until it comes."""
        with self._cell() as ycell:
            if ycell is not None:
                ycell["execution_state"] = RUNNING

    def begin(self) -> None:
        """The cell's turn has come: its old outputs and number go."""
        with self._cell() as ycell:
            if ycell is None:
                return
            outputs = ycell.get("outputs")
            if isinstance(outputs, Array):
                outputs.clear()
            else:
                ycell["outputs"] = Array([])
            ycell["execution_count"] = None
            ycell["execution_state"] = RUNNING

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """While inside, what is gathered reaches the document soon."""
        async with background(self._write_often):
            yield

    async def _write_often(self) -> None:
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            started = anyio.current_time()
            self.flush()
            await anyio.sleep(max(WINDOW, (SHARE - 1) * (anyio.current_time() - started)))

    def finish(self, execution_count: int | None) -> None:
        """Write the rest, and that the cell has run.

        Args:
            execution_count: The kernel's number for it, or None.
        """
        for output in self._outputs:
            if isinstance(output, _Stream):
                output.close(self._bounds.tail)
        if self._left_out:
            note = f"[{self._left_out:,} more outputs left out]"
            self._outputs.append(_Bundle(_plain(note)))
            self._left_out = 0
        self.flush()
        self.leave(execution_count)

    def leave(self, execution_count: int | None = None) -> None:
        """The cell does not run any more; None leaves its number alone."""
        with self._cell() as ycell:
            if ycell is None:
                return
            ycell["execution_state"] = IDLE
            if execution_count is not None:
                ycell["execution_count"] = execution_count
        recorder = self._notebook().peer.recorders.get(self._origin)
        if recorder is not None:
            recorder.left_outputs(self.cell_id)

    def flush(self) -> None:
        """Write what was gathered since the last time, as one change."""
        with self._cell() as ycell:
            outputs = ycell.get("outputs") if ycell is not None else None
            if not isinstance(outputs, Array):
                return
            if len(outputs) < self._synced:
                self.abandoned = True
            elif self._cleared:
                del outputs[len(outputs) - self._synced : len(outputs)]
                self._synced = 0
            self._cleared = False
            self._write(outputs)

    def _write(self, outputs: Array[Any]) -> None:
        first = len(outputs) - self._synced
        for place, output in enumerate(self._outputs):
            new = place >= self._synced
            if isinstance(output, _Stream):
                deleted, text = output.screen.change()
                if new:
                    stream = {"output_type": "stream", "name": output.name, "text": Text(text)}
                    self._put(outputs, Map(stream))
                elif (deleted or text) and not self.abandoned:
                    _amend(outputs[first + place], deleted, text)
            elif new:
                self._put(outputs, Map(output.value))
                output.dirty = False
            elif output.dirty and not self.abandoned:
                # JupyterLab takes no notice of a key that is set inside an output.
                del outputs[first + place]
                outputs.insert(first + place, Map(output.value))
                output.dirty = False
        self._synced = len(self._outputs)

    def _put(self, outputs: Array[Any], output: Map[Any]) -> None:
        if not self.abandoned:
            outputs.append(output)

    @contextlib.contextmanager
    def _cell(self) -> Iterator[Map[Any] | None]:
        """The shared cell inside a transaction; None if it is not ours to write to any more."""
        notebook = self._notebook()
        try:
            ycell = notebook.entry(self.cell_id).ycell
        except UnknownCell:
            self.abandoned = True
            ycell = None
        if self.abandoned or not isinstance(ycell, Map):
            yield None
            return
        notebook.before_change(self.cell_id, self._origin)
        with notebook.peer.doc.transaction(origin=self._origin):
            yield ycell


def _amend(output: object, deleted: int, appended: str) -> None:
    text = output.get("text") if isinstance(output, Map) else None
    if not isinstance(text, Text):
        return
    if deleted:
        # The shared text counts bytes.
        standing = str(text)
        kept = len(standing[: len(standing) - deleted].encode())
        del text[kept : len(standing.encode())]
    if appended:
        text.insert(len(text), appended)


def _as_output(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "error":
        return {
            "output_type": "error",
            "ename": clean(str(content.get("ename", ""))),
            "evalue": clean(str(content.get("evalue", ""))),
            "traceback": [clean(str(line)) for line in content.get("traceback") or ()],
        }
    value: dict[str, Any] = {
        "output_type": kind,
        "data": clean(dict(content.get("data") or {})),
        "metadata": clean(dict(content.get("metadata") or {})),
    }
    if kind == "execute_result":
        value["execution_count"] = content.get("execution_count")
    return value


def _refusal(kind: str, content: Mapping[str, Any], size: int) -> dict[str, Any]:
    kinds = ", ".join(sorted(map(str, content.get("data") or ()))) or kind
    return _plain(f"[an output of {size / 1e6:,.1f} MB was left out: {kinds}]")


def _plain(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def _size(value: Any) -> int:
    """Roughly how many bytes a JSON value takes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _size(each) for key, each in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_size, value))
    return 8


def clean(value: Any) -> Any:
    """A JSON value without lone surrogates, which the shared document cannot hold."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    return value


async def running_cells(notebook: Notebook) -> Sequence[CellId]:
    """The code cells that claim to run."""
    found: list[CellId] = []
    entries = notebook.peer.index.entries
    for start in range(0, len(entries), SLICE):
        found += [
            entry.cell_id
            for entry in entries[start : start + SLICE]
            if isinstance(entry.ycell, Map) and entry.ycell.get("execution_state") == RUNNING
        ]
        await anyio.lowlevel.checkpoint()
    return found


def settle(notebook: Notebook, cells: Sequence[CellId], origin: str) -> int:
    """Say of cells that claim to run that they do not.

    Returns:
        How many there were.
    """
    settled = 0
    with notebook.peer.doc.transaction(origin=origin):
        for cell_id in cells:
            if not notebook.has(cell_id):
                continue
            ycell = notebook.entry(cell_id).ycell
            if isinstance(ycell, Map) and ycell.get("execution_state") == RUNNING:
                ycell["execution_state"] = IDLE
                settled += 1
    return settled
