"""What goes to a model and what comes back, independent of any vendor."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class Image:
    """A raster image for a model that takes them, already within the model's size limit."""

    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: bytes

    @property
    def encoded(self) -> str:
        """The data in base64."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def url(self) -> str:
        """The whole image as a ``data:`` address."""
        return f"data:{self.media_type};base64,{self.encoded}"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation that is sent.

    Attributes:
        role: Who speaks.
        text: The whole text of the turn.
        cache: Whether everything up to and including this turn is stable between requests, so that
            a vendor with cache markers should set one here.
        images: What goes with the text of a person's turn; only to models that take images.
    """

    role: Literal["user", "assistant"]
    text: str
    cache: bool = False
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function offered to the model; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for; ``arguments`` is its raw JSON text."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the model is told about one of its calls.

    Attributes:
        call_id: Of the call.
        text: The result, or what went wrong and how to mend it.
        images: Only for models that take images.
        failed: Whether the call did not do what it should.
    """

    call_id: str
    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolRound:
    """One finished round of a run: what the model said, what it called, what it was told.

    Attributes:
        text: The model's words of this round; may be empty.
        calls: Its calls, in order.
        answers: One for each call, in the same order.
        carried: The vendor's own items that go back unchanged with the next request of the run,
            instead of ``text`` and ``calls``, where it signed or encrypted reasoning between them;
            opaque, never recorded. Empty if there was none.
    """

    text: str
    calls: tuple[ToolCall, ...]
    answers: tuple[ToolAnswer, ...]
    carried: tuple[Mapping[str, JsonValue], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one model call needs.

    Attributes:
        model: The vendor's model id.
        system: Instruction blocks in order; stable ones first.
        messages: The conversation; the last one is the question.
        effort: Reasoning effort of the catalog, or None for the model's default.
        max_output_tokens: Upper bound of the output in tokens, or None for the catalog's.
        tools: Functions the model may call.
        rounds: The run's tool traffic so far; it follows the messages.
        tools_off: Whether the model must answer now without calling anything.
    """

    model: str
    system: tuple[str, ...]
    messages: tuple[Message, ...]
    effort: str | None = None
    max_output_tokens: int | None = None
    tools: tuple[ToolSpec, ...] = ()
    rounds: tuple[ToolRound, ...] = ()
    tools_off: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer; pieces are joined without a separator."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model asks for a tool; complete, never partial."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as the vendor counts them; 0 where the vendor does not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    thinking_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.thinking_tokens + other.thinking_tokens,
        )


class EndReason(StrEnum):
    """Why a turn ended well. Everything else is raised as a ``ProviderError``."""

    COMPLETE = "complete"
    TOOL_CALLS = "tool-calls"


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The last event of a turn.

    Attributes:
        reason: Why it ended.
        carried: See :class:`ToolRound`.
    """

    reason: EndReason
    carried: tuple[Mapping[str, JsonValue], ...] = ()


@dataclass(frozen=True, slots=True)
class Thinking:
    """A sign of life while the model reasons; its text is passed over, its length counted.

    Attributes:
        characters: Length of the piece in characters.
    """

    characters: int = 0


@dataclass(frozen=True, slots=True)
class Retrying:
    """The service asked to wait before anything had streamed.

    Attributes:
        attempt: 1 for the first repetition.
        delay: Seconds until the repetition.
        code: Code of the error that led to it.
    """

    attempt: int
    delay: float
    code: str


ModelEvent = TextDelta | ToolCalled | Usage | TurnEnded | Thinking | Retrying


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """What a person may know about a connection; never a key.

    Attributes:
        id: Stable id, as in the notebook's metadata ``backend``.
        kind: Which adapter speaks to it.
        label: What the UI shows.
        configured: Whether a run could start.
        source: Of the key: ``saved``, ``environment``, ``none-needed`` or ``missing``.
        models: Suggested model ids; any other id may be typed where ``free_models`` is true.
        default_model: Taken when nobody chose one.
        notice: A sentence shown wherever the connection is named, or an empty string.
        efforts: Reasoning efforts by suggested model.
        other_efforts: Those of models that are typed.
        images: Whether a suggested model takes images.
        other_images: Whether models that are typed are taken to.
    """

    id: str
    kind: str
    label: str
    configured: bool
    source: str
    models: tuple[str, ...]
    default_model: str
    free_models: bool = True
    notice: str = ""
    efforts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other_efforts: tuple[str, ...] = ()
    images: Mapping[str, bool] = field(default_factory=dict)
    other_images: bool = False
