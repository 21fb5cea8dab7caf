"""What a run is asked with: the person's wish, the plan made of it, and what it may borrow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .context.budget import Limits
from .context.choices import Choices, Policy
from .document.answer import Pacer
from .document.presence import AgentUser
from .ids import CellId, FileId, NotebookPath, RunId
from .journal import Author, Journal
from .kernel import Kernels
from .messages import ConnectionInfo
from .providers.base import Provider
from .tools.approval import Remembered
from .tools.calling import CallLimits
from .tools.modes import DEFAULT_MODES, Modes
from .tools.toolbox import Toolbox
from .tools.toolset import ToolWish


class Connections(Protocol):
    """What the runtime knows of model services: names, limits, and how to open one."""

    @property
    def default(self) -> str:
        """Id of the connection taken where nobody chose one."""

    def infos(self) -> Mapping[str, ConnectionInfo]:
        """All connections by id, as a person may see them."""

    def limits(self, connection: str, model: str) -> Limits:
        """How much context the model takes."""

    def open(self, connection: str) -> AbstractAsyncContextManager[Provider]:
        """Open the connection for one run.

        Raises:
            NotConfigured: There is no key or address.
            ProviderError: The service, or the local engine, does not start.
        """


class Toolset(Protocol):
    """Chooses the tools of a run."""

    async def offer(self, wish: ToolWish) -> Toolbox:
        """The tools of a run; what cannot be offered is named with a reason."""


@dataclass(frozen=True, slots=True)
class Override:
    """Choices for one run only; None means: as the cell, the notebook or the server says."""

    connection: str | None = None
    model: str | None = None
    style: str | None = None
    effort: str | None = None
    context_mode: str | None = None
    acknowledge: bool = False
    max_steps: int | None = None
    tool_groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StartRun:
    """A person's wish to have a prompt answered.

    Attributes:
        path: Notebook below the server root.
        cell_id: The question.
        author: Who asks, from the authenticated request.
        state_vector: Y state vector of the asker's document, or None.
        source_sha256: Lower-case hex digest of the question's source as the asker saw it, or None.
        override: Choices for this run only.
        continues: The run whose partial answer this one goes on from.
        client_request_id: The same id from the same person means the same run.
        wait_for_kernel: Seconds to wait for a kernel that is too busy to be looked into.
        may_use_kernels: Whether the asker may execute code in this server's kernels.
        owner: Whether the server is the asker's own.
    """

    path: NotebookPath
    cell_id: CellId
    author: Author
    state_vector: bytes | None = None
    source_sha256: str | None = None
    override: Override = field(default_factory=Override)
    continues: RunId | None = None
    client_request_id: str | None = None
    wait_for_kernel: float = 0.0
    may_use_kernels: bool = True
    owner: bool = False

    @property
    def run_id(self) -> RunId | None:
        """The run this is a wish for, whenever it is said; None if every saying means another."""
        if self.client_request_id is None:
            return None
        named = f"{self.author.username}\0{self.client_request_id}"
        return RunId(hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32])


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run asks, decided when it was taken on.

    Attributes:
        file_id: The notebook's stable id.
        connection: Id of the connection.
        model: The vendor's model id.
        choices: Mode, style, outputs.
        limits: How much context may be sent.
        secret: Key of the marks around what the asker did not write.
        policy: What is kept from models.
        takes_images: Whether the model takes images.
        max_steps: Rounds of tool calls.
        tool_groups: Preset groups of tools that are switched on.
        modes: How calls are let through, by group of tools.
        wait_for_kernel: Seconds to wait for a kernel that is too busy to be looked into.
        may_use_kernels: Whether the asker may execute code in kernels.
        owner: Whether the server is the asker's own.
    """

    file_id: FileId
    connection: str
    model: str
    choices: Choices
    limits: Limits
    secret: bytes
    policy: Policy = field(default_factory=Policy)
    takes_images: bool = False
    max_steps: int = 8
    tool_groups: tuple[str, ...] = ()
    modes: Modes = field(default_factory=lambda: DEFAULT_MODES)
    wait_for_kernel: float = 0.0
    may_use_kernels: bool = True
    owner: bool = False


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """What an answer may become before it is ended; a service may never stop by itself.

    Attributes:
        characters: Of text that one run writes; an answer that is continued may become longer.
        seconds: From the first request to the model.
    """

    characters: int = 400_000
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class ToolBounds:
    """What tools may cost in one run.

    Attributes:
        calls: Bounds of calls and results.
        tokens: Input and output of all model calls together; 0 for no limit.
        approval_seconds: How long a person has to allow a call.
    """

    calls: CallLimits = field(default_factory=CallLimits)
    tokens: int = 2_000_000
    approval_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run borrows from its server.

    Attributes:
        journal: Where it is recorded.
        connections: Where models are.
        pacer: Shared coalescing window.
        user: How the agent shows itself.
        bounds: How long an answer may become.
        toolset: What chooses tools; None where there are none.
        kernels: The server's kernels; None where there are none.
        root: The server's root folder.
        tools: What tools may cost.
        remembered: What people allowed once and for all.
    """

    journal: Journal
    connections: Connections
    pacer: Pacer
    user: AgentUser
    bounds: AnswerBounds = field(default_factory=AnswerBounds)
    toolset: Toolset | None = None
    kernels: Kernels | None = None
    root: Path = Path()
    tools: ToolBounds = field(default_factory=ToolBounds)
    remembered: Remembered = field(default_factory=Remembered)
