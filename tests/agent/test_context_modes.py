"""What each mode sends, written by hand from the specification."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

import pytest

from nbinline_agent.context.budget import Limits
from nbinline_agent.context.build import Built, build
from nbinline_agent.context.choices import Choices, Mode, Outputs, Policy
from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.errors import UnknownCell
from nbinline_agent.ids import CellId, FileId


def cell(name: str, source: str, kind: str = "code", **more: Any) -> Cell:
    given: dict[str, Any] = {
        "metadata": {},
        "execution_count": None,
        "outputs": (),
        "attachments": {},
        **more,
    }
    return Cell(id=CellId(name), kind=kind, source=source, **given)


def note(name: str, source: str, **mark: Any) -> Cell:
    return cell(name, source, "markdown", metadata={"nbinlineai": mark} if mark else {})


def question(name: str, source: str = "?", **mark: Any) -> Cell:
    return note(name, source, isPromptCell=True, **mark)


def answer(name: str, to: str, source: str = "!", status: str = "done", **mark: Any) -> Cell:
    return note(name, source, isOutputCell=True, promptCellId=to, status=status, **mark)


def ask(cells: list[Cell], target: str, mode: Mode = Mode.DEFAULT, **more: Any) -> Built:
    given: dict[str, Any] = {
        "asker": "ada",
        "choices": Choices("model", mode, outputs=Outputs.NONE),
        "limits": Limits(),
        "secret": b"secret",
        "file_id": FileId("file"),
        **more,
    }
    return build(Snapshot(tuple(cells), {}, 4, 5), CellId(target), **given)


HEADER = re.compile(r"<<data \w+: (?:note|code cell|question|AI answer) ([\w-]+)")


def source_ids(built: Built) -> list[str]:
    """The cells sent as source, in the order they are sent."""
    return HEADER.findall("".join(built.request.system[2:]))


def reasons(built: Built) -> dict[str, str]:
    return {one.id: one.reason for one in built.report.ineligible}


NOTEBOOK = [
    note("title", "# Walking data"),
    cell("raw", "raw text", "raw"),
    cell("load", "steps = 4", execution_count=2),
    question("q1", "How many steps?"),
    answer("a1", "q1", "Four steps.", author="ada"),
    question("q2", "Unanswered"),
    answer("a2", "q2", "half an", status="cancelled"),
    answer("orphan", "gone", "for nobody"),
    cell("empty", "  \n"),
    cell("double", "steps * 2"),
    question("target", "And twice that?"),
    answer("mine", "target", "old answer"),
    cell("below", "print(steps)"),
    question("q3", "Later?"),
    answer("a3", "q3", "Later."),
    note("end", "The end."),
]

WHY = {
    "target": "current-question",
    "mine": "answer-to-current-question",
    "raw": "raw-cell",
    "empty": "empty-cell",
    "a2": "answer-not-complete",
    "orphan": "orphan-answer",
}


def test_default_sends_what_is_above_with_pairs_as_history() -> None:
    built = ask(NOTEBOOK, "target")
    assert source_ids(built) == ["title", "load", "double"]
    assert built.report.history == [("q1", "a1")]
    assert built.report.included == ["title", "load", "q1", "a1", "double"]
    assert built.report.excluded == ["below", "end"]
    pair = "default-requires-earlier-complete-pair"
    assert reasons(built) == {**WHY, "q2": pair, "q3": pair, "a3": pair}


WORD_FOR_WORD = """\
Cells of the notebook, in notebook order:

<<data 45039631ee42: note title, above the question>>
# Walking data
<<end 45039631ee42>>

<<data 45039631ee42: code cell load, In [2], above the question>>
steps = 4
<<end 45039631ee42>>

<<data 45039631ee42: code cell double, not run, above the question>>
steps * 2
<<end 45039631ee42>>"""


def test_default_word_for_word() -> None:
    """The whole of what varies, by hand; the fixed wording is in one file and not repeated here."""
    built = ask(NOTEBOOK, "target")
    word = "45039631ee42"
    assert hmac.new(b"secret", b"0:file", hashlib.sha256).hexdigest().startswith(word)
    assert built.request.system[2:] == (WORD_FOR_WORD,)
    assert [(turn.role, turn.text, turn.cache) for turn in built.request.messages[:-1]] == [
        ("user", "How many steps?", False),
        ("assistant", "Four steps.", True),
    ]
    landmarks, asked = built.request.messages[-1].text.split("\n\n")
    assert asked == "The question:\nAnd twice that?"
    assert landmarks.splitlines()[1] == (
        '{"question":{"id":"target","position":11},'
        '"cell_above":{"id":"double","position":10,"sent":"full    ","pair":"    "},'
        '"code_above":{"id":"double","position":10,"sent":"full    ","pair":"    "},'
        '"note_above":{"id":"title","position":1,"sent":"full    ","pair":"    "},'
        '"heading_above":{"id":"title","position":1,"sent":"full    ","pair":"    "},'
        '"section":{"from":1,"to":10,"sent":"partial "}}'
    )


def test_all_above_sends_incomplete_questions_as_source() -> None:
    built = ask(NOTEBOOK, "target", Mode.ALL_ABOVE)
    assert source_ids(built) == ["title", "load", "q2", "double"]
    assert built.report.history == [("q1", "a1")]
    assert built.report.excluded == ["below", "q3", "a3", "end"]
    assert reasons(built) == WHY


def test_full_notebook_sends_ai_material_below_as_source() -> None:
    built = ask(NOTEBOOK, "target", Mode.FULL_NOTEBOOK)
    assert source_ids(built) == [
        *("title", "load", "q2", "double"),
        *("below", "q3", "a3", "end"),
    ]
    assert built.report.history == [("q1", "a1")]
    assert built.report.excluded == []
    block = built.request.system[-1]
    assert ": question q3, below the question>>" in block
    assert ": AI answer a3 to question q3, below the question>>" in block
    assert ": question q2, above the question>>" in block


def test_the_ten_above_count_every_physical_cell_but_the_question_and_its_answers() -> None:
    cells = [
        cell("far", "0"),
        cell("c1", "1"),
        answer("own", "target", "old"),
        *(cell(f"raw{n}", "r", "raw") for n in range(3)),
        *(cell(f"blank{n}", "") for n in range(3)),
        cell("c8", "8"),
        cell("c9", "9"),
        cell("c10", "10"),
        question("target"),
        cell("under", "below"),
    ]
    built = ask(cells, "target", Mode.TEN_ABOVE)
    assert source_ids(built) == ["c1", "c8", "c9", "c10"]
    assert built.report.excluded == ["far", "under"]


def test_the_ten_on_each_side() -> None:
    cells = [
        *(cell(f"u{n}", "u") for n in range(12)),
        question("target"),
        answer("own", "target"),
        cell("blank", ""),
        *(cell(f"d{n}", "d") for n in range(12)),
    ]
    built = ask(cells, "target", Mode.TEN_ABOVE_BELOW)
    assert source_ids(built) == [*(f"u{n}" for n in range(2, 12)), *(f"d{n}" for n in range(9))]
    assert (built.report.above.included, built.report.below.included) == (10, 9)
    assert built.report.excluded == ["u0", "u1", "d9", "d10", "d11"]


def test_custom_takes_what_is_not_unticked() -> None:
    cells = [
        cell("ticked", "1", metadata={"nbinlineai": {"contextInclude": True}}),
        cell("unticked", "2", metadata={"nbinlineai": {"contextInclude": False}}),
        cell("unmarked", "3"),
        question("q1", "half of a pair", contextInclude=False),
        answer("a1", "q1", "alone"),
        question("target"),
        cell("under", "4"),
        cell("nonsense", "5", metadata={"nbinlineai": {"contextInclude": "no"}}),
    ]
    built = ask(cells, "target", Mode.CUSTOM)
    assert source_ids(built) == ["ticked", "unmarked", "a1", "under", "nonsense"]
    assert built.report.history == []
    assert built.report.excluded == ["unticked", "q1"]


def test_current_only_sends_nothing_optional() -> None:
    built = ask(NOTEBOOK, "target", Mode.CURRENT_ONLY)
    assert built.report.included == []
    assert built.report.history == []
    assert len(built.request.messages) == 1
    assert len(built.request.system) == 2
    assert set(built.report.excluded) == {
        *("title", "load", "q1", "a1", "q2", "double", "below", "q3", "a3", "end"),
    }


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ALL_ABOVE])
def test_of_several_done_answers_the_latest_wins(mode: Mode) -> None:
    cells = [
        question("q1"),
        answer("first", "q1", "one"),
        answer("failed", "q1", "two", status="error"),
        answer("last", "q1", "three"),
        question("target"),
        answer("too-late", "q1", "four"),
    ]
    built = ask(cells, "target", mode)
    assert built.report.history == [("q1", "last")]
    left = {name: reasons(built).get(name) for name in ("first", "failed", "too-late")}
    if mode is Mode.DEFAULT:
        assert left["first"] == "default-requires-earlier-complete-pair"
    else:
        assert source_ids(built) == ["first"]
    assert left["failed"] == "answer-not-complete"


def test_an_answer_above_its_question_is_no_history() -> None:
    cells = [answer("a1", "q1", "early"), question("q1", "late"), question("target")]
    assert ask(cells, "target").report.included == []
    built = ask(cells, "target", Mode.ALL_ABOVE)
    assert built.report.history == []
    assert source_ids(built) == ["a1", "q1"]


def test_a_pair_straddling_the_question_is_source() -> None:
    cells = [question("q1", "asked"), question("target"), answer("a1", "q1", "answered")]
    built = ask(cells, "target", Mode.FULL_NOTEBOOK)
    assert built.report.history == []
    assert source_ids(built) == ["q1", "a1"]


def test_pairs_keep_the_order_of_their_answers() -> None:
    cells = [
        question("q1", "first"),
        question("q2", "second"),
        answer("a2", "q2", "two"),
        answer("a1", "q1", "one"),
        question("target"),
    ]
    built = ask(cells, "target")
    assert built.report.history == [("q2", "a2"), ("q1", "a1")]
    assert [turn.text for turn in built.request.messages if turn.role == "assistant"] == [
        "two",
        "one",
    ]


def test_a_prompt_flag_on_a_code_cell_is_ordinary_code() -> None:
    cells = [
        cell("code", "1 + 1", metadata={"nbinlineai": {"isPromptCell": True}}),
        answer("a", "code", "two"),
        question("target"),
    ]
    built = ask(cells, "target")
    assert source_ids(built) == ["code"]
    assert reasons(built)["a"] == "orphan-answer"


@pytest.mark.parametrize(
    "metadata",
    [None, [], "text", {"nbinlineai": None}, {"nbinlineai": [1]}, {"nbinlineai": {"status": 3}}],
)
def test_damaged_metadata_makes_an_ordinary_cell(metadata: Any) -> None:
    cells = [cell("odd", "x", "markdown", metadata=metadata), question("target")]
    assert source_ids(ask(cells, "target")) == ["odd"]


@pytest.mark.parametrize("link", [None, 3, ["q1"], "target-x"])
def test_an_answer_with_a_damaged_link_is_an_orphan(link: Any) -> None:
    cells = [
        note("a", "text", isOutputCell=True, promptCellId=link, status="done"),
        question("target"),
    ]
    assert reasons(ask(cells, "target"))["a"] == "orphan-answer"


def test_two_cells_with_one_id() -> None:
    cells = [cell("twin", "1"), cell("twin", "2"), question("target"), question("target", "again")]
    built = ask(cells, "target", Mode.FULL_NOTEBOOK)
    block = built.request.system[-1]
    assert block.count("code cell twin") == 2
    assert "again" not in block


def test_an_unknown_cell_type_never_goes() -> None:
    built = ask([cell("odd", "x", "graph"), question("target")], "target")
    assert reasons(built)["odd"] == "raw-cell"


def test_an_unknown_question_is_an_error() -> None:
    with pytest.raises(UnknownCell):
        ask(NOTEBOOK, "nowhere")


SOLUTION = """\
def square(x):
    ### BEGIN SOLUTION
    return x * x
    ### END SOLUTION
square(2)"""


def test_solutions_and_hidden_tests_stay_hidden() -> None:
    cells = [
        cell("solution", SOLUTION, outputs=({"output_type": "stream", "text": "4"},)),
        cell("tests", "### BEGIN HIDDEN TESTS\nassert square(3) == 9\n### END HIDDEN TESTS"),
        note("scheme", "=== BEGIN MARK SCHEME ===\nnine points"),
        question("target"),
    ]
    choices = Choices("model", outputs=Outputs.FULL)
    built = ask(cells, "target", choices=choices)
    sent = str(built.request)
    assert "x * x" not in sent
    assert "square(3)" not in sent
    assert "nine points" not in sent
    assert "shown below the cell" not in sent
    assert "def square(x):\\n    [left out: hidden by the course]\\nsquare(2)" in sent
    assert reasons(built)["tests"] == "hidden-by-policy"
    assert reasons(built)["scheme"] == "hidden-by-policy"
    shown = ask(cells, "target", policy=Policy(hide_solutions=False))
    assert "x * x" in str(shown.request)


def test_a_course_hides_cells_by_tag() -> None:
    cells = [
        cell("teacher", "key = 1", metadata={"tags": ["instructor"]}),
        question("q1", "asked"),
        cell("open", "x = 1", metadata={"tags": ["other", 3]}),
        cell("damaged", "y = 1", metadata={"tags": "instructor"}),
        question("target"),
    ]
    built = ask(cells, "target", policy=Policy(hidden_tags=frozenset({"instructor"})))
    assert reasons(built)["teacher"] == "hidden-by-policy"
    assert source_ids(built) == ["open", "damaged"]
