"""Joining, holding, saving and leaving the rooms of a real server."""



from tests.extension.conftest import stopping
from tests.extension.notebooks import sources_on_disk


def write(peer, text, cell=0):
    source = peer.ynotebook.ycells[cell]["source"]
    with peer.doc.transaction(origin="run"):
        source += text


async def test_a_room_opens_without_a_browser_and_is_saved_on_leaving(
    ydoc, write_notebook, joined
):
    file = write_notebook("hello")
    async with stopping(ydoc):
        async with joined() as membership:
            assert [c["source"].to_py() for c in membership.peer.ynotebook.ycells] == ["hello"]
            write(membership.peer, " world")
        assert sources_on_disk(file) == ["hello world"]
