"""Which status may follow which, and how a status reads in the document."""

from __future__ import annotations

import pytest

from nbinline_agent.journal import ENDINGS, TRANSITIONS, RunStatus


def test_every_status_has_its_followers_and_endings_have_none() -> None:
    assert set(TRANSITIONS) == set(RunStatus)
    for status, followers in TRANSITIONS.items():
        assert status not in followers
        assert bool(followers) is not status.ended


@pytest.mark.parametrize("status", [status for status in RunStatus if not status.ended])
def test_every_live_run_can_fail_be_stopped_or_be_interrupted(status: RunStatus) -> None:
    followers = TRANSITIONS[status]
    assert followers >= ENDINGS - {RunStatus.DONE}
    assert (RunStatus.DONE in followers) is (status is not RunStatus.QUEUED)


def test_only_streaming_tools_and_approvals_can_be_come_back_to() -> None:
    assert all(RunStatus.QUEUED not in followers for followers in TRANSITIONS.values())
    back = {status for status in RunStatus if RunStatus.PREPARING in TRANSITIONS[status]}
    assert back == {RunStatus.QUEUED}
    assert RunStatus.STREAMING in TRANSITIONS[RunStatus.RUNNING_TOOL]
    assert RunStatus.STREAMING in TRANSITIONS[RunStatus.WAITING_APPROVAL]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (RunStatus.QUEUED, "queued"),
        (RunStatus.PREPARING, "running"),
        (RunStatus.STREAMING, "running"),
        (RunStatus.RUNNING_TOOL, "running"),
        (RunStatus.WAITING_APPROVAL, "running"),
        (RunStatus.DONE, "done"),
        (RunStatus.ERROR, "error"),
        (RunStatus.CANCELLED, "cancelled"),
        (RunStatus.INTERRUPTED, "interrupted"),
    ],
)
def test_the_document_carries_six_words(status: RunStatus, word: str) -> None:
    assert status.in_document == word
