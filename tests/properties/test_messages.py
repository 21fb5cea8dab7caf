"""Whatever comes over the channel, the replica stays whole and goes on synchronising."""

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import YSyncMessageType, create_update_message

from nbinline_agent.document.channel import memory_channels
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.peer import Peer
from nbinline_agent.document.vectors import covers, read_vector
from nbinline_agent.testing import SharedNotebook, markdown, notebook_content

heads = st.sampled_from([b"", b"\x00", b"\x00\x00", b"\x00\x02", b"\x01", b"\x02", b"\x7d"])
messages = st.lists(st.builds(lambda head, rest: head + rest, heads, st.binary(max_size=30)))


async def hear(noise: list[bytes]) -> None:
    content = notebook_content([markdown("one", "a")])
    shared = SharedNotebook("a.ipynb", "file", content)  # type: ignore[arg-type]
    document = shared.ynotebook.ydoc
    near, far = memory_channels("room")
    async with Peer(near) as peer:
        for message in noise:
            await far.send(message)
        update = create_update_message(document.get_update())
        await far.send(bytes([update[0], YSyncMessageType.SYNC_STEP2]) + update[2:])
        await peer.changed_until(
            lambda: covers(peer.doc.get_state(), read_vector(document.get_state()))
        )
        assert Notebook(peer).source("a") == "one"
        assert not peer.closed.is_set()
        await far.aclose()
    await near.aclose()


@settings(deadline=None, max_examples=150)
@given(noise=messages)
def test_noise_does_not_cost_the_room(noise: list[bytes]) -> None:
    async def timed() -> None:
        with anyio.fail_after(10):
            await hear(noise)

    anyio.run(timed)


@settings(deadline=None)
@given(encoded=st.binary(max_size=40))
def test_a_state_vector_is_read_or_refused(encoded: bytes) -> None:
    try:
        vector = read_vector(encoded)
    except ValueError:
        return
    assert all(client >= 0 and clock >= 0 for client, clock in vector.items())
