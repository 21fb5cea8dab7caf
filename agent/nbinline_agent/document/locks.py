"""What a notebook, or a course, says about changing a cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def may_edit(metadata: Mapping[str, Any]) -> bool:
    """Whether the cell's text may be changed.

    nbgrader's tests are graded cells in which nobody writes a solution.
    """
    course = _course(metadata)
    tests = course.get("grade") is True and course.get("solution") is not True
    return metadata.get("editable") is not False and course.get("locked") is not True and not tests


def may_delete(metadata: Mapping[str, Any]) -> bool:
    """Whether the cell may be deleted; without a graded one there are no points to be had."""
    course = _course(metadata)
    graded = course.get("locked") is True or course.get("grade") is True
    return metadata.get("deletable") is not False and not graded


def _course(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    nbgrader = metadata.get("nbgrader")
    return nbgrader if isinstance(nbgrader, Mapping) else {}
