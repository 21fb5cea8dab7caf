"""The in-process transport behaves like a websocket that pycrdt is used to."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nbinline_agent.document.channel import CAPACITY, memory_channels

pytestmark = pytest.mark.asyncio


async def test_messages_arrive_in_order_on_both_ways() -> None:
    near, far = memory_channels("room")
    assert (near.path, far.path) == ("room", "room")
    for number in range(5):
        await near.send(bytes([number]))
        await far.send(bytes([number + 100]))
    assert [await far.recv() for _ in range(5)] == [bytes([number]) for number in range(5)]
    assert [await near.recv() for _ in range(5)] == [bytes([number + 100]) for number in range(5)]
    await near.aclose()
    await far.aclose()


async def test_closing_one_end_ends_iteration_at_the_other_after_what_was_sent() -> None:
    near, far = memory_channels("room")
    await near.send(b"last words")
    await near.aclose()
    with anyio.fail_after(1):
        assert [message async for message in far] == [b"last words"]
    await far.aclose()


async def test_iteration_ends_at_once_at_the_end_that_is_closed() -> None:
    near, far = memory_channels("room")
    heard = []

    async def listen() -> None:
        heard.extend([message async for message in near])

    with anyio.fail_after(1):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await near.aclose()
    assert heard == []
    await far.aclose()


async def test_what_is_sent_to_a_client_that_left_is_dropped() -> None:
    near, far = memory_channels("room")
    await near.aclose()
    await far.send(b"too late")
    await near.send(b"too late")
    await far.aclose()


async def test_a_slow_reader_holds_up_the_sender() -> None:
    near, far = memory_channels("room")
    sent = 0

    async def send_much() -> None:
        nonlocal sent
        for _ in range(CAPACITY + 10):
            await near.send(b"x")
            sent += 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_much)
            await anyio.wait_all_tasks_blocked()
            assert sent == CAPACITY
            for _ in range(CAPACITY + 10):
                await far.recv()
    assert sent == CAPACITY + 10
    await near.aclose()
    await far.aclose()


async def test_a_held_up_sender_is_let_go_when_the_reader_leaves() -> None:
    near, far = memory_channels("room")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(CAPACITY + 1):
                tasks.start_soon(near.send, b"x")
            await anyio.wait_all_tasks_blocked()
            await far.aclose()
    await near.aclose()
    await checkpoint()
