"""Where a run's tools work: the room it is in now, the place it shows, whom it may ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio

from .document.edits import Editor
from .document.notebook import Notebook
from .document.peer import Membership
from .document.presence import Presence
from .errors import NbinlineError
from .ids import CellId, NotebookPath
from .journal import RunStatus
from .kernel import Kernel
from .messages import JsonValue
from .run import Happened, Run
from .tools.approval import ALLOWED, Approval
from .tools.base import Preview, Tool, ToolContext
from .tools.insertions import Insertions

PROGRESS_INTERVAL = 1.0
"""Seconds between two records of how far a call is."""


class Workplace:
    """Implements ``Site`` and ``ToolContext`` for one run; it outlives the run's rooms.

    Attributes:
        room: A number that goes up whenever the run comes into another room.
        due: The status that the run goes to with the next event.
        reading: Names of the tools that change nothing.
    """

    def __init__(self, run: Run) -> None:
        self.room = 0
        self.reading: frozenset[str] = frozenset()
        self.run_id = run.run_id
        self.author = run.record.author
        self.policy = run.plan.policy
        self.takes_images = run.plan.takes_images
        self.root = run.around.root
        self._run = run
        self._membership: Membership | None = None
        self._presence: Presence | None = None
        self._notebook: Notebook | None = None
        self._insertions: Insertions | None = None
        self._arrived = anyio.Event()
        self._progressed = float("-inf")
        self._held: list[Happened] = []
        self.due: RunStatus | None = None
        self._path = run.record.path

    @contextmanager
    def within(
        self, membership: Membership, notebook: Notebook, answer: CellId, presence: Presence
    ) -> Iterator[None]:
        """Be in a room while the block runs."""
        self._membership, self._notebook, self._presence = membership, notebook, presence
        if self._insertions is None:
            self._insertions = Insertions(answer, self._run.record.prompt_cell_id)
        self._insertions.answer = answer
        self._path = membership.path
        self.room += 1
        waiting = self._run.approvals.waiting
        if waiting is not None:
            self._mark(waiting.approval_id)
        self._arrived.set()
        try:
            yield
        finally:
            self._arrived = anyio.Event()
            self._presence = None

    # What tools use

    @property
    def path(self) -> NotebookPath:
        """Where the notebook was when the call began."""
        return self._path

    @property
    def folder(self) -> Path:
        """The notebook's folder."""
        return (self.root / self.path).parent

    @property
    def notebook(self) -> Notebook:
        """The shared notebook in the room that the run is in, or was in last."""
        assert self._notebook is not None
        return self._notebook

    @property
    def editor(self) -> Editor:
        """Writes to that notebook."""
        return Editor(self.notebook, self.run_id, self._run.mark.metadata())

    @property
    def insertions(self) -> Insertions:
        """Where new cells go."""
        assert self._insertions is not None
        return self._insertions

    @property
    def kernel(self) -> Kernel | None:
        """The notebook's kernel; None where there is none, or the asker may not use it."""
        kernels = self._run.around.kernels
        if kernels is None or not self._run.plan.may_use_kernels:
            return None
        return kernels.of(self.path)

    def insert(
        self,
        kind: Literal["markdown", "code"],
        source: str,
        *,
        after: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> CellId:
        """See ``ToolContext``."""
        notebook = self.notebook
        target = self.insertions.below(notebook.ids(), after, notebook.nbinline)
        cell = self.editor.insert(kind, source, after=target, metadata=metadata)
        self.insertions.note(after, cell)
        return cell

    async def at(self, cell: CellId) -> None:
        """Show everybody that the agent works on this cell."""
        self._run.place = cell
        if self._presence is not None:
            await self._presence.show(
                self.run_id,
                self._run.record.status.value,
                cell,
                self.author.display_name,
                self._run.activity,
            )

    async def progress(self, text: str) -> None:
        """Say in the status line how far the call is."""
        self._run.activity = text[:200]
        now = anyio.current_time()
        if now - self._progressed >= PROGRESS_INTERVAL:
            self._progressed = now
            await self._run.note("progress", {"text": text[:200]})

    # What carries calls out uses

    async def context(self) -> ToolContext:
        """What tools get to use, once the run is in a living room."""
        while True:
            await self._arrived.wait()
            if self._membership is not None and self._membership.alive:
                # Looked up here: tools may ask from worker threads.
                self._path = self._membership.path
                return self
            # The room was replaced and nobody has noticed yet.
            await anyio.sleep(0.02)

    async def note(self, kind: str, data: Mapping[str, JsonValue], *, later: bool = False) -> None:
        """Journal an event; with ``later`` together with what comes next, at the latest then."""
        if kind == "tool-called":
            # Shown from here on; a call that says more of itself replaces it.
            self._run.activity = f"Uses {data.get('name')}…"
        cells = data.get("cell_ids")
        if kind == "tool-finished" and data.get("outcome") == "ok" and isinstance(cells, list):
            named = [CellId(each) for each in cells if isinstance(each, str)]
            reads = data.get("name") in self.reading
            self._run.provenance.worked(self.notebook, named, reads=reads)
        self._held.append((kind, data))
        if not later:
            await self.flush()

    async def flush(self, *more: Happened, status: RunStatus | None = None) -> None:
        """Journal what was held back, and more, and the status that is due, in one commit.

        Args:
            more: Further events.
            status: The status that is due now, instead of the one that was.
        """
        events, self._held = [*self._held, *more], []
        due, self.due = status or self.due, None
        if due is not None:
            await self._run.move(due, also=events)
        elif events:
            await self._run.journalled(events)

    @property
    def answer_gone(self) -> bool:
        """Whether somebody deleted the answer that all this is for."""
        return self._arrived.is_set() and not self.notebook.has(self.insertions.answer)

    def alone(self) -> bool:
        """Whether it is the asker's own server, and nobody else is in the notebook."""
        if not self._run.plan.owner or self._membership is None:
            return False
        return all(
            user.get("agent") is True or user.get("username") == self.author.username
            for user in self._membership.peer.others()
        )

    async def approved(self, tool: Tool, preview: Preview) -> str:
        """Ask the person who asked, unless they said so once and for all."""
        run = self._run
        remembered = run.around.remembered
        if remembered.allows(run.plan.file_id, self.author.username, tool.name):
            return ALLOWED
        if preview.cell_id is not None:
            await self.at(preview.cell_id)
        approval = run.approvals.ask(tool.name, preview, run.around.tools.approval_seconds)
        await run.note("approval", approval.to_json())
        self._mark(approval.approval_id)
        await run.move(RunStatus.WAITING_APPROVAL)
        try:
            return await approval.wait()
        finally:
            with anyio.move_on_after(1, shield=True):
                await self._answered(approval)

    async def _answered(self, approval: Approval) -> None:
        self._mark(None)
        await self._run.note("approval", approval.to_json())
        if self._run.record.status is RunStatus.WAITING_APPROVAL:
            await self._run.move(RunStatus.RUNNING_TOOL)

    def _mark(self, approval_id: str | None) -> None:
        """Tell browsers through the answer's metadata that somebody is asked, or no longer."""
        notebook, answer = self.notebook, self.insertions.answer
        if not notebook.has(answer):
            return
        mark = {k: v for k, v in notebook.nbinline(answer).items() if k != "approvalId"}
        if approval_id is not None:
            mark["approvalId"] = approval_id
        try:
            notebook.set_cell_metadata(answer, mark, self.run_id)
        except NbinlineError:
            pass  # the room is gone; the next one is marked when the run comes into it
