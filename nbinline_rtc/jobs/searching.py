"""Searching files and notebooks for text; a search may take long, so it has its own process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from nbinline_agent.context.hiding import hide_in_place

from .below import Place, Refused, lines_of, read_from, text_of
from .notebooks import MAX_NOTEBOOK, cells_of
from .walking import Entry, Walk

MAX_FILE = 1_000_000
"""Bytes of a file that is searched."""

SHOWN = 200
"""Characters of a line that is shown."""

Matches = Callable[[str], bool]


def search_files(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """Lines of text files that match; the last finding tells whether all was looked at."""
    matches = _matcher(job)
    walk = Walk(ignore=True)
    for entry in _files(job, walk):
        if entry.name.endswith(".ipynb") or not _fits(entry.shown, job["pattern"]):
            continue
        for number, line in enumerate(_lines(entry, job), start=1):
            if matches(line):
                yield {"path": entry.shown, "line": number, "text": line.strip()[:SHOWN]}
    yield {"complete": walk.complete}


def search_notebooks(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """Cells of saved notebooks that match, with the first line that does."""
    matches = _matcher(job)
    walk = Walk(ignore=True)
    for entry in _files(job, walk):
        if not entry.name.endswith(".ipynb"):
            continue
        try:
            content = read_from(entry.folder, entry.name, MAX_NOTEBOOK).data
            cells = cells_of(content, job, entry.shown)
        except (OSError, Refused):
            continue
        for cell in cells:
            for number, line in enumerate(cell["source"].split("\n"), start=1):
                if matches(line):
                    yield {
                        "path": entry.shown,
                        "cell_id": cell["id"],
                        "index": cell["index"],
                        "kind": cell["kind"],
                        "line": number,
                        "text": line.strip()[:SHOWN],
                    }
                    break
    yield {"complete": walk.complete}


def _matcher(job: Mapping[str, Any]) -> Matches:
    query: str = job["query"]
    if not job.get("regex"):
        return lambda line: query in line
    try:
        expression = re.compile(query)
    except re.error as error:
        raise Refused(f"The regular expression is not valid: {error}.") from None
    except (OverflowError, RecursionError):
        raise Refused("The regular expression is too large.") from None
    return lambda line: expression.search(line) is not None


def _files(job: Mapping[str, Any], walk: Walk) -> Iterator[Entry]:
    place = Place(Path(job["root"]), tuple(job["parts"]))
    try:
        yield from (entry for entry in walk.through(place) if not entry.is_folder)
    except Refused:
        # A single file may be searched as well.
        yield from (
            entry
            for entry in Walk(recursive=False).through(place.parent)
            if entry.name == place.name and not entry.is_folder
        )


def _lines(entry: Entry, job: Mapping[str, Any]) -> list[str]:
    try:
        text = text_of(read_from(entry.folder, entry.name, MAX_FILE).data, entry.shown)
    except (OSError, Refused):
        return []
    return lines_of(hide_in_place(text) if job["hide_solutions"] else text)


def _fits(shown: str, pattern: str) -> bool:
    return fnmatch(shown.rsplit("/", 1)[-1], pattern) or fnmatch(shown, pattern)


JOBS = {"search-files": search_files, "search-notebooks": search_notebooks}
