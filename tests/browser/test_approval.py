"""The card of a run that must ask before it uses a tool: two people, one of whom may answer."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator

from tests.browser.conftest import People
from tests.browser.lab import Lab, running_lab
from tests.browser.notebooks import code, prompt
from tests.browser.pages import NotebookPage

ASKS = {"toolApproval": {"notebook": "ask"}, "toolGroups": ["notebook"]}
EDIT = {
    "name": "cell_str_replace",
    "arguments": {"cell_id": "code", "old_str": "x = 1", "new_str": "x = 2"},
}
TURNS = [{"text": "I set it.", "tools": [EDIT]}, {"text": "That was it."}]


def notebook(lab: Lab, write, **nbinline: Any) -> str:
    """A notebook whose question makes the agent edit a cell; edits must be allowed there."""
    metadata = {**ASKS, **nbinline}
    return write(lab, code("code", "x = 1\ny = 3"), prompt("ask", turns=TURNS), nbinline=metadata)


def card_of(page: NotebookPage) -> Locator:
    """The card under the answer, as soon as it says what it is about."""
    card = page.page.get_by_role("group", name="The AI asks for approval")
    card.get_by_text("cell_str_replace").first.wait_for()
    return card


def test_only_the_asker_can_answer_and_does_with_the_keyboard(
    people: People, lab: Lab, write
) -> None:
    path = notebook(lab, write)
    ada, ben = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.listen()
    ada.run("ask")
    hers, his = card_of(ada), card_of(ben)
    ben.bar(ben.answer("ask")["id"]).get_by_text("Waits for approval").first.wait_for()
    for card in (hers, his):
        card.get_by_text("on cell 1").wait_for()
        assert card.locator("[data-kind=removed]").inner_text().strip() == "-x = 1"
        assert card.locator("[data-kind=added]").inner_text().strip() == "+x = 2"
    his.get_by_text("Waiting for").wait_for()
    assert his.get_by_role("button").count() == 0
    assert any("approval" in each for each in ada.announced())
    run_id = ada.answer("ask")["mark"]["runId"]
    approval = ada.answer("ask")["mark"]["approvalId"]
    refused = ben.page.evaluate(
        """async ([run, approval]) => {
          const token = document.cookie.match(/_xsrf=([^;]+)/)[1];
          const base = JSON.parse(document.getElementById('jupyter-config-data').textContent);
          const url = `${base.baseUrl}nbinline/runs/${run}/approvals/${approval}`;
          const body = JSON.stringify({allow: true});
          const headers = {'X-XSRFToken': token, 'Content-Type': 'application/json'};
          const reply = await fetch(url, {method: 'POST', body, headers});
          return [reply.status, (await reply.json()).error.code];
        }""",
        [run_id, approval],
    )
    assert refused == [403, "not-yours"]
    assert ada.cell("code")["source"] == "x = 1\ny = 3"

    focused = ada.page.evaluate("() => document.activeElement.closest('.nbinline-ApprovalCard')")
    assert focused is None, "the card took the focus"
    allow = hers.get_by_role("button", name="Allow", exact=True)
    ada.page.locator(":focus").evaluate("node => node.blur()")
    for _ in range(60):
        if allow.evaluate("node => node === document.activeElement"):
            break
        ada.press("Tab")
    ada.press("Enter")

    ada.wait_status("ask", "done")
    ben.wait("() => nbt.cell('code').source === 'x = 2\\ny = 3'")
    hers.wait_for(state="detached")
    his.wait_for(state="detached")
    assert "Allowed." in ada.announced()
    assert "approvalId" not in ada.answer("ask")["mark"]


def test_a_reload_keeps_the_card_and_deny_is_told_to_the_model(
    people: People, lab: Lab, write
) -> None:
    ada = people.visit(lab, notebook(lab, write))
    ada.run("ask")
    card_of(ada)
    ada.reload()

    card_of(ada).get_by_role("button", name="Deny").click()

    answer = ada.wait_status("ask", "done")
    assert answer["source"] == "I set it.\n\nThat was it."
    assert ada.cell("code")["source"] == "x = 1\ny = 3"
    ada.bar(answer["id"]).get_by_role("button", name="Steps").click()
    step = ada.page.locator(".nbinline-Transcript-step")
    step.get_by_text("denied").wait_for()
    step.locator("summary").click()
    step.get_by_text("The person does not allow").wait_for()


def test_always_allow_asks_no_second_time(people: People, lab: Lab, write) -> None:
    again = {**EDIT, "arguments": {"cell_id": "code", "old_str": "y = 3", "new_str": "y = 4"}}
    turns = [{"deltas": [], "tools": [EDIT, again]}, {"text": "Done."}]
    path = write(lab, code("code", "x = 1\ny = 3"), prompt("ask", turns=turns), nbinline=ASKS)
    ada = people.visit(lab, path)
    ada.run("ask")

    card_of(ada).get_by_role("button", name="Always allow in this notebook").click()

    ada.wait_status("ask", "done")
    assert ada.cell("code")["source"] == "x = 2\ny = 4"


def test_without_a_word_in_time_it_is_denied(people: People, tmp_path, vendor, write) -> None:
    args = ["--NbinlineApp.approval_seconds=2"]
    with running_lab(tmp_path, vendor=vendor.url, args=args) as own:
        ada = people.visit(own, notebook(own, write))
        ada.run("ask")
        card_of(ada).get_by_text("Denied in").wait_for()

        answer = ada.wait_status("ask", "done")

        assert answer["source"].startswith("I set it.")
        assert ada.cell("code")["source"] == "x = 1\ny = 3"
        run = own.request("GET", f"nbinline/runs/{answer['mark']['runId']}")[1]
        assert [each["answer"] for each in run["approvals"]] == ["timed-out"]


def test_the_notebook_is_made_stricter_in_a_dialog(people: People, lab: Lab, write) -> None:
    path = write(lab, code("code", "x = 1\ny = 3"), prompt("ask", turns=TURNS))
    ada, ben = people.visit(lab, path), people.visit(lab, path, "bob")
    written = "() => nbt.shared().getMetadata('nbinlineai') ?? null"
    assert ada.page.evaluate(written) is None

    ada.page.get_by_role("button", name="Tools…").locator("visible=true").click()
    dialog = ada.page.get_by_role("dialog")
    dialog.get_by_text("off (set by this server)").first.wait_for()
    dialog.get_by_label("Read and edit cells: on in this notebook").check()
    dialog.get_by_label("Calls of Read and edit cells").select_option("ask")
    dialog.get_by_label("Rounds of tool calls in one run").fill("3")
    dialog.get_by_role("button", name="Save").click()

    chosen = {
        "toolApproval": {"notebook": "ask"},
        "toolGroups": ["notebook"],
        "defaults": {"maxToolSteps": 3},
    }
    assert ada.page.evaluate(written) == chosen
    ben.wait("() => nbt.shared().getMetadata('nbinlineai')?.toolApproval?.notebook === 'ask'")
    ada.run("ask")
    card_of(ada).get_by_role("button", name="Deny").click()
    ada.wait_status("ask", "done")
