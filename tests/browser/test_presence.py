"""The agent is seen as a collaborator while it works, and is gone afterwards."""

from __future__ import annotations

import time

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text
from tests.browser.pages import NotebookPage
from tests.browser.test_stopping import press_stop

AGENT = "AI agent"

GONE = """
() => new Promise(resolve => {
  let endedAt;
  const look = () => {
    const mark = nbt.answer('ask')?.mark.status;
    const ended = mark !== undefined && mark !== 'queued' && mark !== 'running';
    const here = nbt.agents().length > 0;
    if (ended && endedAt === undefined) endedAt = performance.now();
    if (ended && !here) { resolve(performance.now() - endedAt); return; }
    setTimeout(look, 10);
  };
  look();
})
"""


def watch_leaving(page: NotebookPage) -> None:
    """Measure in the page how long the agent stays after the end of the run."""
    page.page.evaluate(f"() => {{ window.nbtLeft = ({GONE.strip()})(); }}")


def stayed(page: NotebookPage) -> float:
    """Milliseconds from the mark's end to the agent's leaving."""
    milliseconds: float = page.page.evaluate("async () => await window.nbtLeft")
    return milliseconds


def open_collaborators(page: NotebookPage) -> None:
    """Open the side panel that lists who is here."""
    page.page.locator(".lm-TabBar-tab[data-id='jp-collaboration-panel']").click()
    page.page.locator("#jp-collaboration-panel").wait_for()


def test_both_people_see_label_cursor_and_list_entry(people: People, lab: Lab, write) -> None:
    path = write(lab, text("top", "Top."), prompt("ask", deltas=400, rate=40))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    for page in (ada, bob):
        open_collaborators(page)
    ada.run("ask")
    answer = ada.answer("ask")["id"]
    bob.edit(answer, 0)

    for page in (ada, bob):
        page.wait("() => nbt.agents().length === 1")
        (state,) = page.page.evaluate("() => nbt.agents()")
        assert state["user"]["display_name"] == AGENT
        assert state["autosave"] is False
        assert state["nbinline"]["cell_id"] == answer
        page.page.locator("#jp-collaboration-panel").get_by_text(AGENT).first.wait_for()
    # Ada looks at the rendered answer, Bob at the raw text in its editor.
    caret = ada.node(answer).locator(".nbinline-AgentCaret")
    caret.wait_for()
    assert caret.get_attribute("data-name") == AGENT
    ada.wait_text("ask", 200)
    tail = ada.page.evaluate(
        """id => {
          const host = nbt.widget(id).renderer.node;
          const caret = host.querySelector('.nbinline-AgentCaret');
          const range = document.createRange();
          range.selectNodeContents(host);
          range.setStartAfter(caret);
          return range.toString().trim();
        }""",
        answer,
    )
    assert tail == "", "the caret does not stand behind the last word"
    bob.node(answer).locator(".jp-remote-cursor").wait_for()
    bob.page.locator(".jp-remote-userFlag", has_text=AGENT).wait_for()

    press_stop(ada, "ask")
    for page in (ada, bob):
        page.wait_status("ask", "cancelled")
        page.wait("() => nbt.agents().length === 0", timeout=2_000)
    ada.page.locator("#jp-collaboration-panel").get_by_text(AGENT).first.wait_for(state="detached")
    caret.wait_for(state="detached")


def test_the_agent_leaves_within_a_second_of_a_good_end(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=40, rate=40))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    for page in (ada, bob):
        page.wait("() => nbt.agents().length === 1")
        watch_leaving(page)

    for page in (ada, bob):
        assert stayed(page) < 1_000


def test_the_agent_leaves_within_a_second_of_stop(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=9, stall={"after": 3}))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    for page in (ada, bob):
        page.wait("() => nbt.agents().length === 1")
        watch_leaving(page)

    at = time.monotonic()
    press_stop(ada, "ask")

    for page in (ada, bob):
        assert stayed(page) < 1_000
    assert time.monotonic() - at < 3.0


def test_somebody_who_comes_in_the_middle_sees_the_agent(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=9, stall={"after": 3}))
    ada = people.visit(lab, path)
    ada.run("ask")
    ada.wait("() => nbt.agents().length === 1")

    bob = people.visit(lab, path, "bob")

    bob.wait("() => nbt.agents().length === 1", timeout=3_000)
    bob.node(bob.answer("ask")["id"]).locator(".nbinline-AgentCaret").wait_for()
    press_stop(bob, "ask")
    bob.wait_status("ask", "cancelled")


def test_typing_goes_into_the_document_beside_the_agents_cursor(
    people: People, lab: Lab, write
) -> None:
    path = write(lab, text("note", ""), prompt("ask", deltas=200, rate=40))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    ada.wait("() => nbt.agents().length === 1")

    ada.edit("note", 0)
    ada.page.keyboard.type("what I type arrives", delay=10)

    bob.wait("() => nbt.cell('note').source === 'what I type arrives'")
    assert ada.page.evaluate("() => nbt.shared().ydoc.store.pendingStructs === null")
    press_stop(ada, "ask")
    ada.wait_status("ask", "cancelled")
