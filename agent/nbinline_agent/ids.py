"""Names for the identifiers that travel through the agent, so that they cannot be mixed up."""

from __future__ import annotations

from typing import NewType

CellId = NewType("CellId", str)
"""A cell's stable id inside one notebook (nbformat 4.5)."""

RunId = NewType("RunId", str)
"""One run of one prompt; also the origin of every transaction of that run."""

FileId = NewType("FileId", str)
"""The server's stable id of a file; it survives renames made through the server."""

NotebookPath = NewType("NotebookPath", str)
"""A notebook's path below the server root, with forward slashes and no leading slash."""
