"""The side panel in which people watch what agents do, stop runs and pause AI."""

from __future__ import annotations

import json

from playwright.sync_api import Locator

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, text
from tests.browser.pages import NotebookPage

EDIT = {
    "name": "cell_str_replace",
    "arguments": {"cell_id": "code", "old_str": "x = 1", "new_str": "x = 2"},
}


def panel_of(page: NotebookPage) -> Locator:
    """The panel, opened."""
    page.command("nbinline:open-activity")
    panel = page.page.get_by_role("region", name="Agent activity")
    panel.get_by_text("Running (").wait_for()
    return panel


def run_in(panel: Locator, name: str) -> Locator:
    """The entry of the run in a notebook."""
    return panel.locator(".nbinline-Activity-run", has_text=name)


def test_somebody_watches_a_run_live_goes_there_and_stops_it(
    people: People, lab: Lab, write
) -> None:
    path = write(
        lab,
        *(text(f"t{n}", f"Text {n}\n\n" * 9) for n in range(12)),
        prompt("ask", deltas=9, stall={"after": 4}),
    )
    ada = people.visit(lab, path)
    ben = people.visit(lab, path, "bob")
    panel = panel_of(ben)
    panel.get_by_text("The server keeps a record of each run").wait_for()
    name = ada.page.evaluate("() => jupyterapp.serviceManager.user.identity.display_name")
    ben.page.evaluate(
        "() => { nbt.panel().content.node.querySelector('.jp-WindowedPanel-outer').scrollTop = 0; }"
    )
    ada.run("ask")

    entry = run_in(panel, path)
    entry.get_by_text("Writes…").wait_for()
    assert name in entry.inner_text()
    entry.get_by_text("Explain.").wait_for()
    ben.page.keyboard.press("Escape")
    entry.get_by_role("button", name="Go to").click()
    answer = ben.answer("ask")["id"]
    ben.node(answer).wait_for()
    ben.wait(
        """id => {
          const box = nbt.widget(id)?.node.getBoundingClientRect();
          return box && box.top < innerHeight && box.bottom > 0;
        }""",
        answer,
    )

    entry.get_by_role("button", name="Stop").click()
    ada.wait_status("ask", "cancelled")
    entry.get_by_text("Stopped").wait_for()
    entry.get_by_role("button", name="Transcript").click()
    dialog = ben.page.get_by_role("dialog")
    dialog.get_by_text(name).first.wait_for()
    with ben.page.expect_download() as saved:
        dialog.get_by_role("button", name="Save as JSON").click()
    told = json.loads(saved.value.path().read_text())
    (transcript,) = told["transcripts"]
    assert transcript["run"]["run_id"] == ada.answer("ask")["mark"]["runId"]
    dialog.get_by_role("button", name="Close").click()


def test_edits_are_seen_with_their_diffs_and_approvals_that_wait(
    people: People, lab: Lab, write
) -> None:
    asks = {"toolApproval": {"notebook": "ask"}, "toolGroups": ["notebook"]}
    turns = [{"deltas": [], "tools": [EDIT]}, {"text": "Done."}]
    path = write(lab, code("code", "x = 1"), prompt("ask", turns=turns), nbinline=asks)
    ada, ben = people.visit(lab, path), people.visit(lab, path, "bob")
    panel = panel_of(ben)
    ada.run("ask")
    entry = run_in(panel, path)
    entry.get_by_text("Waits for approval: cell_str_replace").wait_for()
    entry.get_by_role("button", name="Steps").click()
    follow = entry.get_by_role("button", name="Follow")
    follow.click()
    assert follow.get_attribute("aria-pressed") == "true"

    step = entry.locator(".nbinline-Transcript-step")
    step.locator("summary").click()
    step.get_by_label("Changes").wait_for()

    ada.page.get_by_role("button", name="Allow", exact=True).click()
    ada.wait_status("ask", "done")
    entry.locator(".nbinline-Activity-state").get_by_text("Done").wait_for()
    # What was opened while it ran is open still.
    assert step.locator("[data-kind=removed]").inner_text().strip() == "-x = 1"
    assert step.locator("[data-kind=added]").inner_text().strip() == "+x = 2"


def test_ai_is_paused_in_a_notebook_and_resumed(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=5))
    ada, ben = people.visit(lab, path), people.visit(lab, path, "bob")
    panel = panel_of(ben)
    panel.get_by_role("button", name="Pause AI…").click()
    dialog = ben.page.get_by_role("dialog")
    dialog.get_by_label(f"In the notebook {path}").check()
    dialog.get_by_label("Reason").fill("Exam")
    dialog.get_by_role("button", name="Pause").click()
    panel.get_by_text(f"AI is paused in {path}").wait_for()

    ada.run("ask")
    ada.page.get_by_text("AI is paused in this notebook").first.wait_for()

    panel.get_by_role("button", name="Resume").click()
    panel.get_by_text(f"AI is paused in {path}").wait_for(state="detached")
    ada.run("ask")
    ada.wait_status("ask", "done")
