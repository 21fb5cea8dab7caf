"""A question is run and the answer is seen while it is written, by everybody, whatever they do."""

from __future__ import annotations

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, text
from tests.browser.pages import NotebookPage
from tests.browser.vendor import expected, requests
from tests.vendor.plugin import Vendor

LIVE = """
([id, n]) => {
  const answer = nbt.answer(id);
  return answer?.mark.status === 'running' && nbt.rendered(answer.id).length >= n;
}
"""


def wait_live(page: NotebookPage, prompt_id: str, length: int) -> None:
    """Wait until so much of a running answer is seen rendered."""
    page.wait(LIVE, [prompt_id, length])


def test_both_people_see_the_rendered_answer_grow(people: People, lab: Lab, write) -> None:
    script = {"deltas": 150, "rate": 40, "style": "rich", "seed": 3}
    path = write(lab, text("top", "Top."), prompt("ask", **script), text("bottom", "Bottom."))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")

    ada.run("ask", "Shift+Enter")
    for page in (ada, bob):
        wait_live(page, "ask", 100)
        wait_live(page, "ask", 250)
    for page in (ada, bob):
        page.wait_status("ask", "done")

    whole = expected(**script)
    for page in (ada, bob):
        assert [cell["id"] for cell in page.cells() if cell["id"] in ("top", "ask", "bottom")] == [
            "top",
            "ask",
            "bottom",
        ]
        answer = page.answer("ask")
        assert answer["source"] == whole
        assert page.cells().index(answer) == 2
        page.wait(
            "id => nbt.widget(id).renderer.node.querySelector('td, pre, li') !== null", answer["id"]
        )


def test_what_was_rendered_live_is_what_jupyterlab_renders(people: People, lab: Lab, write) -> None:
    script = {"deltas": 260, "rate": 130, "style": "rich", "seed": 11}
    path = write(lab, prompt("ask", **script))
    ada = people.visit(lab, path)

    ada.run("ask")
    answer = ada.wait_status("ask", "done")["id"]
    tail = expected(**script).split()[-1].strip("`|*_")
    ada.wait("([id, tail]) => nbt.rendered(id).includes(tail)", [answer, tail])
    ada.wait("id => !nbt.widget(id).hasClass('nbinline-mod-running')", answer)
    live = ada.rendered(answer)

    ada.reload()
    ada.wait("([id, tail]) => nbt.rendered(id).includes(tail)", [answer, tail])
    ada.wait("([id, text]) => nbt.rendered(id) === text", [answer, live])


def test_typing_above_below_and_inside_a_running_answer(people: People, lab: Lab, write) -> None:
    script = {"deltas": 500, "rate": 25}
    path = write(lab, text("top", "Top."), prompt("ask", **script), text("bottom", "Bottom."))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    bob.wait_text("ask", 60)
    answer = bob.answer("ask")["id"]

    bob.edit(answer, 30)
    bob.page.keyboard.type("[inside, ÄÖ 数据]", delay=40)
    bob.edit("top", 4)
    bob.page.keyboard.type(" Typed above.", delay=20)
    ada.edit("bottom", 7)
    ada.page.keyboard.type(" Typed below.", delay=20)
    ada.edit(answer, 10)
    ada.page.keyboard.type("[by ada]", delay=40)
    assert ada.answer("ask")["mark"]["status"] == "running", "the answer ended too early to tell"

    whole = expected(**script)
    for page in (ada, bob):
        page.wait_status("ask", "done")
        page.wait(
            "([id, n]) => nbt.cell(id).source.length >= n",
            [answer, len(whole) + len("[inside, ÄÖ 数据][by ada]")],
        )
        assert page.cell("top")["source"] == "Top. Typed above."
        assert page.cell("bottom")["source"] == "Bottom. Typed below."
        typed = whole[:10] + "[by ada]" + whole[10:30] + "[inside, ÄÖ 数据]" + whole[30:]
        assert page.cell(answer)["source"] == typed


def test_text_typed_behind_the_tail_stays_behind_it(people: People, lab: Lab, write) -> None:
    script = {"deltas": 120, "rate": 20}
    path = write(lab, prompt("ask", **script))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    answer = bob.answer("ask")["id"]
    bob.wait_text("ask", 100)

    bob.edit(answer, 10**6)
    bob.page.keyboard.type("#")
    assert bob.answer("ask")["mark"]["status"] == "running"

    whole = expected(**script)
    for page in (ada, bob):
        page.wait_status("ask", "done")
        page.wait("([id, n]) => nbt.cell(id).source.length >= n", [answer, len(whole) + 1])
        source = page.cell(answer)["source"]
        # What the agent had sent but Bob had not seen when he typed stands before his mark.
        assert source.replace("#", "") == whole
        assert source.count("#") == 1


def test_a_reload_in_the_middle_loses_nothing(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    script = {"deltas": 300, "rate": 30}
    path = write(lab, code("before"), prompt("ask", **script))
    ada = people.visit(lab, path)
    ada.run("ask", "Shift+Enter")
    seen = ada.wait_text("ask", 100)

    ada.reload()

    wait_live(ada, "ask", len(seen) // 2)
    assert ada.answer("ask")["source"].startswith(seen)
    ada.wait_status("ask", "done")
    assert ada.answer("ask")["source"] == expected(**script)
    assert sum(cell["mark"] is not None for cell in ada.cells()) == 2
    assert len(requests(vendor)) == 1


def test_a_run_goes_on_with_nobody_there(people: People, lab: Lab, write, vendor: Vendor) -> None:
    script = {"deltas": 100, "rate": 25}
    path = write(lab, prompt("ask", **script))
    ada = people.visit(lab, path)
    ada.run("ask")
    ada.wait_text("ask", 20)

    ada.close()
    ada.until(lambda: bool(requests(vendor)) and requests(vendor)[0]["ended"])

    assert requests(vendor)[0]["sent"] == 100
    again = people.visit(lab, path)
    again.wait_status("ask", "done")
    assert again.answer("ask")["source"] == expected(**script)


def test_a_second_tab_of_the_same_person(people: People, lab: Lab, write) -> None:
    script = {"deltas": 500, "rate": 30}
    path = write(lab, prompt("ask", **script))
    ada = people.visit(lab, path)
    ada.run("ask")
    ada.wait_text("ask", 20)

    other = people.second_tab(lab, path)
    wait_live(other, "ask", 40)
    other.page.close()

    ada.wait_status("ask", "done")
    assert ada.answer("ask")["source"] == expected(**script)


def test_running_an_active_question_attaches_to_its_run(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    script = {"deltas": 300, "rate": 30}
    path = write(lab, prompt("ask", **script))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    bob.wait_text("ask", 20)
    run_id = bob.answer("ask")["mark"]["runId"]

    ada.run("ask")
    bob.run("ask")
    bob.bar("ask").get_by_role("button", name="Stop").wait_for()
    assert bob.answer("ask")["mark"]["status"] == "running", "the answer ended too early to tell"

    for page in (ada, bob):
        page.wait_status("ask", "done")
        assert page.answer("ask")["mark"]["runId"] == run_id
        assert page.answer("ask")["source"] == expected(**script)
        assert page.page.locator(".Toastify__toast--error").count() == 0
    assert len(requests(vendor)) == 1


def test_the_old_answer_stays_until_the_first_word_of_the_new(
    people: People, lab: Lab, write
) -> None:
    first, second = {"deltas": 10}, {"deltas": 10, "seed": 5, "delay": 1.5}
    path = write(lab, prompt("ask", **first))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    answer = ada.wait_status("ask", "done")["id"]
    old = expected(**first)
    bob.wait_status("ask", "done")

    ada.page.evaluate(
        "source => nbt.widget('ask').model.sharedModel.setSource(source)",
        prompt("ask", **second)["source"],
    )
    bob.page.evaluate(
        """([id, old]) => {
          window.nbtShown = [];
          const look = () => {
            const text = nbt.cell(id).source;
            if (text !== nbtShown.at(-1)) nbtShown.push(text);
            if (nbt.cell(id).mark.status !== 'done' || text === old) requestAnimationFrame(look);
          };
          look();
        }""",
        [answer, old],
    )
    ada.run("ask")

    ada.wait("([id, old]) => nbt.cell(id).source !== old", [answer, old])
    for page in (ada, bob):
        page.wait_status("ask", "done")
        page.wait("([id, text]) => nbt.cell(id).source === text", [answer, expected(**second)])
    shown = bob.page.evaluate("() => nbtShown")
    assert shown[0] == old
    assert "" not in shown, "the page was empty between the two answers"
    assert all(expected(**second).startswith(text) for text in shown[1:])
