"""Questions take their turn among code cells in every way of running more than one cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, text
from tests.browser.pages import NotebookPage
from tests.browser.test_stopping import press_stop
from tests.browser.vendor import expected, requests
from tests.vendor.plugin import Vendor

CLOCK = "import time; print(time.time())"
KERNEL_DEADLINE = 40_000


def ready(page: NotebookPage) -> NotebookPage:
    """Wait for the kernel, so that a cell's time is its own."""
    page.wait(
        "() => nbt.panel().sessionContext.session?.kernel?.status === 'idle'",
        timeout=KERNEL_DEADLINE,
    )
    return page


def printed(page: NotebookPage, cell_id: str) -> str:
    """What a code cell has printed; waits for it."""
    page.wait("id => nbt.cell(id).outputs.length > 0", cell_id, timeout=KERNEL_DEADLINE)
    outputs = page.cell(cell_id)["outputs"]
    said = outputs[0]["text"]
    return "".join(said) if isinstance(said, list) else said


class SlowSending:
    """A tab whose edits can be kept from reaching the server for a while."""

    def __init__(self, page: Page) -> None:
        self._holding = False
        self._kept: list[tuple[WebSocketRoute, str | bytes]] = []
        page.route_web_socket(re.compile("/api/collaboration/room/"), self._route)

    def _route(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        socket.on_message(lambda message: self._pass(server, message))

    def _pass(self, server: WebSocketRoute, message: str | bytes) -> None:
        if self._holding:
            self._kept.append((server, message))
        else:
            server.send(message)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold what the tab sends while the block runs."""
        self._holding = True
        yield
        self._holding = False
        for server, message in self._kept:
            server.send(message)
        self._kept.clear()


def times(lab: Lab, path: str, prompt_id: str) -> dict[str, Any]:
    """When a question's last run began and ended, in seconds since the epoch."""
    _, told = lab.request("GET", f"nbinline/runs?path={path}")
    run = next(run for run in told["runs"] if run["prompt_cell_id"] == prompt_id)
    return {
        name: datetime.fromisoformat(run[name]).timestamp() for name in ("started_at", "ended_at")
    }


def test_run_all_from_the_menu(people: People, lab: Lab, write, vendor: Vendor) -> None:
    slow = {"deltas": 30, "rate": 20}
    path = write(
        lab,
        code("before", f"import time; time.sleep(0.7); {CLOCK}"),
        prompt("one", **slow),
        code("between", CLOCK),
        text("words", "Plain Markdown."),
        prompt("two", deltas=5),
        code("after", CLOCK),
        kernel=True,
    )
    ada, bob = ready(people.visit(lab, path)), people.visit(lab, path, "bob")

    ada.select("before")
    ada.page.get_by_role("menuitem", name="Run", exact=True).click()
    ada.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    clock = {name: float(printed(ada, name)) for name in ("before", "between", "after")}
    for page in (ada, bob):
        page.wait_status("two", "done")
    one, two = times(lab, path, "one"), times(lab, path, "two")
    assert clock["before"] <= one["started_at"] + 0.001
    assert one["ended_at"] <= clock["between"] + 0.001
    assert clock["between"] <= two["started_at"] + 0.001
    assert two["ended_at"] <= clock["after"] + 0.001
    assert ada.answer("one")["source"] == expected(**slow)
    assert len(requests(vendor)) == 2


@pytest.mark.parametrize("trouble", ["failed", "stopped"])
def test_a_prompt_that_does_not_succeed_stops_the_later_cells(
    people: People, lab: Lab, write, trouble: str
) -> None:
    script = (
        {"status": 400, "error": {"message": "no such thing"}}
        if trouble == "failed"
        else {"deltas": 9, "stall": {"after": 3}}
    )
    path = write(
        lab, code("before", CLOCK), prompt("ask", **script), code("after", CLOCK), kernel=True
    )
    ada = ready(people.visit(lab, path))

    ada.command("notebook:run-all-cells")
    printed(ada, "before")
    if trouble == "stopped":
        ada.wait_text("ask", 3)
        press_stop(ada, "ask")
    ada.wait_status("ask", "error" if trouble == "failed" else "cancelled")

    # A new command is no part of the stopped one; by its end the stopped cell would have run.
    ada.run("before")
    ada.wait("() => nbt.cell('before').count === 2")
    assert ada.cell("after")["count"] is None
    assert ada.cell("after")["outputs"] == []
    ada.run("after")
    printed(ada, "after")


def test_a_failing_code_cell_stops_the_prompt_after_it(
    people: People, lab: Lab, write, vendor: Vendor
) -> None:
    path = write(
        lab, code("bad", "1 / 0"), prompt("ask", deltas=3), code("end", CLOCK), kernel=True
    )
    ada = ready(people.visit(lab, path))

    ada.command("notebook:run-all-cells")
    ada.wait("() => nbt.cell('bad').outputs[0]?.output_type === 'error'")
    ada.run("bad")
    ada.wait("() => nbt.cell('bad').count === 2")

    assert requests(vendor) == []
    assert ada.cell("end")["count"] is None


def test_run_above_and_below(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(
        lab,
        prompt("above", deltas=20, rate=20),
        code("middle", CLOCK),
        prompt("below", deltas=20, rate=20),
        code("last", CLOCK),
        kernel=True,
    )
    ada = ready(people.visit(lab, path))

    ada.select("middle")
    ada.command("notebook:run-all-above")
    ada.wait_status("above", "done")
    assert len(requests(vendor)) == 1
    assert ada.cell("middle")["count"] is None

    ada.select("middle")
    ada.command("notebook:run-all-below")
    last = float(printed(ada, "last"))
    middle = float(printed(ada, "middle"))
    below = times(lab, path, "below")
    assert middle <= below["started_at"] + 0.001
    assert below["ended_at"] <= last + 0.001
    assert len(requests(vendor)) == 2


def test_restart_and_run_all(people: People, lab: Lab, write, vendor: Vendor) -> None:
    path = write(
        lab,
        code("set", "seen = globals().get('seen', 0) + 1; print(seen)"),
        prompt("ask", deltas=20, rate=20),
        code("last", CLOCK),
        kernel=True,
    )
    ada = ready(people.visit(lab, path))
    ada.run("set")
    assert printed(ada, "set").strip() == "1"
    ada.run("set")
    ada.wait("() => nbt.cell('set').count === 2")

    ada.command("notebook:restart-run-all")
    ada.page.locator(".jp-Dialog").get_by_role("button", name="Confirm Kernel Restart").click()

    ada.wait("() => nbt.cell('set').count === 1", timeout=KERNEL_DEADLINE)
    last = float(printed(ada, "last"))
    ada.wait_status("ask", "done")
    assert printed(ada, "set").strip() == "1"
    assert times(lab, path, "ask")["ended_at"] <= last + 0.001
    assert len(requests(vendor)) == 1


def test_shift_enter_down_a_notebook(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=20, rate=20), code("next", CLOCK), kernel=True)
    ada = ready(people.visit(lab, path))

    ada.select("ask")
    ada.press("Shift+Enter")
    ada.wait("() => nbt.panel().content.activeCell.model.id !== 'ask'")
    ada.select("next")
    ada.press("Shift+Enter")

    next_ran = float(printed(ada, "next"))
    assert times(lab, path, "ask")["ended_at"] <= next_ran + 0.001


def test_an_answer_needs_no_kernel(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=8))
    ada = people.visit(lab, path)
    ada.page.evaluate("async () => await nbt.panel().sessionContext.shutdown()")
    ada.wait("() => nbt.panel().sessionContext.session === null")

    ada.run("ask", "Shift+Enter")

    ada.wait_status("ask", "done")
    assert ada.answer("ask")["source"] == expected(deltas=8)


def test_the_answer_comes_before_the_cell_that_lab_adds(people: People, lab: Lab, write) -> None:
    path = write(lab, *(prompt(f"ask-{n}", deltas=3) for n in range(3)))
    tab = people.new_page(people.context(lab, "slow"))
    slow = SlowSending(tab)
    ada = NotebookPage(tab, lab, path).open(workspace="slow")
    for n in reversed(range(3)):
        ada.select(f"ask-{n}")
        with slow.held():
            ada.page.keyboard.press("Alt+Enter")  # Lab adds a cell right below the question
            ada.page.wait_for_timeout(700)
        answer = ada.wait_status(f"ask-{n}", "done")
        order = [cell["id"] for cell in ada.cells()]
        place = order.index(f"ask-{n}")
        assert order[place + 1] == answer["id"]
        assert ada.cells()[place + 2]["type"] == "code"
