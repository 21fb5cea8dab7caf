"""The code that looks into a Python kernel, sent there as text.

The kernel may live in another environment, with none of our packages and with Python from 3.8 on.
So these files import nothing but the standard library, and nothing of one another at run time:
they are executed one after the other in one dictionary of their own, which is neither a module of
the kernel nor a part of the person's names.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

PARTS = (
    "limits",
    "resolving",
    "values",
    "pictures",
    "functions",
    "names",
    "docs",
    "tracing",
    "serving",
)
"""Files in the order in which they are executed."""

_FOLDER = files(__name__)

SOURCES: tuple[tuple[str, str], ...] = tuple(
    (f"<nbinline {part}>", (_FOLDER / f"{part}.py").read_text(encoding="utf-8")) for part in PARTS
)
"""File name and text of each part, in order; read once, while nothing waits for the event loop."""

KEY = "nbinline_" + hashlib.sha256("\0".join(text for _, text in SOURCES).encode()).hexdigest()[:12]
"""A short name for exactly this code; other code in a kernel is another version of ours."""
