"""Answering one prompt: the rooms it writes to, from the question to the ending."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread
import structlog

from .asking import Plan, Surroundings
from .context.build import Built, build
from .context.values import live_values
from .document.answer import AnswerCell
from .document.background import background
from .document.notebook import Notebook, Snapshot
from .document.peer import Membership
from .document.presence import Presence
from .document.repair import replay_and_mend
from .errors import CellGone, NbinlineError
from .ids import CellId, NotebookPath
from .journal import RunStatus
from .kernel import LiveValue
from .messages import ToolRound
from .provenance import EVENT
from .run import Run
from .tools.toolbox import NO_TOOLS, Toolbox
from .tools.toolset import ToolWish
from .turns import Turns
from .workplace import Workplace

TEXT_INTERVAL = 0.5
"""Seconds between two records of the answer's text in the journal."""

ENDING_DEADLINE = 1.5
"""Seconds that the last writes of a run may take once it was asked to end."""

SETTLING = 0.8
"""Seconds within which everybody should have the last words before the run counts as ended."""

TOOLS_AT_WORK = frozenset({RunStatus.RUNNING_TOOL, RunStatus.WAITING_APPROVAL})
"""Statuses in which the agent may be somewhere else than in the answer."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ends."""

    status: RunStatus
    error: NbinlineError | None = None


class Memberships(Protocol):
    """Gives a run the room it writes to, also after that room was replaced."""

    async def current(self) -> Membership:
        """The joined room; waits while it is being joined again.

        Raises:
            RoomLost: It could not be joined again.
        """


async def execute(run: Run, memberships: Memberships) -> None:
    """Answer the question of a run; returns when it has ended, however it ended.

    :meth:`Run.cancel` ends it as asked. Cancelling from outside ends it as ``interrupted``. Either
    way the ending is still written into the document and the journal, for a bounded time.
    """
    try:
        with run.scope:
            await _Answering(run).live(memberships)
    finally:
        if not run.record.status.ended:
            with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                await run.move(run.wish or RunStatus.INTERRUPTED)
            run.ended.set()


async def choose_tools(
    around: Surroundings, plan: Plan, path: NotebookPath, snapshot: Snapshot, question: CellId
) -> Toolbox:
    """The tools of a question; the same for a run and for its preview."""
    if around.toolset is None:
        return NO_TOOLS
    kernels = around.kernels if plan.may_use_kernels else None
    return await around.toolset.offer(
        ToolWish(
            snapshot=snapshot,
            question=question,
            groups=plan.tool_groups,
            modes=plan.modes,
            kernel=kernels.of(path) if kernels is not None else None,
            steps=plan.max_steps,
        )
    )


async def look_up_values(
    around: Surroundings, plan: Plan, path: NotebookPath, source: str
) -> Mapping[str, LiveValue]:
    """The live values a question refers to; the same for a run and for its preview."""
    return await live_values(
        source,
        None if around.kernels is None else around.kernels.of(path),
        allowed=plan.may_use_kernels,
        wait=plan.wait_for_kernel,
        images=plan.choices.images is not None,
    )


class _Answering:
    """One run on its way through the rooms."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen = ""
        self._workplace = Workplace(run)
        self._turns = Turns(run, self._workplace)

    async def live(self, memberships: Memberships) -> None:
        """Write into one room after the other until the run has ended."""
        await self._run.move(RunStatus.PREPARING)
        async with anyio.create_task_group() as tasks:
            while True:
                membership = await self._room(memberships)
                if membership is None or await self._write_in(membership, tasks):
                    break
            tasks.cancel_scope.cancel()

    async def _room(self, memberships: Memberships) -> Membership | None:
        try:
            return await memberships.current()
        except NbinlineError as error:
            await self._run.move(RunStatus.ERROR, error)
            return None

    async def _write_in(self, membership: Membership, tasks: anyio.abc.TaskGroup) -> bool:
        """Write into one room; False if that room was replaced before the run had ended."""
        run, notebook = self._run, Notebook(membership.peer)
        if self._seen and run.record.answer_cell_id is not None:
            updates = await run.around.journal.updates(run.run_id)
            replay_and_mend(notebook, run.record.answer_cell_id, updates, self._seen, run.run_id)
        async with (
            self._answer_cell(notebook) as answer,
            self._shown(membership, notebook, answer),
        ):
            try:
                with anyio.CancelScope() as here:
                    tasks.start_soon(_cancel_when, membership.lost, here)
                    tasks.start_soon(self._keep_seen, notebook, answer.id, membership.lost)
                    outcome = await self._outcome(notebook, answer, tasks)
                if here.cancelled_caught:
                    self._look(notebook, answer.id)
                    return False
            except anyio.get_cancelled_exc_class():
                outcome = Outcome(run.wish or RunStatus.INTERRUPTED)
                with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                    await self._end(membership, notebook, answer, outcome)
                raise
            return await self._end(membership, notebook, answer, outcome)

    def _answer_cell(self, notebook: Notebook) -> AbstractAsyncContextManager[AnswerCell]:
        run = self._run
        if run.answer_text and run.record.answer_cell_id is not None:
            return AnswerCell.resume(
                notebook,
                run.record.answer_cell_id,
                run.mark,
                text_so_far=run.answer_text,
                pacer=run.around.pacer,
                prompt_id=run.record.prompt_cell_id,
            )
        return AnswerCell.open(
            notebook,
            run.record.prompt_cell_id,
            run.mark,
            pacer=run.around.pacer,
            old=run.old_answer,
        )

    @asynccontextmanager
    async def _shown(
        self, membership: Membership, notebook: Notebook, answer: AnswerCell
    ) -> AsyncIterator[None]:
        run = self._run
        presence = Presence(membership.peer, run.around.user)

        async def follow() -> None:
            while not run.record.status.ended:
                news = run.news
                if run.record.status not in TOOLS_AT_WORK:
                    run.place, run.activity = None, ""
                await presence.show(
                    run.run_id,
                    run.record.status.value,
                    run.place or answer.id,
                    run.record.author.display_name,
                    run.activity,
                )
                await news.wait()

        async with membership.writing():
            try:
                await membership.announce(
                    {
                        "user": run.around.user.shown(),
                        "current": f"notebook:{membership.path}",
                        "documents": [membership.path],
                    }
                )
                with self._workplace.within(membership, notebook, answer.id, presence):
                    async with background(follow):
                        yield
            finally:
                with anyio.move_on_after(1, shield=True):
                    await presence.hide()
                    await membership.announce(None)

    async def _outcome(
        self, notebook: Notebook, answer: AnswerCell, tasks: anyio.abc.TaskGroup
    ) -> Outcome:
        try:
            if not self._turns.started:
                await answer.set_status(RunStatus.PREPARING.in_document)
                snapshot = await notebook.snapshot()
                run = self._run
                box = await choose_tools(
                    run.around, run.plan, self._workplace.path, snapshot, run.record.prompt_cell_id
                )
                source = snapshot.cell(run.record.prompt_cell_id).source
                values = await look_up_values(run.around, run.plan, self._workplace.path, source)
                rebuild = partial(self._build, snapshot, box, values, run.answer_text or None)
                self._workplace.reading = box.reading
                first = await rebuild(())
                await self._note_inputs()
                self._turns.begin(tasks, first.request, box, rebuild)
            await self._turns.write_to(answer)
        except CellGone as error:
            return Outcome(RunStatus.CANCELLED, error)
        except NbinlineError as error:
            return Outcome(RunStatus.ERROR, error)
        except Exception:
            log.exception("run failed", run=self._run.run_id)
            return Outcome(RunStatus.ERROR, NbinlineError())
        return Outcome(RunStatus.DONE)

    async def _build(
        self,
        snapshot: Snapshot,
        box: Toolbox,
        values: Mapping[str, LiveValue],
        continuing: str | None,
        rounds: tuple[ToolRound, ...],
    ) -> Built:
        """The request of a round, from the notebook as it was at the start."""
        run, plan = self._run, self._run.plan
        # Pure, and too long for the loop where a large window takes a large notebook.
        built = await anyio.to_thread.run_sync(
            partial(
                build,
                snapshot,
                run.record.prompt_cell_id,
                asker=run.record.author.username,
                choices=plan.choices,
                limits=plan.limits,
                secret=plan.secret,
                file_id=plan.file_id,
                policy=plan.policy,
                tools=box.specs,
                disabled=box.disabled,
                rounds=rounds,
                values=values,
                continuing=continuing,
            )
        )
        run.record = replace(run.record, report=built.report.brief())
        await run.around.journal.save(run.record)
        await run.note("context", {"request_sha256": built.report.request_sha256})
        run.provenance.built(built, first=not rounds)
        return built

    async def _note_inputs(self) -> None:
        news = self._run.provenance.news()
        if news is not None:
            await self._run.note(EVENT, news)

    def _look(self, notebook: Notebook, answer: CellId) -> None:
        if notebook.has(answer):
            self._seen = notebook.source(answer)

    async def _keep_seen(self, notebook: Notebook, answer: CellId, lost: anyio.Event) -> None:
        """Journal what stands in the answer cell: what people see, their own words included."""
        kept = ""
        while not lost.is_set():
            with anyio.move_on_after(TEXT_INTERVAL):
                await lost.wait()
            if not self._run.answer_text:
                continue
            self._look(notebook, answer)
            if self._seen != kept and not lost.is_set():
                kept = self._seen
                await self._run.around.journal.record_text(self._run.run_id, kept)

    async def _end(
        self, membership: Membership, notebook: Notebook, answer: AnswerCell, outcome: Outcome
    ) -> bool:
        """Say in the document, then in the journal, how the run ended.

        Returns:
            False if the room was replaced before it had the last words; the run goes on then.
        """
        self._run.ending = True
        error = outcome.error
        ended_at = time.time()
        try:
            await answer.finish(
                outcome.status.in_document,
                error=(error.code, error.message) if error else None,
                ended_at=ended_at,
                more=self._run.provenance.metadata(),
            )
        except CellGone as gone:
            error = error or gone
        await membership.peer.settled(SETTLING)
        # A room that was replaced may still answer: whatever it has is not what people see.
        if self._run.answer_text:
            self._look(notebook, answer.id)
        if not membership.alive and self._run.wish is None:
            return False
        if self._run.answer_text:
            await self._run.around.journal.record_text(self._run.run_id, self._seen)
        await self._run.keep_checkpoints()
        await self._note_inputs()
        await self._run.move(outcome.status, error, at=ended_at)
        return True


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
