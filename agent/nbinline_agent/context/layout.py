"""How what goes along is laid out: headers, data marks, turns."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbinline_agent.document.notebook import Cell

from .budget import Fitted, Limits, Priced
from .marks import Role
from .policy import Candidate, Reading
from .values import ValuePart

TOKEN_LENGTH = 12
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_A_LABEL = re.compile(r"[^\w .@+\-]")
_TURN = ('{"role":"user","content":""},', '{"role":"assistant","content":""},')
OutputsOf = Callable[[int], str]
_OUTPUTS = "\n--- shown below the cell ---\n"


def token(secret: bytes, file_id: str, texts: Sequence[str]) -> str:
    """The word that marks data: fixed for a notebook, absent from ``texts``, always as long.

    Args:
        secret: The server's own secret.
        file_id: The notebook's stable id.
        texts: Everything that will stand between the marks.
    """
    counter = 0
    while True:
        message = f"{counter}:{file_id}".encode("utf-8", "surrogatepass")
        word = hmac.new(secret, message, hashlib.sha256).hexdigest()[:TOKEN_LENGTH]
        if not any(word in text for text in texts):
            return word
        counter += 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Headers and marks for one notebook and one question.

    Attributes:
        cells: The whole notebook.
        reading: What each cell is.
        target: Place of the question.
        asker: Username of the person who asks.
        word: What marks data.
    """

    cells: Sequence[Cell]
    reading: Reading
    target: int
    asker: str
    word: str = "0" * TOKEN_LENGTH

    def opening(self, index: int, part: str = "") -> str:
        """The line above a cell that goes as source."""
        label = self._label(index)
        side = "above" if index < self.target else "below"
        return f"<<data {self.word}: {label}, {side} the question{part}>>\n"

    @property
    def closing(self) -> str:
        """The line below material from the notebook."""
        return f"\n<<end {self.word}>>"

    def chunk(self, fitted: Fitted) -> str:
        """A cell as source, with its header."""
        index = fitted.candidate.place
        body = self.reading.sources[index][fitted.start : fitted.end]
        part = _part(fitted.candidate) if fitted.partial else ""
        return f"{self.opening(index, part)}{body}{fitted.outputs}{self.closing}"

    def question_turn(self, index: int, answer: int) -> str:
        """An earlier question as a turn, marked as data unless the asker is known to have asked."""
        source = self.reading.sources[index]
        author = author_of(self.reading, answer)
        if author == self.asker:
            return source
        by = f" by {_plain(author)}" if author else ""
        return f"<<data {self.word}: earlier question{by}>>\n{source}{self.closing}"

    def value(self, part: ValuePart) -> str:
        """A live value of the question, with its header."""
        label = _NOT_IN_A_LABEL.sub("", part.label)[:120]
        return f"<<data {self.word}: value {label}>>\n{part.text}{self.closing}"

    def _label(self, index: int) -> str:
        cell = self.cells[index]
        mark = self.reading.marks[index]
        name = _named(cell.id, index)
        match self.reading.roles[index]:
            case Role.QUESTION:
                return f"question {name}"
            case Role.ANSWER:
                author = author_of(self.reading, index)
                by = f" of {_plain(author)}" if author and author != self.asker else ""
                link = mark.get("promptCellId")
                to = link if isinstance(link, str) and _PLAIN_ID.fullmatch(link) else "unknown"
                return f"AI answer {name} to question {to}{by}"
            case Role.ORDINARY:
                if cell.kind != "code":
                    return f"note {name}"
                count = cell.execution_count
                return f"code cell {name}, {'not run' if count is None else f'In [{count}]'}"


def author_of(reading: Reading, answer: int) -> str:
    """Who asked for an answer, by its metadata; empty if it does not say."""
    author = reading.marks[answer].get("author")
    return author if isinstance(author, str) else ""


def with_outputs(text: str) -> str:
    """Rendered outputs as they stand behind a cell's source; empty for none."""
    return f"{_OUTPUTS}{text}" if text else ""


class Pricer:
    """Measures candidates in a layout.

    Args:
        layout: Where they would stand.
        limits: How it is counted.
        render: Gives a place's outputs as text.
    """

    def __init__(self, layout: Layout, limits: Limits, render: OutputsOf) -> None:
        self._layout = layout
        self._limits = limits
        self._render = render
        self._fixed = limits.size(f"\n\n{layout.closing}")
        self._turns = sum(map(len, _TURN))
        self.smallest = min(self._fixed, self._turns)

    def __call__(self, candidate: Candidate) -> Priced:
        """Measure one candidate."""
        layout = self._layout
        index = candidate.place
        if candidate.question is not None:
            asked = self._limits.size(layout.question_turn(candidate.question, index))
            frame = asked + self._turns
            return Priced(layout.reading.sources[index], frame, frame, _none)
        frame = self._fixed + self._limits.size(layout.opening(index))
        part_frame = frame + len(_part(candidate))
        return Priced(layout.reading.sources[index], frame, part_frame, lambda: self._render(index))


def _part(candidate: Candidate) -> str:
    return ", only its ending" if candidate.above else ", only its beginning"


def _none() -> str:
    return ""


def _named(cell_id: str, index: int) -> str:
    return cell_id if _PLAIN_ID.fullmatch(cell_id) else f"at position {index + 1}"


def _plain(author: str) -> str:
    return _NOT_IN_A_LABEL.sub("", author)[:60]
