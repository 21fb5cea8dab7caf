"""Trouble with the journal, and with the model's service."""

import asyncio
import sqlite3

import pytest

from tests.faults.test_sockets_and_kills import ANSWER, WORDS, shows

pytestmark = pytest.mark.timeout(240)


def journal_files(here):
    return sorted((here.server.data / "nbinline" / "journal").glob("*.sqlite"))


@pytest.mark.row("The journal is deleted, damaged or locked in mid-run")
@pytest.mark.parametrize("how", ["deleted", "damaged", "locked"])
async def test_the_journal_in_mid_run(place, vendor, matrix, how):
    async with place(vendor.prompt(deltas=WORDS, rate=30)) as here:
        ada = await here.person("ada")
        await here.ask()
        await ada.sees(shows("word9 "))
        [file] = journal_files(here)
        lock = None
        if how == "deleted":
            for each in file.parent.glob(f"{file.name}*"):
                each.unlink()
        elif how == "damaged":
            with file.open("r+b") as damaged:
                damaged.write(b"\xff" * 8192)
        else:
            lock = await asyncio.to_thread(sqlite3.connect, file, check_same_thread=False)
            await asyncio.to_thread(lock.execute, "BEGIN IMMEDIATE")
        await ada.type("<typed>", cell="notes")
        await ada.sees(shows("word119 "))
        if lock is not None:
            await asyncio.to_thread(lock.close)
        await here.check(answer=ANSWER, whole=True, statuses={"done", "error", "interrupted"})
        matrix.record(outcome="the answer goes on without its record")


@pytest.mark.row("The journal is damaged before the start")
async def test_a_damaged_journal_at_the_start(place, vendor, matrix):
    async with place(vendor.prompt(deltas=WORDS, rate=200)) as here:
        ada = await here.person("ada")
        await here.server.stop()
        for file in journal_files(here):
            file.write_bytes(b"no database" * 1000)
        await here.server.start()
        await here.back(ada)
        assert (await here.ended(await here.ask()))["status"] == "done"
        await here.check(answer=ANSWER, whole=True, statuses={"done"}, restart=False)
        assert list((here.server.data / "nbinline" / "journal").glob("*corrupt*"))
        matrix.record(outcome="set aside, a new one is made, prompts run")


@pytest.mark.row("The model's service breaks off in mid-answer")
@pytest.mark.parametrize("trouble", ["drop", "cut"])
async def test_the_service_fails(place, vendor, matrix, trouble):
    script = vendor.prompt(deltas=WORDS, rate=60, **{trouble: {"after": 30}})
    async with place(script) as here:
        ada = await here.person("ada")
        run = await here.ask()
        await ada.type("<typed>", cell="notes")
        assert (await here.ended(run))["status"] in ("error", "done")
        await here.check(answer=ANSWER, whole=False, statuses={"error", "done"}, restart=False)
        matrix.record(outcome="what came stays, the answer says error and why")
