"""Where AI is paused: a notebook, a folder or the whole server, until somebody resumes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread

from nbinline_agent.errors import Paused
from nbinline_agent.ids import FileId, NotebookPath
from nbinline_agent.messages import JsonValue

from . import wire
from .private_files import FileRefused, PrivateFile
from .styles import SettingsUnusable

MOST = 1_000
"""Pauses that are kept."""


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause.

    Attributes:
        path: A notebook or a folder below the server's root; empty for the whole server.
        file_id: The notebook's stable id, which a rename does not change; empty for a folder.
        by: Username of who paused.
        display_name: Their name.
        at: Seconds since the epoch, UTC.
        reason: What they said; may be empty.
    """

    path: str
    file_id: str
    by: str
    display_name: str
    at: float
    reason: str = ""

    def holds(self, path: str, file_id: str) -> bool:
        """Whether it holds for a notebook."""
        if self.file_id:
            return self.file_id == file_id or self.path == path
        return not self.path or path == self.path or path.startswith(f"{self.path}/")

    @property
    def sentence(self) -> str:
        """What somebody who asks is told."""
        if self.file_id:
            where = "in this notebook"
        else:
            where = f"in the folder {self.path}" if self.path else "on this server"
        reason = f" ({self.reason})" if self.reason else ""
        return (
            f"AI is paused {where} by {self.display_name}{reason}. "
            "Ask again when it is resumed; nothing was lost."
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The pause as clients see it; ``notebook`` tells it from the pause of a folder."""
        return {
            "path": self.path,
            "notebook": bool(self.file_id),
            "by": {"username": self.by, "display_name": self.display_name},
            "at": wire.iso(self.at),
            "reason": self.reason,
            "sentence": self.sentence,
        }


class Pauses:
    """The pauses of one server, kept in a private file over restarts.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path)
        self._lock = threading.Lock()
        self._pauses: dict[str, Pause] = {}

    def load(self) -> None:
        """Read the file; blocks.

        Raises:
            SettingsUnusable: It cannot be trusted or read. Nobody knows what is paused then.
        """
        try:
            self._pauses = _pauses(self._file.read())
        except FileRefused as refusal:
            raise SettingsUnusable(str(refusal)) from None

    def check(self, path: NotebookPath, file_id: FileId) -> None:
        """See that nothing pauses a notebook.

        Raises:
            Paused: Something does; the message says who and why.
        """
        for pause in self._pauses.values():
            if pause.holds(path, file_id):
                raise Paused(pause.sentence)

    def all(self) -> Sequence[Pause]:
        """Every pause, oldest first."""
        return sorted(self._pauses.values(), key=lambda pause: pause.at)

    async def pause(self, path: str, file_id: str, by: str, name: str, reason: str) -> Pause:
        """Pause a notebook, a folder or the server; a pause of the same path is replaced.

        Raises:
            SettingsUnusable: It cannot be kept; nothing is paused.
        """
        pause = Pause(path, file_id, by, name, time.time(), reason)
        await anyio.to_thread.run_sync(self._change, path, pause)
        return pause

    async def resume(self, path: str) -> Pause | None:
        """End the pause of this very path, if there is one, and return it.

        Raises:
            SettingsUnusable: It cannot be kept; the pause goes on.
        """
        known = self._pauses.get(path)
        if known is not None:
            await anyio.to_thread.run_sync(self._change, path, None)
        return known

    def _change(self, path: str, pause: Pause | None) -> None:
        try:
            self._replace(path, pause)
        except FileRefused as refusal:
            raise SettingsUnusable(str(refusal)) from None

    def _replace(self, path: str, pause: Pause | None) -> None:
        with self._lock, self._file.change() as content:
            # Another server on the same folder may have changed it too.
            pauses = _pauses(content)
            pauses.pop(path, None)
            if pause is not None:
                if len(pauses) >= MOST:
                    raise FileRefused("There are too many pauses; resume some first.")
                pauses[path] = pause
            content["pauses"] = [asdict(each) for each in pauses.values()]
            self._pauses = pauses


def _pauses(content: Mapping[str, Any]) -> dict[str, Pause]:
    listed = content.get("pauses")
    found = (_pause(each) for each in listed) if isinstance(listed, list) else ()
    return {pause.path: pause for pause in found if pause is not None}


def _pause(fields: Any) -> Pause | None:
    try:
        pause = Pause(**fields)
    except TypeError:
        return None
    texts = (pause.path, pause.file_id, pause.by, pause.display_name, pause.reason)
    sound = all(isinstance(each, str) for each in texts) and isinstance(pause.at, int | float)
    return pause if sound else None
