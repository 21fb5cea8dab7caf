"""What people and the course chose for a question: mode, style, outputs, what stays hidden."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nbinline_agent.render.images import ImageLimits

from .secret_forms import Known


class Mode(StrEnum):
    """Which cells may go along with a question, as ``contextMode`` in the notebook's metadata."""

    DEFAULT = "default"
    FULL_NOTEBOOK = "full-notebook"
    ALL_ABOVE = "all-above"
    TEN_ABOVE = "ten-above"
    TEN_ABOVE_BELOW = "ten-above-below"
    CUSTOM = "custom"
    CURRENT_ONLY = "current-only"


class Outputs(StrEnum):
    """How much of the code cells' outputs goes along."""

    NONE = "none"
    SUMMARIES = "summaries"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Choices:
    """What holds for one question.

    Attributes:
        model: The vendor's model id.
        mode: Which cells may go along.
        style: Name of the answer's style.
        style_text: Wording of the style; None takes our own wording of ``style``.
        outputs: How much of the outputs goes along.
        effort: Reasoning effort, or None for the model's default.
        max_output_tokens: Upper bound of the answer in tokens, or None for the model's.
        images: What pictures the model takes; None if it takes none.
    """

    model: str
    mode: Mode = Mode.DEFAULT
    style: str = "compact"
    style_text: str | None = None
    outputs: Outputs = Outputs.SUMMARIES
    effort: str | None = None
    max_output_tokens: int | None = None
    images: ImageLimits | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What the course keeps from any model.

    Attributes:
        hide_solutions: Whether text between nbgrader's solution and hidden-test marks is taken out.
        hidden_tags: A cell with one of these tags is left out whole.
        known_secrets: Gives values that are taken out wherever they stand, beside those that are
            known by their form; see ``secret_forms.py``.
    """

    hide_solutions: bool = True
    hidden_tags: frozenset[str] = field(default_factory=frozenset)
    known_secrets: Known | None = field(default=None, compare=False, repr=False)
