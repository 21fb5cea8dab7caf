"""A question is inserted, chosen for, written and run with mouse or keyboard alone."""

from __future__ import annotations

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt
from tests.browser.vendor import expected, queue, requests
from tests.vendor.plugin import Vendor


def test_the_toolbar_button(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(lab, code("first"), code("second"))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    queue(vendor, {"text": "Because it is one more."})
    ada.select("first")

    ada.page.locator(".jp-NotebookPanel-toolbar").get_by_text("AI prompt").click()
    ada.wait("() => nbt.panel().content.activeCell.editor.hasFocus()")
    ada.page.keyboard.type("Why is it two?")
    ada.page.keyboard.press("Shift+Enter")

    ada.wait("() => nbt.cells().length === 4")
    question = ada.cells()[1]
    assert question["mark"] == {"isPromptCell": True}
    assert question["source"] == "Why is it two?"
    for page in (ada, bob):
        page.wait_status(question["id"], "done")
        assert page.answer(question["id"])["source"] == "Because it is one more."
        assert page.cells()[2]["mark"]["promptCellId"] == question["id"]
        page.bar(question["id"]).get_by_text("AI prompt").wait_for()
    (call,) = requests(vendor)
    assert "Why is it two?" in str(call["body"])


def test_the_keyboard_alone(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(lab, code("first"))
    queue(vendor, {"deltas": 60, "stall": {"after": 30}})
    ada = people.visit(lab, path)
    ada.select("first")

    ada.press("Alt+Shift+I")
    ada.wait("() => nbt.panel().content.activeCell.editor.hasFocus()")
    ada.page.keyboard.type("Keyboard?")
    ada.press("Control+Enter")
    ada.wait("() => nbt.cells().length === 3")
    question = ada.cells()[1]["id"]
    ada.wait_text(question, 50)
    ada.press("Alt+Shift+G")
    ada.wait("id => nbt.widget(id).node.checkVisibility()", ada.answer(question)["id"])
    # Into the question's bar and to its button with Tab, and pressed there.
    ada.select(question)
    ada.bar(question).get_by_label("Connection").focus()
    ada.press("Tab")
    named = "() => document.activeElement.getAttribute('aria-label')"
    assert ada.page.evaluate(named) == "Model"
    ada.press("Tab")
    assert ada.page.evaluate(named) == "What went along"
    ada.press("Tab")
    assert ada.page.evaluate("() => document.activeElement.textContent") == "Stop"
    ada.press("Space")

    ada.wait_status(question, "cancelled", timeout=4_000)


def test_connection_and_model_are_chosen_in_the_header(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    path = write(lab, prompt("ask", deltas=4))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")

    ada.bar("ask").get_by_label("Connection").select_option("anthropic_api")
    bob.wait("() => nbt.cell('ask').mark.backend === 'anthropic_api'")
    ada.bar("ask").get_by_label("Model").select_option(label="Another model…")
    ada.page.locator(".jp-Dialog input").fill("claude-of-the-house")
    ada.page.locator(".jp-Dialog input").press("Enter")
    bob.wait("() => nbt.cell('ask').mark.model === 'claude-of-the-house'")
    bob.run("ask")

    answer = bob.wait_status("ask", "done")
    (call,) = requests(vendor)
    assert call["path"] == "/v1/messages"
    assert call["body"]["model"] == "claude-of-the-house"
    assert answer["source"] == expected(deltas=4)
    for page in (ada, bob):
        page.bar(answer["id"]).get_by_text("claude-of-the-house").wait_for()
        page.bar(answer["id"]).get_by_text("asked by").wait_for()


def test_an_ordinary_markdown_cell_runs_as_ever(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    path = write(lab, code("first", "40 + 2"), kernel=True)
    ada = people.visit(lab, path)
    ada.wait("() => nbt.panel().sessionContext.session?.kernel?.status === 'idle'", timeout=40_000)
    ada.run("first", "Shift+Enter")
    ada.wait("() => nbt.cell('first').outputs.length === 1")
    ada.select("first")
    ada.press("b")
    ada.press("m")
    ada.press("Enter")
    ada.page.keyboard.type("# Head")
    ada.press("Control+Enter")
    ada.wait("() => document.querySelector('.jp-RenderedMarkdown h1') !== null")
    assert requests(vendor) == []
