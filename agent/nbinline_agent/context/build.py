"""The one builder: a frozen notebook, choices and limits in, a model request and a report out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.errors import BadRequest, ContextTooLarge
from nbinline_agent.ids import CellId, FileId
from nbinline_agent.kernel import LiveValue
from nbinline_agent.messages import Image, Message, ModelRequest, ToolRound, ToolSpec
from nbinline_agent.render.images import ImageLimits
from nbinline_agent.render.outputs import in_full, summarise

from . import instructions, landmarks
from .attachments import AttachedImage, attached
from .budget import Fitted, Limits, fit
from .choices import Choices, Outputs, Policy
from .inputs import cell_hash, digest
from .landmarks import Landmark, Sent
from .layout import Layout, Pricer, token, with_outputs
from .policy import Candidate, Selection, read, select
from .report import ContextReport, Ineligible, SideCounts, Truncation
from .secret_forms import Left
from .serialising import (
    IMAGE_CHARACTERS,
    content_json,
    measure,
    measure_rounds,
    request_sha256,
    tools_json,
)
from .values import Filled, ValuePart, Variable, filled


@dataclass(frozen=True, slots=True)
class Built:
    """What goes to the model, and the report about it.

    Attributes:
        request: The first model request.
        report: What it holds.
        inputs: Hash of each cell the request was built from, question included; see ``inputs.py``.
    """

    request: ModelRequest
    report: ContextReport
    inputs: Mapping[CellId, str]


def build(
    snapshot: Snapshot,
    question_id: CellId,
    *,
    asker: str,
    choices: Choices,
    limits: Limits,
    secret: bytes,
    file_id: FileId,
    policy: Policy | None = None,
    tools: tuple[ToolSpec, ...] = (),
    disabled: Mapping[str, str] | None = None,
    rounds: tuple[ToolRound, ...] = (),
    question_text: str | None = None,
    images: tuple[Image, ...] = (),
    values: Mapping[str, LiveValue] | None = None,
    continuing: str | None = None,
) -> Built:
    """Choose what goes along with a question and lay it out. The same input gives the same bytes.

    Args:
        snapshot: The notebook, frozen.
        question_id: The question that is asked.
        asker: Username of the person who asks.
        choices: Mode, style, outputs, model.
        limits: How much may be sent.
        secret: The server's own secret, for the marks around data.
        file_id: The notebook's stable id.
        policy: What the course keeps from models.
        tools: Functions the model may call.
        disabled: Functions it may not call although they were wished for, with the reason.
        rounds: The run's tool traffic so far; it cannot be left out, older context can.
        question_text: The question's wording; None takes the cell's source.
        images: Further pictures; the question's own attachments and those of values are added.
        values: Live values by expression, for the references of the question; None leaves the
            references as they stand.
        continuing: A partial answer to go on from.

    Raises:
        UnknownCell: The snapshot has no such cell.
        BadRequest: The wording of the style is too long.
        ContextTooLarge: What cannot be left out is over the budget.
    """
    target = snapshot.index(question_id)
    cell = snapshot.cells[target]
    pictures = attached(cell, choices.images)
    text = cell.source if question_text is None else question_text
    left = _remaining(choices.images, len(pictures.images))
    asked = Filled(text) if values is None else filled(text, values, room=limits.room, limits=left)
    given = _Given(
        asker=asker,
        choices=choices,
        limits=limits,
        tools=tools,
        disabled=disabled or {},
        rounds=rounds,
        question=f"{asked.text}\n\n{pictures.note}" if pictures.note else asked.text,
        values=asked.parts,
        images=(*pictures.images, *asked.images, *images),
        told=pictures.told,
        variables=asked.told,
        continuing=continuing or "",
    )
    return _Builder(snapshot.cells, target, policy or Policy(), given).build(secret, file_id)


@dataclass(frozen=True, slots=True)
class _Given:
    """What is asked with; see ``build``."""

    asker: str
    choices: Choices
    limits: Limits
    tools: tuple[ToolSpec, ...]
    disabled: Mapping[str, str]
    rounds: tuple[ToolRound, ...]
    question: str
    values: tuple[ValuePart, ...]
    images: tuple[Image, ...]
    told: tuple[AttachedImage, ...]
    variables: tuple[Variable, ...]
    continuing: str


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What cannot be left out, in the request's order."""

    system: tuple[str, ...]
    question: Message
    tail: tuple[Message, ...]
    answer_sent: int


class _Builder:
    def __init__(self, cells: Sequence[Cell], target: int, policy: Policy, given: _Given) -> None:
        self.cells = cells
        self.target = target
        self.given = given
        self.choices = given.choices
        self.policy = policy
        self.limits = given.limits
        self.brief = given.limits.room < instructions.BRIEF_BELOW
        self.reading = read(cells, target, policy)
        self.layout = Layout(cells, self.reading, target, given.asker)
        self.found: list[Landmark] = (
            [] if self.brief else landmarks.find(cells, self.reading.roles, target)
        )

    def build(self, secret: bytes, file_id: FileId) -> Built:
        selection = select(self.reading, self.target, self.choices.mode)
        fixed = self._fixed()
        bare = self._request(fixed, self.layout, [], self._landmarks({}, {}))
        with_source = replace(bare, system=(*bare.system, instructions.SOURCE_INTRO))
        fixed_size = measure(with_source, self.limits)
        if fixed_size > self.limits.room:
            raise self._too_large(fixed_size)
        pricer = Pricer(self.layout, self.limits, self._outputs_of)
        taken, left_out = fit(
            selection.candidates,
            self.limits.room - fixed_size,
            self.limits,
            pricer,
            pricer.smallest,
        )
        taken.sort(key=lambda fitted: fitted.candidate.place)
        layout = replace(self.layout, word=token(secret, file_id, self._marked(taken)))
        listed = self._landmarks(*self._sent(taken, left_out))
        left = Left(self.policy.known_secrets)
        request = left.request(self._request(fixed, layout, taken, listed))
        inputs = self._inputs(taken)
        report = self._report(
            selection, taken, left_out, fixed, fixed_size, listed, request, inputs, left
        )
        return Built(request, report, inputs)

    def _fixed(self) -> _Fixed:
        """Instructions and style, the question, and what is continued."""
        style = self.choices.style_text
        if style is None:
            style = instructions.STYLES.get(self.choices.style, instructions.STYLES["compact"])
        elif len(style) > instructions.STYLE_LIMIT:
            raise BadRequest("The wording of the style is longer than 8,000 characters.")
        told = instructions.BRIEF if self.brief else instructions.FULL
        system = tuple(part for part in (told, style) if part)
        tail, sent = self._tail()
        asked = Message("user", self.given.question, images=self.given.images)
        return _Fixed(system, asked, tail, sent)

    def _tail(self) -> tuple[tuple[Message, ...], int]:
        """The partial answer as the assistant's turn; of a long one only the ending."""
        answer = self.given.continuing
        if not answer:
            return (), 0
        length = min(len(answer), self.limits.room // 4)
        while length and self.limits.size(answer[-length:]) > self.limits.room // 4:
            length = length * 3 // 4
        kept = answer[-length:] if length else ""
        text = kept if length == len(answer) else instructions.CUT_ANSWER + kept
        turns = (Message("assistant", text), Message("user", instructions.CONTINUE))
        return turns, length

    def _landmarks(
        self, sent: Mapping[int, Sent], pairs: Mapping[int, int]
    ) -> dict[str, dict[str, str | int]]:
        if self.brief:
            return {}
        return landmarks.describe(self.cells, self.target, self.found, sent, pairs)

    def _request(
        self,
        fixed: _Fixed,
        layout: Layout,
        taken: Sequence[Fitted],
        listed: Mapping[str, Mapping[str, str | int]],
    ) -> ModelRequest:
        chunks = [layout.chunk(fitted) for fitted in taken if fitted.candidate.question is None]
        source = ("\n\n".join((instructions.SOURCE_INTRO, *chunks)),) if chunks else ()
        messages: list[Message] = []
        for fitted in taken:
            asked = fitted.candidate.question
            if asked is not None:
                answer = fitted.candidate.place
                messages.append(Message("user", layout.question_turn(asked, answer)))
                messages.append(Message("assistant", self.reading.sources[answer]))
        if messages:
            messages[-1] = replace(messages[-1], cache=True)
        parts = [f"{instructions.QUESTION_INTRO}\n{fixed.question.text}"]
        if self.given.values:
            parts.append(
                "\n\n".join((instructions.VALUES_INTRO, *map(layout.value, self.given.values)))
            )
        if listed:
            parts.insert(0, f"{instructions.LANDMARKS_INTRO}\n{landmarks.serialise(listed)}")
        return ModelRequest(
            model=self.choices.model,
            system=(*fixed.system, *source),
            messages=(*messages, replace(fixed.question, text="\n\n".join(parts)), *fixed.tail),
            effort=self.choices.effort,
            max_output_tokens=self.choices.max_output_tokens,
            tools=self.given.tools,
            rounds=self.given.rounds,
        )

    def _outputs_of(self, index: int) -> str:
        cell = self.cells[index]
        wanted = self.choices.outputs
        if wanted is Outputs.NONE or not cell.outputs or index in self.reading.redacted:
            return ""
        return with_outputs(
            in_full(cell.outputs) if wanted is Outputs.FULL else summarise(cell.outputs)
        )

    def _marked(self, taken: Sequence[Fitted]) -> list[str]:
        texts: list[str] = [self.given.question, self.given.continuing]
        texts += (value.text for value in self.given.values)
        for fitted in taken:
            texts += (self.reading.sources[fitted.candidate.place], fitted.outputs)
            if fitted.candidate.question is not None:
                texts.append(self.reading.sources[fitted.candidate.question])
        return texts

    def _sent(
        self, taken: Sequence[Fitted], left_out: Sequence[Candidate]
    ) -> tuple[dict[int, Sent], dict[int, int]]:
        sent = {index: Sent.OMITTED for candidate in left_out for index in _places(candidate)}
        pairs: dict[int, int] = {}
        for fitted in taken:
            for index in _places(fitted.candidate):
                sent[index] = Sent.PARTIAL if fitted.partial else Sent.FULL
        exchanges = (f.candidate for f in taken if f.candidate.question is not None)
        for number, candidate in enumerate(exchanges, start=1):
            for index in _places(candidate):
                pairs[index] = number
        return sent, pairs

    def _inputs(self, taken: Sequence[Fitted]) -> dict[CellId, str]:
        """Hash of every cell that has a part in the request, in notebook order."""
        places = sorted({self.target, *(i for f in taken for i in _places(f.candidate))})
        shown = {fitted.candidate.place for fitted in taken if fitted.outputs}
        return {
            (cell := self.cells[i]).id: cell_hash(cell.source, cell.outputs if i in shown else None)
            for i in places
        }

    def _report(
        self,
        selection: Selection,
        taken: Sequence[Fitted],
        left_out: Sequence[Candidate],
        fixed: _Fixed,
        fixed_size: int,
        listed: Mapping[str, Mapping[str, str | int]],
        request: ModelRequest,
        inputs: Mapping[CellId, str],
        left: Left,
    ) -> ContextReport:
        content = content_json(request)
        whole = sorted(i for f in taken if not f.partial for i in _places(f.candidate))
        partial = [f.candidate.place for f in taken if f.partial]
        omitted = sorted(i for candidate in left_out for i in _places(candidate))
        selected = sorted((*whole, *partial, *omitted))
        history = [
            (self.cells[f.candidate.question].id, self.cells[f.candidate.place].id)
            for f in taken
            if f.candidate.question is not None
        ]
        return ContextReport(
            question=self.cells[self.target].id,
            mode=self.choices.mode.value,
            style=self.choices.style,
            outputs=self.choices.outputs.value,
            selected=self._ids(selected),
            included=self._ids(whole),
            partial=self._ids(partial),
            omitted=self._ids(omitted),
            excluded=self._ids(selection.excluded),
            ineligible=[
                Ineligible(self.cells[i].id, reason.value)
                for i, reason in sorted(self.reading.reasons.items())
            ],
            history=history,
            above=_counts(whole, partial, omitted, lambda i: i < self.target),
            below=_counts(whole, partial, omitted, lambda i: i > self.target),
            unit=self.limits.unit,
            counter=self.limits.counter,
            used=self.limits.shown(measure(request, self.limits, content)),
            allowed=self.limits.allowed,
            fixed=self.limits.shown(fixed_size),
            truncations=self._truncations(taken, fixed),
            tools_offered=[tool.name for tool in self.given.tools],
            tools_disabled=list(self.given.disabled),
            tool_problems=dict(self.given.disabled),
            variables=self.given.variables,
            images=self.given.told,
            landmarks=listed,
            secrets=dict(left.counts),
            request_sha256=request_sha256(request, content),
            inputs_sha256=digest(inputs),
        )

    def _truncations(self, taken: Sequence[Fitted], fixed: _Fixed) -> list[Truncation]:
        cut: list[Truncation] = []
        for fitted in taken:
            index = fitted.candidate.place
            cell_id = self.cells[index].id
            if fitted.partial:
                kept = "ending" if fitted.candidate.above else "beginning"
                length = len(self.reading.sources[index])
                sent = fitted.end - fitted.start
                cut.append(Truncation(cell_id, "source", kept, sent, length))
            if fitted.outputs_cut:
                cut.append(Truncation(cell_id, "outputs", "none", 0, None))
        if fixed.answer_sent < len(self.given.continuing):
            whole = len(self.given.continuing)
            question = self.cells[self.target].id
            cut.append(Truncation(question, "answer", "ending", fixed.answer_sent, whole))
        return cut

    def _ids(self, places: Sequence[int]) -> list[CellId]:
        return [self.cells[index].id for index in places]

    def _too_large(self, size: int) -> ContextTooLarge:
        shown = self.limits.shown
        tools = shown(self.limits.size(tools_json(self.given.tools)))
        values = sum(self.limits.size(value.text) for value in self.given.values)
        question = shown(self.limits.size(self.given.question) + values)
        style = shown(self.limits.size(self.choices.style_text or ""))
        traffic = shown(measure_rounds(self.given.rounds, self.limits))
        pictures = shown(len(self.given.images) * IMAGE_CHARACTERS)
        largest = max(
            (question, "the question with its live values" if values else "the question"),
            (tools, "the declared tools"),
            (style, "the style's wording"),
            (traffic, "what the tools gave"),
            (pictures, "its pictures"),
        )
        return ContextTooLarge(
            f"The question with its instructions takes {shown(size):,} {self.limits.unit}, but "
            f"{self.limits.allowed:,} fit. The largest part is {largest[1]} ({largest[0]:,}). "
            "Shorten it, or choose a model with a larger window."
        )


def _remaining(limits: ImageLimits | None, taken: int) -> ImageLimits | None:
    """What pictures a model takes besides some that it gets already."""
    return None if limits is None else replace(limits, count=max(0, limits.count - taken))


def _places(candidate: Candidate) -> tuple[int, ...]:
    if candidate.question is None:
        return (candidate.place,)
    return (candidate.question, candidate.place)


def _counts(
    whole: Sequence[int],
    partial: Sequence[int],
    omitted: Sequence[int],
    here: Callable[[int], bool],
) -> SideCounts:
    return SideCounts(sum(map(here, whole)), sum(map(here, partial)), sum(map(here, omitted)))
