"""The place we write at follows every edit of others, over any Unicode."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import Doc, Text

from nbinline_agent.document.alignment import align
from nbinline_agent.document.position import Tail
from tests.properties.unicode import of_the_answer, typed, words

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
edits = st.tuples(st.floats(0, 1), st.floats(0, 1), anything)
"""Replace what stands between two places (as parts of the length) by something."""
steps = st.lists(st.one_of(words, edits), max_size=12)


class Model:
    """The same text as a plain string, with the place kept by the rules in ``Tail``'s words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.bitten = False
        self.old: list[bool] | None = [True] * len(text)

    def edit(self, start: int, stop: int, new: str) -> None:
        if start < self.place <= stop:
            self.bitten = True
        if stop <= self.place:
            self.place -= stop - start
        elif start < self.place:
            self.place = start
        if start < self.place or (start == self.place and self.bitten):
            self.place += len(new)
        self.text = self.text[:start] + new + self.text[stop:]
        if self.old is not None:
            self.old[start:stop] = [False] * len(new)

    def write(self, new: str) -> None:
        if self.old is not None:
            kept = [c for c, old in zip(self.text, self.old, strict=True) if not old]
            self.text, self.old = "".join(kept), None
        self.text = self.text[: self.place] + new + self.text[self.place :]
        self.place += len(new)
        self.bitten = False


class Replica:
    """Our text, and a person's replica of it."""

    def __init__(self, start: str) -> None:
        self.ours: Doc[Any] = Doc()
        self.text = self.ours.get("text", type=Text)
        self.text.insert(0, start)
        self.theirs: Doc[Any] = Doc()
        self.theirs.apply_update(self.ours.get_update())
        self.their_text = self.theirs.get("text", type=Text)
        self.tail = Tail(self.text)

    def sync(self) -> None:
        self.theirs.apply_update(self.ours.get_update(self.theirs.get_state()))
        with self.ours.transaction(origin="remote"):
            self.ours.apply_update(self.theirs.get_update(self.ours.get_state()))

    def edit(self, start: int, stop: int, new: str) -> None:
        """Replace what stands between two characters; as browsers do, first delete, then insert."""
        text = str(self.their_text)
        first, last = len(text[:start].encode()), len(text[:stop].encode())
        if last > first:
            del self.their_text[first:last]
        if new:
            self.their_text.insert(first, new)

    def write(self, new: str) -> None:
        with self.ours.transaction(origin="run"):
            self.tail.write(new)
        self.sync()


def places(text: str, first: float, second: float) -> tuple[int, int]:
    start, stop = sorted((round(first * len(text)), round(second * len(text))))
    return start, stop


@settings(deadline=None, max_examples=300)
@given(start=anything, steps=steps)
def test_the_place_is_where_a_plain_string_says(start: str, steps: list[Any]) -> None:
    """One edit at a time: a deletion or an insertion."""
    model, replica = Model(start), Replica(start)
    for step in steps:
        if isinstance(step, str):
            model.write(step)
            replica.write(step)
        else:
            begin, end = places(model.text, step[0], step[1])
            for first, last, new in ((begin, end, ""), (begin, begin, step[2])):
                if first == last and not new:
                    continue
                model.edit(first, last, new)
                with replica.theirs.transaction(origin="person"):
                    replica.edit(first, last, new)
                replica.sync()
        assert str(replica.text) == str(replica.their_text) == model.text
        assert replica.tail.offset == len(model.text[: model.place].encode())


@settings(deadline=None, max_examples=200)
@given(start=anything, steps=st.lists(st.one_of(words, st.lists(edits, max_size=4)), max_size=10))
def test_whatever_happens_words_go_in_whole_and_nothing_else_moves(
    start: str, steps: list[Any]
) -> None:
    """Several edits in one transaction."""
    replica = Replica(start)
    first = True
    for step in steps:
        if isinstance(step, str):
            before = str(replica.text)
            replica.write(step)
            after = str(replica.text)
            place = len(after.encode()[: replica.tail.offset].decode())
            assert after[place - len(step) : place] == step
            if not first:
                assert after[: place - len(step)] + after[place:] == before
            first = False
        else:
            with replica.theirs.transaction(origin="person"):
                for edit in step:
                    begin, end = places(str(replica.their_text), edit[0], edit[1])
                    replica.edit(begin, end, edit[2])
            replica.sync()
        assert str(replica.text) == str(replica.their_text)
        replica.text[:].encode()[: replica.tail.offset].decode()


@settings(deadline=None, max_examples=200)
@given(
    deltas=st.lists(words, min_size=1, max_size=20),
    notes=st.lists(st.tuples(st.integers(0, 30), typed), max_size=6),
)
def test_concurrent_typing_never_mixes_with_the_order_of_the_answer(
    deltas: list[str], notes: list[tuple[int, str]]
) -> None:
    """Both sides write without seeing each other; what we wrote stays in order and whole."""
    replica = Replica("")
    waiting = dict(notes)
    for number, delta in enumerate(deltas):
        with replica.ours.transaction(origin="run"):
            replica.tail.write(delta)
        if number in waiting:
            text = str(replica.their_text)
            place = len(text[: len(text) * number // (len(deltas) + 1)].encode())
            replica.their_text.insert(place, waiting[number])
        if number % 3 == 0:
            replica.sync()
    replica.sync()
    assert str(replica.text) == str(replica.their_text)
    assert of_the_answer(str(replica.text)) == "".join(deltas)


notes_at = st.lists(st.tuples(st.floats(0, 1), typed), max_size=4)


@settings(deadline=None, max_examples=200)
@given(
    ours=st.lists(words, min_size=1, max_size=30).map("".join),
    cut=st.floats(0, 1),
    notes=notes_at,
    times=st.sampled_from([1, 1, 1, 40]),
)
def test_nothing_of_a_text_that_was_cut_and_annotated_is_left_out(
    ours: str, cut: float, notes: list[tuple[float, str]], times: int
) -> None:
    """Where an agreeing part cannot be told from chance, too much counts as missing."""
    ours = ours * times
    arrived = ours[: round(cut * len(ours))]
    found = align(ours, annotate(arrived, notes))
    assert ours.endswith(found.missing)
    assert len(found.missing) >= len(ours) - len(arrived)
    if not notes:
        assert found.missing == ours[len(arrived) :]


@settings(deadline=None, max_examples=200)
@given(
    ours=st.lists(words, min_size=1, max_size=60),
    cut=st.floats(0, 1),
    notes=notes_at,
)
def test_ordinary_text_is_found_again_to_the_character(
    ours: list[str], cut: float, notes: list[tuple[float, str]]
) -> None:
    """Text that does not say the same thing again and again, annotated between sentences."""
    sentences = [f"Sentence {number} says: {word}.\n" for number, word in enumerate(ours)]
    last = round(cut * len(sentences))
    standing = list(sentences[:last])
    for place, note in notes:
        standing.insert(round(place * len(standing)), note)
    found = align("".join(sentences), "".join(standing))
    missing = "".join(sentences[last:])
    assert found.missing == missing or not standing[:1]
    assert of_the_answer("".join(standing)[: found.end]) + found.missing == "".join(sentences)


def annotate(text: str, notes: list[tuple[float, str]]) -> str:
    for place, note in notes:
        at = round(place * len(text))
        text = text[:at] + note + text[at:]
    return text


@settings(deadline=None, max_examples=300)
@given(ours=anything, standing=anything)
def test_aligning_anything_with_anything_stays_inside(ours: str, standing: str) -> None:
    found = align(ours, standing)
    assert 0 <= found.end <= len(standing)
    assert ours.endswith(found.missing)
