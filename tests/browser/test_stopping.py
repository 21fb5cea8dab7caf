"""A run is stopped by a person, wherever it is, and everybody sees it."""

from __future__ import annotations

import time

import pytest

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt
from tests.browser.pages import NotebookPage
from tests.browser.vendor import expected, queue, requests
from tests.vendor.plugin import Vendor

STALLED = {"deltas": 40, "stall": {"after": 5}}
SILENT = {"deltas": 40, "header_delay": 60}


def press_stop(page: NotebookPage, cell_id: str) -> float:
    """Press Stop in the bar of a question or answer; when that was."""
    button = page.bar(cell_id).get_by_role("button", name="Stop")
    button.wait_for()
    at = time.monotonic()
    button.click()
    return at


@pytest.mark.parametrize("where", ["question", "answer"])
def test_stop_of_a_stalled_answer(
    people: People, lab: Lab, write, vendor: Vendor, where: str
) -> None:
    path = write(lab, prompt("ask", **STALLED))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    written = expected(deltas=40)
    start = "".join(written.split(" ")[0])
    for page in (ada, bob):
        page.wait("start => nbt.answer('ask')?.source.startsWith(start)", start)
    answer = ada.answer("ask")["id"]

    # Bob stops what Ada asked.
    at = press_stop(bob, "ask" if where == "question" else answer)

    for page in (ada, bob):
        page.wait_status("ask", "cancelled", timeout=4_000)
        page.bar(answer).get_by_text("Stopped").wait_for(timeout=2_000)
    assert time.monotonic() - at < 2.0
    assert written.startswith(ada.answer("ask")["source"])
    assert ada.answer("ask")["source"] != ""
    ada.until(lambda: requests(vendor)[0]["ended"])
    assert requests(vendor)[0]["disconnected"]


def test_stop_before_the_first_word(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", **SILENT))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    bob.wait_status("ask", "running")

    at = press_stop(ada, "ask")

    for page in (ada, bob):
        page.wait_status("ask", "cancelled", timeout=4_000)
    assert time.monotonic() - at < 2.0


def test_stop_of_a_queued_question(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(lab, prompt("first", **STALLED), prompt("second", deltas=5))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("first")
    ada.wait_text("first", 3)
    bob.run("second")
    ada.wait_status("second", "queued")

    press_stop(bob, "second")
    ada.wait_status("second", "cancelled", timeout=4_000)

    assert ada.answer("first")["mark"]["status"] == "running"
    press_stop(ada, "first")
    bob.wait_status("first", "cancelled", timeout=4_000)
    assert len(requests(vendor)) == 1


def test_stop_with_the_keyboard(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", **STALLED))
    ada = people.visit(lab, path)
    ada.run("ask")
    ada.wait_text("ask", 3)

    ada.select("ask")
    ada.press("Alt+Shift+S")

    ada.wait_status("ask", "cancelled", timeout=4_000)


def test_a_stopped_answer_is_continued(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(lab, prompt("ask", "Question without a script."))

    queue(vendor, {"deltas": 30, "stall": {"after": 12}}, {"text": "And this is the rest."})
    ada = people.visit(lab, path)
    ada.run("ask")
    partial = expected(deltas=30)
    ada.wait_text("ask", 40)
    answer = ada.answer("ask")["id"]
    press_stop(ada, "ask")
    ada.wait_status("ask", "cancelled")
    kept = ada.answer("ask")["source"]
    assert partial.startswith(kept)

    ada.bar(answer).get_by_role("button", name="Continue").click()

    ada.wait_status("ask", "done")
    assert ada.answer("ask")["id"] == answer
    assert ada.answer("ask")["source"] == kept + "And this is the rest."
