"""Small private files of one person: locked, replaced atomically, never through a symlink."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Without O_NONBLOCK a named pipe in the file's place would block for ever.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

MAX_BYTES = 1_000_000
"""A settings file over this size, in bytes, is not one of ours."""


class FileRefused(Exception):
    """The file or its folder cannot be trusted or read; the text says which and why."""


def config_root() -> Path:
    """The folder that holds every program's settings of this account.

    An absolute ``XDG_CONFIG_HOME`` wins on every system; a relative one is ignored, as its
    specification asks.
    """
    chosen = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if chosen.is_absolute():
        return chosen
    if sys.platform == "win32":
        return platformdirs.user_config_path(appname=None, appauthor=False)
    return Path.home() / ".config"


class PrivateFile:
    """A JSON object in a file that only its owner may read.

    All methods block: call them from a worker thread when an event loop is running.

    Args:
        path: Where the file lies. Its folder is made with mode 0700, the file with 0600.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any]:
        """The object in the file, or an empty one if there is no file.

        Raises:
            FileRefused: It is a symlink, somebody else's, too large, or not a JSON object.
        """
        try:
            if self.path.parent.is_symlink():
                raise FileRefused(f"{self.path.parent} is a symlink; make it a real folder.")
            descriptor = os.open(self.path, _READ)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise FileRefused(self._refusal(error)) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileRefused(f"{self.path} is not a regular file.")
            self._check_owner(status)
            if sys.platform != "win32" and status.st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
            content = _read_all(descriptor)
        finally:
            os.close(descriptor)
        return self._decode(content)

    @contextlib.contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """The object to be changed in place, under a lock; it is written when the block ends well.

        Raises:
            FileRefused: As ``read``, or the folder cannot be written. The file stays as it was.
        """
        self._make_folder()
        with self._lock():
            content = self.read()
            yield content
            self._replace(content)

    def _make_folder(self) -> None:
        folder = self.path.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.is_symlink():
                raise FileRefused(f"{folder} is a symlink; make it a real folder.")
            self._check_owner(folder.stat())
            if folder.stat().st_mode & 0o077:
                folder.chmod(0o700)
        except OSError as error:
            raise FileRefused(f"{folder} cannot be used: {error.strerror}.") from None

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        path = self.path.with_suffix(".lock")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise FileRefused(f"{path} cannot be locked: {error.strerror}.") from None
        with os.fdopen(descriptor, "rb+") as file:
            if sys.platform == "win32":
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _replace(self, content: Mapping[str, Any]) -> None:
        folder = self.path.parent
        try:
            descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{self.path.name}.")
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(content, file, indent=2, ensure_ascii=False, sort_keys=True)
                    file.write("\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, self.path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
                raise
            _sync_folder(folder)
        except OSError as error:
            raise FileRefused(f"{self.path} cannot be written: {error.strerror}.") from None

    def _decode(self, content: bytes) -> dict[str, Any]:
        advice = f"{self.path} was left as it is; mend it, or move it away and set it up again."
        if len(content) > MAX_BYTES:
            raise FileRefused(f"The file is larger than {MAX_BYTES:,} bytes. {advice}")
        try:
            value = json.loads(content)
        except ValueError:
            # The decoder's own words could quote the file, so they are not passed on.
            raise FileRefused(f"The file is not valid JSON. {advice}") from None
        if not isinstance(value, dict):
            raise FileRefused(f"The file does not hold a JSON object. {advice}")
        return value

    def _check_owner(self, status: os.stat_result) -> None:
        getuid = getattr(os, "getuid", None)
        if getuid is not None and status.st_uid != getuid():
            raise FileRefused(f"{self.path} or its folder belongs to another account.")

    def _refusal(self, error: OSError) -> str:
        if self.path.is_symlink():
            return f"{self.path} is a symlink, which is refused; make it a real file."
        return f"{self.path} cannot be read: {error.strerror}."


def _read_all(descriptor: int) -> bytes:
    pieces = []
    size = 0
    while size <= MAX_BYTES and (piece := os.read(descriptor, MAX_BYTES)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable, where the system lets a folder be opened."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
