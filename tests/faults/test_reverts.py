"""Taking a run back after the server was started anew, under real Yjs, while people write."""

import contextlib

import httpx
import pytest

from tests.faults.witnesses import answer_in, source_of, without

pytestmark = pytest.mark.timeout(240)

WORDS = [f"word{number} " for number in range(60)]
SAID = "The very first answer."
EDITS = [
    {
        "tools": [
            {
                "name": "cell_str_replace",
                "arguments": {"cell_id": "code", "old_str": "x = 1", "new_str": "y = 22"},
            },
            {
                "name": "delete_cell",
                "arguments": {"cell_id": "notes", "expected_source": "Notes."},
            },
        ]
    },
    {"text": "Done."},
]


@contextlib.asynccontextmanager
async def asking(here):
    """One person's requests: the cookie says who it is, also to a server that was started anew."""
    async with httpx.AsyncClient(timeout=30) as client:

        async def request(method, route, **body):
            answer = await client.request(method, here.server.url(f"nbinline/{route}"), json=body)
            assert answer.status_code < 300, answer.text
            return answer.json()

        yield request


async def ask(here, request, cell="p0"):
    told = await request("POST", "runs", path=here.file.name, cell_id=cell)
    return told["run_id"]


async def ended(here, request, cell="p0"):
    run = await ask(here, request, cell)
    assert (await here.ended(run))["status"] == "done"
    return run


def shows(text):
    return lambda cells: text in "".join(source_of(cell) for cell in cells)


@pytest.mark.parametrize("end", ["stopped", "killed"])
async def test_after_a_restart_and_after_other_runs(place, vendor, end):
    first = vendor.prompt("First?", text=SAID)
    async with (
        place(first, vendor.prompt("Other?", text="Other.")) as here,
        asking(here) as request,
    ):
        ada = await here.person("ada")
        await ended(here, request)
        before = await ada.sees(shows(SAID))
        answer = answer_in(before)["id"]
        await ada.type("<mine>", cell=answer, at=8)
        again = await ended(here, request)
        await ada.sees(lambda cells: source_of(answer_in(cells)) == SAID)
        await ada.type("<later>", cell=answer, at=5)
        await ended(here, request, "p1")
        await (here.server.stop() if end == "stopped" else here.server.kill())
        await here.server.start()
        await here.back(ada)
        await ada.type("<after>", cell=answer, at=0)
        fresh = await here.person("bob")
        await fresh.sees(shows("<after>"))

        told = await request("POST", f"runs/{again}/revert")
        assert (told["reverted"], told["kept"]) == ([answer], [])
        for witness in (ada, fresh):
            cells = await witness.sees(
                lambda cells: "<mine>" in source_of(answer_in(cells)), "the answer before"
            )
            text = source_of(answer_in(cells))
            assert without(text, ada.typed) == SAID
            assert all(text.count(word) == 1 for word in ada.typed)
            assert "Other." in [source_of(cell) for cell in cells]
        assert (await request("POST", f"runs/{again}/revert")) == {"reverted": [], "kept": []}


async def test_a_run_that_was_killed(place, vendor):
    async with place(vendor.prompt(deltas=WORDS, rate=40)) as here, asking(here) as request:
        ada = await here.person("ada")
        run = await ask(here, request)
        await ada.sees(lambda cells: "word9 " in source_of(answer_in(cells) or {}))
        answer = answer_in(await ada.look())["id"]
        await ada.type("<inside>", cell=answer, at=7)
        await ada.sees(lambda cells: "word15 " in source_of(answer_in(cells)))
        await here.server.kill()
        await here.server.start()
        await here.back(ada)
        assert (await here.ended(run))["status"] == "interrupted"
        await ada.type("<after>", cell=answer, at=3)
        bob = await here.person("bob")
        await bob.sees(shows("<after>"))
        told = await request("POST", f"runs/{run}/revert")
        assert told["reverted"] == [answer]
        cells = await ada.sees(lambda cells: "word" not in "".join(map(source_of, cells[3:])))
        [left] = [source_of(cell) for cell in cells if cell["id"] == answer]
        assert left == "<after><inside>"


async def test_undo_of_people_and_revert_leave_each_other_alone(place, vendor):
    tools = "&`cell_str_replace` &`delete_cell`"
    async with place(vendor.prompt(f"Go. {tools}", turns=EDITS)) as here, asking(here) as request:
        ada = await here.person("ada")
        await ada.type("# mine\n", cell="code", at=0)
        run = await ended(here, request)
        await ada.sees(lambda cells: source_of(cells[0]) == "# mine\ny = 22")
        while (await ada.page.do("undo"))["undone"]:
            pass
        cells = await ada.sees(lambda cells: source_of(cells[0]) == "y = 22")
        assert "notes" not in [cell["id"] for cell in cells]
        await ada.type("z = 3\n", cell="code", at=0)
        bob = await here.person("bob")
        await bob.sees(shows("z = 3"))

        told = await request("POST", f"runs/{run}/revert")
        assert told["kept"] == []
        await ada.sees(lambda cells: source_of(cells[0]) == "z = 3\nx = 1")
        while (await ada.page.do("undo"))["undone"]:
            pass
        cells = await bob.sees(lambda cells: source_of(cells[0]) == "x = 1")
        assert [cell["id"] for cell in cells] == ["code", "notes", "p0"]
        assert (await ada.page.do("cells"))["pending"] is None


async def test_what_was_typed_into_a_removed_cell_while_the_page_was_cut_off(place, vendor):
    tools = "&`cell_str_replace` &`delete_cell`"
    async with place(vendor.prompt(f"Go. {tools}", turns=EDITS)) as here, asking(here) as request:
        ada, bob = await here.person("ada"), await here.person("bob")
        await ada.page.do("cut")
        await ada.type("<offline>", cell="notes", at=5)
        run = await ended(here, request)
        await bob.sees(lambda cells: "notes" not in [cell["id"] for cell in cells])
        await here.back(ada)
        await ada.sees(shows("Done."))
        told = await request("POST", f"runs/{run}/revert")
        assert "notes" in told["reverted"]
        cells = await bob.sees(shows("<offline>"))
        assert [source_of(cell) for cell in cells[:2]] == ["x = 1", "Notes<offline>."]
        await ada.sees(shows("Notes<offline>."))
