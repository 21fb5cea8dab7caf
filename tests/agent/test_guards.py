"""The guards that all tests run under can fail."""

import asyncio
import socket
import time

import anyio
import pytest
from blockbuster import BlockBuster, BlockingError


def test_a_connection_to_another_machine_is_refused(outside: list[str]) -> None:
    with socket.socket() as ours, pytest.raises(OSError, match="stay on this machine"):
        ours.connect(("192.0.2.1", 443))
    with pytest.raises(OSError, match="stay on this machine"):
        socket.getaddrinfo("api.example.com", 443)
    assert len(outside) == 2
    outside.clear()


def test_this_machine_may_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=5) as ours:
            assert ours.getpeername() == server.getsockname()


@pytest.mark.asyncio
async def test_blocking_the_loop_fails(blockbuster: BlockBuster) -> None:
    watched = blockbuster.functions["time.sleep"]
    assert watched is not None
    # Frames of this file do not count: what is watched is the agent. Its journal's clock does.
    from nbinline_agent.journal import MemoryJournal

    journal = MemoryJournal(clock=lambda: time.sleep(0) or 0.0)
    with pytest.raises(BlockingError):
        await journal.append("run", "status", {})  # type: ignore[arg-type]
    assert asyncio.get_running_loop() is not None
    await anyio.lowlevel.checkpoint()
