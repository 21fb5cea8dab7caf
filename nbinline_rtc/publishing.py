"""Taking out of a notebook who had what written when, before it is published."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEY = "nbinlineai"

AUTHORSHIP = frozenset(
    {
        "runId",
        "author",
        "authorName",
        "model",
        "backend",
        "endedAt",
        "error",
        "approvalId",
        "inputsSha256",
        "contextTrimmed",
        "secretsLeftOut",
        "editedBy",
    }
)
"""What answers and edited cells say of people and runs."""

CHOICES = frozenset({"model", "backend"})
"""Of these, what stands on a question is a choice, and tells nothing of a run."""


@dataclass(frozen=True, slots=True)
class Stripped:
    """A notebook without what was taken out.

    Attributes:
        notebook: What is left, as nbformat's JSON; the original stays as it was.
        cells: How many cells lost something.
    """

    notebook: dict[str, Any]
    cells: int


def strip(notebook: Mapping[str, Any], *, everything: bool = False) -> Stripped:
    """Take authorship out of a notebook.

    Text, outputs, and what makes questions and answers of cells stay, so that the notebook works
    as before.

    Args:
        notebook: nbformat's JSON.
        everything: Take out all metadata of ours; questions and answers become plain text.
    """
    left = copy.deepcopy(dict(notebook))
    changed = 0
    for cell in _objects(left.get("cells")):
        changed += _strip(cell.get("metadata"), everything=everything)
    if everything:
        _strip(left.get("metadata"), everything=True)
    return Stripped(left, changed)


def _strip(metadata: object, *, everything: bool) -> bool:
    """Whether something was taken out."""
    if not isinstance(metadata, dict) or KEY not in metadata:
        return False
    mark = metadata[KEY]
    if everything or not isinstance(mark, dict):
        del metadata[KEY]
        return True
    spoken = AUTHORSHIP - CHOICES if mark.get("isPromptCell") is True else AUTHORSHIP
    kept = {key: value for key, value in mark.items() if key not in spoken}
    if kept:
        metadata[KEY] = kept
    else:
        del metadata[KEY]
    return kept != mark


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
