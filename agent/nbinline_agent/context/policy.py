"""Which cells are candidates for a question, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from nbinline_agent.document.notebook import Cell

from .choices import Mode, Policy
from .hiding import hide_solutions, nothing_left
from .marks import Role, marks, role, tags

WINDOW = 10


class Reason(StrEnum):
    """Why a cell cannot go along."""

    CURRENT_QUESTION = "current-question"
    ANSWER_TO_CURRENT_QUESTION = "answer-to-current-question"
    RAW_CELL = "raw-cell"
    EMPTY_CELL = "empty-cell"
    ANSWER_NOT_COMPLETE = "answer-not-complete"
    ORPHAN_ANSWER = "orphan-answer"
    REQUIRES_PAIR = "default-requires-earlier-complete-pair"
    HIDDEN = "hidden-by-policy"


class Candidate(NamedTuple):
    """Something that may go along: one cell as source, or a question with its answer.

    Attributes:
        place: Index in the notebook; a pair stands where its answer stands.
        question: Index of the pair's question, or None for a cell as source.
        above: Whether it stands above the question that is asked.
        distance: 1 for the nearest on its side.
    """

    place: int
    question: int | None
    above: bool
    distance: int


@dataclass(slots=True)
class Reading:
    """The notebook as the agent sees it for one question.

    Attributes:
        roles: What each cell is.
        marks: The agent's own metadata of each cell.
        sources: Each cell's text without what the course hides.
        redacted: Places of the cells from which something was taken out.
        reasons: Why a place cannot go along.
        answers: Places of the answers linked to each question's place, in order.
    """

    roles: list[Role]
    marks: list[Mapping[str, Any]]
    sources: list[str]
    redacted: set[int] = field(default_factory=set)
    reasons: dict[int, Reason] = field(default_factory=dict)
    answers: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """Candidates, nearest first, and the places left out by the mode or by people."""

    candidates: Sequence[Candidate]
    excluded: Sequence[int]


def read(cells: Sequence[Cell], target: int, policy: Policy) -> Reading:
    """Look at every cell once.

    Args:
        cells: The whole notebook.
        target: Place of the question that is asked.
        policy: What stays hidden.
    """
    target_id = cells[target].id
    prompts: dict[str, int] = {target_id: target}
    all_marks = [marks(cell) for cell in cells]
    reading = Reading(list(map(role, cells, all_marks)), all_marks, [cell.source for cell in cells])
    for index, cell in enumerate(cells):
        if reading.roles[index] is Role.QUESTION:
            prompts.setdefault(cell.id, index)
        source = reading.sources[index]
        if policy.hide_solutions and "BEGIN " in source and index != target:
            source, hidden = hide_solutions(source)
            if hidden:
                reading.redacted.add(index)
                reading.sources[index] = source
        reason = _own_reason(cell, source, policy)
        if reason is not None:
            reading.reasons[index] = reason
        if cell.id == target_id:
            reading.reasons[index] = Reason.CURRENT_QUESTION
    _link_answers(reading, prompts, target)
    return reading


def _own_reason(cell: Cell, source: str, policy: Policy) -> Reason | None:
    kind = cell.kind
    if kind not in ("code", "markdown"):
        return Reason.RAW_CELL
    if not source or source.isspace():
        return Reason.EMPTY_CELL
    if policy.hidden_tags and not policy.hidden_tags.isdisjoint(tags(cell)):
        return Reason.HIDDEN
    if source is not cell.source and nothing_left(source):
        return Reason.HIDDEN
    return None


def _link_answers(reading: Reading, prompts: Mapping[str, int], target: int) -> None:
    for index, kind in enumerate(reading.roles):
        if kind is not Role.ANSWER or reading.reasons.get(index) is Reason.CURRENT_QUESTION:
            continue
        mark = reading.marks[index]
        link = mark.get("promptCellId")
        prompt = prompts.get(link) if isinstance(link, str) else None
        if prompt == target:
            reading.reasons[index] = Reason.ANSWER_TO_CURRENT_QUESTION
        elif index not in reading.reasons:
            if prompt is None:
                reading.reasons[index] = Reason.ORPHAN_ANSWER
            elif mark.get("status") != "done":
                reading.reasons[index] = Reason.ANSWER_NOT_COMPLETE
            else:
                reading.answers.setdefault(prompt, []).append(index)


def select(reading: Reading, target: int, mode: Mode) -> Selection:
    """The candidates of a mode, nearest first, above before below at the same distance."""
    reasons = reading.reasons
    out = (Reason.CURRENT_QUESTION, Reason.ANSWER_TO_CURRENT_QUESTION)
    rest = [i for i in range(len(reading.roles)) if reasons.get(i) not in out]
    above = [i for i in rest if i < target]
    below = [i for i in rest if i > target]
    scope = _scope(reading, mode, above, below)
    if mode is Mode.DEFAULT:
        _require_pairs(reading, target)
    excluded = [i for i in rest if i not in scope and i not in reasons]
    partner = _pairs(reading, target, scope)
    candidates = list(_sides(reading, above, below, scope, partner))
    if candidates and not candidates[-1].above:
        candidates.sort(key=lambda candidate: 2 * candidate.distance - candidate.above)
    return Selection(candidates, excluded)


def _scope(reading: Reading, mode: Mode, above: list[int], below: list[int]) -> set[int]:
    match mode:
        case Mode.DEFAULT | Mode.ALL_ABOVE:
            return set(above)
        case Mode.FULL_NOTEBOOK:
            return {*above, *below}
        case Mode.TEN_ABOVE:
            return set(above[-WINDOW:])
        case Mode.TEN_ABOVE_BELOW:
            return {*above[-WINDOW:], *below[:WINDOW]}
        case Mode.CUSTOM:
            marked = reading.marks
            return {i for i in (*above, *below) if marked[i].get("contextInclude") is not False}
        case Mode.CURRENT_ONLY:
            return set()


def _require_pairs(reading: Reading, target: int) -> None:
    """In the default mode AI cells count only as a question above its done answer, both above."""
    complete: set[int] = set()
    for question, answers in reading.answers.items():
        latest = _latest(answers, question, target)
        if latest is not None and question not in reading.reasons:
            complete |= {question, latest}
    for index, kind in enumerate(reading.roles):
        if kind is not Role.ORDINARY and index not in complete:
            reading.reasons.setdefault(index, Reason.REQUIRES_PAIR)


def _latest(answers: Sequence[int], question: int, target: int) -> int | None:
    return max((i for i in answers if question < i < target), default=None)


def _pairs(reading: Reading, target: int, scope: set[int]) -> dict[int, int]:
    """Question and answer that both go along, above and in order: answer's place → question's."""
    partner: dict[int, int] = {}
    for question, answers in reading.answers.items():
        if question not in scope or question in reading.reasons or question >= target:
            continue
        latest = _latest([i for i in answers if i in scope], question, target)
        if latest is not None:
            partner[latest] = question
    return partner


def _sides(
    reading: Reading,
    above: list[int],
    below: list[int],
    scope: set[int],
    partner: Mapping[int, int],
) -> Iterator[Candidate]:
    paired = set(partner.values())
    for is_above, side in ((True, reversed(above)), (False, iter(below))):
        for distance, index in enumerate(side, start=1):
            if index in scope and index not in reading.reasons and index not in paired:
                yield Candidate(index, partner.get(index), is_above, distance)
