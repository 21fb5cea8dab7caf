"""API keys on the server: a private file first, the environment second, never given away."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from nbinline_agent.errors import BadRequest, NbinlineError, UnknownConnection

from .private_files import FileRefused, PrivateFile, config_root

KEY_VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "openai_api": "OPENAI_API_KEY",
        "anthropic_api": "ANTHROPIC_API_KEY",
        "openai_compatible": "OPENAI_COMPATIBLE_API_KEY",
    }
)
"""The environment variable of each connection that takes a key."""

KEYLESS_CONNECTIONS = frozenset({"local", "openai_codex_subscription"})
"""Connections that need no key, so that they can be a default all the same."""

MAX_KEY = 4_096
"""Longest key accepted, in characters."""

KeySource = Literal["saved", "environment"]


class CredentialsUnusable(NbinlineError):
    """The file of keys is damaged, a symlink, somebody else's, or cannot be written."""

    code = "credentials-unusable"
    http_status = 500
    default_message = "The file of API keys cannot be used; the server's log says why."


class CredentialStore:
    """The keys of this account, and its default connection.

    A saved key wins over the environment. The file is read at every call, so that a key saved by
    another server of the same account counts at once; no key stays in the object. All methods
    block: call them from a worker thread when an event loop is running.

    Args:
        path: The file; by default ``nbinline/credentials.json`` in the account's settings folder.
        environ: Where keys are looked up that were not saved.
        on_secret: Told every key that is read or saved, so that logs can hide it.

    Example:
        >>> store = CredentialStore()
        >>> store.source("openai_api")
        'environment'
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        on_secret: Callable[[str], None] | None = None,
    ) -> None:
        self._file = PrivateFile(path or config_root() / "nbinline" / "credentials.json")
        self._environ = os.environ if environ is None else environ
        self._on_secret = on_secret or _ignore

    @property
    def path(self) -> Path:
        """Where the file lies, whether or not it exists yet."""
        return self._file.path

    def key(self, connection: str) -> str | None:
        """The key to use, or None.

        Raises:
            CredentialsUnusable: The file cannot be trusted or read.
            UnknownConnection: This connection takes no key.
        """
        return self._find(connection)[0]

    def source(self, connection: str) -> KeySource | None:
        """Where the key comes from, or None if there is none.

        Raises:
            CredentialsUnusable: The file cannot be trusted or read.
            UnknownConnection: This connection takes no key.
        """
        return self._find(connection)[1]

    def set_key(self, connection: str, key: str) -> None:
        """Save a key in place of the one before it.

        Raises:
            BadRequest: It is empty, too long, or has characters no key has.
            CredentialsUnusable: The file cannot be trusted or written; it stays as it was.
            UnknownConnection: This connection takes no key.
        """
        variable_of(connection)
        cleaned = _clean(key)
        self._on_secret(cleaned)
        with self._changed() as content:
            content["version"] = 1
            keys = content.get("keys")
            content["keys"] = {**(keys if isinstance(keys, dict) else {}), connection: cleaned}

    def remove_key(self, connection: str) -> bool:
        """Forget a saved key; the environment's, if there is one, counts again.

        Returns:
            Whether there was a saved one.

        Raises:
            CredentialsUnusable: The file cannot be trusted or written; it stays as it was.
            UnknownConnection: This connection takes no key.
        """
        variable_of(connection)
        with self._changed() as content:
            keys = content.get("keys")
            return isinstance(keys, dict) and keys.pop(connection, None) is not None

    def default_connection(self) -> str | None:
        """The connection that new notebooks take, or None if nobody chose one.

        Raises:
            CredentialsUnusable: The file cannot be trusted or read.
        """
        chosen = self._read().get("default_connection")
        return chosen if isinstance(chosen, str) and _is_connection(chosen) else None

    def set_default_connection(self, connection: str | None) -> None:
        """Choose the connection that new notebooks take; None forgets the choice.

        Raises:
            CredentialsUnusable: The file cannot be trusted or written; it stays as it was.
            UnknownConnection: There is no such connection.
        """
        if connection is not None and not _is_connection(connection):
            raise UnknownConnection
        with self._changed() as content:
            content["version"] = 1
            content["default_connection"] = connection

    def register_secrets(self) -> None:
        """Tell ``on_secret`` every key there is, before the first line is logged.

        Raises:
            CredentialsUnusable: The file cannot be trusted or read.
        """
        for variable in KEY_VARIABLES.values():
            if value := self._environ.get(variable, "").strip():
                self._on_secret(value)
        for connection in KEY_VARIABLES:
            self._find(connection)

    def _find(self, connection: str) -> tuple[str | None, KeySource | None]:
        variable = variable_of(connection)
        keys = self._read().get("keys")
        saved = keys.get(connection) if isinstance(keys, dict) else None
        if isinstance(saved, str) and saved:
            self._on_secret(saved)
            return saved, "saved"
        value = self._environ.get(variable, "").strip()
        if value:
            self._on_secret(value)
            return value, "environment"
        return None, None

    def _read(self) -> dict[str, Any]:
        try:
            return self._file.read()
        except FileRefused as refusal:
            raise CredentialsUnusable(str(refusal)) from None

    @contextlib.contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        try:
            with self._file.change() as content:
                yield content
        except FileRefused as refusal:
            raise CredentialsUnusable(str(refusal)) from None

    def __repr__(self) -> str:
        return f"CredentialStore({str(self.path)!r})"


def variable_of(connection: str) -> str:
    """The environment variable of a connection.

    Raises:
        UnknownConnection: It takes no key.
    """
    variable = KEY_VARIABLES.get(connection)
    if variable is None:
        raise UnknownConnection(
            "That connection takes no key. Keys can be set for " + ", ".join(KEY_VARIABLES) + "."
        )
    return variable


def _is_connection(name: str) -> bool:
    return name in KEY_VARIABLES or name in KEYLESS_CONNECTIONS


def _clean(key: str) -> str:
    cleaned = key.strip()
    if not cleaned:
        raise BadRequest("The key is empty.")
    if len(cleaned) > MAX_KEY:
        raise BadRequest(f"The key is longer than {MAX_KEY:,} characters.")
    if not cleaned.isascii() or not cleaned.isprintable() or " " in cleaned:
        raise BadRequest("The key holds spaces or characters that no key has. Copy it again.")
    return cleaned


def _ignore(secret: str) -> None:
    """Nobody wants to know."""
