"""What a question sends, chosen and seen in the page: row, boxes, kept and stale answers."""

from __future__ import annotations

import base64
import io

from PIL import Image

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, read, text
from tests.browser.pages import NotebookPage
from tests.browser.vendor import expected, requests
from tests.vendor.plugin import Vendor

ROW = "AI prompts of this notebook"
CELLS = "() => JSON.stringify(nbt.shared().cells.map(cell => cell.toJSON()))"


def row(page: NotebookPage):
    return page.page.get_by_role("region", name=ROW)


def box(page: NotebookPage, cell_id: str):
    return page.node(cell_id).get_by_label("Context", exact=True)


def open_details(page: NotebookPage) -> None:
    row(page).get_by_role("button", name="Details").click()
    row(page).get_by_text("Checked at").wait_for()


def sent(vendor: Vendor) -> str:
    """All words of the last request."""
    return str(requests(vendor)[-1]["body"])


def test_details_write_nothing_and_custom_starts_with_what_was_selected(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    path = write(
        lab,
        code("first", "first = 1"),
        text("words", "Words."),
        prompt("ask", deltas=3),
        code("below"),
    )
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    before = ada.page.evaluate(CELLS)

    ada.select("ask")
    open_details(ada)
    assert row(ada).get_by_text("2 cells above, 0 below").is_visible()
    assert ada.node("ask").get_by_text("Current question · always included").is_visible()
    assert (box(ada, "first").is_checked(), box(ada, "below").is_checked()) == (True, False)
    assert ada.page.evaluate(CELLS) == before
    assert requests(vendor) == []

    row(ada).get_by_label("Context mode").select_option(label="Custom")
    bob.wait("() => nbt.cell('below').mark?.contextInclude === false")
    box(ada, "words").uncheck()
    bob.wait("() => nbt.cell('words').mark?.contextInclude === false")
    row(ada).get_by_text("1 cell above, 0 below").wait_for()
    bob.run("ask")
    bob.wait_status("ask", "done")
    assert "first = 1" in sent(vendor)
    assert "Words." not in sent(vendor)


def test_an_answer_says_when_its_inputs_changed(people: People, lab: Lab, write) -> None:
    path = write(lab, code("data", "data = 1"), prompt("ask", deltas=3))
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    answer = ada.wait_status("ask", "done")["id"]

    bob.page.evaluate(
        "() => nbt.shared().cells.find(c => c.getId() === 'data').updateSource(7, 8, '2')"
    )
    for page in (ada, bob):
        page.bar(answer).get_by_text("Inputs changed").wait_for()
    bob.page.evaluate(
        "() => nbt.shared().cells.find(c => c.getId() === 'data').updateSource(7, 8, '1')"
    )
    ada.bar(answer).get_by_text("Inputs changed").wait_for(state="hidden")


def test_a_kept_answer_is_not_asked_again_by_run_all(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    path = write(lab, prompt("kept", deltas=4), prompt("other", deltas=4))
    ada = people.visit(lab, path)
    ada.run("kept")
    kept = ada.wait_status("kept", "done")
    row(ada).get_by_role("button", name="Defaults").click()
    row(ada).get_by_label("Keep answers").check()

    ada.select("kept")
    ada.page.get_by_role("menuitem", name="Run", exact=True).click()
    ada.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    ada.wait_status("other", "done")
    assert len(requests(vendor)) == 2
    assert ada.answer("kept")["mark"]["runId"] == kept["mark"]["runId"]
    assert ada.answer("kept")["source"] == expected(deltas=4)


def test_a_starter_and_a_pasted_picture(people: People, lab: Lab, write, vendor: Vendor) -> None:
    empty = text("ask", "")
    empty["metadata"]["nbinlineai"] = {"isPromptCell": True}
    path = write(lab, code("data", "data = 1"), empty)
    ada = people.visit(lab, path)
    ada.node("ask").get_by_role("button", name="Explain this code").click()
    ada.wait("() => nbt.cell('ask').source.startsWith('Explain the code')")

    picture = io.BytesIO()
    Image.new("RGB", (4000, 20), "teal").save(picture, "PNG")
    ada.page.evaluate(
        """data => {
          const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
          const items = new DataTransfer();
          items.items.add(new File([bytes], 'plot.png', { type: 'image/png' }));
          const target = nbt.panel().content.activeCell.editor.host.querySelector('.cm-content');
          target.dispatchEvent(new ClipboardEvent('paste', {
            clipboardData: items, bubbles: true, cancelable: true }));
        }""",
        base64.b64encode(picture.getvalue()).decode(),
    )
    ada.wait("() => nbt.cell('ask').source.includes('attachment:')")
    ada.run("ask")
    ada.wait_status("ask", "done")
    [call] = requests(vendor)
    [url] = [
        part["image_url"]
        for message in call["body"]["input"]
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part["type"] == "input_image"
    ]
    sent_picture = Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert 0 < max(sent_picture.size) < 4000
    ada.lab.end_sessions()
    [question, *_] = [cell for cell in read(lab.work / path) if cell["id"] == "ask"]
    [name] = question["attachments"]
    assert f"attachment:{name}" in question["source"]
