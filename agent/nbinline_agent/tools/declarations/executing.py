"""Tools that run something outside the notebook's cells, or read what runs."""

from __future__ import annotations

from .declaring import only_declared


def trace_function(
    name: str, args_json: str = "[]", kwargs_json: str = "{}", max_events: int = 40
) -> str:
    """Really call a live function once and list its calls, lines and returns with local values."""
    raise only_declared()


def run_python(code: str, cwd: str = ".", timeout: int = 10) -> str:
    """Run Python code in a fresh process that knows nothing of the notebook; effects are real."""
    raise only_declared()


def run_shell(command: str, cwd: str = ".", timeout: int = 10) -> str:
    """Run a command with /bin/sh; effects are real, and there is no sandbox."""
    raise only_declared()


def tmux_sessions() -> str:
    """List the panes of running tmux sessions."""
    raise only_declared()


def tmux_read(pane: str, lines: int = 40) -> str:
    """Read the last lines of a tmux pane, named as %N."""
    raise only_declared()
