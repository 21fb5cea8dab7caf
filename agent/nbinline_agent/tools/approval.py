"""Asking a person before a call: who may answer, until when, and what was answered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import anyio

from nbinline_agent.errors import ApprovalAnswered, UnknownApproval
from nbinline_agent.ids import CellId, FileId
from nbinline_agent.messages import JsonValue

from .base import Preview

MOST_SHOWN = 20_000
"""Characters of a diff, or of code, that a card gets."""

ALLOWED, DENIED, TIMED_OUT, CANCELLED = "allowed", "denied", "timed-out", "cancelled"


@dataclass(eq=False)
class Approval:
    """One call that waits, or waited, for a person's word.

    Attributes:
        tool: Name of the tool.
        preview: What the person is shown.
        expires_at: When it counts as denied, in seconds since the epoch.
        answer: ``allowed``, ``denied``, ``timed-out`` or ``cancelled``; None while it waits.
        by: Username of who answered.
    """

    tool: str
    preview: Preview
    expires_at: float
    approval_id: str = field(default_factory=lambda: uuid4().hex)
    answer: str | None = None
    by: str | None = None
    _answered: anyio.Event = field(default_factory=anyio.Event)

    def to_json(self) -> dict[str, JsonValue]:
        """As journalled; times are seconds since the epoch."""
        preview = self.preview
        return {
            "approval_id": self.approval_id,
            "tool": self.tool,
            "cell_id": preview.cell_id,
            "summary": preview.summary,
            "diff": _shown(preview.diff),
            "code": _shown(preview.code),
            "expires_at": self.expires_at,
            "answer": self.answer,
            "by": self.by,
        }

    def settle(self, answer: str, by: str | None = None) -> None:
        """Note the answer; the first one counts."""
        if self.answer is None:
            self.answer, self.by = answer, by
            self._answered.set()

    async def wait(self) -> str:
        """The answer, as soon as there is one; ``timed-out`` when the time is over."""
        try:
            with anyio.move_on_after(max(0.0, self.expires_at - time.time())):
                await self._answered.wait()
            self.settle(TIMED_OUT)
        finally:
            self.settle(CANCELLED)
        assert self.answer is not None
        return self.answer


class Approvals:
    """What one run asked people, in order."""

    def __init__(self) -> None:
        self._asked: list[Approval] = []

    def __iter__(self) -> Iterator[Approval]:
        return iter(self._asked)

    @property
    def waiting(self) -> Approval | None:
        """The one that waits for an answer, if any."""
        last = self._asked[-1] if self._asked else None
        return last if last is not None and last.answer is None else None

    def ask(self, tool: str, preview: Preview, seconds: float) -> Approval:
        """Put a question; :meth:`Approval.wait` gives the answer.

        Args:
            tool: Name of the tool.
            preview: What the person is shown.
            seconds: How long they have.
        """
        approval = Approval(tool, preview, time.time() + seconds)
        self._asked.append(approval)
        return approval

    def find(self, approval_id: str) -> Approval:
        """The question of that id, if it still waits.

        Raises:
            UnknownApproval: There is none.
            ApprovalAnswered: It does not wait any more.
        """
        for approval in self._asked:
            if approval.approval_id == approval_id:
                if approval.answer is not None or approval.expires_at <= time.time():
                    raise ApprovalAnswered
                return approval
        raise UnknownApproval


class Remembered:
    """What people allowed once and for all, as long as the server lives."""

    def __init__(self) -> None:
        self._allowed: set[tuple[FileId, str, str]] = set()

    def allow(self, file_id: FileId, username: str, tool: str) -> None:
        """Let a tool through from now on, for one person in one notebook."""
        self._allowed.add((file_id, username, tool))

    def allows(self, file_id: FileId, username: str, tool: str) -> bool:
        """Whether that was allowed before."""
        return (file_id, username, tool) in self._allowed


def about(tool: str, arguments: dict[str, JsonValue]) -> Preview:
    """What a person is shown of a call that says nothing better about itself."""
    code = next((arguments[key] for key in ("code", "command") if arguments.get(key)), None)
    cell = arguments.get("cell_id")
    rest = ", ".join(
        f"{key}={_brief(value)}"
        for key, value in arguments.items()
        if key not in ("code", "command", "cell_id")
    )
    return Preview(
        summary=f"{tool}({rest})",
        cell_id=CellId(cell) if isinstance(cell, str) and cell else None,
        code=code if isinstance(code, str) else None,
    )


def _brief(value: JsonValue) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _shown(text: str | None) -> str | None:
    if text is None or len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}\n[{len(text) - MOST_SHOWN:,} more characters]"
