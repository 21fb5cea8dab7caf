"""The styles of answers: three of ours, which may be reworded, and people's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from nbinline_agent.context.instructions import STYLE_LIMIT, STYLES
from nbinline_agent.errors import BadRequest, NbinlineError

from .private_files import FileRefused, PrivateFile

MAX_NAME = 40
"""Characters of a style's name."""

MAX_STYLES = 50
"""Styles with a wording of their own."""


class SettingsUnusable(NbinlineError):
    """The file of settings is damaged, a symlink, somebody else's, or cannot be written."""

    code = "settings-unusable"
    http_status = 500
    default_message = "The file of AI settings cannot be used; the server's log says why."


def valid_styles(value: Any) -> dict[str, str]:
    """Wordings by name; whatever is damaged is left out."""
    if not isinstance(value, Mapping):
        return {}
    return {
        name: wording
        for name, wording in value.items()
        if is_style_name(name) and isinstance(wording, str) and 0 < len(wording) <= STYLE_LIMIT
    }


def is_style_name(name: object) -> bool:
    """Whether a style may be called so: short, printable, no white space at its ends."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= MAX_NAME
        and name.isprintable()
        and name == name.strip()
    )


@dataclass(eq=False)
class AnswerStyles:
    """The styles of this account, kept in its settings file.

    Attributes:
        file: Where own wordings are.
        own: Own wordings by name, as they were last read.
    """

    file: PrivateFile
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def wordings(self) -> Mapping[str, str]:
        """Every style with the wording that holds; ours first."""
        return {**STYLES, **self.own}

    async def refresh(self) -> None:
        """Read the file again: another server of the same account may have written it.

        Raises:
            SettingsUnusable: It cannot be trusted or read.
        """
        try:
            content = await anyio.to_thread.run_sync(self.file.read)
        except FileRefused as refusal:
            raise SettingsUnusable(str(refusal)) from None
        self.own = valid_styles(content.get("styles"))

    async def set(self, name: str, wording: str) -> None:
        """Save a wording; under one of our names it takes the place of ours.

        Raises:
            BadRequest: The name or the wording cannot be used, or there are too many.
            SettingsUnusable: The file cannot be written.
        """
        if not is_style_name(name):
            raise BadRequest(f"The name of a style has 1 to {MAX_NAME} printable characters.")
        if not wording.strip() or len(wording) > STYLE_LIMIT:
            raise BadRequest(f"The wording of a style has 1 to {STYLE_LIMIT:,} characters.")
        if name not in self.own and len(self.own) >= MAX_STYLES:
            raise BadRequest(f"There are {MAX_STYLES} styles already. Remove one first.")
        await self._change(name, wording)

    async def remove(self, name: str) -> None:
        """Forget a wording; of ours, our own holds again.

        Raises:
            SettingsUnusable: The file cannot be written.
        """
        await self._change(name, None)

    async def _change(self, name: str, wording: str | None) -> None:
        try:
            self.own = await anyio.to_thread.run_sync(self._write, name, wording)
        except FileRefused as refusal:
            raise SettingsUnusable(str(refusal)) from None

    def _write(self, name: str, wording: str | None) -> Mapping[str, str]:
        with self.file.change() as content:
            styles = valid_styles(content.get("styles"))
            styles.pop(name, None)
            if wording is not None:
                styles[name] = wording
            content["styles"] = styles
        return styles
