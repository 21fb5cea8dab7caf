"""A notebook as text for a model: whole, or as much of it as a budget allows.

Deterministic and pure. A budget is filled in the order in which things may least be missed: the
cell in focus with its outputs if one is named, Markdown headings, other Markdown, code, outputs;
within each kind the cells nearest to the focus come first. So outputs go first, then code far from
the focus, then Markdown, its headings last; what went is said at the top and in ``left_out``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from .outputs import embedded_images, in_brief, in_full, summarise
from .tokens import Tokenizer, tokenizer

DEFAULT_BUDGET = 4_000
"""Tokens of the mode ``token-budget`` where nobody says."""

SHOWN_RANGES = 8
"""Ranges of cells that are named at the top; of more only the number is told."""

HEADING_LENGTH = 200

_FENCE = re.compile(r" {0,3}(```|~~~)")
_ATX = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})\s*$")


class Mode(StrEnum):
    """How much of a notebook is told.

    ``minimal``: sources only. ``standard``: with ids, numbers and summaries of outputs. ``full``:
    with whole outputs. ``token-budget``: as ``standard``, as far as it fits.
    """

    MINIMAL = "minimal"
    STANDARD = "standard"
    FULL = "full"
    TOKEN_BUDGET = "token-budget"


class Part(StrEnum):
    """What can be left out, in the order in which it goes."""

    OUTPUTS = "outputs"
    CODE = "code"
    MARKDOWN = "Markdown"
    HEADINGS = "Markdown headings"


@dataclass(frozen=True, slots=True)
class TextCell:
    """A cell as it is told.

    Attributes:
        number: Where it stands, counted from 1.
        kind: ``code``, ``markdown``, ``raw`` or whatever the notebook says.
        source: Its text.
        id: Its id; empty in old files.
        execution_count: The number people see beside a code cell, or None.
        outputs: As in nbformat.
    """

    number: int
    kind: str
    source: str
    id: str = ""
    execution_count: int | None = None
    outputs: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What is wished.

    Attributes:
        mode: How much is told.
        budget: Tokens that the whole text may have; only of the mode ``token-budget``.
        counter: Counts them.
        summarize_outputs: Summaries of outputs instead of what the mode gives (True), or whole
            outputs (False); None leaves it to the mode.
        focus: Number of the cell that matters most; None for the last one.
        title: Stands at the top, as the notebook's path.
    """

    mode: Mode = Mode.STANDARD
    budget: int = DEFAULT_BUDGET
    counter: Tokenizer = field(default_factory=tokenizer)
    summarize_outputs: bool | None = None
    focus: int | None = None
    title: str = "notebook"

    @property
    def outputs(self) -> Callable[[Sequence[Mapping[str, Any]]], str] | None:
        """Renders outputs; None if they are not told."""
        if self.summarize_outputs is None:
            return {Mode.MINIMAL: None, Mode.FULL: in_full}.get(self.mode, summarise)
        if self.summarize_outputs:
            return summarise
        return None if self.mode is Mode.MINIMAL else in_full


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Cells of which a part is missing, by their numbers.

    Attributes:
        part: Which part.
        gone: Cells in which all of it is missing.
        shortened: Cells in which a beginning of it is told.
    """

    part: Part
    gone: tuple[int, ...] = ()
    shortened: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NotebookText:
    """A notebook as text.

    Attributes:
        text: For the model.
        tokens: How many it has.
        counter: The tokenizer's name.
        cells: How many cells the notebook has.
        left_out: What a budget left out, in the order in which it went; empty if everything fits.
    """

    text: str
    tokens: int
    counter: str
    cells: int
    left_out: tuple[LeftOut, ...] = ()


def notebook_text(cells: Sequence[TextCell], options: TextOptions) -> NotebookText:
    """The notebook as text; in the mode ``token-budget`` never more than the budget."""
    if options.mode is Mode.TOKEN_BUDGET:
        return _Filling(cells, options).result()
    text = _whole_text(cells, options)
    return NotebookText(text, options.counter.count(text), options.counter.name, len(cells))


def cells_of(notebook: Mapping[str, Any]) -> list[TextCell]:
    """The cells of a notebook in nbformat's form, however damaged."""
    cells = notebook.get("cells")
    return [
        _cell(number, cell)
        for number, cell in enumerate(cells if isinstance(cells, list) else (), 1)
        if isinstance(cell, Mapping)
    ]


def _cell(number: int, cell: Mapping[str, Any]) -> TextCell:
    kind, count, outputs = (cell.get(key) for key in ("cell_type", "execution_count", "outputs"))
    identity = cell.get("id")
    return TextCell(
        number,
        kind if isinstance(kind, str) and kind else "raw",
        joined(cell.get("source")),
        identity if isinstance(identity, str) else "",
        count if isinstance(count, int) and not isinstance(count, bool) else None,
        [each for each in outputs if isinstance(each, Mapping)]
        if isinstance(outputs, list)
        else (),
    )


def joined(value: object) -> str:
    """A text that a file may hold in one piece or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _whole_text(cells: Sequence[TextCell], options: TextOptions) -> str:
    render = options.outputs
    pieces = [f"# {options.title}: {_count(len(cells), 'cell')}\n"]
    for cell in cells:
        pieces.append(_head(cell, brief=options.mode is Mode.MINIMAL))
        pieces.append(_source(cell))
        if render is not None and cell.outputs:
            pieces.append(_outputs(render(cell.outputs)))
    return "".join(pieces)


def _head(cell: TextCell, *, brief: bool = False) -> str:
    parts = [f"\n# %% {cell.number} [{cell.kind}]"]
    if not brief:
        if cell.execution_count is not None:
            parts.append(f"In [{cell.execution_count}]")
        if cell.id:
            parts.append(f"id={cell.id}")
    return " ".join(parts) + "\n"


def _source(cell: TextCell) -> str:
    source = cell.source if cell.kind == "code" else embedded_images(cell.source)
    source = source.rstrip("\n")
    return f"{source}\n" if source else ""


def _outputs(text: str) -> str:
    return f"# outputs\n{text}\n" if text else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def headings(source: str) -> list[str]:
    """Heading lines of Markdown, outside fences, each shortened to one line."""
    found: list[str] = []
    fence = ""
    lines = source.split("\n")
    for line, following in pairwise((*lines, "")):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        elif fence:
            continue
        elif _ATX.match(line) or (line.strip() and _SETEXT.match(following)):
            found.append(line.strip()[:HEADING_LENGTH])
    return found


# A cell's ladder: what may be told of each of its parts, the fullest first.


@dataclass(frozen=True, slots=True)
class _Rung:
    """One way to tell a part of a cell."""

    text: str
    whole: bool


@dataclass(slots=True)
class _Told:
    """What is told of one cell."""

    source: _Rung | None = None
    outputs: _Rung | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """A part that went in, so that it can be taken out again."""

    at: int
    part: Part
    before: _Rung | None


class _Filling:
    """Fills the budget, and takes out again what a whole text counts more than its parts."""

    def __init__(self, cells: Sequence[TextCell], options: TextOptions) -> None:
        self._cells = cells
        self._options = options
        self._measure = options.counter.measure
        self._told = [_Told() for _ in cells]
        self._steps: list[_Step] = []
        self._room = 0.0

    def result(self) -> NotebookText:
        options = self._options
        count = options.counter.count
        self._room = options.budget - self._reserve()
        self._fill()
        text = self._text()
        while (size := count(text)) > options.budget and self._steps:
            self._take_out(size - options.budget)
            text = self._text()
        if size > options.budget:
            text = f"[{_count(len(self._cells), 'cell')} left out]"
            size = count(text)
        if size > options.budget:
            text, size = "", 0
        return NotebookText(text, size, options.counter.name, len(self._cells), self._left_out())

    def _fill(self) -> None:
        for part, cells in self._order():
            if not all(self._put(at, part) for at in cells):
                # Nothing of a kind is told while something of a more important one is left out.
                return

    def _order(self) -> Iterator[tuple[Part, Iterable[int]]]:
        """What goes in, the most important first."""
        focus = self._focus
        if self._options.focus is not None and self._cells:
            part = Part.CODE if self._cells[focus].kind == "code" else Part.MARKDOWN
            yield part, (focus,)
            if self._cells[focus].outputs:
                yield Part.OUTPUTS, (focus,)
        near = sorted(range(len(self._cells)), key=lambda at: (abs(at - focus), at))
        markdown = [at for at in near if self._cells[at].kind == "markdown"]
        yield Part.HEADINGS, markdown
        yield Part.MARKDOWN, (at for at in near if self._cells[at].kind != "code")
        yield Part.CODE, (at for at in near if self._cells[at].kind == "code")
        told = self._told
        yield (
            Part.OUTPUTS,
            (at for at in near if self._cells[at].outputs and told[at].outputs is None),
        )

    @property
    def _focus(self) -> int:
        last = len(self._cells) - 1
        for at, cell in enumerate(self._cells):
            if cell.number == self._options.focus:
                return at
        return last

    def _put(self, at: int, part: Part) -> bool:
        """Tell a part as fully as there is room; False if not even its beginning fits."""
        told = self._told[at]
        before = told.outputs if part is Part.OUTPUTS else told.source
        held = self._cost(before)
        head = 0.0 if told.source or told.outputs else self._measure(_head(self._cells[at]))
        empty = True
        for rung in self._ladder(at, part):
            empty = False
            cost = self._cost(rung) + head - held
            if cost <= self._room:
                self._room -= cost
                self._steps.append(_Step(at, part, before))
                self._set(at, part, rung)
                return True
        return empty

    def _cost(self, rung: _Rung | None) -> float:
        return 0.0 if rung is None else self._measure(rung.text)

    def _set(self, at: int, part: Part, rung: _Rung | None) -> None:
        if part is Part.OUTPUTS:
            self._told[at].outputs = rung
        else:
            self._told[at].source = rung

    def _ladder(self, at: int, part: Part) -> Iterator[_Rung]:
        cell = self._cells[at]
        match part:
            case Part.OUTPUTS:
                yield from self._output_ladder(cell)
            case Part.HEADINGS:
                if found := headings(cell.source):
                    whole = [line for line in cell.source.split("\n") if line.strip()] == found
                    yield _Rung("".join(f"{line}\n" for line in found), whole)
            case _:
                held = self._told[at].source
                if held is None or not held.whole:
                    yield _Rung(_source(cell), True)
                if held is None and (first := _beginning(cell)):
                    yield _Rung(first, False)

    def _output_ladder(self, cell: TextCell) -> Iterator[_Rung]:
        render = self._options.outputs
        assert render is not None, "every mode with a budget tells outputs"
        yield _Rung(_outputs(render(cell.outputs)), True)
        if render is in_full:
            yield _Rung(_outputs(summarise(cell.outputs)), False)
        yield _Rung(_outputs(in_brief(cell.outputs)), False)

    def _take_out(self, over: float) -> None:
        while over > 0 and self._steps:
            step = self._steps.pop()
            told = self._told[step.at]
            held = told.outputs if step.part is Part.OUTPUTS else told.source
            over -= max(self._cost(held) - self._cost(step.before), 0.01)
            self._set(step.at, step.part, step.before)

    def _text(self) -> str:
        pieces = [self._title(), *map(_line, self._left_out())]
        for cell, told in zip(self._cells, self._told, strict=True):
            if told.source or told.outputs:
                pieces.append(_head(cell))
                pieces += [each.text for each in (told.source, told.outputs) if each]
        return "".join(pieces)

    def _title(self) -> str:
        options = self._options
        return (
            f"# {options.title}: {_count(len(self._cells), 'cell')}; at most "
            f"{_count(options.budget, 'token')} by {options.counter.name}\n"
        )

    def _reserve(self) -> float:
        """What the top may take at most; half of a small budget."""
        number = self._cells[-1].number if self._cells else 0
        worst = tuple(number - 3 * each - one for each in range(SHOWN_RANGES + 1) for one in (0, 1))
        lines = [_line(LeftOut(part, worst, worst)) for part in Part]
        top = self._measure(self._title() + "".join(lines))
        return min(top, self._options.budget / 2)

    def _left_out(self) -> tuple[LeftOut, ...]:
        gone: dict[Part, list[int]] = {part: [] for part in Part}
        shortened: dict[Part, list[int]] = {part: [] for part in Part}
        for cell, told in zip(self._cells, self._told, strict=True):
            if cell.outputs and (told.outputs is None or not told.outputs.whole):
                (shortened if told.outputs else gone)[Part.OUTPUTS].append(cell.number)
            if cell.source.strip() and (told.source is None or not told.source.whole):
                part = Part.CODE if cell.kind == "code" else Part.MARKDOWN
                (shortened if told.source else gone)[part].append(cell.number)
            if told.source is None and cell.kind == "markdown" and headings(cell.source):
                gone[Part.HEADINGS].append(cell.number)
        return tuple(
            LeftOut(part, tuple(gone[part]), tuple(shortened[part]))
            for part in Part
            if gone[part] or shortened[part]
        )


def _beginning(cell: TextCell) -> str:
    """The first line with text in it, and how much is left out; empty for one line."""
    lines = _source(cell).strip("\n").split("\n")
    if len(lines) < 2:
        return ""
    first = next((line for line in lines if line.strip()), "")[:HEADING_LENGTH]
    return f"{first}\n[{_count(len(lines) - 1, 'more line')} left out]\n"


def _line(left_out: LeftOut) -> str:
    said = []
    if left_out.gone:
        said.append(f"left out in {_cells_named(left_out.gone)}")
    if left_out.shortened:
        said.append(f"shortened in {_cells_named(left_out.shortened)}")
    part = left_out.part.value
    return f"# {part[0].upper()}{part[1:]}: {'; '.join(said)}\n"


def _cells_named(numbers: Sequence[int]) -> str:
    ranges = list(_ranges(sorted(numbers)))
    named = ", ".join(
        str(first) if first == last else f"{first}–{last}" for first, last in ranges[:SHOWN_RANGES]
    )
    more = " and more" if len(ranges) > SHOWN_RANGES else ""
    return f"{_count(len(numbers), 'cell')} ({named}{more})"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
