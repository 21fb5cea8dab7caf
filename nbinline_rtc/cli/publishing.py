"""The command that takes authorship out of notebooks before they are published."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from nbinline_rtc.publishing import strip

from .commands import Command, CommandFailed, ExitCode


def run_strip(arguments: argparse.Namespace) -> int:
    """Strip each file; say how many cells lost something."""
    if not arguments.in_place and len(arguments.files) > 1:
        raise CommandFailed("Several files need --in-place.", ExitCode.USAGE)
    for path in arguments.files:
        before = _read(path)
        found = strip(before, everything=arguments.all)
        text = json.dumps(found.notebook, indent=1, ensure_ascii=False) + "\n"
        if arguments.in_place:
            if found.notebook != before:
                _replace(path, text)
        elif arguments.output is not None:
            arguments.output.write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)
        cells = "1 cell" if found.cells == 1 else f"{found.cells} cells"
        print(f"{path}: stripped {cells}.", file=sys.stderr)
    return ExitCode.OK


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CommandFailed(f"There is no file {path}.", ExitCode.NOT_FOUND) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CommandFailed(f"{path} cannot be read as a notebook: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("cells"), list):
        raise CommandFailed(f"{path} is not a notebook of format 4.")
    return value


def _replace(path: Path, text: str) -> None:
    """Put the new file in the place of the old one at once, with its mode."""
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, target.stat().st_mode & 0o7777)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a notebook")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--in-place", action="store_true", help="change the files themselves")
    where.add_argument("-o", "--output", type=Path, help="write here instead of standard output")
    parser.add_argument(
        "--all",
        action="store_true",
        help="take out all metadata of AI prompts; questions and answers become plain text",
    )


COMMANDS: tuple[Command, ...] = (
    Command(
        ("strip",),
        "take out of notebooks who had what written by which model, before they are published",
        run_strip,
        _arguments,
    ),
)
