"""Random people over a breaking network: all replicas end up equal, and no word is lost."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from hypothesis import given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook
from pycrdt import Provider, Text

from nbinline_agent.document.answer import AnswerCell, Pacer, RunMark
from nbinline_agent.document.background import background
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Membership
from nbinline_agent.document.replay import apply_updates
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, SharedNotebook, code, markdown, prompt
from tests.properties.unicode import of_people, of_the_answer, typed, words

MARK = RunMark(RunId("run-1"), "ann", "model-1", "openai_api")
Q = CellId("q")
CELLS = [code("1", "top"), prompt("Why?", "q"), markdown("end", "bottom")]


@dataclass
class Person:
    """Somebody with a browser: a document that outlives its connections."""

    rooms: MemoryRooms
    tasks: TaskGroup
    notebook: YNotebook = field(default_factory=YNotebook)
    typed: str = ""
    connected: bool = False
    _leave: anyio.Event = field(default_factory=anyio.Event)
    _left: anyio.Event = field(default_factory=anyio.Event)

    async def connect(self) -> None:
        if not self.connected:
            self._leave, self._left = anyio.Event(), anyio.Event()
            await self.tasks.start(self._live)
            self.connected = True

    async def _live(self, *, task_status: TaskStatus[None]) -> None:
        async with self.rooms.connect(PATH) as channel:
            async with Provider(self.notebook.ydoc, channel) as provider:
                await provider.synced.wait()
                task_status.started()
                await self._leave.wait()
        self._left.set()

    async def drop(self) -> None:
        if self.connected:
            self._leave.set()
            await self._left.wait()
            self.connected = False

    def text(self, cell_id: str) -> Text | None:
        for ycell in self.notebook.ycells:
            if ycell["id"] == cell_id:
                return ycell["source"]  # type: ignore[no-any-return]
        return None

    def type_into(self, cell_id: str, part: float, what: str) -> None:
        """Type somewhere into a cell, if it is here."""
        text = self.text(cell_id)
        if text is not None:
            standing = str(text)
            place = len(standing[: round(part * len(standing))].encode())
            with self.notebook.ydoc.transaction(origin="person"):
                text.insert(place, what)
            self.typed += what

    def insert_cell(self, part: float, number: int) -> None:
        at = round(part * len(self.notebook.ycells))
        cell = self.notebook.create_ycell(markdown("", f"person-{number}-{id(self)}"))
        with self.notebook.ydoc.transaction(origin="person"):
            self.notebook.ycells.insert(at, cell)


@dataclass
class Agent:
    """A run as the desk leads it: in rooms that may be replaced under it, with a journal."""

    rooms: MemoryRooms
    kept: list[bytes] = field(default_factory=list)
    written: str = ""
    answer_id: CellId | None = None

    async def keep(self, updates: Sequence[bytes]) -> None:
        await anyio.lowlevel.checkpoint()
        self.kept.extend(updates)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[tuple[Membership, AnswerCell]]:
        async with self.rooms.join(PATH) as membership:
            assert apply_updates(membership.peer, self.kept)
            membership.peer.set_write_ahead(self.keep)
            notebook = Notebook(membership.peer)
            if self.answer_id is None or not self.written:
                opening = AnswerCell.open(notebook, Q, MARK, pacer=Pacer(narrowest=0.002))
            else:
                opening = AnswerCell.resume(
                    notebook,
                    self.answer_id,
                    MARK,
                    text_so_far=self.written,
                    prompt_id=Q,
                    pacer=Pacer(narrowest=0.002),
                )
            async with opening as answer:
                self.answer_id = answer.id
                yield membership, answer


def actions(people: int) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    who = st.integers(0, people - 1)
    part = st.sampled_from([0.0, 0.3, 0.9, 1.0, 1.0])
    return st.lists(
        st.one_of(
            st.tuples(st.just("write"), words),
            st.tuples(st.just("write"), words),
            st.tuples(st.just("type"), who, part, typed),
            st.tuples(st.just("cell"), who, part),
            st.tuples(st.just("drop"), who),
            st.tuples(st.just("connect"), who),
            st.tuples(st.just("replace")),
            st.tuples(st.just("wait")),
            st.tuples(st.just("flush")),
        ),
        max_size=25,
    )


async def play(script: list[tuple[Any, ...]], people: int) -> None:
    async with MemoryRooms() as rooms, background() as tasks:
        shared = await rooms.add(PATH, CELLS)
        persons = [Person(rooms, tasks) for _ in range(people)]
        for person in persons:
            await person.connect()
        agent = Agent(rooms)
        rest = list(script)
        ended = False
        while not ended:
            async with agent.room() as (membership, answer):
                ended = await act(rest, agent, persons, rooms, membership, answer)
                if ended:
                    await answer.finish("done")
                    assert await membership.peer.settled()
        for person in persons:
            await person.drop()
        for person in [*persons, *persons]:
            await person.connect()
            await settle(person)
        check(shared, agent, persons)
        for person in persons:
            await person.drop()


async def act(
    rest: list[tuple[Any, ...]],
    agent: Agent,
    persons: list[Person],
    rooms: MemoryRooms,
    membership: Membership,
    answer: AnswerCell,
) -> bool:
    """Play until the end (True), or until the room is replaced (False)."""
    while rest:
        action, *how = rest.pop(0)
        if action == "write":
            await answer.write(how[0])
            agent.written += how[0]
        elif action == "flush":
            await answer.flush()
        elif action == "type":
            persons[how[0]].type_into(answer.id, how[1], how[2])
        elif action == "cell":
            persons[how[0]].insert_cell(how[1], len(rest))
        elif action == "drop":
            await persons[how[0]].drop()
        elif action == "connect":
            await persons[how[0]].connect()
        elif action == "wait":
            await membership.peer.settled()
        else:
            await rooms.replace(PATH)
            for person in persons:
                await person.drop()
            return False
        await anyio.lowlevel.checkpoint()
    return True


async def settle(person: Person) -> None:
    """Leave time for everything that is under way."""
    for _ in range(5):
        await anyio.wait_all_tasks_blocked()


def check(shared: SharedNotebook, agent: Agent, persons: list[Person]) -> None:
    assert agent.answer_id is not None
    cells = shared.cells
    for person in persons:
        assert person.notebook.get(deduplicate=False)["cells"] == cells
    text = shared.source(agent.answer_id)
    assert of_the_answer(text) == agent.written
    assert sorted(of_people(text)) == sorted("".join(person.typed for person in persons))
    assert [cell["id"] for cell in cells].count(agent.answer_id) == 1
    assert shared.mark(agent.answer_id)["status"] == "done"


@settings(deadline=None, max_examples=40)
@given(script=actions(people=2))
def test_two_people_and_an_answer(script: list[tuple[Any, ...]]) -> None:
    async def timed() -> None:
        with anyio.fail_after(30):
            await play(script, people=2)

    anyio.run(timed)


@settings(deadline=None, max_examples=20)
@given(script=actions(people=3))
def test_three_people_and_an_answer(script: list[tuple[Any, ...]]) -> None:
    async def timed() -> None:
        with anyio.fail_after(30):
            await play(script, people=3)

    anyio.run(timed)
