"""What the agent has written loads nothing from elsewhere before somebody asks for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import prompt, text
from tests.browser.pages import NotebookPage
from tests.browser.vendor import queue
from tests.vendor.plugin import Vendor

DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


class Elsewhere:
    """A server on another port that notes what is asked for."""

    def __init__(self) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "image/svg+xml")
                self.end_headers()
                self.wfile.write(b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')

            def log_message(self, *_: Any) -> None:
                pass

        self.asked = asked
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def tricks(self) -> str:
        """Markdown that a browser would load something of, in every way we know."""
        host = self.host
        return "\n\n".join(
            [
                f"![plain](http://{host}/plain)",
                f"![no scheme](//{host}/no-scheme)",
                f"![by reference][r] and ![r]\n\n[r]: http://{host}/reference",
                f"## Heading ![in it](http://{host}/heading)",
                f'<img src="http://{host}/html" onerror="fetch(\'http://{host}/onerror\')">',
                f'<img src="data:," srcset="http://{host}/srcset 1x">',
                f'<picture><source srcset="http://{host}/source"><img src="x.png"></picture>',
                f'<div style="background-image: url(http://{host}/style)">styled</div>',
                f'<div style="background: url(&quot;http://{host}/quoted&quot;)">styled</div>',
                f'<ul style="list-style-image:url(http://{host}/list)"><li>x</li></ul>',
                f'<svg><image href="http://{host}/svg"/><use xlink:href="http://{host}/use#a"/></svg>',
                f'<video src="http://{host}/video" poster="http://{host}/poster" autoplay></video>',
                f'<audio src="http://{host}/audio" autoplay></audio>',
                f'<input type="image" src="http://{host}/input">',
                f'<iframe src="http://{host}/iframe"></iframe>',
                f'<object data="http://{host}/object"></object><embed src="http://{host}/embed">',
                f'<link rel="stylesheet" href="http://{host}/css">',
                f'<link rel="prefetch" href="http://{host}/prefetch">',
                f"<style>@import url(http://{host}/import);</style>",
                f'<textarea><img src="http://{host}/textarea"></textarea>',
                f'<xmp><img src="http://{host}/xmp"></xmp>',
                f'<noscript><img src="http://{host}/noscript"></noscript>',
                f'<table background="http://{host}/table"><tr><td>x</td></tr></table>',
                f"$\\style{{background:url(http://{host}/math)}}{{y}}$ and $x$",
                f'```mermaid\nflowchart TD\n  A@{{ img: "http://{host}/mermaid", h: 60 }}\n```',
                f"[a link](http://{host}/link) and <http://{host}/auto>",
            ]
        )


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """A second local server."""
    second = Elsewhere()
    serving = threading.Thread(target=second.server.serve_forever, daemon=True)
    serving.start()
    yield second
    second.server.shutdown()
    second.server.server_close()
    serving.join()


def settled(page: NotebookPage, answer: str) -> None:
    """Wait until all of the answer is rendered, and then a moment for what would be loaded."""
    page.wait("id => nbt.rendered(id).includes('THE END')", answer)
    page.page.wait_for_timeout(700)


def test_nothing_is_loaded_before_a_click(
    people: People, lab: Lab, vendor: Vendor, write, elsewhere: Elsewhere
) -> None:
    tricks = elsewhere.tricks()
    pieces = [tricks[at : at + 40] for at in range(0, len(tricks), 40)]
    # Not in the question: what people write is rendered as ever.
    queue(vendor, {"deltas": [*pieces, "\n\nTHE END"], "rate": 60})
    path = write(lab, text("top", "Top."), prompt("ask"))
    ada, ben = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    ada.wait_status("ask", "done")
    answer = ada.answer("ask")["id"]
    for page in (ada, ben):
        settled(page, answer)
    assert elsewhere.asked == []

    # JupyterLab's own rendering: after a reload, for somebody new, and after an edit.
    ada.reload()
    settled(ada, answer)
    ben.edit(answer, 0)
    ben.page.keyboard.type("Now ")
    ben.run(answer, "Control+Enter")
    settled(ben, answer)
    assert elsewhere.asked == []
    assert ada.page.evaluate("() => nbt.shared().cells[0].getSource()") == "Top."

    button = ben.node(answer).get_by_role("button", name=f"Load image from {elsewhere.host}: plain")
    button.focus()
    ben.press("Enter")
    ben.until(lambda: elsewhere.asked == ["/plain"])
    image = ben.node(answer).locator(f"img[src='http://{elsewhere.host}/plain']")
    image.wait_for()
    assert ben.page.evaluate("() => nbt.panel().content.mode") == "command"
    assert ada.node(answer).locator(f"img[src*='{elsewhere.host}']").count() == 0
    link = ben.node(answer).get_by_role("link", name="a link")
    assert link.inner_text() == f"a link ({elsewhere.host})"
    assert link.get_attribute("href") == f"http://{elsewhere.host}/link"
    assert elsewhere.asked == ["/plain"]


def test_data_attachments_and_paths_stay_and_so_does_what_people_write(
    people: People, lab: Lab, vendor: Vendor, write, elsewhere: Elsewhere
) -> None:
    (lab.work / "plot.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>'
    )
    said = f"![data](data:image/png;base64,{DOT})\n\n![path](plot.svg)\n\nTHE END"
    own = text("own", elsewhere.tricks())
    path = write(lab, own, prompt("ask"))
    queue(vendor, {"deltas": [said]})
    ada = people.visit(lab, path)
    # Here JupyterLab loads what it always loads, so the tricks above are some.
    loaded = {"/plain", "/no-scheme", "/reference", "/heading", "/html", "/input", "/mermaid"}
    ada.until(lambda: loaded <= set(elsewhere.asked))
    ada.run("ask")
    ada.wait_status("ask", "done")
    answer = ada.answer("ask")["id"]
    for _ in range(2):
        settled(ada, answer)
        images = """id => [...nbt.widget(id).renderer.node.querySelectorAll('img')]
            .map(each => each.complete && each.naturalWidth)"""
        ada.wait(f"id => JSON.stringify(({images})(id)) === '[1,7]'", answer)
        assert ada.node(answer).locator(".nbinline-Remote").count() == 0
        ada.reload()
