"""Disks that are full or read-only."""

import asyncio
import contextlib
import os

import pytest

from tests.faults.test_sockets_and_kills import ANSWER, WORDS, shows

pytestmark = pytest.mark.timeout(240)


async def mount(*arguments):
    process = await asyncio.create_subprocess_exec(
        "mount", *map(str, arguments), stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    return process.returncode, told.decode()


@contextlib.asynccontextmanager
async def small_disk(folder):
    """A disk of 2 MB at a folder, while the block runs."""
    code, told = await mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", folder)
    if code:
        pytest.skip(f"this machine does not let a test mount a disk: {told.strip()}")
    try:
        yield
    finally:
        process = await asyncio.create_subprocess_exec("umount", "-l", str(folder))
        await process.wait()


@pytest.mark.row("The disk is full, or read-only, in mid-run")
@pytest.mark.parametrize("how", ["full", "read-only"])
async def test_a_disk_that_takes_nothing(place, vendor, matrix, tmp_path, how):
    folder = tmp_path / "home" / "root"
    folder.mkdir(parents=True)
    async with small_disk(folder), place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada = await here.person("ada")
        run = await here.ask()
        await ada.sees(shows("word9 "))
        if how == "full":
            filler = folder / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as taken:
                while True:
                    taken.write(os.urandom(4096))
        else:
            assert (await mount("-o", "remount,ro", folder))[0] == 0
        await ada.type("<typed>", cell="notes")
        await here.ended(run)
        await ada.sees(shows("word119 "))
        if how == "full":
            filler.unlink()
        else:
            assert (await mount("-o", "remount,rw", folder))[0] == 0
        await ada.type("<room again>", cell="notes")
        await here.check(answer=ANSWER, whole=True, statuses={"done"})
        matrix.record(outcome="pages keep all; once the disk takes it, the file has it too")
