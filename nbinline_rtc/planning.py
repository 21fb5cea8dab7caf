"""How a run asks: the person's choice, then the cell's, the notebook's, and the server's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbinline_agent.asking import Plan, StartRun
from nbinline_agent.context.choices import Choices, Mode
from nbinline_agent.context.instructions import STYLES
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.errors import (
    BadRequest,
    NotConfigured,
    UnknownConnection,
    UnknownModel,
)
from nbinline_agent.ids import FileId
from nbinline_agent.messages import ConnectionInfo
from nbinline_agent.providers import catalog
from nbinline_agent.tools.groups import GROUPS
from nbinline_agent.tools.modes import DEFAULT_MODES, Modes, stricter_modes

from .connections import ServerConnections
from .earlier import SavedSettings

MAX_MODEL = 200
"""Characters a model id may have."""

MAX_STEPS = 50
"""Rounds of tool calls that a notebook may wish for."""


@dataclass(frozen=True, slots=True)
class ServerPlanner:
    """Implements the agent's ``Planner``.

    Attributes:
        connections: What can be reached.
        secret: Key of the delimiters around what the asker did not write.
        saved: The account's own wording of styles, and its choices where a notebook has none.
        max_steps: Rounds of tool calls where neither the person nor the notebook says.
        modes: How calls of tools are let through, by group; notebooks may be stricter.
    """

    connections: ServerConnections
    secret: bytes
    saved: SavedSettings = field(default_factory=SavedSettings)
    max_steps: int = 8
    modes: Modes = field(default_factory=lambda: DEFAULT_MODES)

    def plan(self, start: StartRun, notebook: Notebook, file_id: FileId) -> Plan:
        """Choose connection, model, style and limits.

        Raises:
            UnknownConnection: No such connection.
            UnknownModel: The connection cannot use the model.
            NotConfigured: The connection has no key or address.
            BadRequest: A mode or style nobody knows.
        """
        cell = notebook.cell(start.cell_id).nbinline
        defaults = notebook.defaults()
        wish = start.override
        connection = (
            wish.connection
            or _text(cell, "backend")
            or _text(defaults, "backend")
            or self.connections.default
        )
        info = self.connections.infos().get(connection)
        if info is None:
            raise UnknownConnection
        if not info.configured:
            raise NotConfigured(_how_to_configure(info))
        model = self._model(info, wish.model, cell, defaults)
        saved = self.saved.defaults
        style = _style(
            wish.style
            or _text(cell, "promptMode")
            or _text(defaults, "promptMode")
            or _text(saved, "promptMode")
        )
        return Plan(
            file_id=file_id,
            connection=connection,
            model=model,
            choices=Choices(
                model=model,
                mode=_mode(
                    wish.context_mode
                    or _text(defaults, "contextMode")
                    or _text(saved, "contextMode")
                ),
                style=style,
                style_text=self.saved.styles.get(style),
                effort=_effort(info, model, wish.effort, cell, defaults, saved),
                max_output_tokens=self.connections.max_output(connection, model),
            ),
            limits=self.connections.limits(connection, model),
            secret=self.secret,
            takes_images=catalog.limits(connection, model).images,
            max_steps=self._steps(wish.max_steps, defaults),
            tool_groups=_groups(wish.tool_groups, notebook),
            modes=stricter_modes(
                self.modes, _object(notebook.nbinline_of_notebook, "toolApproval")
            ),
            wait_for_kernel=start.wait_for_kernel,
            may_use_kernels=start.may_use_kernels,
            owner=start.owner,
        )

    def _steps(self, wished: int | None, defaults: Mapping[str, Any]) -> int:
        chosen = defaults.get("maxToolSteps") if wished is None else wished
        if not isinstance(chosen, int) or isinstance(chosen, bool):
            chosen = self.max_steps
        return min(max(0, chosen), MAX_STEPS)

    def _model(
        self,
        info: ConnectionInfo,
        wished: str | None,
        cell: Mapping[str, Any],
        defaults: Mapping[str, Any],
    ) -> str:
        model = wished
        # A model belongs to the connection it was chosen with.
        if model is None and _text(cell, "backend") in (None, info.id):
            model = _text(cell, "model")
        if model is None and _text(defaults, "backend") in (None, info.id):
            model = _text(defaults, "model")
        if model is None and _text(self.saved.defaults, "backend") == info.id:
            model = _text(self.saved.defaults, "model")
        if model is None:
            model = info.default_model
        if not model or len(model) > MAX_MODEL or not model.isprintable():
            raise UnknownModel(f"Choose a model for {info.label} in the prompt's header.")
        if not info.free_models and model not in info.models:
            raise UnknownModel(f"{info.label} has no model called {model}. Choose another one.")
        return model


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


def _mode(name: str | None) -> Mode:
    try:
        return Mode(name) if name else Mode.DEFAULT
    except ValueError:
        raise BadRequest(f"There is no context mode called {name!r}.") from None


def _style(name: str | None) -> str:
    style = name or "compact"
    if style not in STYLES:
        raise BadRequest(f"There is no style called {style!r}. Use {', '.join(STYLES)}.")
    return style


def _effort(
    info: ConnectionInfo,
    model: str,
    wished: str | None,
    *chosen: Mapping[str, Any],
) -> str | None:
    efforts = info.efforts.get(model)
    for effort in (wished, *(_text(fields, "reasoningEffort") for fields in chosen)):
        if effort is not None and (efforts is None or effort in efforts):
            return effort
    return None


def _how_to_configure(info: ConnectionInfo) -> str:
    if info.id == "local":
        return (
            "The trial model is not installed on this server. "
            "Run `jupyter nbinline model install` there, or choose another connection."
        )
    if info.id == "openai_compatible":
        return "This connection has no address. Set c.NbinlineApp.compatible_base_url."
    return f"{info.label} has no API key yet. Set one with AI Connections and Keys…."
