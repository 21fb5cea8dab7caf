"""What every command is made of: its row in the table, its exit codes, how it fails."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """What the shell is told; the numbers stay."""

    OK = 0
    FAILED = 1
    """Not well: the message says why. ``diff --exit-code``: there are differences."""
    USAGE = 2
    """Wrongly called."""
    NOT_FOUND = 3
    """There is no such notebook, cell, run, execution or skill."""
    REFUSED = 4
    """It would not be safe, or is not allowed."""
    NO_SERVER = 5
    """A server is needed and none answers, or it is not clear which."""
    ENDED_BADLY = 6
    """The run, or a cell, ended in an error."""
    TIMED_OUT = 7
    """A time limit was reached; what came until then is kept."""
    STOPPED = 130
    """Stopped by the person."""


class CommandFailed(Exception):
    """Ends a command with a sentence on standard error.

    Args:
        message: A sentence a person can act on.
        code: What the shell is told.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    """Some commands take none."""


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the table.

    Attributes:
        words: What is typed after ``jupyter nbinline``.
        help: One line.
        run: Does it and returns the exit code; it may raise what ``main`` turns into a sentence.
        arguments: Declares the command's own arguments.
    """

    words: tuple[str, ...]
    help: str
    run: Callable[[argparse.Namespace], int]
    arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments


def failed(message: str, code: ExitCode = ExitCode.FAILED) -> int:
    """Say on standard error what went wrong."""
    print(message, file=sys.stderr)
    return code


def json_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``, which every command that tells something takes."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def print_json(value: Any) -> None:
    """Print JSON: indented for people, on one line for a pipe."""
    people = sys.stdout.isatty()
    print(json.dumps(value, indent=2 if people else None, ensure_ascii=False))
