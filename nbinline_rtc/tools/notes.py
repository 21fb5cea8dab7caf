"""Having a note of tool declarations inserted below the cell that runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from .declaring import Named, tools_markdown

TARGET = "nbinline.insert_tools"
"""The comm target that JupyterLab's plugin and the server listen to."""

WAIT = 5.0
"""Seconds that a call waits for its note to stand."""

KEPT = 100
"""Receipts that are remembered."""


@dataclass(eq=False)
class Receipt:
    """What became of a note.

    Attributes:
        request_id: Its name between kernel, page and server.
        status: ``requested`` until somebody answers, then ``inserted`` or ``refused``.
        cell_id: The note, once it stands.
        message: Why it was refused.
    """

    request_id: str
    status: str = "requested"
    cell_id: str = ""
    message: str = ""
    _answered: threading.Event = field(default_factory=threading.Event, repr=False)

    def wait(self, seconds: float) -> bool:
        """Wait until it was answered; False if it was not in time."""
        return self._answered.wait(seconds)

    def settle(self, cell_id: str, message: str) -> None:
        """Note the answer."""
        self.status = "refused" if message else "inserted"
        self.cell_id, self.message = cell_id, message
        self._answered.set()

    def _repr_markdown_(self) -> str:
        if self.status == "inserted":
            return "The note with the tools stands below this cell."
        if self.status == "refused":
            return f"The note was not inserted: {self.message}"
        return (
            "The note was requested, and nobody has answered yet. It is inserted while the "
            "notebook is open in JupyterLab; `print(tools_markdown())` shows its text."
        )


_receipts: dict[str, Receipt] = {}
_last: tuple[str, Receipt] | None = None
"""The last note with the execution that asked for it: the next one of the same goes below it."""


def insert_tools(
    names: Iterable[Named] | None = None,
    custom: Iterable[Named] | None = None,
    group: str = "starter",
) -> Receipt:
    """Insert a note that declares tools below the cell that runs.

    The note is written into the shared notebook by the server; the call returns when it stands, or
    after 5 seconds with a receipt that changes when it does.

    Args:
        names: Built-in tools; None takes the group.
        custom: Functions of your own.
        group: One of ``TOOL_GROUPS``.

    Raises:
        ValueError: A name or group is unknown, or there are more than 20 names.
        RuntimeError: This is no notebook's kernel.
    """
    global _last
    markdown = tools_markdown(names, custom, group)
    kernel = _kernel()
    execution = kernel.get_parent("shell").get("header", {}).get("msg_id", "")
    before = _last[1] if _last is not None and _last[0] == execution else None
    receipt = Receipt(uuid4().hex)
    _receipts[receipt.request_id] = receipt
    while len(_receipts) > KEPT:
        del _receipts[next(iter(_receipts))]
    from comm import create_comm

    comm = create_comm(
        target_name=TARGET,
        data={
            "request_id": receipt.request_id,
            "source": markdown,
            "after": before.cell_id if before is not None else "",
        },
    )
    try:
        if receipt.wait(WAIT):
            _last = execution, receipt
    finally:
        comm.close()
    return receipt


def noted(request_id: str, cell_id: str = "", message: str = "") -> bool:
    """Take the answer to a request; called on the kernel's control channel.

    Returns:
        Whether the request is known.
    """
    receipt = _receipts.get(request_id)
    if receipt is None:
        return False
    receipt.settle(cell_id, message)
    return True


def _kernel() -> Any:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        raise RuntimeError("Notes can only be inserted from a notebook; use tools_markdown().")
    return kernel
