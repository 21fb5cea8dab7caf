"""Write the pictures of the documentation from a real run: ``python -m tests.browser.screenshots``.

Run it in the root of the checkout, in an environment where the package is installed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.conftest import ARGUMENTS, People, chromium
from tests.browser.lab import Lab, running_lab
from tests.browser.notebooks import code, prompt, text, write
from tests.browser.pages import NotebookPage
from tests.browser.test_presence import open_collaborators
from tests.browser.vendor import queue
from tests.vendor.plugin import Vendor, running_vendor

IMAGES = Path(__file__).parents[2] / "docs" / "images"

DATA = """\
sales = {"north": [12, 15, 11], "south": [9, 14, 21], "west": [17, 13, 12]}
totals = {region: sum(months) for region, months in sales.items()}
totals"""

QUESTION = "Which region grew most over the three months, and how would I plot it?"

ANSWER = """\
**South** grew most: from 9 to 21, more than double.

| region | first | last | growth |
|---|---:|---:|---:|
| north | 12 | 11 | −8 % |
| south | 9 | 21 | **+133 %** |
| west | 17 | 12 | −29 % |

The growth of a region is $g = \\frac{x_3 - x_1}{x_1}$. To plot it, reuse `sales`:

```python
import matplotlib.pyplot as plt

for region, months in sales.items():
    plt.plot(range(1, 4), months, label=region)
plt.legend()
plt.xlabel("month")
```

Each line is one region; the steepest rise is the southern one.
"""


def pieces() -> list[str]:
    """The answer as a model would send it."""
    return [word + " " for word in ANSWER.split(" ")]


FIX = "The numbers of the south for March are in: 27. Please bring the cell up to date."

STEPS: tuple[dict[str, Any], ...] = (
    {
        "text": "Let me look at the cell first.",
        "tools": [
            {"name": "list_cells", "arguments": {}},
            {"name": "read_cell", "arguments": {"cell_id": "data"}},
        ],
    },
    {
        "deltas": [],
        "tools": [
            {
                "name": "cell_str_replace",
                "arguments": {
                    "cell_id": "data",
                    "old_str": '"south": [9, 14, 21]',
                    "new_str": '"south": [9, 14, 27]',
                },
            }
        ],
    },
    {"text": "Done: **south** is 9, 14, 27 now, so its total is 50 instead of 44."},
)
"""A run that reads, edits and answers."""


def notebook(lab: Lab, name: str, question: str = QUESTION, **nbinline: Any) -> str:
    """A small notebook with a question in it."""
    write(
        lab.work / name,
        text("title", "# Sales by region\nNumbers of the first quarter."),
        code("data", DATA),
        prompt("ask", question),
        nbinline=nbinline or None,
    )
    return name


def ask(page: NotebookPage, vendor: Vendor, *, rate: float, until: str) -> None:
    """Run the question and wait until something stands in the rendered answer."""
    queue(vendor, {"deltas": pieces(), "rate": rate})
    page.run("ask")
    page.page.get_by_text(until).locator("visible=true").first.wait_for()


def streaming(people: People, lab: Lab, vendor: Vendor) -> None:
    path = notebook(lab, "sales.ipynb")
    ada = people.visit(lab, path)
    ask(ada, vendor, rate=12, until="To plot it")
    ada.page.screenshot(path=IMAGES / "answer.png")
    ada.wait_status("ask", "done")
    ada.page.wait_for_timeout(500)
    ada.page.screenshot(path=IMAGES / "done.png")


def two_people(people: People, lab: Lab, vendor: Vendor) -> None:
    path = notebook(lab, "together.ipynb")
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    open_collaborators(bob)
    queue(vendor, {"deltas": pieces(), "rate": 8})
    ada.run("ask")
    answer = ada.answer("ask")["id"]
    bob.edit(answer, 0)
    bob.page.locator(".jp-remote-cursor").first.wait_for(state="attached")
    ada.wait_text("ask", 250)
    bob.wait_text("ask", 250)
    bob.page.screenshot(path=IMAGES / "two-people.png")
    ada.page.screenshot(path=IMAGES / "second-browser.png")
    ada.wait_status("ask", "done")


def interrupted(people: People, lab: Lab, vendor: Vendor) -> None:
    path = notebook(lab, "interrupted.ipynb")
    ada = people.visit(lab, path)
    ask(ada, vendor, rate=12, until="To plot it")
    lab.kill()
    lab.start()
    ada.wait_status("ask", "interrupted", 60_000)
    ada.page.get_by_role("button", name="Continue").first.wait_for()
    ada.page.wait_for_timeout(1_500)
    ada.page.screenshot(path=IMAGES / "interrupted.png")


def keys(people: People, lab: Lab) -> None:
    ada = people.visit(lab, notebook(lab, "keys.ipynb"))
    ada.command("nbinline:open-keys")
    ada.page.get_by_role("dialog").wait_for()
    ada.page.screenshot(path=IMAGES / "keys.png")
    ada.page.keyboard.press("Escape")


def approval(people: People, lab: Lab, vendor: Vendor) -> None:
    ask = {"toolApproval": {"notebook": "ask"}, "toolGroups": ["notebook"]}
    ada = people.visit(lab, notebook(lab, "approval.ipynb", FIX, **ask))
    queue(vendor, *STEPS)
    ada.run("ask")
    card = ada.page.get_by_role("group", name="The AI asks for approval")
    card.get_by_role("button", name="Allow", exact=True).wait_for()
    ada.page.wait_for_timeout(500)
    ada.page.screenshot(path=IMAGES / "approval.png")
    card.get_by_role("button", name="Allow", exact=True).click()
    answer = ada.wait_status("ask", "done")["id"]
    ada.bar(answer).get_by_role("button", name="Steps").click()
    ada.page.locator(".nbinline-Transcript-step summary").last.click()
    ada.page.wait_for_timeout(500)
    ada.page.screenshot(path=IMAGES / "transcript.png")


def activity(people: People, lab: Lab, vendor: Vendor) -> None:
    ask = {"toolApproval": {"notebook": "ask"}, "toolGroups": ["notebook"]}
    done = notebook(lab, "week-1.ipynb", FIX, toolGroups=["notebook"])
    waits = notebook(lab, "week-2.ipynb", FIX, **ask)
    ada, bob = people.visit(lab, done), people.visit(lab, waits, "bob")
    queue(vendor, *STEPS)
    ada.run("ask")
    ada.wait_status("ask", "done")
    queue(vendor, *STEPS)
    bob.run("ask")
    ada.command("nbinline:open-activity")
    panel = ada.page.get_by_role("region", name="Agent activity")
    panel.get_by_text("Waits for approval").wait_for()
    panel.get_by_role("button", name="Steps").last.click()
    panel.locator(".nbinline-Transcript-step summary").last.click()
    ada.page.wait_for_timeout(500)
    ada.page.screenshot(path=IMAGES / "activity.png")
    bob.page.get_by_role("button", name="Deny").click()
    bob.wait_status("ask", "done")


def context(people: People, lab: Lab, vendor: Vendor) -> None:
    write(
        lab.work / "context.ipynb",
        text("title", "# Sales by region\nNumbers of the first quarter."),
        code("data", DATA),
        text("remark", "The south opened a second shop in March."),
        prompt("ask", QUESTION),
        code("later", "totals['north'] / sum(totals.values())"),
    )
    ada = people.visit(lab, "context.ipynb")
    ada.select("ask")
    row = ada.page.get_by_role("region", name="AI prompts of this notebook")
    row.get_by_role("button", name="Details").click()
    row.get_by_label("Context mode").select_option(label="Custom")
    ada.page.wait_for_timeout(1_500)
    row.get_by_text("Checked at").wait_for()
    ada.page.screenshot(path=IMAGES / "context.png")
    row.get_by_role("button", name="Details").click()
    row.get_by_role("button", name="Defaults").click()
    ada.bar("ask").get_by_role("button", name="Options of this question").click()
    ada.page.wait_for_timeout(500)
    ada.command("nbinline:open-styles")
    ada.page.get_by_role("dialog").wait_for()
    ada.page.screenshot(path=IMAGES / "styles.png")
    ada.page.keyboard.press("Escape")


def stale(people: People, lab: Lab, vendor: Vendor) -> None:
    ada = people.visit(lab, notebook(lab, "stale.ipynb"))
    queue(vendor, {"deltas": pieces()})
    ada.run("ask")
    ada.wait_status("ask", "done")
    ada.page.evaluate(
        "() => nbt.shared().cells.find(c => c.getId() === 'data').updateSource(0, 0, '# new\\n')"
    )
    ada.page.get_by_text("inputs changed", exact=False).first.wait_for()
    ada.bar("ask").get_by_role("button", name="What went along").click()
    ada.page.wait_for_timeout(800)
    ada.page.screenshot(path=IMAGES / "stale.png")
    ada.page.keyboard.press("Escape")


def dark(people: People, lab: Lab, vendor: Vendor) -> None:
    ada = people.visit(lab, notebook(lab, "dark.ipynb"))
    ada.command("apputils:change-theme", theme="JupyterLab Dark")
    ask(ada, vendor, rate=12, until="To plot it")
    ada.page.screenshot(path=IMAGES / "dark.png")
    ada.wait_status("ask", "done")


def main() -> None:
    """Take them all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        running_lab(Path(folder), vendor=vendor.url) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        people = People(browser)
        streaming(people, lab, vendor)
        two_people(people, lab, vendor)
        keys(people, lab)
        approval(people, lab, vendor)
        activity(people, lab, vendor)
        context(people, lab, vendor)
        stale(people, lab, vendor)
        interrupted(people, lab, vendor)
        dark(people, lab, vendor)
        people.leave()
        browser.close()


if __name__ == "__main__":
    main()
