"""How a run asks: the person's choice, then the cell's, the notebook's, and the server's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from nbinline_agent.asking import Plan, StartRun
from nbinline_agent.context.choices import Choices, Mode, Outputs, Policy
from nbinline_agent.context.instructions import STYLES
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import (
    BadRequest,
    NotConfigured,
    UnknownConnection,
    UnknownModel,
)
from nbinline_agent.ids import CellId, FileId
from nbinline_agent.messages import ConnectionInfo
from nbinline_agent.render.images import ImageLimits
from nbinline_agent.tools.groups import GROUPS
from nbinline_agent.tools.modes import DEFAULT_MODES, Modes, stricter_modes

from .connections import ServerConnections
from .earlier import SavedSettings
from .pauses import Pauses
from .styles import AnswerStyles

MAX_MODEL = 200
"""Characters a model id may have."""

MAX_STEPS = 50
"""Rounds of tool calls that a notebook may wish for."""

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class ServerPlanner:
    """Implements the agent's ``Planner``.

    Attributes:
        connections: What can be reached.
        secret: Key of the delimiters around what the asker did not write.
        saved: The account's own wording of styles, and its choices where a notebook has none.
        styles: Where people's own styles are; those in ``saved`` by default.
        pinned: Choices that the server prescribes, by their names in the notebook's defaults.
        policy: What is kept from models.
        max_steps: Rounds of tool calls where neither the person nor the notebook says.
        modes: How calls of tools are let through, by group; notebooks may be stricter.
    """

    connections: ServerConnections
    secret: bytes
    saved: SavedSettings = field(default_factory=SavedSettings)
    styles: AnswerStyles | None = None
    pinned: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    max_steps: int = 8
    modes: Modes = field(default_factory=lambda: DEFAULT_MODES)
    pauses: Pauses | None = None

    def plan(
        self, start: StartRun, notebook: Notebook, file_id: FileId, *, needs_key: bool = True
    ) -> Plan:
        """Choose connection, model, style and limits.

        Raises:
            UnknownConnection: No such connection.
            UnknownModel: The connection cannot use the model.
            NotConfigured: The connection has no key or address, and one is needed.
            Paused: AI is paused there, and this is no preview.
            BadRequest: A mode, a style or a choice of outputs nobody knows.
        """
        if needs_key and self.pauses is not None:
            self.pauses.check(start.path, file_id)
        chosen = self._chosen(start, notebook)
        connection = chosen.first("backend") or self.connections.default
        info = self.connections.infos().get(connection)
        if info is None:
            raise UnknownConnection
        if needs_key and not info.configured:
            raise NotConfigured(_how_to_configure(info))
        model = self._model(info, chosen)
        images = self.connections.images(connection, model)
        return Plan(
            file_id=file_id,
            connection=connection,
            model=model,
            choices=self._choices(info, model, chosen, images),
            limits=self.connections.limits(connection, model),
            secret=self.secret,
            policy=self.policy,
            takes_images=images is not None,
            max_steps=self._steps(start.override.max_steps, notebook.defaults()),
            tool_groups=_groups(start.override.tool_groups, notebook),
            modes=stricter_modes(
                self.modes, _object(notebook.nbinline_of_notebook, "toolApproval")
            ),
            wait_for_kernel=start.wait_for_kernel,
            may_use_kernels=start.may_use_kernels,
            owner=start.owner,
        )

    def keeps(self, notebook: Notebook, prompt: CellId) -> bool:
        """Whether a finished answer to the question is not to be replaced."""
        pinned = self.pinned.get("keepAnswers")
        if isinstance(pinned, bool):
            return pinned
        own = notebook.cell(prompt).nbinline.get("keepAnswer")
        return own if isinstance(own, bool) else notebook.defaults().get("keepAnswers") is True

    def _chosen(self, start: StartRun, notebook: Notebook) -> _Chosen:
        wish = start.override
        now: dict[str, str | None] = {
            "backend": wish.connection,
            "model": wish.model,
            "promptMode": wish.style,
            "reasoningEffort": wish.effort,
            "contextMode": wish.context_mode,
        }
        cell = notebook.cell(start.cell_id).nbinline
        # The saved connection is the server's default; here it only says whose the saved model is.
        saved = {k: v for k, v in self.saved.defaults.items() if k != "backend"}
        return _Chosen(
            self.pinned,
            now,
            cell,
            notebook.defaults(),
            saved,
            _text(self.saved.defaults, "backend"),
        )

    def _choices(
        self, info: ConnectionInfo, model: str, chosen: _Chosen, images: ImageLimits | None
    ) -> Choices:
        own = self.saved.styles if self.styles is None else self.styles.own
        style = chosen.first("promptMode") or "compact"
        if style not in STYLES and style not in own:
            raise BadRequest(f"There is no style called {style!r} here. Choose another one.")
        efforts = info.efforts.get(model, info.other_efforts)
        wished = (each for each in chosen.all("reasoningEffort") if each in efforts)
        return Choices(
            model=model,
            mode=_word(Mode, chosen.first("contextMode"), Mode.DEFAULT, "context mode"),
            style=style,
            style_text=own.get(style),
            outputs=_word(Outputs, chosen.first("outputs"), Outputs.SUMMARIES, "choice of outputs"),
            effort=next(wished, None),
            max_output_tokens=self.connections.max_output(info.id, model),
            images=images,
        )

    def _steps(self, wished: int | None, defaults: Mapping[str, Any]) -> int:
        chosen = defaults.get("maxToolSteps") if wished is None else wished
        if not isinstance(chosen, int) or isinstance(chosen, bool):
            chosen = self.max_steps
        return min(max(0, chosen), MAX_STEPS)

    def _model(self, info: ConnectionInfo, chosen: _Chosen) -> str:
        model = chosen.model(info.id) or info.default_model
        if not model or len(model) > MAX_MODEL or not model.isprintable():
            raise UnknownModel(f"Choose a model for {info.label} in the prompt's header.")
        if not info.free_models and model not in info.models:
            raise UnknownModel(f"{info.label} has no model called {model}. Choose another one.")
        return model


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Everybody's choices by their names in metadata; the first that says anything counts."""

    pinned: Mapping[str, Any]
    now: Mapping[str, str | None]
    cell: Mapping[str, Any]
    notebook: Mapping[str, Any]
    saved: Mapping[str, Any]
    saved_backend: str | None

    def all(self, key: str) -> Iterator[str]:
        """What was chosen, the choice that counts most first."""
        for place in (self.pinned, self.now, self.cell, self.notebook, self.saved):
            value = _text(place, key)
            if value is not None:
                yield value

    def first(self, key: str) -> str | None:
        """The choice that counts, or None."""
        return next(self.all(key), None)

    def model(self, connection: str) -> str | None:
        """The model; one that was chosen with another connection does not count."""
        for place in (self.pinned, self.now):
            if (model := _text(place, "model")) is not None:
                return model
        for place in (self.cell, self.notebook):
            if _text(place, "backend") in (None, connection):
                model = _text(place, "model")
                if model is not None:
                    return model
        return _text(self.saved, "model") if self.saved_backend == connection else None


def _groups(wished: tuple[str, ...] | None, notebook: Notebook) -> tuple[str, ...]:
    if wished is not None:
        return wished
    listed = notebook.nbinline_of_notebook.get("toolGroups")
    named = listed if isinstance(listed, list) else []
    return tuple(dict.fromkeys(each for each in named if isinstance(each, str) and each in GROUPS))


def _object(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) and value else None


def _word(words: type[_Word], name: str | None, usual: _Word, what: str) -> _Word:
    try:
        return words(name) if name else usual
    except ValueError:
        raise BadRequest(f"There is no {what} called {name!r}.") from None


def _how_to_configure(info: ConnectionInfo) -> str:
    if info.id == "local":
        return (
            "The trial model is not installed on this server. "
            "Run `jupyter nbinline model install` there, or choose another connection."
        )
    if info.id == "openai_compatible":
        return "This connection has no address. Set c.NbinlineApp.compatible_base_url."
    return f"{info.label} has no API key yet. Set one with AI Connections and Keys…."
