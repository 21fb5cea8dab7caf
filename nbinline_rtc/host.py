"""Everything that lives as long as the server: journal, rooms, local model, runtime."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from nbinline_agent.asking import AnswerBounds, Surroundings, ToolBounds
from nbinline_agent.context.choices import Policy
from nbinline_agent.desk import PROMPT_LIMIT, DeskLimits
from nbinline_agent.document.answer import Pacer
from nbinline_agent.document.background import background
from nbinline_agent.document.presence import AgentUser
from nbinline_agent.errors import NbinlineError
from nbinline_agent.journal import Journal
from nbinline_agent.messages import JsonValue
from nbinline_agent.providers.base import Timeouts
from nbinline_agent.runtime import Runtime
from nbinline_agent.tools.calling import CallLimits
from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.execution import execution_tools
from nbinline_agent.tools.functions import function_tools
from nbinline_agent.tools.inspect import inspect_tools
from nbinline_agent.tools.modes import DEFAULT_MODES, Modes, parse_modes
from nbinline_agent.tools.results import ResultBounds
from nbinline_agent.tools.toolset import NotebookToolset
from nbinline_agent.visiting import Visits

from .activity import ActivityFeed
from .cell_runs import CellRuns
from .codex_account import CodexAccount
from .codex_process import CodexSettings
from .connections import Addresses, ServerConnections
from .credentials import CredentialStore
from .earlier import SavedSettings, saved_settings, settings_file
from .event_loop import PacedCollector
from .kernel_env import scrub_by_default, scrub_kernel_env
from .kernels import KernelsOfServer
from .liveliness import stay_lively
from .local_model import LocalModel
from .logs import Redactor, log_run, logging_to
from .mcp_endpoint import McpEndpoint
from .notes import Notes
from .operator_events import OperatorEvents
from .pauses import Pauses
from .people import Watchers
from .pinned import checked
from .planning import ServerPlanner
from .private_files import FileRefused, PrivateFile
from .rooms import RoomsOfServer
from .sqlite_journal import open_journal
from .stale_cells import StaleCells
from .styles import AnswerStyles
from .toolset import server_tools
from .watching import Watching


class NotReady(NbinlineError):
    """The agent's part of the server has not started, or has stopped."""

    code = "not-ready"
    retryable = True
    http_status = 503
    default_message = "AI prompts are not ready on this server yet. Try again in a moment."


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The extension's settings as one value; see the traits of the same names."""

    directory: Path
    default_connection: str = ""
    openai_base_url: str = ""
    anthropic_base_url: str = ""
    compatible_base_url: str = ""
    compatible_models: tuple[str, ...] = ()
    local_model_path: str = ""
    codex_sandbox: str = "off"
    codex_base_url: str = ""
    connect_timeout: float = 30.0
    silence_timeout: float = 60.0
    answer_characters: int = 400_000
    answer_seconds: float = 3600.0
    compatible_images: bool = False
    context_budget_chars: int | None = None
    hide_solutions: bool = True
    hidden_tags: tuple[str, ...] = ()
    pinned: Mapping[str, Any] = field(default_factory=dict)
    idle_seconds: float = 30.0
    journal_max_days: float = 90.0
    journal_max_bytes: int = 256_000_000
    agent_name: str = "AI agent"
    agent_color: str = "#8e24aa"
    scrub_kernel_env: bool | None = None
    max_tool_steps: int = 8
    max_tool_calls: int = 100
    max_run_tokens: int = 2_000_000
    tool_result_characters: int = 16_000
    tool_approval: Mapping[str, str] = field(default_factory=dict)
    approval_seconds: float = 300.0
    instructors: tuple[str, ...] = ()

    @property
    def tool_bounds(self) -> ToolBounds:
        """What tools may cost in one run."""
        results = ResultBounds(self.tool_result_characters)
        return ToolBounds(
            CallLimits(calls=self.max_tool_calls, results=results),
            tokens=self.max_run_tokens,
            approval_seconds=self.approval_seconds,
        )


@dataclass(frozen=True, slots=True)
class Host:
    """What the routes use."""

    runtime: Runtime
    journal: Journal
    connections: ServerConnections
    notes: Notes
    cell_runs: CellRuns
    styles: AnswerStyles
    pinned: Mapping[str, str | bool]
    mcp: McpEndpoint
    modes: Modes
    watching: Watching
    kept_days: float
    events: OperatorEvents
    codex: CodexAccount
    watchers: Watchers
    rooms: RoomsOfServer
    policy: Policy

    def problems(self) -> list[str]:
        """What keeps people from asking, as sentences; empty if nothing does."""
        if any(info.configured for info in self.connections.infos().values()):
            return []
        return ["No connection is configured. Set a key with AI Connections and Keys…."]

    def recording_notice(self) -> str:
        """What people are told of the record of their runs."""
        return (
            "The server keeps a record of each run: who asked, where, which model, the tool calls, "
            f"the answer and what it cost, for {self.kept_days:g} days. Instructors and the owner "
            "of this server may read it and watch runs live; that they did is recorded too, and "
            "you can see it."
        )

    def limits(self) -> Mapping[str, JsonValue]:
        """Bounds a client should know."""
        return {"prompt_characters": PROMPT_LIMIT}


@asynccontextmanager
async def open_host(serverapp: Any, settings: HostSettings) -> AsyncIterator[Host]:
    """Start everything in order; leaving stops it in the opposite order.

    Args:
        serverapp: The running Jupyter server.
        settings: The extension's.

    Raises:
        JournalUnavailable: The record of runs cannot be kept.
        CredentialsUnusable: The file of keys cannot be trusted.
        BadSettings: A trait has a value that cannot be used.
    """
    pinned = checked(settings.pinned)
    redactor = Redactor()
    store = CredentialStore(on_secret=redactor.register)
    async with AsyncExitStack() as stack:
        stack.enter_context(logging_to(serverapp.log, redactor))
        await anyio.to_thread.run_sync(store.register_secrets)
        wanted = settings.scrub_kernel_env
        if scrub_by_default() if wanted is None else wanted:
            scrub_kernel_env(serverapp)
        feed = ActivityFeed()
        events = await anyio.to_thread.run_sync(OperatorEvents, serverapp.event_logger)
        feed.tell(events.heard)
        journal = await stack.enter_async_context(
            open_journal(
                settings.directory / "journal",
                max_age_days=settings.journal_max_days,
                max_bytes=settings.journal_max_bytes,
                listener=feed,
            )
        )
        pauses = Pauses(settings.directory / "pauses.json")
        await anyio.to_thread.run_sync(pauses.load)
        rooms = await stack.enter_async_context(RoomsOfServer(serverapp))
        path = settings.local_model_path
        local = await stack.enter_async_context(LocalModel(model_path=Path(path) if path else None))
        codex = await stack.enter_async_context(
            CodexAccount(
                CodexSettings(
                    home=settings.directory / "codex",
                    root=Path(serverapp.root_dir),
                    sandbox=settings.codex_sandbox,
                    base_url=settings.codex_base_url,
                )
            )
        )
        connections = await stack.enter_async_context(
            ServerConnections(
                store,
                local,
                addresses=Addresses(
                    settings.openai_base_url,
                    settings.anthropic_base_url,
                    settings.compatible_base_url,
                ),
                compatible_models=settings.compatible_models,
                preferred=settings.default_connection,
                timeouts=Timeouts(settings.connect_timeout, settings.silence_timeout),
                budget_chars=settings.context_budget_chars,
                compatible_images=settings.compatible_images,
                codex=codex,
            )
        )
        secret = await anyio.to_thread.run_sync(_secret, settings.directory / "secret.json")
        saved = await anyio.to_thread.run_sync(_saved, serverapp.log)
        styles = AnswerStyles(settings_file(), saved.styles)
        kernels = await stack.enter_async_context(KernelsOfServer(serverapp))
        tools = (*cell_tools(), *execution_tools(), *inspect_tools(), *server_tools())
        modes = DEFAULT_MODES | parse_modes(settings.tool_approval)
        policy = Policy(settings.hide_solutions, frozenset(settings.hidden_tags), redactor.known)
        around = Surroundings(
            journal=journal,
            connections=connections,
            pacer=Pacer(),
            user=AgentUser(name=settings.agent_name, color=settings.agent_color),
            bounds=AnswerBounds(settings.answer_characters, settings.answer_seconds),
            toolset=NotebookToolset(tools, function_tools),
            kernels=kernels,
            root=Path(serverapp.root_dir),
            tools=settings.tool_bounds,
        )
        runtime = await stack.enter_async_context(
            Runtime(
                rooms,
                around,
                ServerPlanner(
                    connections,
                    secret,
                    saved,
                    styles=styles,
                    pinned=pinned,
                    policy=policy,
                    max_steps=settings.max_tool_steps,
                    modes=modes,
                    pauses=pauses,
                ),
                DeskLimits(idle=settings.idle_seconds),
                on_end=log_run,
                while_live=PacedCollector().run,
            )
        )
        lively = partial(stay_lively, serverapp.web_app, lambda: runtime.live_count)
        await stack.enter_async_context(background(lively))
        notes = Notes(rooms, kernels)
        cell_runs = await stack.enter_async_context(CellRuns(runtime, rooms, kernels, notes))
        await stack.enter_async_context(StaleCells(serverapp, runtime, rooms, kernels))
        visits = Visits(rooms, around, tools, modes, runtime.adopt, policy, pauses.check)
        mcp = await stack.enter_async_context(McpEndpoint(visits, modes))
        yield Host(
            runtime,
            journal,
            connections,
            notes,
            cell_runs,
            styles,
            pinned,
            mcp,
            modes,
            Watching(feed, pauses, journal),
            settings.journal_max_days,
            events,
            codex,
            Watchers(frozenset(settings.instructors)),
            rooms,
            policy,
        )


def _secret(path: Path) -> bytes:
    """A random key of this data directory, made once."""
    with PrivateFile(path).change() as content:
        known = content.get("delimiters")
        if not isinstance(known, str) or len(known) < 32:
            content["delimiters"] = known = secrets.token_hex(32)
    return bytes.fromhex(known)


def _saved(log: logging.Logger) -> SavedSettings:
    """The account's saved choices; without them prompts still run."""
    try:
        return saved_settings()
    except FileRefused as refusal:
        log.warning("The saved AI settings are left aside: %s", refusal)
        return SavedSettings()
