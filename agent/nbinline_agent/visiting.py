"""Agents from outside that work in a notebook: each visit is a run without a question."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import anyio
import structlog

from .asking import Plan, Surroundings
from .context.budget import Limits
from .context.choices import Choices, Policy
from .context.secret_forms import Left
from .document.background import background
from .document.notebook import Notebook
from .document.peer import Membership, Rooms
from .document.presence import Presence
from .document.replay import apply_updates
from .errors import NbinlineError, RoomLost
from .ids import CellId, FileId, NotebookPath, RunId
from .journal import Author, RunRecord, RunStatus
from .messages import JsonValue, ToolAnswer, ToolCall
from .render.images import fit
from .run import Run
from .tools.approval import ALLOWED, DENIED
from .tools.base import Preview, Tool, ToolContext
from .tools.calling import Caller
from .tools.insertions import TOP, Insertions, Mark
from .tools.modes import Mode, Modes, mode_of, stricter_modes
from .tools.results import Results
from .tools.toolbox import Toolbox
from .workplace import Workplace

CONNECTION = "mcp"
"""What stands for a connection in the journal: the model is somewhere else."""

NO_CELL = CellId("")

IDLE = 60.0
"""Seconds without a call after which a visit ends."""

ENDING_DEADLINE = 3.0
"""Seconds that the last writes of a visit may take."""

SETTLING = 2.0
"""Seconds within which everybody should have what was written before a call counts as done."""

REJOINS = 5
"""Times in a row that joining a replaced room may fail."""

PAUSE = 0.2
"""Seconds before the first repetition; doubled each time."""

Ask = Callable[[Preview], Awaitable[bool | None]]
"""Asks the person at the other end; None if they gave no answer."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who comes.

    Attributes:
        author: The person in whose name, from the authenticated request.
        principal: What shows that two requests come from the same person.
        client: Name of the outside agent.
        session: What belongs together; one visit a session and notebook.
        may_use_kernels: Whether the person may execute code in kernels.
        owner: Whether the server is the person's own.
    """

    author: Author
    principal: str
    client: str
    session: str
    may_use_kernels: bool = False
    owner: bool = False


class AtTheEnd(Insertions):
    """New cells go to the end of the notebook: there is no answer to put them by."""

    def below(self, order: Sequence[CellId], after: str, mark: Mark) -> CellId | None:
        """See ``Insertions``."""
        return super().below(order, after or (order[-1] if order else TOP), mark)


class VisitPlace(Workplace):
    """Where a visitor's tools work."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._insertions = AtTheEnd(NO_CELL, NO_CELL)

    @contextmanager
    def visited(self, membership: Membership, presence: Presence) -> Iterator[None]:
        """Be in a room while the block runs."""
        with self.within(membership, Notebook(membership.peer), NO_CELL, presence):
            yield


class Visit:
    """One visitor in one notebook, from the first call until a while after the last.

    Attributes:
        run: Its record; everything it writes has this run as its origin.
    """

    def __init__(
        self, run: Run, visitor: Visitor, rooms: Rooms, tools: Sequence[Tool], modes: Modes
    ) -> None:
        self.run = run
        self._visitor = visitor
        self._rooms = rooms
        self._tools = tools
        self._modes = modes
        self._place = VisitPlace(run)
        self._place.reading = frozenset(tool.name for tool in tools if not tool.writes)
        self._writing = anyio.Lock()
        self._calls = 0
        self._changed = anyio.Event()
        self._failure: NbinlineError | None = None

    # The room

    async def live(self) -> None:
        """Hold the room until the visit is over, however it ends."""
        run = self.run
        ending = RunStatus.DONE
        try:
            with run.scope:
                await run.move(RunStatus.PREPARING)
                await run.move(RunStatus.RUNNING_TOOL)
                await self._stay()
            if run.scope.cancelled_caught:
                ending = run.wish or RunStatus.CANCELLED
        except NbinlineError as error:
            self._failure, ending = error, RunStatus.ERROR
        except Exception:
            log.exception("visit failed", run=run.run_id)
            self._failure, ending = NbinlineError(), RunStatus.ERROR
        except BaseException:
            ending = RunStatus.INTERRUPTED
            raise
        finally:
            with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                await run.move(ending, self._failure)
            run.ended.set()

    async def _stay(self) -> None:
        failures = 0
        while True:
            try:
                async with self._rooms.join(self.run.record.path) as membership:
                    failures = 0
                    if await self._in_room(membership):
                        return
            except NbinlineError:
                failures += 1
                if failures > REJOINS:
                    raise
            await anyio.sleep(PAUSE * 2**failures)

    async def _in_room(self, membership: Membership) -> bool:
        """Be there; False if the room was replaced before the visit was over."""
        journal, run_id = self.run.around.journal, self.run.run_id
        kept = await journal.updates(run_id)
        with self.run.recorder.on(membership.peer):
            apply_updates(membership.peer, kept)
            membership.peer.set_write_ahead(self._write_ahead)
            over = await self._be_there(membership)
            with anyio.move_on_after(ENDING_DEADLINE, shield=True):
                await self.run.keep_checkpoints()
                await self._keep(membership)
        return over

    async def _write_ahead(self, updates: Sequence[bytes]) -> None:
        await self.run.keep_checkpoints(everything=False)
        await self.run.around.journal.append_updates(self.run.run_id, updates)

    async def _be_there(self, membership: Membership) -> bool:
        over = False
        async with membership.writing(), self._shown(membership) as presence:
            with self._place.visited(membership, presence), anyio.CancelScope() as here:

                async def until_lost() -> None:
                    await membership.lost.wait()
                    here.cancel()

                async with background(until_lost):
                    await self._quiet()
                    over = True
        return over

    @asynccontextmanager
    async def _shown(self, membership: Membership) -> AsyncIterator[Presence]:
        around = self.run.around
        presence = Presence(membership.peer, around.user)
        where = {"current": f"notebook:{membership.path}", "documents": [membership.path]}
        try:
            await presence.show(
                self.run.run_id,
                RunStatus.RUNNING_TOOL.value,
                NO_CELL,
                self._visitor.author.display_name,
            )
            await membership.announce({"user": around.user.shown(), **where})
            yield presence
        finally:
            with anyio.move_on_after(1, shield=True):
                await presence.hide()
                await membership.announce(None)

    async def _quiet(self) -> None:
        while True:
            while self._calls:
                await self._changed.wait()
            with anyio.move_on_after(IDLE):
                while not self._calls:
                    await self._changed.wait()
            if not self._calls:
                return

    async def _keep(self, membership: Membership) -> None:
        """Bring what was written onto the disk; then its updates need not be kept."""
        if membership.lost.is_set():
            return
        journal = self.run.around.journal
        try:
            await journal.note_cells(membership.file_id, Notebook(membership.peer).ids())
            if await membership.peer.settled(SETTLING) and await membership.save():
                await journal.forget_updates(self.run.run_id)
        except NbinlineError as error:
            log.warning("visit not kept", run=self.run.run_id, code=error.code)

    async def cancel(self, run: Run, ending: RunStatus = RunStatus.CANCELLED) -> None:
        """End the visit; returns when it has ended."""
        run.cancel(ending)
        await run.ended.wait()

    async def left(self, run: Run) -> None:
        """Wait until nothing works on the visit's run any more."""
        await run.ended.wait()

    async def abandon(self) -> None:
        """End the visit for everybody, though a call of it does not end."""
        await self.run.note("forced", {})
        await self.run.move(self.run.wish or RunStatus.INTERRUPTED)
        self.run.ended.set()

    # Calls

    @property
    def open(self) -> bool:
        """Whether it takes calls."""
        return not self.run.ended.is_set() and self.run.wish is None

    async def call(self, name: str, arguments: str, ask: Ask | None = None) -> ToolAnswer:
        """Carry out one call; what goes wrong in it is told in the answer.

        Args:
            name: Of the tool.
            arguments: As JSON.
            ask: Asks the person at the other end where a person has to allow the call.

        Raises:
            NbinlineError: The visit is over, or cannot be recorded.
        """
        self._calls += 1
        self._pulse()
        try:
            with anyio.CancelScope() as scope:
                async with background(partial(self._give_up_with_the_run, scope)):
                    return await self._answer(ToolCall(uuid4().hex, name, arguments), ask)
            raise self._failure or RoomLost()
        finally:
            self._calls -= 1
            self._pulse()

    async def _give_up_with_the_run(self, scope: anyio.CancelScope) -> None:
        await self.run.ended.wait()
        scope.cancel()

    async def _answer(self, call: ToolCall, ask: Ask | None) -> ToolAnswer:
        context = await self._place.context()
        box = self._box(context.notebook)
        tool = box.tools.get(call.name)
        limits = self.run.around.tools.calls
        # Each call stands for itself: whoever calls may have forgotten what earlier ones gave.
        results = Results(limits.results, takes_images=True, fit=fit)
        caller = Caller(box, _CallSite(self._place, self.run, ask), limits, results)
        if tool is None or not tool.writes:
            [answer] = await caller.answer([call])
        else:
            async with self._writing:
                [answer] = await caller.answer([call])
                await context.notebook.peer.settled(SETTLING)
        await self._place.flush()
        return Left(self.run.plan.policy.known_secrets).answer(answer)

    def _box(self, notebook: Notebook) -> Toolbox:
        wished = notebook.nbinline_of_notebook.get("toolApproval")
        modes = stricter_modes(self._modes, wished if isinstance(wished, Mapping) else {})
        tools: dict[str, Tool] = {}
        disabled: dict[str, str] = {}
        for tool in self._tools:
            if mode_of(tool, modes) is Mode.OFF:
                disabled[tool.name] = "off"
            elif tool.needs_kernel and not self._visitor.may_use_kernels:
                disabled[tool.name] = "not-allowed"
            else:
                tools[tool.name] = tool
        return Toolbox(tools, disabled, modes)

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class _CallSite:
    """The place of a visit for one call: here the person at the other end can be asked."""

    def __init__(self, place: VisitPlace, run: Run, ask: Ask | None) -> None:
        self._place = place
        self._run = run
        self._ask = ask

    @property
    def room(self) -> int:
        """See ``Site``."""
        return self._place.room

    async def context(self) -> ToolContext:
        """See ``Site``."""
        return await self._place.context()

    async def note(self, kind: str, data: Mapping[str, JsonValue], *, later: bool = False) -> None:
        """See ``Site``."""
        await self._place.note(kind, data)

    def alone(self) -> bool:
        """See ``Site``."""
        return self._place.alone()

    async def approved(self, tool: Tool, preview: Preview) -> str:
        """Ask in both ways; the first answer counts."""
        asking = [] if self._ask is None else [partial(self._by_the_client, self._ask, preview)]
        async with background(*asking):
            return await self._place.approved(tool, preview)

    async def _by_the_client(self, ask: Ask, preview: Preview) -> None:
        allowed = await ask(preview)
        waiting = self._run.approvals.waiting
        if allowed is not None and waiting is not None:
            waiting.settle(ALLOWED if allowed else DENIED, self._run.record.author.username)


@dataclass(eq=False)
class Visits:
    """The visits of one server.

    Attributes:
        rooms: Where notebooks are.
        around: What their runs borrow.
        tools: What visitors may call, as far as modes let them.
        modes: How calls are let through, by group; notebooks may be stricter.
        adopt: Owns a visit's lifetime, so that its run can be looked at and cancelled.
        policy: What is kept from models.
        check: Raises where nobody may work now.
    """

    rooms: Rooms
    around: Surroundings
    tools: Sequence[Tool]
    modes: Modes
    adopt: Callable[[Visit], None]
    policy: Policy = field(default_factory=Policy)
    check: Callable[[NotebookPath, FileId], None] = lambda path, file_id: None
    _visits: dict[tuple[str, str, FileId], Visit] = field(default_factory=dict)
    _beginning: anyio.Lock = field(default_factory=anyio.Lock)

    async def visit(self, visitor: Visitor, path: NotebookPath) -> Visit:
        """The visit of somebody to a notebook, begun now unless it goes on.

        Raises:
            RequestError: There is no such notebook, or it cannot be written.
            TooManyRuns: The server is full.
            Paused: AI is paused there.
        """
        found, file_id = await self.rooms.resolve(path)
        self.check(found, file_id)
        key = (visitor.principal, visitor.session, file_id)
        async with self._beginning:
            self._visits = {known: each for known, each in self._visits.items() if each.open}
            visit = self._visits.get(key)
            if visit is None:
                visit = self._new(visitor, found, file_id)
                await self.around.journal.save(visit.run.record)
                self.adopt(visit)
                self._visits[key] = visit
        return visit

    async def leave(self, principal: str, session: str) -> None:
        """End all visits of somebody's session; what they wrote stays."""
        for (whose, known, _), visit in list(self._visits.items()):
            if (whose, known) == (principal, session) and visit.open:
                await visit.cancel(visit.run, RunStatus.DONE)

    def _new(self, visitor: Visitor, path: NotebookPath, file_id: FileId) -> Visit:
        model = visitor.client[:100] or "agent"
        record = RunRecord(
            run_id=RunId(uuid4().hex),
            path=path,
            file_id=file_id,
            prompt_cell_id=NO_CELL,
            answer_cell_id=None,
            status=RunStatus.QUEUED,
            author=visitor.author,
            connection=CONNECTION,
            model=model,
            created_at=time.time(),
        )
        plan = Plan(
            file_id=file_id,
            connection=CONNECTION,
            model=model,
            choices=Choices(model=model),
            limits=Limits(),
            secret=b"",
            policy=self.policy,
            takes_images=True,
            modes=self.modes,
            may_use_kernels=visitor.may_use_kernels,
            owner=visitor.owner,
        )
        run = Run(record, plan, self.around)
        return Visit(run, visitor, self.rooms, self.tools, self.modes)
