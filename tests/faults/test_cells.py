"""What people do to the question and the answer while the agent writes."""

import pytest

from tests.faults.test_sockets_and_kills import ANSWER, WORDS, answer_id, shows
from tests.faults.witnesses import answer_in, source_of

pytestmark = pytest.mark.timeout(240)


def place_of(cells, cell):
    return next(at for at, each in enumerate(cells) if each["id"] == cell)


@pytest.mark.row("The question is deleted in mid-run")
async def test_the_question_is_deleted(place, vendor, matrix):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada, bob = await here.person("ada"), await here.person("bob")
        run = await here.ask()
        await bob.sees(shows("word9 "))
        await ada.type("<more>", cell="notes")
        await ada.page.do("remove", at=place_of(await ada.look(), "p0"))
        await bob.sees(shows("word40 "))
        assert (await here.ended(run))["status"] == "done"
        await here.check(answer=ANSWER, whole=True, statuses={"done"}, restart=False)
        matrix.record(outcome="the answer goes on where it stands")


@pytest.mark.row("Question and answer are edited in many places in mid-run")
async def test_both_are_edited_in_many_places(place, vendor, matrix):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada, bob = await here.person("ada"), await here.person("bob")
        run = await here.ask()
        await ada.sees(shows("word5 "))
        answer = await answer_id(ada)
        for number in range(25):
            await ada.type(f"<a{number}>", cell=answer, at=0)
            await bob.type(f"<b{number}>", cell=answer)
            await bob.type(f"<q{number}>", cell="p0")
        assert (await here.ended(run))["status"] == "done"
        await here.check(answer=ANSWER, whole=True, statuses={"done"}, restart=False)
        matrix.record(outcome="typed words stay where they were typed")


@pytest.mark.row("The answer is deleted in mid-run, and the deletion is undone")
@pytest.mark.parametrize("undone", [False, True])
async def test_the_answer_is_deleted(place, vendor, matrix, undone):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada, bob = await here.person("ada"), await here.person("bob")
        run = await here.ask()
        await ada.sees(shows("word9 "))
        await bob.type("<kept>", cell="notes")
        await ada.sees(lambda cells: "<kept>" in source_of(cells[1]))
        await ada.page.do("remove", at=place_of(await ada.look(), await answer_id(ada)))
        if undone:
            await ada.page.do("undo")
        ended = await here.ended(run)
        if undone:
            assert ended["status"] in ("done", "cancelled"), ended
            # The run may have found the cell gone before it came back: its text is there anyway.
            true = {"done", "cancelled", "interrupted"}
            await here.check(answer=ANSWER, whole=False, statuses=true, restart=False)
        else:
            assert ended["error"]["code"] == "cell-gone"
            cells = await bob.sees(lambda cells: answer_in(cells) is None)
            assert "<kept>" in source_of(cells[1])
        matrix.record(outcome="the run ends and says so; undone, the text is back")
