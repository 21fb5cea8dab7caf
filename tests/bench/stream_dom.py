"""How soon an answer's words are in the page of the asker and of somebody else.

Figures: an answer with tables, fences and math at 60 deltas a second; bursts of 500 and 2,000
deltas; the longest main-thread task; bytes on the room's socket.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.bench.answers import rich_deltas, word
from tests.bench.figures import Figure, percentile
from tests.browser.conftest import ARGUMENTS, chromium
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text, write
from tests.browser.pages import SCRIPT, NotebookPage
from tests.browser.vendor import queue, requests
from tests.vendor.plugin import Vendor, running_vendor

PROBE = """
([promptId, words]) => {
  const probe = window.nbtProbe = {seen: [], model: [], long: [], next: 0, nextModel: 0};
  probe.tasks = new PerformanceObserver(list =>
    list.getEntries().forEach(entry => probe.long.push(entry.duration)));
  probe.tasks.observe({entryTypes: ['longtask']});
  const word = number => 'w' + String(number).padStart(4, '0') + 'x';
  const shared = nbt.shared();
  shared.ydoc.on('update', () => {
    const source = nbt.answer(promptId)?.source ?? '';
    while (probe.nextModel < words && source.includes(word(probe.nextModel))) {
      probe.model[probe.nextModel++] = Date.now();
    }
  });
  let host = null;
  const look = () => {
    if (host === null) return;
    const text = host.textContent;
    while (probe.next < words && text.includes(word(probe.next))) {
      probe.seen[probe.next++] = Date.now();
    }
  };
  const find = () => {
    const answer = nbt.answer(promptId);
    host = answer ? nbt.widget(answer.id)?.renderer?.node ?? null : null;
    if (host === null) { setTimeout(find, 5); return; }
    new MutationObserver(look).observe(
      host, {childList: true, characterData: true, subtree: true});
    look();
  };
  find();
}
"""


@dataclass
class Observed:
    """What one page saw of one answer; times in seconds since the epoch.

    Attributes:
        seen: When each word was in the page.
        model: When each word was in the page's document.
        longest: The longest main-thread task, milliseconds; 0 if none took 50 or more.
        room_bytes: Bytes on the room's socket, both ways.
    """

    seen: list[float]
    model: list[float]
    longest: float
    room_bytes: int


@dataclass
class Counter:
    """Counts the bytes of a page's room socket, through the browser's own debugger."""

    page: NotebookPage
    bytes: int = 0
    _rooms: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        session = self.page.page.context.new_cdp_session(self.page.page)
        session.on("Network.webSocketCreated", self._created)
        session.on("Network.webSocketFrameReceived", self._frame)
        session.on("Network.webSocketFrameSent", self._frame)
        session.send("Network.enable")

    def _created(self, event: dict[str, Any]) -> None:
        if "collaboration/room/json" in event["url"]:
            self._rooms.add(event["requestId"])

    def _frame(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self._rooms:
            payload = event["response"]["payloadData"]
            binary = event["response"]["opcode"] == 2
            self.bytes += len(base64.b64decode(payload)) if binary else len(payload.encode())


class Bench:
    """A server, a fake vendor and two people at two browsers."""

    def __init__(self, lab: Lab, vendor: Vendor, browser: Browser) -> None:
        self._lab = lab
        self._vendor = vendor
        self._browser = browser

    def answer(self, name: str, deltas: int, rate: float) -> tuple[list[float], list[Observed]]:
        """Let one answer stream; when its deltas were sent, and what the two pages saw."""
        path = f"{name}.ipynb"
        warm = text("warm", "Formula $x^2$ and\n\n```python\nx = 1\n```\n")
        write(self._lab.work / path, warm, prompt("ask", "A question."))
        with self._page(path) as asker, self._page(path) as other:
            pages = [asker, other]
            counters = [Counter(page) for page in pages]
            for page in pages:
                page.reload()
                self._settle(page)
                page.page.evaluate(PROBE, ["ask", deltas])
            self._vendor.reset()
            queue(self._vendor, {"deltas": rich_deltas(deltas), "rate": rate})
            before = [counter.bytes for counter in counters]
            asker.run("ask")
            for page in pages:
                page.wait_status("ask", "done", timeout=300_000)
                page.wait("n => nbtProbe.next >= n", deltas, timeout=60_000)
            sent = requests(self._vendor)[0]["sent_at"]
            observed = [
                self._observed(page, counter.bytes - start)
                for page, counter, start in zip(pages, counters, before, strict=True)
            ]
            self._check(pages, deltas)
        return sent, observed

    @contextmanager
    def _page(self, path: str) -> Iterator[NotebookPage]:
        context = self._browser.new_context(viewport={"width": 1200, "height": 900})
        context.add_init_script(SCRIPT)
        try:
            yield NotebookPage(context.new_page(), self._lab, path).open()
        finally:
            context.close()

    @staticmethod
    def _settle(page: NotebookPage) -> None:
        """Wait until MathJax and the highlighter are loaded and the page is quiet."""
        page.wait("() => nbt.widget('warm').renderer.node.querySelector('mjx-container') !== null")
        page.wait("() => nbt.widget('warm').renderer.node.querySelector('pre') !== null")
        page.page.wait_for_timeout(2_500)

    @staticmethod
    def _observed(page: NotebookPage, room_bytes: int) -> Observed:
        probe = page.page.evaluate("() => nbtProbe")
        return Observed(
            seen=[at / 1000 for at in probe["seen"]],
            model=[at / 1000 for at in probe["model"]],
            longest=max(probe["long"], default=0.0),
            room_bytes=room_bytes,
        )

    @staticmethod
    def _check(pages: list[NotebookPage], deltas: int) -> None:
        whole = "".join(rich_deltas(deltas))
        for page in pages:
            answer = page.answer("ask")
            assert answer["source"] == whole, "the answer is not what was sent"
            assert word(deltas - 1) in page.rendered(answer["id"])


def measure() -> list[Figure]:
    """Run the three answers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_vendor() as vendor,
        Lab(Path(folder), vendor=vendor.url) as lab,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        bench = Bench(lab, vendor, browser)
        figures = _stream(*bench.answer("stream", 300, 60))
        for deltas, seconds, size in ((500, 1.0, 30_000), (2_000, 3.0, 100_000)):
            figures += _burst(deltas, seconds, size, *bench.answer(f"burst-{deltas}", deltas, 0))
        browser.close()
    return figures


def _stream(sent: list[float], observed: list[Observed]) -> list[Figure]:
    asker, other = observed
    lags = [_lags(sent, each.seen) for each in observed]
    model = _lags(sent, asker.model)
    return [
        Figure("stream: last delta to final text, asker", lags[0][-1], 0.3, "s"),
        Figure("stream: word lag p50, asker", percentile(lags[0], 0.5), 0.10, "s"),
        Figure("stream: word lag p95, asker", percentile(lags[0], 0.95), 0.25, "s"),
        Figure("stream: word lag p50, second browser", percentile(lags[1], 0.5), 0.12, "s"),
        Figure("stream: word lag p95, second browser", percentile(lags[1], 0.95), 0.30, "s"),
        Figure("stream: longest task, asker", asker.longest, 100, "ms"),
        Figure("stream: longest task, second browser", other.longest, 100, "ms"),
        Figure("stream: document lag p50, asker", percentile(model, 0.5), None, "s"),
        Figure("stream: document lag p95, asker", percentile(model, 0.95), None, "s"),
        Figure("stream: room bytes, asker", asker.room_bytes, None, "bytes"),
    ]


def _burst(
    deltas: int, seconds: float, size: int, sent: list[float], observed: list[Observed]
) -> list[Figure]:
    name = f"burst of {deltas}"
    asker, other = observed
    return [
        Figure(f"{name}: last delta to final text", asker.seen[-1] - sent[-1], seconds, "s"),
        Figure(f"{name}: the same, second browser", other.seen[-1] - sent[-1], seconds, "s"),
        Figure(f"{name}: longest task, asker", asker.longest, 100, "ms"),
        Figure(f"{name}: longest task, second browser", other.longest, 100, "ms"),
        Figure(f"{name}: room bytes, asker", asker.room_bytes, size, "bytes"),
        Figure(f"{name}: room bytes, second browser", other.room_bytes, size, "bytes"),
        Figure(f"{name}: bytes of the answer", len("".join(rich_deltas(deltas))), None, "bytes"),
    ]


def _lags(sent: list[float], seen: list[float]) -> list[float]:
    return [after - before for before, after in zip(sent, seen, strict=True)]
