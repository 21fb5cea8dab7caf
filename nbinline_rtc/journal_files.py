"""The journal's directory: one slot a server process, held by an operating-system lock."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbinline_agent.errors import JournalUnavailable

MAX_SLOTS = 1000
_DATABASE_NAME = re.compile(r"(\d{1,3})\.sqlite")
_COMPANIONS = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one server process's journal file."""

    directory: Path
    number: int

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.directory / f"{self.number}.sqlite"

    @property
    def lock_file(self) -> Path:
        """The file whose lock says that a living process owns the slot. It is never removed."""
        return self.directory / f"{self.number}.lock"

    def files(self) -> Iterator[Path]:
        """The SQLite file and what SQLite keeps beside it."""
        for companion in _COMPANIONS:
            yield self.database.with_name(self.database.name + companion)


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """A slot this process owns until ``release``; the system releases it when the process dies."""

    slot: Slot
    descriptor: int

    def release(self) -> None:
        """Give the slot back."""
        os.close(self.descriptor)


def prepare_directory(directory: Path) -> None:
    """Make the directory private to this user.

    Raises:
        JournalUnavailable: It cannot be made, or it is a symbolic link.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode):
            raise JournalUnavailable(
                "The journal's directory is a symbolic link or a file, which is refused."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            directory.chmod(0o700)
    except OSError as error:
        raise JournalUnavailable(
            f"The journal's directory cannot be used: {error.strerror}."
        ) from error


def take_free_slot(directory: Path) -> HeldSlot:
    """Own the first slot that no living process owns.

    Raises:
        JournalUnavailable: The lock files cannot be made, or every slot is taken.
    """
    for number in range(MAX_SLOTS):
        held = try_slot(Slot(directory, number))
        if held is not None:
            return held
    raise JournalUnavailable("Too many servers share one journal directory.")


def try_slot(slot: Slot) -> HeldSlot | None:
    """Own the slot, or None when a living process does.

    Raises:
        JournalUnavailable: The lock file cannot be made or is a symbolic link.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(slot.lock_file, flags, 0o600)
    except OSError as error:
        raise JournalUnavailable(f"The journal cannot be locked: {error.strerror}.") from error
    if _lock(descriptor):
        return HeldSlot(slot, descriptor)
    os.close(descriptor)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def other_slots(mine: Slot) -> list[Slot]:
    """The slots beside ``mine`` that have a database, in order."""
    numbers = (
        int(match[1])
        for name in os.listdir(mine.directory)
        if (match := _DATABASE_NAME.fullmatch(name))
    )
    return [Slot(mine.directory, number) for number in sorted(numbers) if number != mine.number]


def prepare_database(slot: Slot) -> None:
    """Make sure that the database is a private, ordinary file before SQLite opens it.

    Raises:
        JournalUnavailable: One of its files is a symbolic link, or it cannot be made.
    """
    try:
        for path in slot.files():
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(path).st_mode):
                    raise JournalUnavailable(
                        f"The journal file {path.name} is not an ordinary file, which is refused."
                    )
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(slot.database, flags, 0o600)
        try:
            if os.name == "posix":
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise JournalUnavailable(f"The journal file cannot be opened: {error.strerror}.") from error


def remove_database(slot: Slot) -> None:
    """Remove the slot's files; the lock file stays."""
    for path in slot.files():
        path.unlink(missing_ok=True)


def set_aside(slot: Slot) -> Path | None:
    """Rename a damaged database so that it can be looked at later.

    Returns:
        Its new name, or None when there is nothing to keep.

    Raises:
        OSError: It cannot be renamed.
    """
    if not slot.database.exists() or not slot.database.stat().st_size:
        return None
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    target = slot.database.with_name(f"{slot.database.name}.corrupt-{stamp}")
    attempt = 1
    while target.exists():
        target = target.with_name(f"{slot.database.name}.corrupt-{stamp}-{attempt}")
        attempt += 1
    for companion, path in zip(_COMPANIONS, slot.files(), strict=True):
        with contextlib.suppress(FileNotFoundError):
            path.rename(target.with_name(target.name + companion))
    return target


def forget_set_aside(directory: Path, older_than: float) -> None:
    """Remove damaged files that were set aside before ``older_than`` (seconds since the epoch)."""
    for path in directory.glob("*.sqlite.corrupt-*"):
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_mtime < older_than:
                path.unlink()
