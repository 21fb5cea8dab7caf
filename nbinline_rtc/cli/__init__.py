"""``jupyter nbinline …``: one table of commands, each with its arguments and its function.

Every family of commands is a module with its own rows. What takes long to import is imported by
the command that needs it, so that ``--help`` and completion stay fast.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from nbinline_rtc import __version__

from . import publishing, reading, setting_up
from .commands import Command, CommandFailed, ExitCode, failed

__all__ = ["COMMANDS", "Command", "CommandFailed", "ExitCode", "main", "make_parser"]

COMMANDS: tuple[Command, ...] = (
    *reading.COMMANDS,
    *setting_up.COMMANDS,
    *publishing.COMMANDS,
)
"""Every command; a new one is a new row in its family."""

GROUPS = {"model": "the trial model"}
"""What the commands of two words are about."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code; see ``ExitCode``."""
    arguments = make_parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A file may hold halves of characters that no encoding has.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
    except CommandFailed as error:
        code = failed(error.message, error.code)
    except KeyboardInterrupt:
        code = failed("Stopped.", ExitCode.STOPPED)
    except BrokenPipeError:
        # Whoever read our output has enough; Python would complain once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.OK
    except Exception as error:
        if (sentence := setting_up.sentence_of(error)) is None:
            raise
        code = failed(sentence)
    sys.exit(int(code))


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="jupyter nbinline", description="AI prompts in shared notebooks."
    )
    parser.add_argument("--version", action="version", version=__version__)
    top = parser.add_subparsers(metavar="COMMAND", required=True)
    groups: dict[str, Any] = {}
    for command in COMMANDS:
        *group, name = command.words
        within = top
        for word in group:
            if word not in groups:
                about = top.add_parser(word, help=f"commands about {GROUPS.get(word, word)}")
                groups[word] = about.add_subparsers(metavar="COMMAND", required=True)
            within = groups[word]
        leaf = within.add_parser(name, help=command.help, description=command.help)
        command.arguments(leaf)
        leaf.set_defaults(run=command.run)
    return parser
