"""Taking a run back: what was noted of it, the notebook as it stands, and the record of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from .document.checkpoints import ORDER, WHOLE
from .document.notebook import Notebook
from .document.peer import Membership
from .document.reverting import Kept, Reversal, Saved
from .errors import NbinlineError
from .ids import CellId
from .journal import Author, Journal, RunRecord

BEGUN = "reverting"
DONE = "reverted"
"""Events of a run that somebody takes back."""

ALL_EVENTS = 100_000
"""More events than a run can have."""

NOT_NOTED = "It is not known what this run changed: the server could not note it at the time."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reverted:
    """What was, or would be, taken back.

    Attributes:
        reverted: Cells in which something is.
        kept: What stays as it is, with the reason.
    """

    reverted: Sequence[CellId]
    kept: Sequence[Kept]


async def revert(
    membership: Membership, journal: Journal, record: RunRecord, by: Author, *, dry_run: bool
) -> Reverted:
    """Take back what a run that has ended changed.

    It is one transaction with an origin of its own. What others type meanwhile stays.

    Args:
        membership: The notebook's room, joined.
        journal: Where the run was recorded.
        record: The run.
        by: Who wants it.
        dry_run: Only tell what would be done.

    Raises:
        JournalUnavailable: It cannot be recorded; nothing was changed.
        RoomLost: The room went away.
    """
    run_id = record.run_id
    rows = await journal.checkpoints(run_id)
    if not rows:
        unknown = [] if record.answer_cell_id is None else [Kept(record.answer_cell_id, NOT_NOTED)]
        return Reverted((), unknown)
    restored = await journal.reverted_since(record.file_id, record.ended_at or record.created_at)
    saved = Saved.read(
        run_id,
        record.answer_cell_id,
        rows,
        frozenset(restored),
        uncertain=await _is_uncertain(journal, record),
    )
    if not dry_run:
        await journal.append(run_id, BEGUN, {"by": by.username})
    plan = Reversal(Notebook(membership.peer), saved)
    if not dry_run:
        plan.write(f"revert:{run_id}")
        await membership.peer.settled()
        await membership.save()
        await _note(
            journal, record, by, plan, [cell for cell in rows if cell not in (WHOLE, ORDER)]
        )
    return Reverted(plan.reverted, plan.kept)


async def _is_uncertain(journal: Journal, record: RunRecord) -> bool:
    """Whether a server died between taking this run back and noting that it had."""
    page = await journal.events(record.run_id, limit=ALL_EVENTS)
    steps = [event.type for event in page.events if event.type in (BEGUN, DONE)]
    return bool(steps) and steps[-1] == BEGUN


async def _note(
    journal: Journal, record: RunRecord, by: Author, plan: Reversal, cells: Sequence[CellId]
) -> None:
    kept = {each.cell_id for each in plan.kept} - {*plan.reverted}
    try:
        await journal.mark_reverted(record.run_id, [cell for cell in cells if cell not in kept])
        await journal.append(
            record.run_id,
            DONE,
            {
                "by": by.username,
                "cell_ids": list(plan.reverted),
                "kept": [{"cell_id": each.cell_id, "reason": each.reason} for each in plan.kept],
            },
        )
    except NbinlineError as error:
        # It is done all the same, and whoever does it again is told that nothing is left.
        log.warning("revert not journalled", run=record.run_id, code=error.code)
