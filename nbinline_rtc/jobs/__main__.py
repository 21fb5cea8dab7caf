"""One job: read from the input, done, its findings written line by line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from .below import Refused

Job = Callable[[Mapping[str, Any], bytes], Iterator[Any]]

JOBS: Mapping[str, str] = {
    "search-files": "searching",
    "search-notebooks": "searching",
    "read-notebook": "notebooks",
    "outline": "outlines",
    "section": "outlines",
    "python-doc": "python_docs",
    "skills": "skills",
    "skill": "skills",
    "page": "pages",
}
"""The module that has each job in its table ``JOBS``; only that one is imported."""

MEMORY = 1_000_000_000
"""Bytes of memory a job may use."""


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _say(what: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Do the job that the first line of the input describes; the rest of the input is its data."""
    _bound_memory()
    job = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    work: Job = import_module(f"nbinline_rtc.jobs.{JOBS[job['job']]}").JOBS[job["job"]]
    _say({"ready": True})
    try:
        for found in work(job, data):
            _say({"found": found})
    except Refused as refused:
        _say({"refused": str(refused)})
    except (MemoryError, RecursionError):
        _say({"refused": "That is too large or too deeply nested to be read."})
    else:
        _say({"done": True})


if __name__ == "__main__":
    main()
