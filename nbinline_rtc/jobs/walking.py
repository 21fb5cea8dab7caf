"""Walking through folders within bounds, past what nobody means."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import pathspec

from .below import Folder, Place, Refused, folder_at, is_hidden, read_from

MAX_ENTRIES = 2_000
"""Files and folders that one walk looks at."""

MAX_DEPTH = 6
"""Folders below the first one."""

IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
"""Files of patterns; a later one of a folder outweighs an earlier one."""

MAX_IGNORE_BYTES = 100_000

ENVIRONMENTS = frozenset(
    {"__pycache__", "node_modules", "site-packages", "venv", "env", "virtualenv", "conda-meta"}
)
"""Folders that hold installed or made things."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of a walk.

    Attributes:
        folder: The open folder it is in; only while the walk stands there.
        name: Its name there.
        shown: Its path from where the walk began.
        is_folder: Whether it is a folder.
    """

    folder: Folder
    name: str
    shown: str
    is_folder: bool


@dataclass(slots=True)
class Walk:
    """A walk and its bounds.

    Attributes:
        recursive: Whether it goes into folders.
        ignore: Whether files of ignore patterns hold.
        complete: Whether nothing was left out for a bound; known after the walk.
    """

    recursive: bool = True
    ignore: bool = False
    complete: bool = True
    _left: int = MAX_ENTRIES
    _rules: list[tuple[int, pathspec.GitIgnoreSpec]] = field(default_factory=list)

    def through(self, start: Place) -> Iterator[Entry]:
        """Everything below a folder, folders before what is in them.

        Raises:
            Refused: It is no folder, or cannot be opened.
        """
        with contextlib.ExitStack() as stack:
            if self.ignore:
                self._read_rules_above(start)
            folder = stack.enter_context(folder_at(start))
            yield from self._in(folder, start.parts, len(start.parts), 0)

    def _in(self, folder: Folder, parts: tuple[str, ...], base: int, depth: int) -> Iterator[Entry]:
        known = len(self._rules)
        if self.ignore:
            self._read_rules(folder, len(parts))
        for entry in folder.entries():
            if entry.is_symlink() or is_hidden(entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            here = (*parts, entry.name)
            if is_folder and is_environment(entry.name) or self._ignored(here, is_folder):
                continue
            if self._left <= 0:
                self.complete = False
                return
            self._left -= 1
            yield Entry(folder, entry.name, "/".join(here[base:]), is_folder)
            if is_folder and self.recursive:
                yield from self._into(folder, here, base, depth)
        del self._rules[known:]

    def _into(
        self, folder: Folder, parts: tuple[str, ...], base: int, depth: int
    ) -> Iterator[Entry]:
        if depth >= MAX_DEPTH:
            self.complete = False
            return
        # It may have been removed, or have become a link, since it was listed.
        with contextlib.suppress(OSError), folder.folder(parts[-1]) as inside:
            if not _has(inside, "pyvenv.cfg"):
                yield from self._in(inside, parts, base, depth + 1)

    def _read_rules_above(self, start: Place) -> None:
        """Patterns of the folders above hold too, unless they leave out where the walk begins."""
        for depth in range(len(start.parts)):
            with folder_at(Place(start.root, start.parts[:depth])) as folder:
                self._read_rules(folder, depth)
        if any(
            self._ignored(start.parts[:depth], True) for depth in range(1, len(start.parts) + 1)
        ):
            self._rules.clear()

    def _read_rules(self, folder: Folder, depth: int) -> None:
        lines: list[str] = []
        for name in IGNORE_FILES:
            with contextlib.suppress(OSError, Refused):
                data = read_from(folder, name, MAX_IGNORE_BYTES).data
                lines += data.decode("utf-8", "replace").splitlines()
        if lines:
            with contextlib.suppress(ValueError):
                self._rules.append((depth, pathspec.GitIgnoreSpec.from_lines(lines)))

    def _ignored(self, parts: tuple[str, ...], is_folder: bool) -> bool:
        for depth, spec in reversed(self._rules):
            path = "/".join(parts[depth:]) + ("/" if is_folder else "")
            verdict = spec.check_file(path).include
            if verdict is not None:
                return verdict
        return False


def is_environment(name: str) -> bool:
    """Whether a folder's name says that it holds installed things."""
    return name in ENVIRONMENTS


def _has(folder: Folder, name: str) -> bool:
    try:
        folder.status(name)
    except OSError:
        return False
    return True


def size_of(entry: Entry) -> int:
    """A file's size in bytes; 0 if it is gone."""
    try:
        return entry.folder.status(entry.name).st_size
    except OSError:
        return 0
