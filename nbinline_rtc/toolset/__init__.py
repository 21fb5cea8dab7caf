"""Tools that the server itself does: files, searches, documents, web pages, processes.

They never ask the kernel, so a busy one does not hold them up, and never block the server's loop:
files are read in worker threads, and whatever may take long runs in a process of its own.
"""

from __future__ import annotations

from nbinline_agent.tools.base import Tool

from . import documents, file_edits, files, saved_notebooks, search, shell, skills
from .fetching import Fetcher
from .web import web_tools

__all__ = ["Fetcher", "server_tools"]


def server_tools(fetcher: Fetcher | None = None) -> tuple[Tool, ...]:
    """Every tool of these families.

    Args:
        fetcher: Where web pages come from; by default the public internet.
    """
    return (
        *files.TOOLS,
        *file_edits.TOOLS,
        *search.TOOLS,
        *documents.TOOLS,
        *saved_notebooks.TOOLS,
        *skills.TOOLS,
        *shell.TOOLS,
        *web_tools(fetcher or Fetcher()),
    )
