"""Random schedules: what people, runs, tools and the network do, and what must hold at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from hypothesis import strategies as st

from nbinline_agent.document.answer import AnswerCell, Pacer, RunMark
from nbinline_agent.document.background import background
from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Membership
from nbinline_agent.document.replay import apply_updates
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import PATH, MemoryRooms, SharedNotebook, code, markdown, prompt
from tests.fuzz.people import ALPHABETS, Person
from tests.properties.unicode import PEOPLE, of_people, of_the_answer, words

RUNS = 2
QUESTIONS = tuple(CellId(f"q{number}") for number in range(RUNS))
EDITED = ("code", "notes")
CELLS = [
    code("x = 1", "code"),
    prompt("Why?", "q0"),
    prompt("How?", "q1"),
    markdown("notes", "notes"),
]

Action = tuple[Any, ...]
Schedule = list[Action]


def mark(number: int) -> RunMark:
    """The mark of a run."""
    return RunMark(RunId(f"run-{number}"), "ann", "model-1", "openai_api")


@dataclass
class Agent:
    """Runs as a server leads them: in rooms that may be replaced under them, with a journal.

    Attributes:
        kept: Updates that the journal has.
        written: What each run was told to write.
        answers: Their cells, once known.
        inserted: Cells that tools made and did not delete.
        tool_text: What tools must have left in each cell that they edit.
    """

    rooms: MemoryRooms
    kept: list[bytes] = field(default_factory=list)
    written: list[str] = field(default_factory=lambda: [""] * RUNS)
    answers: list[CellId | None] = field(default_factory=lambda: [None] * RUNS)
    inserted: list[CellId] = field(default_factory=list)
    tool_text: dict[str, str] = field(default_factory=lambda: {"code": "x = 1", "notes": "notes"})

    async def keep(self, updates: Sequence[bytes]) -> None:
        await anyio.lowlevel.checkpoint()
        self.kept.extend(updates)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Desk]:
        """Be in the room, with all answers open."""
        async with AsyncExitStack() as stack:
            membership = await stack.enter_async_context(self.rooms.join(PATH))
            assert apply_updates(membership.peer, self.kept)
            membership.peer.set_write_ahead(self.keep)
            notebook = Notebook(membership.peer)
            opened = []
            for number in range(RUNS):
                opening = self._opening(notebook, number)
                answer = await stack.enter_async_context(opening)
                self.answers[number] = answer.id
                opened.append(answer)
            yield Desk(self, membership, opened, Editor(notebook, "run-0"))

    def _opening(self, notebook: Notebook, number: int) -> Any:
        pacer, known = Pacer(narrowest=0.002), self.answers[number]
        if known is None or not self.written[number]:
            old = None if known is None else ""  # these cells are new
            return AnswerCell.open(notebook, QUESTIONS[number], mark(number), pacer=pacer, old=old)
        return AnswerCell.resume(
            notebook,
            known,
            mark(number),
            text_so_far=self.written[number],
            prompt_id=QUESTIONS[number],
            pacer=pacer,
        )


@dataclass
class Desk:
    """The agent while it is in one room."""

    agent: Agent
    membership: Membership
    answers: list[AnswerCell]
    editor: Editor

    async def write(self, number: int, text: str) -> None:
        self.agent.written[number] += text
        await self.answers[number].write(text)

    def edit(self, cell_id: str, part: float, word: str) -> None:
        """A tool puts words into a cell, or takes its own away, by what it sees there."""
        standing = Notebook(self.membership.peer).source(CellId(cell_id))
        if word:
            at = round(part * len(standing))
            source = standing[:at] + word + standing[at:]
        else:
            start = round(part * len(standing))
            stop = next(
                (at for at in range(start, len(standing)) if standing[at] in PEOPLE), len(standing)
            )
            source = standing[:start] + standing[min(stop, start + 4) :]
        self.editor.replace(cell_id, source, expected=standing)
        self.agent.tool_text[cell_id] = of_the_answer(source)

    def insert(self, after: str) -> None:
        self.agent.inserted.append(self.editor.insert("code", "y = 2", after=after))

    def move(self) -> None:
        if self.agent.inserted:
            self.editor.move(self.agent.inserted[-1], after="q1")

    def delete(self) -> None:
        if self.agent.inserted:
            self.editor.delete(self.agent.inserted.pop(), expected="y = 2")

    async def finish(self) -> None:
        for answer in self.answers:
            await answer.finish("done")
        assert await self.membership.peer.settled()


def schedules(people: int) -> st.SearchStrategy[Schedule]:
    """Schedules for so many people."""
    who = st.integers(0, people - 1)
    run = st.integers(0, RUNS - 1)
    part = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0, 1.0])
    cell = st.sampled_from(["answer-0", "answer-1", *EDITED])
    letters = st.lists(st.integers(0, 2), min_size=1, max_size=4)
    write = st.tuples(st.just("write"), run, words)
    type_ = st.tuples(st.just("type"), who, cell, part, letters)
    return st.lists(
        st.one_of(
            *[write] * 3,
            *[type_] * 3,
            st.tuples(st.just("erase"), who, cell, part),
            st.tuples(st.just("undo"), who),
            st.tuples(st.just("undo"), who),
            st.tuples(st.sampled_from(["insert_cell", "remove_cell", "move_cell"]), who, part),
            st.tuples(
                st.just("edit"), st.sampled_from(EDITED), part, st.one_of(st.just(""), words)
            ),
            st.tuples(st.just("tool_insert"), st.sampled_from(["code", "q0", "notes"])),
            st.tuples(st.sampled_from(["tool_move", "tool_delete"])),
            st.tuples(st.just("drop"), who),
            st.tuples(st.just("connect"), who),
            st.tuples(st.just("settle")),
            st.tuples(st.just("flush"), run),
            st.tuples(st.just("replace")),
        ),
        min_size=8,
        max_size=40,
    )


async def play(schedule: Schedule, people: int) -> None:
    """Play a schedule to its end and check what is left.

    Raises:
        AssertionError: Something was lost, doubled or misplaced.
    """
    with anyio.fail_after(60):
        async with MemoryRooms() as rooms, background() as tasks:
            shared = await rooms.add(PATH, CELLS)
            persons = [Person(number, rooms, tasks) for number in range(people)]
            for person in persons:
                await person.connect()
            agent, rest, ended = Agent(rooms), list(schedule), False
            while not ended:
                async with agent.room() as desk:
                    ended = await _act(rest, desk, persons)
                    if ended:
                        await desk.finish()
                    else:
                        await rooms.replace(PATH)
                        for person in persons:
                            await person.drop()
            await _meet(persons)
            check(shared, agent, persons)
            for person in persons:
                await person.drop()


async def _act(rest: Schedule, desk: Desk, persons: list[Person]) -> bool:
    """Play until the end (True), or until the room is to be replaced (False)."""
    while rest:
        action = rest.pop(0)
        if action[0] == "replace":
            return False
        await _one(action, desk, persons)
        await anyio.lowlevel.checkpoint()
    return True


async def _one(action: Action, desk: Desk, persons: list[Person]) -> None:
    name, *how = action
    if name in ("type", "erase"):
        who, cell, *more = how
        target = desk.answers[int(cell[-1])].id if cell.startswith("answer") else cell
        person = persons[who]
        (person.type_into if name == "type" else person.erase)(target, *more)
    elif name in ("undo", "insert_cell", "remove_cell", "move_cell"):
        getattr(persons[how[0]], name)(*how[1:])
    elif name in ("drop", "connect"):
        await getattr(persons[how[0]], name)()
    elif name.startswith("tool_"):
        getattr(desk, name.removeprefix("tool_"))(*how)
    elif name == "edit":
        desk.edit(*how)
    elif name == "write":
        await desk.write(*how)
    elif name == "flush":
        await desk.answers[how[0]].flush()
    else:
        await desk.membership.peer.settled()


async def _meet(persons: list[Person]) -> None:
    """All come (again), until everybody has what everybody did."""
    for person in persons:
        await person.drop()
    for person in [*persons, *persons]:
        await person.connect()
        for _ in range(5):
            await anyio.wait_all_tasks_blocked()


def check(shared: SharedNotebook, agent: Agent, persons: list[Person]) -> None:
    """What must hold whatever happened."""
    cells = shared.cells
    for person in persons:
        assert person.notebook.get(deduplicate=False)["cells"] == cells, "they differ"
    ids = [cell["id"] for cell in cells]
    assert len(ids) == len(set(ids)), "a cell is doubled"
    wanted = {*(cell["id"] for cell in CELLS), *agent.inserted}
    wanted |= {answer for answer in agent.answers if answer is not None}
    wanted = wanted.union(*(person.cells for person in persons))
    assert set(ids) == wanted, "a cell is lost, or came back"
    for answer, written in zip(agent.answers, agent.written, strict=True):
        assert answer is not None
        assert of_the_answer(shared.source(answer)) == written, "an answer differs"
        assert shared.mark(answer)["status"] == "done"
    for cell_id, text in agent.tool_text.items():
        assert of_the_answer(shared.source(cell_id)) == text, "a tool's edit differs"
    _check_people("".join(str(cell["source"]) for cell in cells), persons)


def _check_people(text: str, persons: list[Person]) -> None:
    found = Counter(of_people(text))
    for person in persons:
        for letter in ALPHABETS[person.number]:
            assert found[letter] == person.typed[letter], f"{letter!r} of a person"
