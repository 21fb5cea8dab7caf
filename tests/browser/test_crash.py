"""The server is killed with -9 in the middle of an answer and started again."""

from __future__ import annotations

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, read, text, write
from tests.browser.pages import NotebookPage
from tests.browser.vendor import expected, queue
from tests.vendor.plugin import Vendor

RECONNECT = 60_000
"""Milliseconds until a page has found its server again; JupyterLab backs off."""

QUESTION = "A question without a script."


def crashed(witnesses: People, lab: Lab, vendor: Vendor) -> tuple[NotebookPage, NotebookPage, str]:
    """Kill the server while two people watch; the most that either has seen."""
    queue(vendor, {"deltas": 2_000, "rate": 40})
    write(lab.work / "crash.ipynb", text("top", "Top."), prompt("ask", QUESTION))
    ada = witnesses.visit(lab, "crash.ipynb")
    bob = witnesses.visit(lab, "crash.ipynb", "bob")
    ada.run("ask")
    ada.wait_text("ask", 700)
    bob.wait_text("ask", 700)
    lab.kill()
    # What was on its way is in the pages now; nothing else can come.
    seen = [page.page.evaluate("() => nbt.answer('ask').source") for page in (ada, bob)]
    lab.start()
    return ada, bob, max(seen, key=len)


def test_the_answer_is_restored_and_marked_and_goes_on(
    witnesses: People, own_lab: Lab, vendor: Vendor
) -> None:
    ada, bob, seen = crashed(witnesses, own_lab, vendor)
    whole = expected(deltas=2_000)

    for page in (ada, bob):
        page.wait_status("ask", "interrupted", RECONNECT)
        page.wait("n => nbt.answer('ask').source.length >= n", len(seen), timeout=RECONNECT)
    kept = ada.answer("ask")["source"]
    assert kept.startswith(seen), "what people had seen was lost"
    assert whole.startswith(kept), "something was doubled or misplaced"
    ada.wait("() => nbt.agents().length === 0")
    answers = [cell for cell in ada.cells() if cell["mark"] and "promptCellId" in cell["mark"]]
    assert len(answers) == 1
    answer = answers[0]["id"]
    for page in (ada, bob):
        page.bar(answer).get_by_text("Interrupted").wait_for()

    queue(vendor, {"text": "And here it ends."})
    ada.bar(answer).get_by_role("button", name="Continue").click()

    for page in (ada, bob):
        page.wait_status("ask", "done", RECONNECT)
        assert page.answer("ask")["source"] == kept + "And here it ends."
    own_lab.stop()
    on_disk = {cell["id"]: cell["source"] for cell in read(own_lab.work / "crash.ipynb")}
    assert on_disk[answer] == kept + "And here it ends."


def test_the_interrupted_question_is_run_again(
    witnesses: People, own_lab: Lab, vendor: Vendor
) -> None:
    ada, bob, _ = crashed(witnesses, own_lab, vendor)
    for page in (ada, bob):
        page.wait_status("ask", "interrupted", RECONNECT)
    answer = ada.answer("ask")["id"]

    queue(vendor, {"text": "A new answer."})
    bob.bar(answer).get_by_role("button", name="Run again").click()

    for page in (ada, bob):
        page.wait_status("ask", "done", RECONNECT)
        page.wait("() => nbt.answer('ask').source === 'A new answer.'")
        assert page.answer("ask")["id"] == answer


def test_what_people_had_seen_is_there_for_somebody_who_comes_later(
    witnesses: People, own_lab: Lab, vendor: Vendor
) -> None:
    ada, bob, seen = crashed(witnesses, own_lab, vendor)
    ada.page.close()
    bob.page.close()

    carol = witnesses.visit(own_lab, "crash.ipynb", "carol")

    carol.wait_status("ask", "interrupted", RECONNECT)
    assert carol.answer("ask")["source"].startswith(seen)
    assert expected(deltas=2_000).startswith(carol.answer("ask")["source"])
