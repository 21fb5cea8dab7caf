"""A notebook of the command line: the live document where a server has it open, else the file.

Never both: who reads, reads the one that holds; who writes a file is refused while a server has it
open.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbinline_agent.context.choices import Policy
from nbinline_agent.context.told import visible_cells
from nbinline_agent.render.text import TextCell

from .commands import CommandFailed, ExitCode
from .servers import KNOCKING, NotOurs, Server, Unreachable, server_arguments, servers_of


@dataclass(frozen=True, slots=True)
class Source:
    """A notebook that was read.

    Attributes:
        notebook: In nbformat's form.
        title: How it is called.
        live: Whether it is a document that a server has open.
        policy: What is kept from models.
    """

    notebook: Mapping[str, Any]
    title: str
    live: bool
    policy: Policy = field(default_factory=Policy)

    def cells(self, *, show_hidden: bool = False) -> list[TextCell]:
        """Its cells without what a course hides from models."""
        return visible_cells(
            self.notebook, Policy(hide_solutions=False) if show_hidden else self.policy
        )

    @property
    def where(self) -> str:
        """In a word, for JSON."""
        return "live" if self.live else "file"


@dataclass(frozen=True, slots=True)
class Open:
    """A notebook that a server has open.

    Attributes:
        server: The server.
        path: The notebook's path there.
        told: What the server said about it.
    """

    server: Server
    path: str
    told: Mapping[str, Any]


def notebook_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the notebook that is read, and where."""
    parser.add_argument("notebook", help="the notebook's file")
    parser.add_argument(
        "--saved",
        action="store_true",
        help="read the file as it is saved, also while a server has it open",
    )
    server_arguments(parser)


def hidden_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--show-hidden``."""
    parser.add_argument(
        "--show-hidden",
        action="store_true",
        help="also show what a course hides from models, as solutions between nbgrader's marks",
    )


def read_source(arguments: argparse.Namespace) -> Source:
    """The notebook of ``notebook_arguments``.

    Raises:
        CommandFailed: It cannot be read.
    """
    name = arguments.notebook
    found = None if arguments.saved else find_open(name, arguments)
    if found is None:
        if arguments.url and not arguments.saved:
            raise CommandFailed(
                f"{name} is not open on that server. Open it there, or read the file here "
                "with --saved.",
                ExitCode.NOT_FOUND,
            )
        return Source(read_file(Path(name)), name, live=False)
    told = found.told
    policy = Policy(bool(told["hide_solutions"]), frozenset(told["hidden_tags"]))
    return Source(told["notebook"], name, live=True, policy=policy)


def find_open(
    name: str, arguments: argparse.Namespace, *, content: bool = True, to_write: bool = False
) -> Open | None:
    """The server that has a notebook open, or None.

    Args:
        name: The notebook's file; with ``--url`` its path below the server's root.
        arguments: How servers are named.
        content: Whether what stands in it is wanted.
        to_write: Whether the file is to be written: then a server that cannot be asked counts as a
            refusal.

    Raises:
        CommandFailed: It cannot be known.
    """
    for server in servers_of(arguments):
        path = name.strip("/") if arguments.url else server.path_of(Path(name))
        if path is None:
            continue
        found = _asked(server, path, content=content, named=bool(arguments.url), strict=to_write)
        if found is not None and found.told["open"]:
            return found
    return None


def _asked(server: Server, path: str, *, content: bool, named: bool, strict: bool) -> Open | None:
    try:
        told = server.request(
            "GET",
            "notebook",
            params={"path": path, "content": int(content)},
            patience=KNOCKING if not content else 60.0,
        )
    except Unreachable:
        if named or strict:
            raise
        print(f"The server at {server.url} does not answer; it is left aside.", file=sys.stderr)
        return None
    except NotOurs:
        # It has no shared documents of ours; what it edits it saves like any other editor.
        if named:
            raise
        return None
    except CommandFailed as error:
        if error.code is ExitCode.NOT_FOUND and not named:
            return None
        raise
    return Open(server, str(told["path"]), told)


def read_file(path: Path) -> dict[str, Any]:
    """A notebook's file.

    Raises:
        CommandFailed: There is none, or it is no notebook.
    """
    return parse(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """A file.

    Raises:
        CommandFailed: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CommandFailed(f"There is no file {path}.", ExitCode.NOT_FOUND) from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None


def parse(data: bytes, path: Path) -> dict[str, Any]:
    """The notebook in a file's bytes.

    Raises:
        CommandFailed: It is no notebook.
    """
    import json

    import orjson

    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        # It is stricter than the files that people have: lone surrogates, NaN.
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict) or not isinstance(value.get("cells"), list):
        raise CommandFailed(f"{path} is not a notebook that can be read.")
    return value


def refuse_if_open(path: Path, arguments: argparse.Namespace) -> None:
    """Keep from writing a file whose live document would not know of it.

    Raises:
        CommandFailed: A server has it open, or cannot be asked.
    """
    found = find_open(str(path), arguments, content=False, to_write=True) if path.exists() else None
    if found is not None:
        raise CommandFailed(
            f"{path} is open on the server at {found.server.url}. Close it there, or write to "
            "another file.",
            ExitCode.REFUSED,
        )


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all; it keeps its mode.

    Raises:
        CommandFailed: It cannot be written.
    """
    target = path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
