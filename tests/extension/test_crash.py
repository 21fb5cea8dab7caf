"""A server that is killed between saves, and comes back while pages are still open."""

import json

import anyio
import pytest

from tests.extension.conftest import until
from tests.extension.notebooks import content_of, notebook, sources_on_disk
from tests.extension.server_process import server_in
from tests.node.plugin import sources

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(autouse=True)
def jp_server_cleanup():
    """These tests have no server in this process."""


@pytest.mark.parametrize("saved_before", [False, True])
@pytest.mark.parametrize("cure", [False, True])
async def test_text_typed_before_a_kill_is_there_afterwards(
    tmp_path, open_page, cure, saved_before
):
    """Without the comparison at start, the older file wins over the store and every open page."""
    async with server_in(tmp_path) as server, open_page() as page:
        file = server.root / "a.ipynb"
        file.write_text(notebook("one", "two"), encoding="utf-8")
        await server.start(extension=cure, save_delay=60)
        url = await server.room_url()
        await page.do("join", url=url)
        if saved_before:
            await page.do("type", text=" saved")
            assert (await page.do("save"))["status"] == "success"
            assert sources_on_disk(file) == ["one saved", "two"]
            # The save's hash reaches the page, and the store with it.
            await _until_hash(page)
        for word in range(15):
            await page.do("type", text=f" w{word}")
            await anyio.sleep(0.04)
        await anyio.sleep(0.15)
        before = await page.sources()
        assert sources_on_disk(file)[0] in ("one", "one saved")
        await server.kill()

        await server.start(extension=cure)
        after = await page.do("join", url=url, retry=20_000)
        await anyio.sleep(1)
        after = await page.do("cells")
        assert (sources(after) == before) == cure
        assert after["pending"] is None
        if cure:
            await _check_a_new_page(open_page, server, before)
            assert sources_on_disk(file) == before
            # The room goes on: what is typed now is saved.
            await page.do("type", text=" more")
            await until(lambda: sources_or_none(file) == [before[0] + " more", "two"], 20)


async def _until_hash(page):
    with anyio.fail_after(10):
        while "hash" not in (await page.do("cells"))["state"]:  # noqa: ASYNC110
            await anyio.sleep(0.05)


async def _check_a_new_page(open_page, server, expected):
    async with open_page() as fresh:
        report = await fresh.do("join", url=await server.room_url())
        assert sources(report) == expected
        assert report["pending"] is None
        assert len({cell["id"] for cell in report["cells"]}) == len(expected)


def sources_or_none(file):
    """None while the server is writing it: it does not replace files, it rewrites them."""
    try:
        return sources_on_disk(file)
    except ValueError:
        return None


async def test_a_file_that_somebody_else_changed_is_left_and_the_document_exported(
    tmp_path, open_page
):
    async with server_in(tmp_path) as server, open_page() as page:
        file = server.root / "a.ipynb"
        file.write_text(notebook("one"), encoding="utf-8")
        await server.start(save_delay=60)
        await page.do("join", url=await server.room_url())
        await page.do("type", text=" typed")
        await anyio.sleep(0.3)
        await server.kill()
        content = content_of(file)
        content["cells"][0]["source"] = "changed by git"
        file.write_text(json.dumps(content), encoding="utf-8")

        await server.start()
        assert sources_on_disk(file) == ["changed by git"]
        (kept,) = server.rescued.glob("*.ipynb")
        assert sources_on_disk(kept) == ["one typed"]
        assert kept.stat().st_mode & 0o777 == 0o600


async def test_a_file_torn_by_a_kill_in_mid_save_is_made_whole(tmp_path, open_page):
    async with server_in(tmp_path) as server, open_page() as page:
        file = server.root / "a.ipynb"
        file.write_text(notebook("one"), encoding="utf-8")
        await server.start(save_delay=60)
        await page.do("join", url=await server.room_url())
        await page.do("type", text=" typed")
        await anyio.sleep(0.3)
        await server.kill()
        # Jupyter copies the file aside, rewrites it, and removes the copy.
        whole = file.read_bytes()
        file.with_name(".~a.ipynb").write_bytes(whole)
        file.write_bytes(whole[:40])

        await server.start()
        assert sources_on_disk(file) == ["one typed"]


async def test_what_waits_to_be_saved_is_saved_when_the_server_is_asked_to_stop(
    tmp_path, open_page
):
    async with server_in(tmp_path) as server, open_page() as page:
        file = server.root / "a.ipynb"
        file.write_text(notebook("one"), encoding="utf-8")
        await server.start(save_delay=60)
        await page.do("join", url=await server.room_url())
        await page.do("type", text=" typed")
        await anyio.sleep(0.3)
        await server.stop()
        assert sources_on_disk(file) == ["one typed"]
