"""The running servers as a command line uses them: found, asked, and never guessed about."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nbinline_rtc.servers import (
    TOKEN_VARIABLES,
    TokenUnreadable,
    own_token,
    running_servers,
    token_for,
)

from .commands import CommandFailed, ExitCode

PATIENCE = 30.0
"""Seconds a server may take to answer."""

KNOCKING = 5.0
"""Seconds a server may take to say whether it has a notebook open."""

_CODES: Mapping[int, ExitCode] = {
    401: ExitCode.REFUSED,
    403: ExitCode.REFUSED,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.REFUSED,
    503: ExitCode.NO_SERVER,
}


class Unreachable(CommandFailed):
    """Nobody answers at an address."""


class NotOurs(CommandFailed):
    """A Jupyter server answers, but it has no AI prompts."""


@dataclass(frozen=True, slots=True)
class Server:
    """A Jupyter server.

    Attributes:
        url: Its base URL.
        token: Its token; empty if it needs none.
        root: Its root folder on this machine; None if it may be elsewhere.
    """

    url: str
    token: str = field(repr=False, default="")
    root: Path | None = None

    def request(
        self,
        method: str,
        route: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        patience: float = PATIENCE,
    ) -> dict[str, Any]:
        """Send a request below ``nbinline/``; the JSON object that was answered.

        Raises:
            CommandFailed: It was refused; with the server's own sentence.
        """
        import httpx2

        try:
            answer = httpx2.request(
                method,
                f"{self.url.rstrip('/')}/nbinline/{route}",
                params=dict(params or {}),
                json=body,
                headers={"Authorization": f"token {self.token}"} if self.token else {},
                timeout=httpx2.Timeout(PATIENCE, read=patience),
                follow_redirects=False,
            )
        except httpx2.HTTPError:
            raise Unreachable(f"No server answers at {self.url}.", ExitCode.NO_SERVER) from None
        return self._told(answer.status_code, answer)

    def _told(self, status: int, answer: Any) -> dict[str, Any]:
        try:
            told = answer.json()
        except ValueError:
            told = None
        if status < 300 and isinstance(told, dict):
            return told
        error = told.get("error") if isinstance(told, dict) else None
        if isinstance(error, dict):
            raise CommandFailed(str(error.get("message")), _CODES.get(status, ExitCode.FAILED))
        if status in (302, 401, 403):
            raise CommandFailed(
                f"The server at {self.url} refused. Set {TOKEN_VARIABLES[0]} to its token.",
                ExitCode.REFUSED,
            )
        raise NotOurs(
            f"The server at {self.url} has no AI prompts (nbinline-rtc).", ExitCode.NO_SERVER
        )

    def path_of(self, file: Path) -> str | None:
        """A file's path as this server names it; None if it is not below its root."""
        if self.root is None:
            return None
        try:
            return file.resolve().relative_to(self.root.resolve()).as_posix()
        except ValueError:
            return None


def server_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a server is named."""
    parser.add_argument(
        "--url",
        default="",
        help="the Jupyter server, for one that does not run on this account; paths of notebooks "
        "are then named from its root",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        help="a file with the server's token; else NBINLINE_TOKEN or JUPYTER_TOKEN, else the token "
        "that a server of this account wrote down",
    )


def servers_of(arguments: argparse.Namespace) -> list[Server]:
    """The server that was named, else all that run on this account.

    Raises:
        CommandFailed: The address or the token's file is of no use.
    """
    running = running_servers()
    try:
        if arguments.url:
            if urlsplit(arguments.url).scheme not in ("http", "https"):
                raise CommandFailed(
                    f"{arguments.url!r} is not the address of a Jupyter server.", ExitCode.USAGE
                )
            token = token_for(arguments.url, arguments.token_file, running)
            return [Server(arguments.url, token)]
        return [
            Server(
                str(each["url"]),
                own_token(str(each["url"]), running) or token_for("", arguments.token_file, ()),
                Path(str(each["root_dir"])) if each.get("root_dir") else None,
            )
            for each in running
        ]
    except TokenUnreadable as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None


def only_server(arguments: argparse.Namespace) -> Server:
    """The server that was named, or the only one that runs here and has AI prompts.

    Raises:
        CommandFailed: There is none, or it is not clear which one.
    """
    servers = servers_of(arguments)
    if arguments.url:
        return servers[0]
    ours = [each for each in servers if _answers(each)]
    if len(ours) == 1:
        return ours[0]
    known = ", ".join(each.url for each in ours) or "none"
    raise CommandFailed(
        f"Say which server with --url; running on this account: {known}.", ExitCode.NO_SERVER
    )


def _answers(server: Server) -> bool:
    try:
        server.request("GET", "status", patience=KNOCKING)
    except (Unreachable, NotOurs):
        return False
    return True
