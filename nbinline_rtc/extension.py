"""The Jupyter Server extension: settings, routes, and the one task that owns everything else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Dict, Enum, Float, Int, List, Unicode

from nbinline_agent.errors import NbinlineError

from .event_loop import adopt_worker_threads, known_as_asyncio
from .handlers import ROUTES
from .host import Host, HostSettings, NotReady, open_host
from .rooms import keep_rooms_until
from .store import reconcile_after_crash

START_DEADLINE = 30.0
"""Seconds a request waits for the host to be up."""


class NbinlineApp(ExtensionApp):
    """AI prompts in shared notebooks, answered by an agent on this server."""

    name = "nbinline_rtc"
    app_name = "AI prompts"
    extension_url = "/lab"
    load_other_extensions = True

    default_connection = Unicode(
        "",
        config=True,
        help="""Connection taken where neither the person, the notebook nor the saved settings
        name one: openai_api, anthropic_api, openai_compatible or local. Empty: the first one that
        is configured.""",
    )
    openai_base_url = Unicode(
        "", config=True, help="Address of the OpenAI Responses API; else OPENAI_BASE_URL."
    )
    anthropic_base_url = Unicode(
        "", config=True, help="Address of the Anthropic Messages API; else ANTHROPIC_BASE_URL."
    )
    compatible_base_url = Unicode(
        "",
        config=True,
        help="""Address of an OpenAI-compatible Chat Completions API (vLLM, Ollama, LM Studio, a
        LiteLLM gateway), with its /v1.""",
    )
    compatible_models = List(
        Unicode(), config=True, help="Model ids suggested for openai_compatible; first = default."
    )
    local_model_path = Unicode(
        "", config=True, help="A GGUF file for the local connection instead of the trial model."
    )
    codex_sandbox = Enum(
        ("off", "read-only", "workspace-write", "danger-full-access"),
        "off",
        config=True,
        help="""Whether Codex may use its own shell and files on this server, and in which of its
        sandboxes. Off: it has the notebook's tools and nothing else.""",
    )
    codex_base_url = Unicode(
        "", config=True, help="Where Codex sends its requests instead of OpenAI."
    )
    connect_timeout = Float(
        30.0, config=True, help="Seconds a model's service may take to accept a connection."
    )
    silence_timeout = Float(
        60.0, config=True, help="Seconds without a sign of life after which an answer is given up."
    )
    answer_characters = Int(
        400_000, config=True, help="Characters after which an answer is ended (1,000 at least)."
    )
    answer_seconds = Float(3600.0, config=True, help="Seconds after which an answer is ended.")
    compatible_images = Bool(
        False, config=True, help="Whether the models of openai_compatible take images."
    )
    context_budget_chars = Int(
        None,
        allow_none=True,
        config=True,
        help="""Characters of context (1,000 at least), whatever the model. By default its window in
        tokens counts, and 64,000 characters where that is not known.""",
    )
    hide_solutions = Bool(
        True,
        config=True,
        help="""Keep from models what stands between nbgrader's marks of solutions, hidden tests and
        mark schemes.""",
    )
    hidden_tags = List(
        Unicode(), config=True, help="Cells with one of these tags are kept from models whole."
    )
    pinned = Dict(
        config=True,
        help="""Choices that hold for everybody on this server, by their names in notebooks:
        backend, model (of that connection), promptMode, reasoningEffort, contextMode, outputs,
        keepAnswers.""",
    )
    idle_seconds = Float(
        30.0, config=True, help="Seconds the agent stays in a notebook after its last run."
    )
    journal_max_days = Float(90.0, config=True, help="Days after which ended runs are pruned.")
    journal_max_bytes = Int(
        256_000_000, config=True, help="Bytes the journal may take before old runs are pruned."
    )
    data_dir = Unicode(
        "",
        config=True,
        help="Folder of the run journal and the agent's secrets; else <Jupyter data dir>/nbinline.",
    )
    agent_name = Unicode("AI agent", config=True, help="The name people see at the agent's cursor.")
    agent_color = Unicode("#8e24aa", config=True, help="The agent's colour, as #rrggbb.")
    scrub_kernel_env = Bool(
        None,
        allow_none=True,
        config=True,
        help="""Take vendor variables (OPENAI_API_KEY …) out of kernels' environment. Default: on
        under JupyterHub, off elsewhere.""",
    )

    max_tool_steps = Int(
        8,
        config=True,
        help="""Rounds of tool calls of one run where neither the person nor the notebook says (0 to
        50); then the model is asked to conclude.""",
    )
    max_tool_calls = Int(100, config=True, help="Tool calls of one run.")
    max_run_tokens = Int(
        2_000_000,
        config=True,
        help="Input and output tokens of one run after which it takes no further step; 0: none.",
    )
    tool_result_characters = Int(
        16_000, config=True, help="Characters of one tool's result that go to a model."
    )
    tool_approval = Dict(
        Unicode(),
        config=True,
        help="""How calls of tools are let through, by group (notebook, execution, functions,
        files, code, inspect, saved_notebooks, web, shell): auto; own (at once in one's own notebook
        on one's own server with nobody else there, else ask); ask; off. Notebooks may be stricter,
        never laxer. Default: reading and edits of cells auto; files, execution and functions own;
        web and shell off.""",
    )
    approval_seconds = Float(
        300.0, config=True, help="Seconds a person has to allow a call; then it counts as denied."
    )

    instructors = List(
        Unicode(),
        config=True,
        help="""Who may watch and stop other people's runs, read their record and pause AI, besides
        the person the server was started for: usernames, or JupyterHub groups with a leading @.""",
    )

    def initialize(self, argv: Any = None) -> None:
        """Bring stored documents and files back together before any room can be opened."""
        super().initialize()  # type: ignore[no-untyped-call]
        self._host: Host | None = None
        self._failure: NbinlineError | None = None
        self._task: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._stop = asyncio.Event()
        reconcile_after_crash(self.serverapp)

    def initialize_handlers(self) -> None:
        """Register the routes."""
        self.handlers.extend((path, handler, {"host": self.host}) for path, handler in ROUTES)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Start the host with the server, so that interrupted runs are settled at once."""
        keep_rooms_until(serverapp, self.stop_host)
        self._ensure_started()

    async def stop_extension(self) -> None:
        """End the runs and stop."""
        await self.stop_host()

    def current_activity(self) -> int:
        """Runs that live; a server with one is not idle."""
        return self._host.runtime.live_count if self._host is not None else 0

    async def host(self) -> Host:
        """The running host, started now if the server's start hook has not run yet.

        Raises:
            NbinlineError: It could not start.
        """
        self._ensure_started()
        with anyio.move_on_after(START_DEADLINE):
            await self._up.wait()
        if self._failure is not None:
            raise self._failure
        if self._host is None:
            raise NotReady
        return self._host

    def _ensure_started(self) -> None:
        if self._task is None and not self._stop.is_set():
            # The start and stop hooks run in different tasks, but a cancel scope must be entered
            # and left in one: this task enters the host, the hooks only signal it.
            self._task = asyncio.create_task(self._live())  # noqa: TID251

    async def stop_host(self) -> None:
        """End all runs as interrupted, save, and wait until nothing of ours runs."""
        self._stop.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task], timeout=10)

    async def _live(self) -> None:
        adopt_worker_threads()
        with known_as_asyncio():
            await self._hold_host()

    async def _hold_host(self) -> None:
        try:
            async with open_host(self.serverapp, self.settings_of_host()) as host:
                self._host = host
                self._up.set()
                await host.runtime.recover()
                await host.connections.warm_up()
                await self._stop.wait()
                await host.runtime.drain()
        except NbinlineError as error:
            self._failure = error
            self.log.error("AI prompts are off: %s", error.message)
        except Exception:
            self._failure = NotReady()
            self.log.exception("AI prompts are off")
        finally:
            self._host = None
            self._up.set()

    def settings_of_host(self) -> HostSettings:
        """The traits as one frozen value."""
        directory = Path(self.data_dir) if self.data_dir else Path(jupyter_data_dir()) / "nbinline"
        return HostSettings(
            directory=directory,
            default_connection=self.default_connection,
            openai_base_url=self.openai_base_url,
            anthropic_base_url=self.anthropic_base_url,
            compatible_base_url=self.compatible_base_url,
            compatible_models=tuple(self.compatible_models),
            local_model_path=self.local_model_path,
            codex_sandbox=self.codex_sandbox,
            codex_base_url=self.codex_base_url,
            connect_timeout=self.connect_timeout,
            silence_timeout=self.silence_timeout,
            answer_characters=max(1_000, self.answer_characters),
            answer_seconds=self.answer_seconds,
            compatible_images=self.compatible_images,
            context_budget_chars=None
            if self.context_budget_chars is None
            else max(1_000, self.context_budget_chars),
            hide_solutions=self.hide_solutions,
            hidden_tags=tuple(self.hidden_tags),
            pinned=dict(self.pinned),
            idle_seconds=self.idle_seconds,
            journal_max_days=self.journal_max_days,
            journal_max_bytes=self.journal_max_bytes,
            agent_name=self.agent_name,
            agent_color=self.agent_color,
            scrub_kernel_env=self.scrub_kernel_env,
            max_tool_steps=self.max_tool_steps,
            max_tool_calls=max(1, self.max_tool_calls),
            max_run_tokens=max(0, self.max_run_tokens),
            tool_result_characters=max(1_000, self.tool_result_characters),
            tool_approval=dict(self.tool_approval),
            instructors=tuple(self.instructors),
            approval_seconds=max(1.0, self.approval_seconds),
        )
