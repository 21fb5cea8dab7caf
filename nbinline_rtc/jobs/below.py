"""Opening files and folders below a root, so that nothing leads out: not a link, not a race."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_PATH = 4_096
"""Characters of a path."""

_WITH_FOLDERS = {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
# Without O_NONBLOCK a named pipe in the file's place would block for ever.
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Refused(Exception):
    """The path cannot be used; the text is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path below the root, free of links when it was looked up.

    Attributes:
        root: The root, free of links.
        parts: Names of the folders from there, and of the file.
    """

    root: Path
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The whole path."""
        return self.root.joinpath(*self.parts)

    @property
    def shown(self) -> str:
        """The path from the root, as people and models see it."""
        return "/".join(self.parts) or "."

    @property
    def name(self) -> str:
        """Of the file or folder itself; empty for the root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> Place:
        """The folder it is in."""
        return Place(self.root, self.parts[:-1])


def locate(root: Path, folder: Path, path: str) -> Place:
    """Find what a path names.

    Args:
        root: Nothing outside it may be named.
        folder: Where relative paths start.
        path: Relative, or absolute below the root. It need not exist.

    Raises:
        Refused: It leads outside the root, is hidden, or is no path at all.
    """
    if not path or "\0" in path or len(path) > MAX_PATH:
        raise Refused("That is not a path.")
    top = Path(os.path.realpath(root))
    named = Path(os.path.normpath(os.path.join(os.path.realpath(folder), path)))
    if not named.is_relative_to(top) and named.is_relative_to(root):
        named = top / named.relative_to(root)
    real = Path(os.path.realpath(named))
    if not named.is_relative_to(top) or not real.is_relative_to(top):
        raise Refused(f"{path!r} is outside the folder that this server shows.")
    parts = real.relative_to(top).parts
    if any(is_hidden(part) for part in (*named.relative_to(top).parts, *parts)):
        raise Refused(f"{path!r} is hidden, and hidden files are left alone.")
    return Place(top, parts)


def is_hidden(name: str) -> bool:
    """Whether a name belongs to what folders do not show."""
    return name.startswith(".")


class Folder:
    """An open folder. Names in it are looked up in that very folder, whatever its path leads to.

    Where the system knows no such look-ups the path is used, which leaves a moment between a check
    and its use.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._descriptor = descriptor

    def _name(self, name: str) -> str:
        return name if self._descriptor is not None else str(self._path / name)

    def open(self, name: str, flags: int = _FILE, mode: int = 0o666) -> int:
        """A descriptor of a file in it; links are not followed.

        Raises:
            OSError: It cannot be opened.
        """
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        if self._descriptor is None and os.path.islink(self._name(name)):
            raise OSError(errno.ELOOP, "it is a link", name)
        return os.open(self._name(name), flags, mode, dir_fd=self._descriptor)

    def status(self, name: str) -> os.stat_result:
        """Of a name in it; of a link itself.

        Raises:
            OSError: There is no such name.
        """
        return os.stat(self._name(name), dir_fd=self._descriptor, follow_symlinks=False)

    def replace(self, new: str, name: str) -> None:
        """Give a file the name of another one, which is gone then."""
        os.replace(
            self._name(new),
            self._name(name),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
        )

    def link(self, new: str, name: str) -> None:
        """Give a file a second name that must be free.

        Raises:
            FileExistsError: It is not.
        """
        os.link(
            self._name(new),
            self._name(name),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
            follow_symlinks=False,
        )

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._name(name), dir_fd=self._descriptor)

    def make(self, name: str) -> None:
        """Make a folder in it, if it is not there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._name(name), dir_fd=self._descriptor)

    @contextlib.contextmanager
    def folder(self, name: str) -> Iterator[Folder]:
        """Another folder in it; a link is refused.

        Raises:
            OSError: It cannot be opened.
        """
        path = self._path / name
        if self._descriptor is None:
            if path.is_symlink() or not path.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
            yield Folder(path, None)
            return
        descriptor = os.open(name, _FOLDER | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            yield Folder(path, descriptor)
        finally:
            os.close(descriptor)

    def entries(self) -> list[os.DirEntry[str]]:
        """What is in it, by name."""
        with os.scandir(self._path if self._descriptor is None else self._descriptor) as found:
            return sorted(found, key=lambda entry: entry.name)


@contextlib.contextmanager
def folder_at(place: Place, *, make: bool = False) -> Iterator[Folder]:
    """Open a folder, step by step from the root, so that no link gets in between.

    Args:
        place: The folder.
        make: Whether missing ones are made.

    Raises:
        Refused: It is not there, no folder, or a link took its place.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_opened(place.root))
            for part in place.parts:
                if make:
                    folder.make(part)
                folder = stack.enter_context(folder.folder(part))
        except OSError as error:
            raise Refused(sentence(place, error)) from None
        yield folder


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Folder]:
    if not _WITH_FOLDERS:
        yield Folder(path, None)
        return
    descriptor = os.open(path, _FOLDER | os.O_CLOEXEC)
    try:
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes and what tells whether it is still the same file.

    Attributes:
        data: All of it.
        identity: Device, number, size and times when it was read.
        mode: Permission bits.
    """

    data: bytes
    identity: tuple[int, ...]
    mode: int


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What changes when a file is written or replaced."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read_from(folder: Folder, name: str, most: int) -> Content:
    """Read a regular file of an open folder.

    Raises:
        OSError: It cannot be read.
        Refused: It is no regular file, or too large.
    """
    descriptor = folder.open(name)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name!r} is not a regular file.")
        data = file.read(most + 1)
        if len(data) > most:
            raise Refused(f"{name!r} is larger than {most:,} bytes.")
        return Content(data, identity(status), stat.S_IMODE(status.st_mode))


def read(place: Place, most: int) -> Content:
    """Read a regular file.

    Raises:
        Refused: It cannot be read; the text says why.
    """
    with folder_at(place.parent) as folder:
        try:
            return read_from(folder, place.name or ".", most)
        except OSError as error:
            raise Refused(sentence(place, error)) from None


def text_of(data: bytes, shown: str) -> str:
    """A text file's content.

    Raises:
        Refused: It is no UTF-8 text.
    """
    if b"\0" in data:
        raise Refused(f"{shown!r} is not a text file.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{shown!r} is not UTF-8 text.") from None


def lines_of(text: str) -> list[str]:
    """The lines as an editor counts them, without their ends."""
    lines = re.split(r"\r\n|\n|\r", text)
    return lines[:-1] if lines[-1] == "" else lines


_SENTENCES = {
    errno.ENOENT: "There is no {!r}.",
    errno.ENOTDIR: "{!r} leads through something that is not a folder.",
    errno.EISDIR: "{!r} is a folder.",
    errno.ELOOP: "{!r} became a link meanwhile, and links are not followed.",
    errno.EACCES: "{!r} may not be opened.",
    errno.EPERM: "{!r} may not be changed.",
    errno.EEXIST: "{!r} exists already.",
    errno.ENOSPC: "The disk is full, so {!r} was left as it is.",
    errno.EROFS: "{!r} is on a disk that cannot be written.",
    errno.ENAMETOOLONG: "{!r} is too long a name.",
}


def sentence(place: Place, error: OSError) -> str:
    """What went wrong with a file, without the paths of this machine."""
    known = _SENTENCES.get(error.errno or 0)
    return (known or "{!r} cannot be used.").format(place.shown)
