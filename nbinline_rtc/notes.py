"""Notes that a kernel asks for: who may have them placed, and telling the kernel.

``insert_tools()`` in a kernel can only ask, on the kernel's output channel, which everybody reads
and anything in the kernel may write to. A note is placed when a person vouches for it: the page
whose own cell asked sends it in that person's name, or the server itself ran that person's cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from nbinline_agent.document.edits import Editor
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Rooms
from nbinline_agent.errors import BadRequest, KernelError, UnknownCell
from nbinline_agent.ids import CellId, NotebookPath
from nbinline_agent.journal import Author
from nbinline_agent.kernel import Kernels

TARGET = "nbinline.insert_tools"
"""The comm target by which a kernel asks."""

MAX_NOTE = 16_000
"""Characters of a note."""

MAX_ID = 200
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")

SETTLING = 5.0
"""Seconds within which everybody should have the note before the kernel is told."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NoteRequest:
    """What a kernel asks for.

    Attributes:
        request_id: Names the request to the kernel.
        source: Markdown of the note.
        after: A note of the same execution that this one goes below; empty for none.
    """

    request_id: str
    source: str
    after: str = ""


def note_request(value: object) -> NoteRequest:
    """Decode what a kernel asked for, also as a page passes it on.

    Raises:
        BadRequest: A field is missing or out of bounds.
    """
    fields = value if isinstance(value, Mapping) else {}
    request_id, source, after = (fields.get(key) for key in ("request_id", "source", "after"))
    if not isinstance(request_id, str) or not _REQUEST_ID.fullmatch(request_id):
        raise BadRequest("The field 'request_id' must be 32 hexadecimal digits.")
    if not isinstance(source, str) or not source.strip() or len(source) > MAX_NOTE:
        raise BadRequest(f"The field 'source' must be a text of at most {MAX_NOTE:,} characters.")
    if after is not None and (not isinstance(after, str) or len(after) > MAX_ID):
        raise BadRequest("The field 'after' must be a cell id.")
    return NoteRequest(request_id, source, after or "")


def asked_for(message: Mapping[str, Any]) -> NoteRequest | None:
    """The request in a message of a kernel's output channel, or None."""
    content = message.get("content")
    if message.get("type") != "comm_open" or not isinstance(content, Mapping):
        return None
    if content.get("target_name") != TARGET:
        return None
    try:
        return note_request(content.get("data"))
    except BadRequest:
        return None


class Notes:
    """Places notes in shared notebooks and tells the kernels that asked.

    Args:
        rooms: Where notebooks are.
        kernels: Where answers go.
    """

    def __init__(self, rooms: Rooms, kernels: Kernels) -> None:
        self._rooms = rooms
        self._kernels = kernels

    async def place(
        self, path: NotebookPath, below: CellId, request: NoteRequest, author: Author
    ) -> CellId:
        """Insert a note below a cell; returns when it stands, and the kernel knows.

        Args:
            path: The notebook.
            below: The cell that ran.
            request: What its kernel asked for.
            author: Who vouches for it.

        Raises:
            RequestError: It cannot be placed; the kernel is not told.
        """
        async with self._rooms.join(path) as membership:
            notebook = Notebook(membership.peer)
            at = request.after if notebook.has(request.after) else below
            if not notebook.has(at):
                raise UnknownCell
            editor = Editor(notebook, f"note-{request.request_id}")
            cell = editor.insert("markdown", request.source, after=at)
            await membership.peer.settled(SETTLING)
            log.info("note inserted", notebook=membership.path, user=author.username)
        await self.tell(path, request, cell)
        return cell

    async def tell(self, path: NotebookPath, request: NoteRequest, cell: CellId) -> None:
        """Tell a kernel that its note stands; one that cannot be reached just waits no longer."""
        try:
            await self._kernels.of(path).ask(
                "noted", {"request_id": request.request_id, "cell_id": cell}
            )
        except KernelError as error:
            log.info("kernel not told of its note", notebook=path, code=error.code)
