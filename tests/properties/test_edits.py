"""An edit of a shared text is the same edit on a plain string, over any Unicode."""

from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import Doc, Text

from nbinline_agent.document.edits import Editor, differences
from nbinline_agent.testing import markdown, open_notebook
from tests.properties.unicode import of_people, of_the_answer, typed, words

texts = st.lists(words, max_size=12).map("".join)
pairs = st.one_of(
    st.tuples(texts, texts),
    st.tuples(texts, st.integers(0, 60), st.integers(0, 60), texts).map(
        lambda x: (x[0], x[0][: x[1]] + x[3] + x[0][x[1] + x[2] :])
    ),
)


@settings(deadline=None, max_examples=200)
@given(pair=pairs)
def test_differences_make_one_text_of_the_other(pair: tuple[str, str]) -> None:
    before, after = pair
    result, last = before, len(before) + 1
    for start, stop, piece in reversed(differences(before, after)):
        assert 0 <= start <= stop < last
        last = start
        result = result[:start] + piece + result[stop:]
    assert result == after


@settings(deadline=None, max_examples=40)
@given(pair=pairs, note=typed, place=st.floats(0, 1))
def test_a_replacement_keeps_what_is_typed_at_the_same_time(
    pair: tuple[str, str], note: str, place: float
) -> None:
    before, after = pair

    async def replace() -> None:
        async with open_notebook([markdown(before, "a")]) as (notebook, shared):
            person: Doc[Any] = Doc()
            person.apply_update(shared.ynotebook.ydoc.get_update())
            text = person.get("cells", type=type(shared.ynotebook.ycells))[0]["source"]
            assert isinstance(text, Text)
            text.insert(len(before[: round(place * len(before))].encode()), note)
            Editor(notebook, "run").replace("a", after, expected=before)
            assert notebook.source("a") == after
            await notebook.peer.settled()
            shared.ynotebook.ydoc.apply_update(person.get_update())
            result = shared.source("a")
            assert of_the_answer(result) == after
            assert of_people(result) == note

    anyio.run(replace)
