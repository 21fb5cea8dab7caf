"""The notebook's file under other programs' hands while the agent writes."""

import pytest

from tests.faults.test_sockets_and_kills import ANSWER, WORDS, shows
from tests.faults.witnesses import answer_in, on_disk, source_of

pytestmark = pytest.mark.timeout(240)


@pytest.mark.row("The file is renamed through the server in mid-run")
async def test_renamed_through_the_server(place, vendor, matrix):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada = await here.person("ada")
        run = await here.ask()
        await ada.sees(shows("word9 "))
        await here.server.request("PATCH", "api/contents/a.ipynb", {"path": "b.ipynb"})
        await ada.type("<after>", cell="notes")
        assert (await here.ended(run))["status"] == "done"
        await here.check(answer=ANSWER, whole=True, statuses={"done"}, path="b.ipynb")
        assert not here.file.exists()
        matrix.record(outcome="the answer follows the file")


@pytest.mark.row("The file is deleted, or moved behind the server's back, in mid-run")
@pytest.mark.parametrize("how", ["deleted", "moved"])
async def test_gone_in_mid_run(place, vendor, matrix, how):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here:
        ada = await here.person("ada")
        run = await here.ask()
        await ada.sees(shows("word9 "))
        if how == "deleted":
            await here.server.request("DELETE", "api/contents/a.ipynb")
        else:
            here.file.rename(here.file.with_name("elsewhere.ipynb"))
        await ada.type("<after>", cell="notes")
        await here.ended(run)
        cells = await ada.look()
        # Open pages keep everything; the file is not made again against somebody's will.
        assert "<after>" in "".join(map(source_of, cells))
        left = source_of(answer_in(cells) or {})
        assert ANSWER.startswith(left)
        assert left.startswith(ada.seen)
        assert not here.file.exists()
        matrix.record(outcome="open pages keep all text; the file is not made again")


@pytest.mark.row("An emptied or doubled document is refused before the first write")
async def test_emptied_and_doubled(place, vendor, matrix):
    questions = [vendor.prompt(f"Q{number}?", text="Yes.") for number in range(6)]
    async with place(*questions) as here:
        ada = await here.person("ada")
        await here.ended(await here.ask("p5"))
        before = await ada.sees(shows_of("p5", "Yes."))
        for _ in range(6):
            await ada.page.do("remove", at=0)
        emptied = await ada.look()
        status, code, sentence = await here.refused("p5")
        assert (status, code) == (409, "document-suspect"), sentence
        assert await ada.look() == emptied
        for _ in range(6):
            await ada.page.do("undo")
        doubled = [cell for cell in await ada.look() if source_of(cell).strip()]
        assert len(doubled) == len(before)
        for number, cell in enumerate(doubled):
            text = source_of(cell)
            await ada.page.do("insert", at=len(doubled) + number, text=text, id=f"twin{number}")
        twice = await ada.look()
        status, code, sentence = await here.refused("p4")
        assert (status, code) == (409, "document-suspect"), sentence
        assert await ada.look() == twice
        run = await here.ask("p4", override={"acknowledge": True})
        assert (await here.ended(run))["status"] == "done"
        assert len(on_disk(here.file)) > len(before)
        matrix.record(outcome="refused with a sentence, nothing written; going on is possible")


def shows_of(prompt, text):
    return lambda cells: text in source_of(answer_in(cells, prompt) or {})
