"""The one place that knows models: their limits, efforts and what they can see.

Any other model id may be typed; then the limits of the connection's ``other`` entry hold. Facts
about models change faster than releases, so nothing here forbids anything: a wrong limit costs
context, never a run. As of November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from nbinline_agent.messages import ConnectionInfo


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What one call of a model may hold.

    Attributes:
        context_tokens: Input and output together, or None if nobody knows.
        max_output_tokens: Upper bound of the output, or None if nobody knows.
        images: Whether it takes images.
        image_side: Longest side of an image in pixels that it looks at.
        image_bytes: Bytes that one image may have, before base64.
        chars_per_token: Estimate for English text and code; on the low side, so that a context
            that is estimated to fit does fit.
        default_output_tokens: Output to ask for, thinking included; None leaves it to the service.
    """

    context_tokens: int | None = None
    max_output_tokens: int | None = None
    images: bool = False
    image_side: int = 1_568
    image_bytes: int = 3_700_000
    chars_per_token: float = 3.0
    default_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model of a connection.

    Attributes:
        id: The vendor's id.
        limits: What one call may hold.
        efforts: Reasoning efforts it knows, from little to much; empty if it has no such choice.
        adaptive_thinking: Whether Anthropic's adaptive thinking is asked for.
    """

    id: str
    limits: ModelLimits = field(default_factory=ModelLimits)
    efforts: tuple[str, ...] = ()
    adaptive_thinking: bool = False


@dataclass(frozen=True, slots=True)
class Connection:
    """What is known about a connection before anybody configured it.

    Attributes:
        id: Stable id, as in the notebook's metadata ``backend``.
        kind: Adapter that speaks to it: ``openai``, ``anthropic``, ``chat`` or ``codex``.
        label: What the UI shows.
        models: The suggested ones, the default first.
        other: Stands for any id that is not among them.
        base_url: Where it is if nobody says otherwise; None where somebody must.
        base_url_variable: Environment variable that points it elsewhere, or None.
        key_variables: Environment variables that may hold its key, in order.
        needs_key: Whether it is of no use without a key.
        free_models: Whether any other model id may be typed.
        notice: A sentence shown wherever the connection is named, or an empty string.
    """

    id: str
    kind: str
    label: str
    models: tuple[Model, ...] = ()
    other: Model = field(default_factory=lambda: Model(""))
    base_url: str | None = None
    base_url_variable: str | None = None
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    free_models: bool = True
    notice: str = ""

    @property
    def default_model(self) -> str:
        """The first suggested model, or an empty string."""
        return self.models[0].id if self.models else ""

    def model(self, model_id: str) -> Model:
        """The entry of a model; an id nobody knows gets the ``other`` entry under its own name."""
        return replace(self._entry(model_id) or self.other, id=model_id)

    def knows(self, model_id: str) -> bool:
        """Whether there is an entry for the model."""
        return self._entry(model_id) is not None

    def _entry(self, model_id: str) -> Model | None:
        for known in self.models:
            # Dated snapshots share the entry of their family.
            if model_id == known.id or model_id.startswith(f"{known.id}-20"):
                return known
        return None

    def info(
        self,
        *,
        configured: bool,
        source: str,
        models: tuple[str, ...] | None = None,
        default_model: str | None = None,
    ) -> ConnectionInfo:
        """What a person may know about it.

        Args:
            configured: Whether a run could start.
            source: Of the key: ``saved``, ``environment``, ``none-needed`` or ``missing``.
            models: Instead of the suggested ones, where a server says which it has.
            default_model: Instead of the first of them.
        """
        ids = tuple(known.id for known in self.models) if models is None else models
        return ConnectionInfo(
            id=self.id,
            kind=self.kind,
            label=self.label,
            configured=configured,
            source=source,
            models=ids,
            default_model=default_model or (ids[0] if ids else ""),
            free_models=self.free_models,
            notice=self.notice,
            efforts={each: self.model(each).efforts for each in ids},
            other_efforts=self.other.efforts,
            images={each: self.model(each).limits.images for each in ids},
            other_images=self.other.limits.images,
        )


_FIVE = ("low", "medium", "high", "xhigh", "max")

# 922,000 of the window may be input.
_GPT_6 = ModelLimits(1_050_000, 128_000, images=True)

# The tokenizer of the current generation makes about 30 % more tokens of a text than before.
_CLAUDE = ModelLimits(
    1_000_000, 128_000, images=True, chars_per_token=2.5, default_output_tokens=64_000
)
_HAIKU_4_5 = ModelLimits(200_000, 64_000, images=True, default_output_tokens=32_000)

_TRIAL = ModelLimits(4_096, 1_024, chars_per_token=2.8, default_output_tokens=1_024)

_OPENAI = Connection(
    id="openai_api",
    kind="openai",
    label="OpenAI",
    models=(
        Model("gpt-6.2-sol", _GPT_6, _FIVE),
        Model("gpt-6.2-astra", _GPT_6, _FIVE),
        Model("gpt-6.1-terra", _GPT_6, ("none", *_FIVE)),
        Model("gpt-6-luna", _GPT_6, ("none", *_FIVE)),
    ),
    other=Model("", ModelLimits(128_000, 16_384, images=True), ("low", "medium", "high")),
    base_url="https://api.openai.com/v1",
    base_url_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
)

_ANTHROPIC = Connection(
    id="anthropic_api",
    kind="anthropic",
    label="Anthropic",
    models=(
        Model("claude-sonnet-5-5", _CLAUDE, _FIVE, adaptive_thinking=True),
        Model("claude-opus-5-5", _CLAUDE, _FIVE, adaptive_thinking=True),
        Model("claude-fable-5-2", _CLAUDE, _FIVE, adaptive_thinking=True),
        Model("claude-haiku-5-5", _CLAUDE, _FIVE, adaptive_thinking=True),
        Model("claude-haiku-4-5", _HAIKU_4_5),
    ),
    # A model nobody knows here may be small: every one takes this many tokens of output.
    other=Model(
        "",
        ModelLimits(200_000, 8_192, images=True, chars_per_token=2.5, default_output_tokens=8_192),
        ("low", "medium", "high"),
    ),
    base_url="https://api.anthropic.com",
    base_url_variable="ANTHROPIC_BASE_URL",
    key_variables=("ANTHROPIC_API_KEY",),
)

_COMPATIBLE = Connection(
    id="openai_compatible",
    kind="chat",
    label="OpenAI-compatible server",
    other=Model("", ModelLimits(), ("low", "medium", "high")),
    needs_key=False,
)

_LOCAL = Connection(
    id="local",
    kind="chat",
    label="Trial model on this machine",
    models=(Model("smollm2-135m-instruct", _TRIAL),),
    other=Model("", _TRIAL),
    needs_key=False,
    free_models=False,
    notice="A tiny trial model that runs on this machine; its answers are often wrong.",
)

_CODEX = Connection(
    id="openai_codex_subscription",
    kind="codex",
    label="ChatGPT subscription (Codex)",
    # Of an account nobody has asked yet.
    models=(
        Model("gpt-6.1-sol", _GPT_6, _FIVE),
        Model("gpt-6-astra", _GPT_6, _FIVE),
        Model("gpt-6-sol", _GPT_6, _FIVE),
        Model("gpt-6-luna", _GPT_6, _FIVE),
    ),
    other=Model("", ModelLimits(272_000, 64_000, images=True), ("low", "medium", "high")),
    needs_key=False,
)

CONNECTIONS: Mapping[str, Connection] = MappingProxyType(
    {each.id: each for each in (_OPENAI, _ANTHROPIC, _CODEX, _COMPATIBLE, _LOCAL)}
)
"""By id, in the order in which they are offered."""


def model(connection_id: str, model_id: str) -> Model:
    """The entry of a model on a connection.

    Raises:
        KeyError: There is no such connection.
    """
    return CONNECTIONS[connection_id].model(model_id)


def is_known(connection_id: str, model_id: str) -> bool:
    """Whether the model is one of those the connection suggests, or a dated snapshot of one.

    Raises:
        KeyError: There is no such connection.
    """
    return CONNECTIONS[connection_id].knows(model_id)


def limits(connection_id: str, model_id: str) -> ModelLimits:
    """What one call of a model may hold.

    Raises:
        KeyError: There is no such connection.
    """
    return model(connection_id, model_id).limits
