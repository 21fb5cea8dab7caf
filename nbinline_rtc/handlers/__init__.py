"""The HTTP routes: commands and look-ups only; answers travel in the shared document."""

from __future__ import annotations

from .activity import ActivityHandler, PausesHandler
from .base import NbinlineHandler
from .codex import CodexHandler, CodexLoginHandler
from .context import PreviewHandler
from .inputs import InputsHandler
from .kernels import ExecuteCellHandler
from .mcp import McpHandler
from .notebook import NotebookHandler
from .notes import NotesHandler
from .runs import (
    ApprovalHandler,
    ContinueHandler,
    EventsHandler,
    RevertHandler,
    RunHandler,
    RunsHandler,
)
from .settings import DefaultConnectionHandler, KeyHandler, KeysHandler
from .status import StatusHandler, UnknownRouteHandler
from .styles import StylesHandler
from .transcripts import TranscriptHandler, TranscriptsHandler

__all__ = ["ROUTES", "NbinlineHandler"]

ROUTES: list[tuple[str, type[NbinlineHandler]]] = [
    (r"/nbinline/status", StatusHandler),
    (r"/nbinline/runs", RunsHandler),
    (r"/nbinline/runs/([^/]+)", RunHandler),
    (r"/nbinline/runs/([^/]+)/events", EventsHandler),
    (r"/nbinline/runs/([^/]+)/continue", ContinueHandler),
    (r"/nbinline/runs/([^/]+)/revert", RevertHandler),
    (r"/nbinline/runs/([^/]+)/approvals/([^/]+)", ApprovalHandler),
    (r"/nbinline/runs/([^/]+)/transcript", TranscriptHandler),
    (r"/nbinline/transcripts", TranscriptsHandler),
    (r"/nbinline/activity", ActivityHandler),
    (r"/nbinline/pauses", PausesHandler),
    (r"/nbinline/context-preview", PreviewHandler),
    (r"/nbinline/inputs", InputsHandler),
    (r"/nbinline/mcp", McpHandler),
    (r"/nbinline/notebook", NotebookHandler),
    (r"/nbinline/notes", NotesHandler),
    (r"/nbinline/settings/keys", KeysHandler),
    (r"/nbinline/settings/keys/([a-z_]+)", KeyHandler),
    (r"/nbinline/settings/codex", CodexHandler),
    (r"/nbinline/settings/codex/login", CodexLoginHandler),
    (r"/nbinline/settings/styles", StylesHandler),
    (r"/nbinline/settings/default-connection", DefaultConnectionHandler),
    (r"/nbinline/(.*)", UnknownRouteHandler),
    (r"/api/kernels/([^/]+)/execute", ExecuteCellHandler),
]
"""Every route below the base URL with its handler."""
