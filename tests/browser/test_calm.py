"""Nothing happens that nobody asked for: no writes on opening, no jumps, no chatter."""

from __future__ import annotations

import pytest

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import answer, code, prompt, text
from tests.browser.vendor import expected

LONG = "Paragraph.\n\n" * 40

WATCH = """
id => {
  const panel = nbt.panel();
  const box = panel.content.node.querySelector('.jp-WindowedPanel-outer') ?? panel.content.node;
  window.nbtCalm = {focus: 0, moves: 0, furthest: 0, frames: 0};
  const active = document.activeElement;
  const place = () => nbt.widget(id).node.getBoundingClientRect().top;
  const start = place();
  const look = () => {
    if (nbt.panel() !== panel) return;
    nbtCalm.frames++;
    if (document.activeElement !== active) nbtCalm.focus++;
    const off = Math.abs(place() - start);
    if (off > 2) nbtCalm.moves++;
    nbtCalm.furthest = Math.max(nbtCalm.furthest, off);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  nbtCalm.scroll = box.scrollTop;
}
"""


def test_opening_writes_nothing(people: People, lab: Lab, write) -> None:
    """JupyterLab has opened and saved the file before, so it has nothing of its own to add."""
    path = write(
        lab,
        text("top", "Top."),
        prompt("ask", "Question"),
        answer("old", "ask", "Left behind.", status="done", model="m", runId="0" * 32),
        prompt("lost", "Another"),
        answer("stale", "lost", "Half of an ans", status="running", runId="f" * 32),
        kernel=True,
    )
    ada = people.visit(lab, path)
    ada.wait("() => nbt.panel().sessionContext.session?.kernel?.status === 'idle'", timeout=40_000)
    ada.page.evaluate("async () => await nbt.panel().context.save()")
    ada.wait("() => !nbt.panel().content.model.dirty")
    ada.close()
    lab.end_sessions()
    file = lab.work / path
    before = file.read_bytes()

    bob = people.visit(lab, path, "bob")
    bob.wait("() => nbt.panel().sessionContext.session?.kernel?.status === 'idle'", timeout=40_000)
    for cell in ("ask", "old", "lost", "stale"):
        bob.select(cell)
        bob.bar(cell).wait_for()
    bob.bar("stale").get_by_text("Interrupted?").wait_for()

    assert bob.page.evaluate("() => nbt.panel().content.model.dirty") is False
    written = bob.page.evaluate(
        """() => {
          const {store, clientID} = nbt.shared().ydoc;
          return (store.clients.get(clientID) ?? []).map(each => each.parentSub ?? 'other');
        }"""
    )
    assert set(written) <= {"document_id"}, "more than jupyter-collaboration's own mark"
    assert bob.page.evaluate("() => nbt.agents().length") == 0
    # jupyter-collaboration saves whenever somebody opens a notebook, also without us.
    bob.page.evaluate("async () => await nbt.panel().context.save()")
    assert file.read_bytes() == before
    _, told = lab.request("GET", f"nbinline/runs?path={path}")
    assert told["runs"] == []


def test_an_answer_above_moves_neither_focus_nor_the_page(people: People, lab: Lab, write) -> None:
    cells = [code(f"fill-{place}", "\n".join("pass" for _ in range(12))) for place in range(8)]
    path = write(lab, prompt("ask", deltas=250, rate=60, style="rich", seed=2), *cells)
    ada, bob = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.edit("fill-5", 3)
    ada.page.evaluate("() => nbt.widget('fill-5').node.scrollIntoView({block: 'center'})")
    ada.page.evaluate(WATCH, "fill-5")

    bob.run("ask")
    ada.wait_status("ask", "done")
    ada.wait("([n]) => nbtCalm.frames > n", [30])

    calm = ada.page.evaluate("() => nbtCalm")
    assert calm["focus"] == 0
    assert calm["furthest"] <= 2, calm
    ada.page.keyboard.type("x")
    assert ada.cell("fill-5")["source"].startswith("pasxs")


def test_an_answer_below_moves_neither_focus_nor_the_page(people: People, lab: Lab, write) -> None:
    path = write(
        lab, code("here", "value = 1"), prompt("ask", deltas=250, rate=60, style="rich", seed=2)
    )
    ada = people.visit(lab, path)
    ada.run("ask", "Control+Enter")
    ada.answer("ask")
    ada.edit("here", 5)
    ada.page.evaluate(WATCH, "here")

    ada.wait_status("ask", "done")

    calm = ada.page.evaluate("() => nbtCalm")
    assert calm["focus"] == 0
    assert calm["furthest"] <= 2, calm
    ada.page.keyboard.type("x")
    assert ada.cell("here")["source"] == "valuex = 1"


def test_somebody_reading_the_answer_is_not_scrolled(people: People, lab: Lab, write) -> None:
    path = write(lab, prompt("ask", deltas=400, rate=100, style="plain"), text("end", LONG))
    ada = people.visit(lab, path)
    ada.run("ask")
    ada.page.evaluate(WATCH, "ask")

    ada.wait_status("ask", "done")

    assert ada.page.evaluate("() => nbtCalm.furthest") <= 2


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ({"deltas": 30, "rate": 30}, "Done"),
        ({"status": 401, "error": {"message": "bad key", "type": "auth"}}, "key"),
    ],
    ids=["good", "failed"],
)
def test_screen_readers_hear_start_and_end_only(
    people: People, lab: Lab, write, script: dict, end: str
) -> None:
    path = write(lab, prompt("ask", **script))
    ada = people.visit(lab, path)
    ada.listen()

    ada.run("ask")
    answer_id = ada.answer("ask")["id"]
    ada.wait("() => !['queued', 'running'].includes(nbt.answer('ask').mark.status)")
    ada.wait("() => nbtSaid.length >= 2")

    said = ada.announced()
    assert len(said) == 2, said
    assert "started" in said[0]
    assert end in said[1]
    assert not any(word in " ".join(said) for word in expected(deltas=3).split() if len(word) > 4)
    live = ada.node(answer_id).locator("[aria-live]:not([aria-live='off'], .cm-announced)")
    assert live.count() == 0, "the streaming text itself is announced"
