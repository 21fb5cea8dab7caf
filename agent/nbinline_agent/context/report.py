"""What a question sent, what was cut and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

from nbinline_agent.ids import CellId
from nbinline_agent.messages import JsonValue

from .attachments import AttachedImage
from .values import Variable

LISTED = 200
"""Cells a list of the short form names at most."""


@dataclass(frozen=True, slots=True)
class Ineligible:
    """A cell that cannot go along, and the reason's code."""

    id: CellId
    reason: str


@dataclass(frozen=True, slots=True)
class Truncation:
    """Something that was cut.

    Attributes:
        id: The cell.
        what: ``source``, ``outputs`` or ``answer`` (a partial answer that is continued).
        kept: Which part went: ``ending``, ``beginning`` or ``none``.
        sent_characters: How much of it went.
        characters: How much there is; None where it was not measured.
    """

    id: CellId
    what: str
    kept: str
    sent_characters: int
    characters: int | None


@dataclass(frozen=True, slots=True)
class SideCounts:
    """Cells on one side of the question."""

    included: int
    partial: int
    omitted: int


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What the request holds. All lists of cells are in notebook order.

    Attributes:
        question: The question.
        mode: Which cells could go along.
        style: Name of the style.
        outputs: How much of the outputs goes along.
        selected: Candidates of the mode, the two cells of a pair included.
        included: Cells that went whole.
        partial: The cell that was cut, if any.
        omitted: Candidates that did not fit.
        excluded: Cells left out by the mode or by people.
        ineligible: Cells that cannot go, with the reason.
        history: Earlier exchanges that went as turns: question, answer.
        above: Counts above the question.
        below: Counts below the question.
        unit: ``characters`` or ``tokens``.
        counter: How it was counted.
        used: What the request takes.
        allowed: What it may take.
        fixed: What cannot be left out takes.
        truncations: What was cut.
        tools_offered: Names of functions the model may call.
        tools_disabled: Names that were declared or switched on and may not be called.
        tool_problems: Why, by name: ``tools-box-off``, ``off``, ``no-kernel``, ``unknown``, ….
        variables: What became of the live values that the question refers to.
        images: What became of the question's pictures.
        landmarks: What the question may point at, as sent.
        secrets: How many keys and passwords were left out, by kind.
        request_sha256: Hash of the canonical JSON of the request.
        inputs_sha256: Hash over everything that the answer is built from.
    """

    question: CellId
    mode: str
    style: str
    outputs: str
    selected: Sequence[CellId]
    included: Sequence[CellId]
    partial: Sequence[CellId]
    omitted: Sequence[CellId]
    excluded: Sequence[CellId]
    ineligible: Sequence[Ineligible]
    history: Sequence[tuple[CellId, CellId]]
    above: SideCounts
    below: SideCounts
    unit: str
    counter: str
    used: int
    allowed: int
    fixed: int
    truncations: Sequence[Truncation]
    tools_offered: Sequence[str]
    tools_disabled: Sequence[str]
    tool_problems: Mapping[str, str]
    variables: Sequence[Variable]
    images: Sequence[AttachedImage]
    landmarks: Mapping[str, Mapping[str, str | int]]
    secrets: Mapping[str, int]
    request_sha256: str
    inputs_sha256: str

    @property
    def trimmed(self) -> bool:
        """Whether something that could have gone along did not fit."""
        missing = [each.problem for each in self.images] + [each.problem for each in self.variables]
        return bool(self.omitted or self.truncations or any(missing))

    def to_json(self) -> dict[str, JsonValue]:
        """Everything, as JSON values."""
        values = _fields(self)
        values["trimmed"] = self.trimmed
        return values

    def brief(self) -> dict[str, JsonValue]:
        """The same for the journal: long lists are cut, and ``counts`` says how long they were."""
        values = self.to_json()
        counts: dict[str, JsonValue] = {}
        for name, value in values.items():
            if isinstance(value, list):
                counts[name] = len(value)
                values[name] = value[:LISTED]
        values["counts"] = counts
        return values


def _fields(value: object) -> dict[str, JsonValue]:
    assert is_dataclass(value)
    return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _fields(value)
