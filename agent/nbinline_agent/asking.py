"""What a run is asked with: the person's wish, the plan made of it, and what it may borrow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from .context.budget import Limits
from .context.choices import Choices
from .document.answer import Pacer
from .document.presence import AgentUser
from .ids import CellId, FileId, NotebookPath, RunId
from .journal import Author, Journal
from .messages import ConnectionInfo
from .providers.base import Provider


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


@dataclass(frozen=True, slots=True)
class Override:
    """Choices for one run only; None means: as the cell, the notebook or the server says."""

    connection: str | None = None
    model: str | None = None
    style: str | None = None
    effort: str | None = None
    context_mode: str | None = None
    acknowledge: bool = False


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
    """

    path: NotebookPath
    cell_id: CellId
    author: Author
    state_vector: bytes | None = None
    source_sha256: str | None = None
    override: Override = field(default_factory=Override)
    continues: RunId | None = None
    client_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run asks, decided when it was taken on."""

    file_id: FileId
    connection: str
    model: str
    choices: Choices
    limits: Limits
    secret: bytes


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
class Surroundings:
    """What a run borrows from its server.

    Attributes:
        journal: Where it is recorded.
        connections: Where models are.
        pacer: Shared coalescing window.
        user: How the agent shows itself.
        bounds: How long an answer may become.
    """

    journal: Journal
    connections: Connections
    pacer: Pacer
    user: AgentUser
    bounds: AnswerBounds = field(default_factory=AnswerBounds)
