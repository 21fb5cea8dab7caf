"""Live values in a question: asking the kernel for them, and putting them into what is sent.

A reference keeps its place in the question as a code span with the number of its value. The values
themselves follow the question between data marks: whatever they hold, the asker did not write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbinline_agent.kernel import Kernel, LiveValue
from nbinline_agent.messages import Image
from nbinline_agent.render.images import ImageLimits, picture

from .references import MAX_NAMES, Reference, distinct, find, substitute

LENGTH = 2_000
"""Characters of one value."""

SHORTEST = 200
"""Characters a value keeps however small the model's window is."""

NOT_ALLOWED = "you may not use the kernels of this server"
NO_KERNEL = "no kernel runs for this notebook"
TOO_MANY = f"at most {MAX_NAMES} references are looked up"

_OWN_WORDS = frozenset(
    {
        *("undefined", "not-plain", "too-slow", "too-many"),
        *("kernel-busy", "no-kernel", "not-allowed", "kernel-refused", "kernel-died"),
    }
)
"""Problems whose text is ours; any other quotes what an object of the kernel said."""


@dataclass(frozen=True, slots=True)
class Variable:
    """What became of a live value, for the report.

    Attributes:
        expression: As it stands in the question.
        type: Of the value; empty if it could not be looked at.
        problem: Stable code of what went wrong; empty if nothing did.
        cut: Whether only a part of it went.
        images: Pictures that went with it.
    """

    expression: str
    type: str = ""
    problem: str = ""
    cut: bool = False
    images: int = 0


@dataclass(frozen=True, slots=True)
class ValuePart:
    """A value that stands behind the question.

    Attributes:
        label: Its header.
        text: What it holds.
    """

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Filled:
    """A question with its values.

    Attributes:
        text: The question; each reference became a code span with a number or a note.
        parts: The values, in the order of their numbers.
        images: Pictures of the values.
        told: What became of each, for the report.
    """

    text: str
    parts: tuple[ValuePart, ...] = ()
    images: tuple[Image, ...] = ()
    told: tuple[Variable, ...] = ()


def references(source: str) -> list[Reference]:
    """The value references of a question, in order."""
    return [reference for reference in find(source) if reference.kind == "value"]


async def live_values(
    source: str,
    kernel: Kernel | None,
    *,
    allowed: bool = True,
    wait: float = 0.0,
    images: bool = False,
) -> Mapping[str, LiveValue]:
    """Ask the kernel for the values a question refers to; never fails.

    Args:
        source: The question.
        kernel: The notebook's kernel, or None.
        allowed: Whether the asker may use it.
        wait: Seconds to wait for a kernel that is too busy to be looked into.
        images: Whether pictures are wanted.
    """
    wanted, _ = distinct(references(source))
    expressions = [reference.expression for reference in wanted]
    if not expressions:
        return {}
    if not allowed or kernel is None:
        code, text = ("not-allowed", NOT_ALLOWED) if not allowed else ("no-kernel", NO_KERNEL)
        return {each: LiveValue(each, text, problem=code) for each in expressions}
    return await kernel.inspect(expressions, wait=wait, images=images)


def filled(
    source: str, values: Mapping[str, LiveValue], *, room: int, limits: ImageLimits | None
) -> Filled:
    """Put values into a question.

    Args:
        source: The question.
        values: By expression, from :func:`live_values`.
        room: Characters the whole request may have.
        limits: What pictures the model takes; None if it takes none.
    """
    found = references(source)
    wanted, beyond = distinct(found)
    if not found:
        return Filled(source)
    length = max(SHORTEST, min(LENGTH, room // 2 // max(1, len(wanted))))
    gathered = _Gathered(length, limits)
    for reference in wanted:
        gathered.add(reference.expression, values.get(reference.expression))
    for reference in beyond:
        gathered.refuse(reference.expression, "too-many", TOO_MANY)
    for reference in found:
        if reference.problem:
            gathered.refuse(reference.expression, "not-plain", reference.problem)

    def shown(reference: Reference) -> str:
        fence = "``" if "`" in reference.expression else "`"
        return f"{fence}{reference.expression}{fence} [{gathered.notes[reference.expression]}]"

    return Filled(
        substitute(source, found, shown),
        tuple(gathered.parts),
        tuple(gathered.images),
        tuple(gathered.told.values()),
    )


class _Gathered:
    """Values as they are numbered."""

    def __init__(self, length: int, limits: ImageLimits | None) -> None:
        self._length = length
        self._limits = limits
        self.notes: dict[str, str] = {}
        self.parts: list[ValuePart] = []
        self.images: list[Image] = []
        self.told: dict[str, Variable] = {}

    def refuse(self, expression: str, code: str, text: str) -> None:
        """Note that there is no value, and why."""
        self.notes.setdefault(expression, f"no value: {text}")
        self.told.setdefault(expression, Variable(expression, problem=code))

    def add(self, expression: str, value: LiveValue | None) -> None:
        """Number a value, or note why there is none."""
        if value is None:
            self.refuse(expression, "kernel-error", "the kernel did not answer")
            return
        if value.problem in _OWN_WORDS:
            self.refuse(expression, value.problem, value.text.rstrip("."))
            return
        number = len(self.parts) + 1
        text, cut = shortened(value.text, self._length)
        shown = self._pictures(value.images)
        if value.problem:
            self.notes[expression] = f"no value, see {number} below"
            label = f"{number} - what went wrong"
        else:
            self.notes[expression] = f"value {number} below"
            label = f"{number} - {value.type}" if value.type else f"{number}"
        if shown:
            text = f"{text}\n[its picture goes with this message]"
        elif value.images:
            text = f"{text}\n[its picture was not sent]"
        self.parts.append(ValuePart(label, text))
        self.told[expression] = Variable(
            expression, value.type, value.problem, cut or value.cut, shown
        )

    def _pictures(self, images: Sequence[Image]) -> int:
        """Take pictures within what the model takes; how many."""
        taken = 0
        for image in images:
            if self._limits is None or len(self.images) >= self._limits.count:
                break
            try:
                self.images.append(picture(image.data, self._limits).image)
            except ValueError:
                continue
            taken += 1
        return taken


def shortened(text: str, length: int) -> tuple[str, bool]:
    """Head and tail of a text with what was left out between them; whether it was cut."""
    if len(text) <= length:
        return text, False
    tail = length // 5
    head = length - tail - 50
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[{left_out:,} characters left out]\n{text[-tail:]}", True
