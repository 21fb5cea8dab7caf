"""Connections that break, rooms that close, servers that are stopped or killed."""

import asyncio
import random

import pytest

from tests.faults.witnesses import answer_in, source_of

pytestmark = pytest.mark.timeout(240)

WORDS = [f"word{number} " for number in range(120)]
ANSWER = "".join(WORDS)


def shows(text):
    return lambda cells: text in source_of(answer_in(cells) or {})


async def answer_id(witness):
    return answer_in(await witness.look())["id"]


@pytest.mark.row("A browser's connection is cut and comes back in mid-run")
async def test_a_socket_is_cut_and_back(place, vendor, matrix):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada, bob = await here.person("ada"), await here.person("bob")
        run = await here.ask()
        await ada.sees(shows("word9 "))
        await ada.page.do("cut")
        await ada.type("<offline>", cell="notes")
        await ada.type("<inside>", cell=await answer_id(ada), at=3)
        await bob.type("<online>", cell="notes")
        await bob.sees(shows("word40 "))
        await here.back(ada)
        assert (await here.ended(run))["status"] == "done"
        await here.check(answer=ANSWER, whole=True, statuses={"done"})
        matrix.record(outcome="the answer is whole, what was typed offline too")


@pytest.mark.row("All browsers leave; the run goes on past the cleanup delay")
async def test_everybody_is_gone(place, vendor, matrix):
    async with place(vendor.prompt(deltas=WORDS, rate=25)) as here:
        ada = await here.person("ada")
        run = await here.ask()
        await ada.sees(shows("word9 "))
        await ada.type("<before>", cell="notes")
        await ada.sees(shows("word20 "))
        await ada.page.do("cut")  # the cleanup delay is one second; the answer takes three more
        assert (await here.ended(run))["status"] == "done"
        await here.back(ada)
        await here.check(answer=ANSWER, whole=True, statuses={"done"})
        matrix.record(outcome="the run ends without them, the answer is whole and saved")


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
@pytest.mark.row("The server is stopped (SIGTERM) or killed (SIGKILL) at a random moment of a run")
@pytest.mark.timeout(7200)
async def test_the_server_ends_at_a_random_moment(place, vendor, matrix, amount, how):
    times = amount("KILLS", short=10, long=200) // 2
    seed = amount("SEED", short=random.randrange(10**6), long=random.randrange(10**6))
    chance = random.Random(seed)
    print(f"{how}: NBINLINE_SEED={seed}")
    for number in range(times):
        script = vendor.prompt(deltas=WORDS, rate=60)
        async with place(script, name=f"{how}-{number}") as here:
            await end_once(here, chance, how)
    matrix.record(
        outcome="all that was typed or seen is there; the answer says interrupted, or done",
        runs=times,
        seed=seed,
    )


async def end_once(here, chance, how):
    """Two people, one run, an end at a random moment; the pages stay open and come back."""
    ada, bob = await here.person("ada"), await here.person("bob")
    await ada.type("<first>", cell="notes")
    await bob.sees(lambda cells: "<first>" in source_of(cells[1]))
    await here.ask()
    late = asyncio.create_task(asyncio.sleep(chance.uniform(0.0, 2.5)))  # noqa: TID251
    number = 0
    while not late.done():
        await asyncio.sleep(chance.uniform(0.02, 0.2))
        cells = await ada.look()
        answer = answer_in(cells)
        into = "notes" if answer is None or chance.random() < 0.5 else answer["id"]
        await ada.type(f"<a{number}>", cell=into)
        number += 1
    await (here.server.stop() if how == "SIGTERM" else here.server.kill())
    for witness in (ada, bob):
        await witness.look()  # what was on its way is in the pages now
    await here.server.start()
    for witness in (ada, bob):
        await here.back(witness)
    status = {"interrupted", "done"}
    await here.check(answer=ANSWER, whole=False, statuses=status, restart=chance.random() < 0.2)
