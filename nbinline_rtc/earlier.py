"""What the earlier, browser-driven extension left: keys, style wording, defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import json5

from nbinline_agent.context.choices import Mode
from nbinline_agent.context.instructions import STYLE_LIMIT, STYLES

from .credentials import CredentialStore
from .private_files import FileRefused, PrivateFile, config_root
from .styles import valid_styles

EARLIER_NAME = "nbinlineai"

CONNECTION_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "openai_api": "openai_api",
        "openai": "openai_api",
        "openai_api_key": "openai_api",
        "anthropic_api": "anthropic_api",
        "anthropic": "anthropic_api",
        "anthropic_api_key": "anthropic_api",
        "claude_api": "anthropic_api",
        "claude": "anthropic_api",
        "openai_compatible": "openai_compatible",
        "openai_compatible_api_key": "openai_compatible",
    }
)
"""The earlier extension's words for a connection, in lower case with underscores, to ours."""

_DEFAULT_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "backend": "backend",
        "defaultbackend": "backend",
        "provider": "backend",
        "defaultprovider": "backend",
        "connection": "backend",
        "defaultconnection": "backend",
        "model": "model",
        "defaultmodel": "model",
        "promptmode": "promptMode",
        "defaultpromptmode": "promptMode",
        "style": "promptMode",
        "defaultstyle": "promptMode",
        "reasoningeffort": "reasoningEffort",
        "defaultreasoningeffort": "reasoningEffort",
        "effort": "reasoningEffort",
        "contextmode": "contextMode",
        "defaultcontextmode": "contextMode",
    }
)
_KNOWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {"contextMode": frozenset(Mode), "promptMode": frozenset(STYLES)}
)


@dataclass(frozen=True, slots=True)
class SavedSettings:
    """Choices of this account that are no secrets.

    Attributes:
        defaults: For new notebooks, under the names of the notebook's metadata.
        styles: Own wording by style.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    styles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was found.

    Attributes:
        keys: By our connection; hidden in ``repr``.
        settings: Defaults and wording.
        notes: A sentence for each thing that could not be taken.
    """

    keys: Mapping[str, str] = field(repr=False)
    settings: SavedSettings
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """What was taken over; names only."""

    keys: tuple[str, ...]
    kept: tuple[str, ...]
    defaults: tuple[str, ...]
    styles: tuple[str, ...]
    notes: tuple[str, ...]


def earlier_credentials_path() -> Path:
    """Where the earlier extension keeps its keys."""
    return config_root() / EARLIER_NAME / "credentials.json"


def settings_file(path: Path | None = None) -> PrivateFile:
    """Our file of choices that are no secrets."""
    return PrivateFile(path or config_root() / "nbinline" / "settings.json")


def saved_settings(path: Path | None = None) -> SavedSettings:
    """The account's choices; empty where nothing valid is saved.

    Raises:
        FileRefused: The file cannot be trusted or read.
    """
    content = settings_file(path).read()
    return SavedSettings(
        _valid_defaults(content.get("defaults")), valid_styles(content.get("styles"))
    )


def find_earlier(credentials: Path, lab_settings: Path) -> Earlier:
    """Read what the earlier extension left, whatever shape it has.

    Args:
        credentials: Its file of keys.
        lab_settings: JupyterLab's folder of user settings.
    """
    notes: list[str] = []
    keys: dict[str, str] = {}
    defaults: dict[str, str] = {}
    styles: dict[str, str] = {}
    try:
        content = PrivateFile(credentials).read()
    except FileRefused as refusal:
        notes.append(str(refusal))
    else:
        keys.update(_keys_in(content))
        if content and not keys:
            notes.append(f"{credentials} holds no key that could be recognised.")
        _collect(content, defaults, styles)
    for path in sorted(lab_settings.glob("**/*.jupyterlab-settings")):
        if EARLIER_NAME in str(path.relative_to(lab_settings)):
            try:
                _collect(json5.loads(path.read_text("utf-8")), defaults, styles)
            except (OSError, ValueError):
                notes.append(f"{path} could not be read as JupyterLab settings.")
    notes.extend(_map_backend(defaults))
    notes.extend(_drop_unknown(defaults))
    return Earlier(keys, SavedSettings(defaults, styles), tuple(notes))


def import_earlier(
    found: Earlier, store: CredentialStore, settings: PrivateFile, *, overwrite: bool = False
) -> Imported:
    """Take over what was found; what is already set here stays unless ``overwrite``.

    Raises:
        CredentialsUnusable: Our own file of keys cannot be trusted or written.
        BadRequest: A key found cannot be a key.
        FileRefused: Our own settings file cannot be trusted or written.
    """
    taken, kept = [], []
    for connection, key in found.keys.items():
        if store.source(connection) == "saved" and not overwrite:
            kept.append(connection)
        else:
            store.set_key(connection, key)
            taken.append(connection)
    backend = found.settings.defaults.get("backend")
    if backend is not None and (overwrite or store.default_connection() is None):
        store.set_default_connection(backend)
    defaults, styles = found.settings.defaults, found.settings.styles
    if defaults or styles:
        with settings.change() as content:
            old = SavedSettings(
                _valid_defaults(content.get("defaults")), valid_styles(content.get("styles"))
            )
            first, second = (old, found.settings) if overwrite else (found.settings, old)
            content["defaults"] = {**first.defaults, **second.defaults}
            content["styles"] = {**first.styles, **second.styles}
    return Imported(tuple(taken), tuple(kept), tuple(defaults), tuple(styles), found.notes)


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _keys_in(value: Any, connection: str | None = None) -> Iterator[tuple[str, str]]:
    """Every string that stands, at any depth, under the name of a connection we know."""
    if isinstance(value, str) and connection is not None and value.strip():
        yield connection, value.strip()
    elif isinstance(value, list):
        for item in value:
            named = item.get("backend", item.get("name")) if isinstance(item, dict) else None
            known = CONNECTION_WORDS.get(_word(named)) if isinstance(named, str) else None
            yield from _keys_in(item, known)
    elif isinstance(value, dict):
        for name, item in value.items():
            known = CONNECTION_WORDS.get(_word(str(name)))
            if known is not None:
                yield from _keys_in(item, known)
            elif isinstance(item, dict | list):
                yield from _keys_in(item, connection)
            elif _word(str(name)) in ("key", "api_key", "apikey", "token", "secret", "value"):
                yield from _keys_in(item, connection)


def _collect(value: Any, defaults: dict[str, str], styles: dict[str, str]) -> None:
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        plain = _word(str(name)).replace("_", "")
        style = next((style for style in STYLES if style in plain), None)
        if isinstance(item, dict):
            _collect(item, defaults, styles)
        elif style is not None and isinstance(item, str):
            if item.strip() and len(item) <= STYLE_LIMIT:
                styles[style] = item
        elif plain in _DEFAULT_WORDS and isinstance(item, str) and item:
            defaults[_DEFAULT_WORDS[plain]] = item


def _map_backend(defaults: dict[str, str]) -> Iterator[str]:
    backend = defaults.get("backend")
    if backend is None:
        return
    known = CONNECTION_WORDS.get(_word(backend))
    if known is not None:
        defaults["backend"] = known
        return
    del defaults["backend"]
    defaults.pop("model", None)
    yield f"The earlier default connection {backend!r} is not known here; choose another one."


def _drop_unknown(defaults: dict[str, str]) -> Iterator[str]:
    for name, known in _KNOWN.items():
        if name in defaults and defaults[name] not in known:
            yield f"The earlier choice {name}={defaults.pop(name)!r} is not known here."


def _valid_defaults(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    names = set(_DEFAULT_WORDS.values())
    return {
        name: choice
        for name, choice in value.items()
        if name in names and isinstance(choice, str) and choice in _KNOWN.get(name, {choice})
    }
