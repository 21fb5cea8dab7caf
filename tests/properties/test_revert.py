"""Reverting a run takes back its own characters, all of them, and not one of anybody else's."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook
from pycrdt import Doc, Text, create_update_message

from nbinline_agent.document.channel import memory_channels
from nbinline_agent.document.checkpoints import Recorder
from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Peer
from nbinline_agent.document.reverting import Reversal, Saved
from nbinline_agent.ids import CellId, RunId
from nbinline_agent.testing import code, markdown, notebook_content

RUN = RunId("run-1")
CELLS = ("a", "b", "c")

pytestmark = pytest.mark.asyncio

PLACE = st.integers(0, 1000)
STEP = st.one_of(
    st.tuples(
        st.sampled_from(["agent-types", "agent-cuts", "person-types", "person-cuts"]), PLACE, PLACE
    ),
    st.tuples(
        st.sampled_from(
            ["agent-inserts", "agent-deletes", "agent-moves", "agent-replaces", "sync", "take-in"]
        ),
        PLACE,
        PLACE,
    ),
    st.tuples(st.sampled_from(["sync", "take-in", "send"]), PLACE, PLACE),
)


@dataclass
class World:
    """The agent's replica and a person's, which hear of each other when they are told to.

    Every character of an original or of a person's text is another one, of one, two, three or four
    bytes, so that it can be found again; so are the agent's.
    """

    letters: str = ""
    count: int = 0
    removed: set[str] = field(default_factory=set)
    typed: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    deleted_cells: bool = False

    def __post_init__(self) -> None:
        self.start = {cell: self._fresh(6) for cell in CELLS}
        for text in self.start.values():
            self.typed |= set(text)
        content = notebook_content(
            [
                code(self.start["a"], "a"),
                markdown(self.start["b"], "b"),
                markdown(self.start["c"], "c"),
            ]
        )
        self.peer = Peer(memory_channels("x")[0])
        self.notebook = Notebook(self.peer)
        origin = YNotebook()
        origin.set(content)
        self.person = YNotebook(Doc())
        self.person.ydoc.apply_update(origin.ydoc.get_update())
        self._into_agent(origin.ydoc.get_update())
        self.recorder = Recorder(RUN)
        self.recorder.join(self.peer)
        self.editor = Editor(self.notebook, RUN)

    def _fresh(self, many: int) -> str:
        text = ""
        for _ in range(many):
            base = (0x61, 0x430, 0x4E00, 0x1F300)[self.count % 4]
            step = self.count // 4
            text += chr((0xA1 if base == 0x61 else base) + step)
            self.count += 1
        return text

    # Steps

    def take(self, step: tuple[str, int, int]) -> None:
        name, first, second = step
        getattr(self, f"_{name.replace('-', '_')}")(first, second)

    def _agents_text(self, which: int) -> tuple[CellId, Text] | None:
        ids = self.notebook.ids()
        if not ids:
            return None
        cell = ids[which % len(ids)]
        return cell, self.notebook.entry(cell).ycell["source"]

    def _agent_types(self, which: int, at: int) -> None:
        found = self._agents_text(which)
        if found is None:
            return
        cell, text = found
        standing = str(text)
        place = len(standing[: at % (len(standing) + 1)].encode())
        words = self._fresh(2)
        self.agents |= set(words)
        self.notebook.before_change(cell, RUN)
        with self.peer.doc.transaction(origin=RUN):
            text.insert(place, words)

    def _agent_cuts(self, which: int, at: int) -> None:
        found = self._agents_text(which)
        if found is None or not str(found[1]):
            return
        cell, text = found
        standing = str(text)
        start = at % len(standing)
        piece = standing[start : start + 3]
        first = len(standing[:start].encode())
        self.cut |= set(piece)
        self.notebook.before_change(cell, RUN)
        with self.peer.doc.transaction(origin=RUN):
            del text[first : first + len(piece.encode())]

    def _agent_replaces(self, which: int, at: int) -> None:
        found = self._agents_text(which)
        if found is None:
            return
        cell, standing = found[0], str(found[1])
        middle = at % (len(standing) + 1)
        words = self._fresh(3)
        self.agents |= set(words)
        wanted = standing[: middle // 2] + words + standing[middle:]
        self.cut |= set(standing[middle // 2 : middle])
        self.editor.replace(cell, wanted, expected=standing)

    def _agent_inserts(self, which: int, at: int) -> None:
        ids = self.notebook.ids()
        words = self._fresh(3)
        self.agents |= set(words)
        self.editor.insert("code", words, after=ids[which % len(ids)] if ids else None)

    def _agent_deletes(self, which: int, at: int) -> None:
        found = self._agents_text(which)
        if found is not None:
            self.deleted_cells = True
            self.editor.delete(found[0], expected=str(found[1]))

    def _agent_moves(self, which: int, at: int) -> None:
        found = self._agents_text(which)
        # A person's words that are on their way into a cell that is moved are lost by the move
        # itself, which browsers know no better; so both have the same text here.
        self._sync(0, 0)
        if found is not None:
            ids = [None, *(cell for cell in self.notebook.ids() if cell != found[0])]
            self.editor.move(found[0], after=ids[at % len(ids)])
            self._sync(0, 0)

    def _persons_text(self, which: int) -> Text | None:
        ycells = self.person.ycells
        return ycells[which % len(ycells)]["source"] if len(ycells) else None

    def _person_types(self, which: int, at: int) -> None:
        text = self._persons_text(which)
        if text is None:
            return
        standing = str(text)
        words = self._fresh(2)
        self.typed |= set(words)
        text.insert(len(standing[: at % (len(standing) + 1)].encode()), words)

    def _person_cuts(self, which: int, at: int) -> None:
        text = self._persons_text(which)
        standing = "" if text is None else str(text)
        if text is None or not standing:
            return
        start = at % len(standing)
        piece = standing[start : start + 2]
        self.removed |= set(piece)
        first = len(standing[:start].encode())
        del text[first : first + len(piece.encode())]

    def _into_agent(self, update: bytes) -> None:
        # As in a room: it is heard as it was sent before it comes in.
        self.peer.overhear(create_update_message(update))
        self.peer._apply(update)

    def _take_in(self, *_: int) -> None:
        self._into_agent(self.person.ydoc.get_update(self.peer.doc.get_state()))

    def _send(self, *_: int) -> None:
        self.person.ydoc.apply_update(self.peer.doc.get_update(self.person.ydoc.get_state()))

    def _sync(self, *_: int) -> None:
        self._take_in()
        self._send()

    # What there is

    def texts(self) -> dict[str, str]:
        return {cell: self.notebook.source(cell) for cell in self.notebook.ids()}

    def saved(self) -> Mapping[CellId, Any]:
        rows: Mapping[CellId, Any] = json.loads(json.dumps(self.recorder.take(everything=True)))
        return rows

    def reopen(self, *, history: bool) -> None:
        """Load the notebook again, as a server does that was started anew."""
        content = copy.deepcopy(self.peer.ynotebook.get(deduplicate=False))
        update = self.peer.doc.get_update()
        if not history:
            loaded = YNotebook()
            loaded.set(content)
            update = loaded.ydoc.get_update()
        self.peer = Peer(memory_channels("x")[0])
        self._into_agent(update)
        self.notebook = Notebook(self.peer)
        self.person = YNotebook(Doc())
        self.person.ydoc.apply_update(update)

    def revert(self, rows: Mapping[CellId, Any]) -> Reversal:
        plan = Reversal(self.notebook, Saved.read(RUN, None, rows, ()))
        plan.write("revert")
        return plan


def pairs(text: str, known: set[str]) -> Iterator[tuple[str, str]]:
    mine = [character for character in text if character in known]
    yield from zip(mine, mine[1:], strict=False)


def check(world: World, before: dict[str, str]) -> None:
    after = world.texts()
    whole = "".join(after.values())
    assert len(whole) == len(set(whole)), "something is there twice"
    assert not set(whole) & world.agents, "something of the run is left"
    assert world.typed - world.removed <= set(whole), "something of somebody else is missing"
    for cell, text in before.items():
        for first, second in pairs(text, set(whole)):
            assert after[cell].index(first) < after[cell].index(second), "the order has changed"
    standing = [cell for cell in world.notebook.ids() if cell in CELLS]
    assert standing == list(CELLS), "the cells are not back in their places"
    if world.deleted_cells:
        return  # what a person had just removed in such a cell may come back with it
    # What both removed, neither knowing of the other, comes back rather than not.
    assert set(whole) <= world.typed - (world.removed - world.cut), "something is back too many"


@example(
    steps=[
        ("agent-inserts", 1, 0),
        ("agent-moves", 3, 0),
        ("person-types", 3, 0),
        ("agent-moves", 3, 0),
    ],
    later=[],
    how=0,
)
@given(steps=st.lists(STEP, max_size=25), later=st.lists(STEP, max_size=12), how=st.integers(0, 2))
@settings(deadline=None)
async def test_what_the_run_did_and_nothing_else(
    steps: list[tuple[str, int, int]], later: list[tuple[str, int, int]], how: int
) -> None:
    world = World()
    for step in steps:
        world.take(step)
    world._sync()
    rows = world.saved()
    world.recorder.leave()
    if how:
        world.reopen(history=how == 1)
    for step in later:
        if step[0].startswith("person"):
            world.take(step)
    world._take_in()
    before = world.texts()
    world.revert(rows)
    check(world, before)


@given(steps=st.lists(STEP, max_size=20))
@settings(deadline=None)
async def test_people_who_type_meanwhile_lose_nothing(steps: list[tuple[str, int, int]]) -> None:
    world = World()
    for step in steps:
        world.take(step)
    world._sync()
    rows = world.saved()
    words = "TYPED"
    texts = [cell["source"] for cell in world.person.ycells]
    kept = [cell for cell in world.notebook.ids() if cell in CELLS]
    for text in texts:
        text.insert(len(text) // 2 if str(text).isascii() else 0, words)
    plan = world.revert(rows)
    world._sync()
    made = {cell for cell, each in plan._changes.items() if each.remove or each.move or each.kind}
    for cell in kept:
        if cell not in made:
            assert words in world.notebook.source(cell)
    shown = {cell["id"]: str(cell["source"]) for cell in world.person.ycells}
    assert shown == world.texts()
