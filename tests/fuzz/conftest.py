"""Random schedules, in memory and with real browsers' Yjs."""

from __future__ import annotations

import os
import secrets

import pytest

from tests.extension.conftest import (  # noqa: F401 (fixtures)
    joined,
    jp_server_config,
    room_url,
    rtc_document_cleanup_delay,
    rtc_document_save_delay,
    ydoc,
    ystore_class,
)


@pytest.fixture
def fuzz_seed() -> int:
    """Another one each time; NBINLINE_FUZZ_SEED repeats a run."""
    return int(os.environ.get("NBINLINE_FUZZ_SEED") or secrets.randbelow(2**32))
