"""Jupyter servers that run on this account, and what opens them.

Jupyter's own list comes with the whole server, whose import takes seconds that a command line has
not; what it reads are small files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_runtime_dir

TOKEN_VARIABLES = ("NBINLINE_TOKEN", "JUPYTER_TOKEN")
"""Environment variables that may hold a token; the first one that is set counts."""


class TokenUnreadable(Exception):
    """The file that should hold a token cannot be read; the text is a sentence."""


def running_servers() -> list[dict[str, Any]]:
    """What each server wrote down about itself when it started; the newest first."""
    found = sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json"), key=_age)
    read = (_read(path) for path in found)
    return [each for each in read if each is not None and _alive(each.get("pid"))]


def token_for(
    url: str,
    token_file: Path | None,
    running: Iterable[Mapping[str, Any]],
    environ: Mapping[str, str] | None = None,
) -> str:
    """The token of a server; empty if none is known.

    Args:
        url: Its base URL.
        token_file: A file with the token, or None.
        running: Servers of this account.
        environ: Where the token may stand; the environment by default.

    Raises:
        TokenUnreadable: The file cannot be read.
    """
    if token_file is not None:
        try:
            return token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise TokenUnreadable(f"The token cannot be read from {token_file}.") from None
    variables = os.environ if environ is None else environ
    for name in TOKEN_VARIABLES:
        if variables.get(name):
            return variables[name]
    return own_token(url, running)


def own_token(url: str, running: Iterable[Mapping[str, Any]]) -> str:
    """The token that a server of this account wrote down.

    It goes to that very server, and to no other.
    """
    same = (each for each in running if _known_as(str(each["url"])) == _known_as(url))
    return next((str(each.get("token") or "") for each in same), "")


def _known_as(url: str) -> tuple[str, str, int | None, str]:
    """What makes an address the same one, however this machine is called."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    here = "localhost" if host in ("127.0.0.1", "::1") else host
    return parts.scheme, here, parts.port, parts.path.rstrip("/")


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("url"), str) else None


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0 or os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
