"""The folded transcript under an answer's badge: asked for when opened, never stored."""

from __future__ import annotations

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt


def test_the_steps_are_asked_for_when_they_are_opened(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=20))
    ada = people.visit(lab, path)
    ada.run("ask")
    answer = ada.wait_status("ask", "done")
    asked: list[str] = []
    ada.page.on("request", lambda sent: asked.append(sent.url) if "/events" in sent.url else None)
    steps = ada.bar(answer["id"]).get_by_role("button", name="Steps")
    assert steps.get_attribute("aria-expanded") == "false"

    steps.focus()
    ada.page.keyboard.press("Enter")

    region = ada.page.get_by_role("region", name="Steps of the AI answer")
    region.get_by_text("No tool was used.").wait_for()
    assert steps.get_attribute("aria-expanded") == "true"
    assert all(answer["mark"]["runId"] in url for url in asked)
    assert asked
    assert ada.answer("ask")["mark"] == answer["mark"]

    ada.page.keyboard.press("Enter")
    region.wait_for(state="detached")


def test_open_steps_follow_a_run_to_its_end(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=400, rate=40))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    bob.wait_text("ask", 40)
    answer = bob.answer("ask")["id"]

    bob.bar(answer).get_by_role("button", name="Steps").click()
    region = bob.page.get_by_role("region", name="Steps of the AI answer")
    region.get_by_text("No tool has been used so far.").wait_for()
    assert bob.answer("ask")["mark"]["status"] == "running"

    bob.wait_status("ask", "done")
    region.get_by_text("No tool was used.").wait_for()
