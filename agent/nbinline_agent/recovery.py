"""What is done about runs whose server died: replay what they had written, then say so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import structlog

from .document.answer import AnswerCell, RunMark
from .document.notebook import Notebook
from .document.peer import Membership
from .document.repair import replay_and_mend
from .document.replay import apply_updates
from .ids import RunId
from .journal import Journal, UnfinishedRun

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """What came back of one interrupted answer.

    Attributes:
        replayed: Whether the very updates of the dead server could be applied again.
        appended: Characters that had to be written anew, 0 as a rule.
    """

    replayed: bool
    appended: int


async def settle_marks(
    notebook: Notebook, journal: Journal, alive: Collection[RunId] = ()
) -> Sequence[str]:
    """Turn stale in-flight marks of any origin into ``interrupted``; returns the cells' ids.

    A mark is stale when nobody works on it: not a run in ``alive``, and not one whose server
    process still lives.
    """
    settled = []
    for mark in notebook.stale_marks():
        run_id = mark.run_id
        if run_id is not None and (run_id in alive or await journal.owner_alive(run_id)):
            continue
        AnswerCell.mark_interrupted(notebook, mark.cell_id, origin=run_id or "settle")
        settled.append(mark.cell_id)
    return settled


async def restore(membership: Membership, journal: Journal, dead: UnfinishedRun) -> Restored:
    """Bring one interrupted answer back into the document and mark it there.

    Args:
        membership: The notebook's room, joined.
        journal: Where the run was recorded.
        dead: What the dead server left.
    """
    notebook = Notebook(membership.peer)
    record = dead.record
    answer = record.answer_cell_id
    if answer is None:
        return Restored(apply_updates(membership.peer, dead.updates), 0)
    mark = RunMark(
        run_id=record.run_id,
        author=record.author.username,
        model=record.model,
        backend=record.connection,
        author_name=record.author.display_name,
    )
    mended = replay_and_mend(notebook, answer, dead.updates, dead.text, record.run_id)
    text = dead.text if not notebook.has(answer) else notebook.source(answer)
    appended = AnswerCell.restore(notebook, record.prompt_cell_id, answer, mark, text)
    return Restored(mended.replayed, mended.inserted + appended)
