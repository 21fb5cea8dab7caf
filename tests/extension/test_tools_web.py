"""Web pages as tools: only public addresses, the very ones that were looked at, within bounds."""

import gzip
import http.server
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import brotli
import httpx2
import pytest

from nbinline_agent.testing import answer, prompt
from nbinline_agent.tools.base import ToolError
from nbinline_rtc.toolset import server_tools
from nbinline_rtc.toolset.addresses import check_url, is_public
from nbinline_rtc.toolset.fetching import MAX_BYTES, Fetcher
from nbinline_rtc.toolset.web import MAX_NOTE, MAX_READ
from tests.extension.toolcalls import Calls, Context, calling

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "93.184.216.34",
    "223.255.255.254",
    "2606:4700:4700::1111",
    "2a00:1450:4001::8a",
]

NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",  # behind a provider's translation
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",  # where clouds hand out credentials
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::8.8.8.8",  # IPv4-compatible
    "::ffff:127.0.0.1",  # mapped
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",  # NAT64
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",  # Teredo
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "2001:10::1",
    "2002:7f00:1::",  # 6to4
    "2002:808:808::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "2606:4700::5efe:7f00:1",  # ISATAP
    "2606:4700::200:5efe:7f00:1",
    "not an address",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "javascript:alert(1)",
        "//example.org/",
        "http://",
        "http:///path",
        "http://user@example.org/",
        "http://user:password@example.org/",
        "http://2130706433/",  # decimal
        "http://0x7f000001/",  # hexadecimal
        "http://0177.0.0.1/",  # octal
        "http://127.1/",
        "http://127.0.0.1.:80/",
        "http://0x7f.1/",
        "http://134744072/",  # a public one in disguise
        "http://example.org:0/",
        "http://example.org:99999/",
        "http://exa mple.org/",
        "http://example.org\\@127.0.0.1/",
        "http://[::1/",
        "http://example.org/\nHost: other",
        "http://example.org/" + "x" * 2_000,
    ],
)
def test_addresses_of_pages_that_are_refused(url: str) -> None:
    with pytest.raises(ToolError):
        check_url(url)


@dataclass
class Site:
    """A server on this machine that answers as a test wants."""

    port: int = 0
    scheme: str = "http"
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    slow: float = 0.0

    def page(self, path: str, html: str | bytes, status: int = 200, **headers: str) -> str:
        """Put a page there; its address under a public name."""
        named = {"Content-Type": "text/html; charset=utf-8"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = html.encode() if isinstance(html, str) else html
        self.answers[path] = (status, named, data)
        return f"{self.scheme}://site.invalid:{self.port}{path}"

    def handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked.append((self.headers["Host"], self.path))
                status, headers, data = site.answers.get(self.path, (404, {}, b"nothing"))
                time.sleep(site.slow)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture
def site() -> Iterator[Site]:
    yield from serve(Site())


def serve(site: Site, context: ssl.SSLContext | None = None) -> Iterator[Site]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), site.handler()) as server:
        server.daemon_threads = True
        server.block_on_close = False
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            site.scheme = "https"
        site.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield site
        server.shutdown()
        thread.join(5)


NAMES = {
    "site.invalid": ["127.0.0.1"],
    "inside.invalid": ["10.0.0.1"],
    "both.invalid": ["127.0.0.1", "10.0.0.1"],
    "gone.invalid": [],
}


class Names:
    """Looks names up in a table; remembers how often."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in NAMES and not is_public(host) and not host[0].isdigit() and ":" not in host:
            raise OSError("no such host")
        return NAMES.get(host, [host])


def only_the_site(address: str) -> bool:
    """The one exception: the server of the test. All else is as strict as ever."""
    return address == "127.0.0.1" or is_public(address)


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def fetcher(names: Names) -> Fetcher:
    return Fetcher(resolve=names, allowed=only_the_site)


@pytest.fixture
def call(fetcher: Fetcher, tmp_path: Path) -> Calls:
    return Calls(server_tools(fetcher), Context(tmp_path))


PAGE = """<!doctype html><html><head><title>A  page</title></head><body>
<nav><a href="/menu">Menu</a></nav>
<h1 id="top">Title</h1><p>Words with a <a href="other.html?a=1">link</a> and
<a href="javascript:alert(1)">none</a>. <img src="/p.png" alt="A picture"></p>
<h2 id="tab">Table</h2>
<table><tr><th>name<th>value<tr><td>a<td>1<tr><td>b<td>2</table>
<h3>Inside</h3><p>below the table</p>
<h2><a name="end" id="end"></a>End</h2><p class="last">the last words</p>
<script>evil()</script><footer>imprint</footer></body></html>"""


async def test_a_page_becomes_markdown(call: Calls, site: Site, names: Names) -> None:
    url = site.page("/docs/a.html", PAGE)
    text = await call("read_url", url=url)
    assert text.startswith(f"A page\n{url}\n\n# Title")
    assert f"[link](http://site.invalid:{site.port}/docs/other.html?a=1)" in text
    assert f"[A picture](http://site.invalid:{site.port}/p.png)" in text
    assert "![" not in text, "a picture of a stranger is never loaded by itself"
    assert "| name | value |" in text
    assert "| b | 2 |" in text
    assert all(word not in text for word in ("evil", "Menu", "imprint", "javascript"))
    assert site.asked == [(f"site.invalid:{site.port}", "/docs/a.html")]
    assert names.asked == ["site.invalid"]


async def test_sections(call: Calls, site: Site) -> None:
    url = site.page("/a", PAGE)
    table = await call("read_url_section", url=f"{url}#tab")
    assert table.startswith("## Table")
    assert "below the table" in table
    assert "the last words" not in table
    assert await call("read_url_section", url=url, selector="p.last") == "the last words"
    assert (await call("read_url_section", url=url, selector="#end")).split("\n\n") == [
        "## End",
        "the last words",
    ]
    with pytest.raises(ToolError, match="Nothing on the page"):
        await call("read_url_section", url=url, selector="#nowhere")
    with pytest.raises(ToolError, match="no CSS selector"):
        await call("read_url_section", url=url, selector="p[")
    with pytest.raises(ToolError, match="Name a CSS selector"):
        await call("read_url_section", url=url)


async def test_long_pages_are_cut(call: Calls, site: Site) -> None:
    parts = "".join(f'<h2 id="s{n}">Part {n}</h2><p>{"word " * 300}</p>' for n in range(10))
    url = site.page("/a", f"<html><body>{parts}</body></html>")
    text = await call("read_url", url=url)
    assert len(text.split("[cut")[0]) <= MAX_READ + 100
    assert "Part 9  #s9" in text


async def test_a_page_becomes_a_note(fetcher: Fetcher, site: Site, tmp_path: Path) -> None:
    url = site.page("/a", f"<html><body><h1>T</h1><p>{'word ' * 3_000}</p></body></html>")
    cells = [prompt("q", "question"), answer("a", "answer", "question"), prompt("z", "last")]
    async with calling(server_tools(fetcher), tmp_path, *cells) as call:
        result = await call.result("url_to_note", url=url)
        [cell] = result.cells
        notebook = call.context.notebook
        assert [notebook.ids().index(each) for each in ("answer", cell, "last")] == [1, 2, 3]
        source = notebook.source(cell)
        assert source.startswith("# T\n\nword word")
        assert source.endswith(f"Source: <{url}> (the beginning of the page)")
        assert len(source) < MAX_NOTE + 200
        assert call.context.visited == [cell]
        second = await call.result("url_to_note", url=url, after_cell_id="last")
        assert notebook.ids()[-1] == second.cells[0]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("inside.invalid", "not on the public internet"),
        ("both.invalid", "not on the public internet"),
        ("gone.invalid", "no address"),
        ("nowhere.invalid", "cannot be found"),
        ("10.0.0.1", "not on the public internet"),
        ("169.254.169.254", "not on the public internet"),
        ("[::1]", "not on the public internet"),
        ("[::ffff:10.0.0.1]", "not on the public internet"),
        ("[64:ff9b::a00:1]", "not on the public internet"),
        ("[2002:a00:1::]", "not on the public internet"),
    ],
)
async def test_hosts_that_are_refused(call: Calls, site: Site, host: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        await call("read_url", url=f"http://{host}:{site.port}/")
    assert site.asked == []


async def test_this_machine_is_refused_by_default(tmp_path: Path, site: Site) -> None:
    call = Calls(server_tools(), Context(tmp_path))
    for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0"):
        with pytest.raises(ToolError, match="not on the public internet"):
            await call("read_url", url=f"http://{host}:{site.port}/")
    assert site.asked == []


@pytest.mark.parametrize(
    "target",
    [
        "http://inside.invalid/",
        "http://127.0.0.2/",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://2130706433/",
        "file:///etc/passwd",
        "ftp://site.invalid/",
        "http://user:pw@site.invalid/",
    ],
)
async def test_redirections_are_checked_again(call: Calls, site: Site, target: str) -> None:
    url = site.page("/a", "", status=302, Location=target)
    with pytest.raises(ToolError):
        await call("read_url", url=url)
    assert len(site.asked) == 1


async def test_redirections(call: Calls, site: Site) -> None:
    site.page("/to", PAGE)
    url = site.page("/a", "", status=301, Location="/to")
    assert (await call("read_url_section", url=f"{url}#tab")).startswith("## Table")
    url = site.page("/loop", "", status=302, Location="/loop")
    with pytest.raises(ToolError, match="one to the next"):
        await call("read_url", url=url)


async def test_a_name_that_changes_its_mind(site: Site, tmp_path: Path) -> None:
    """What was looked at is what is connected to: the name is asked once for a request."""
    replies = [["127.0.0.1"], ["10.0.0.1"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return replies.pop(0)

    call = Calls(server_tools(Fetcher(resolve=rebinding, allowed=only_the_site)), Context(tmp_path))
    url = site.page("/a", PAGE)
    assert "Title" in await call("read_url", url=url)
    assert len(replies) == 1
    with pytest.raises(ToolError, match="not on the public internet"):
        await call("read_url", url=url)


async def test_the_next_address_is_tried(site: Site, tmp_path: Path) -> None:
    async def two(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.3", "127.0.0.1"]

    def here(address: str) -> bool:
        return address.startswith("127.")

    call = Calls(server_tools(Fetcher(resolve=two, allowed=here)), Context(tmp_path))
    assert "Title" in await call("read_url", url=site.page("/a", PAGE))


@pytest.mark.parametrize("pack", ["gzip", "br"])
async def test_packed_pages(call: Calls, site: Site, pack: str) -> None:
    data = gzip.compress(PAGE.encode()) if pack == "gzip" else brotli.compress(PAGE.encode())
    assert "Title" in await call("read_url", url=site.page("/a", data, Content_Encoding=pack))


@pytest.mark.parametrize("pack", ["gzip", "br"])
async def test_bombs(fetcher: Fetcher, site: Site, pack: str) -> None:
    bomb = b"<p>" + b"x" * 200_000_000
    data = gzip.compress(bomb, 1) if pack == "gzip" else brotli.compress(bomb, quality=1)
    page = await fetcher.fetch(site.page("/a", data, Content_Encoding=pack))
    assert len(page.data) == MAX_BYTES
    assert page.cut


async def test_what_cannot_be_unpacked(call: Calls, site: Site) -> None:
    twice = gzip.compress(gzip.compress(PAGE.encode()))
    url = site.page("/a", twice, Content_Encoding="gzip, gzip")
    with pytest.raises(ToolError, match="more than once"):
        await call("read_url", url=url)
    url = site.page("/b", zlib.compress(b"x")[:-3], Content_Encoding="gzip")
    with pytest.raises(ToolError, match="cannot be unpacked"):
        await call("read_url", url=url)


async def test_large_pages_are_read_so_far(fetcher: Fetcher, site: Site) -> None:
    page = await fetcher.fetch(site.page("/a", b"x" * (MAX_BYTES + 5_000_000)))
    assert len(page.data) == MAX_BYTES
    assert page.cut


async def test_other_kinds_of_content(call: Calls, site: Site) -> None:
    url = site.page("/a.json", '{"a": "ö"}', Content_Type="application/json")
    assert '{"a": "ö"}' in await call("read_url", url=url)
    url = site.page("/a.txt", "größe".encode("latin-1"), Content_Type="text/plain; charset=latin-1")
    assert "größe" in await call("read_url", url=url)
    url = site.page("/a.png", b"\x89PNG", Content_Type="image/png")
    with pytest.raises(ToolError, match="image/png, which is no text"):
        await call("read_url", url=url)
    with pytest.raises(ToolError, match="answered 404"):
        await call("read_url", url=f"http://site.invalid:{site.port}/nothing")


async def test_a_server_that_does_not_answer(
    site: Site, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbinline_rtc.toolset.fetching.SECONDS", 0.5)
    call = Calls(server_tools(Fetcher(resolve=names, allowed=only_the_site)), Context(tmp_path))
    url = site.page("/a", PAGE)
    site.slow = 3
    began = time.monotonic()
    with pytest.raises(ToolError, match="did not come within"):
        await call("read_url", url=url)
    assert time.monotonic() - began < 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the site's name alone."""
    file = tmp_path_factory.mktemp("tls") / "site.pem"
    subject = ["-subj", "/CN=site.invalid", "-addext", "subjectAltName=DNS:site.invalid"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
        + ["-keyout", str(file), "-out", str(file.with_suffix(".crt"))],
        check=True,
        capture_output=True,
        timeout=60,
    )
    file.write_text(file.read_text() + file.with_suffix(".crt").read_text())
    return file


@pytest.fixture
def secure_site(certificate: Path) -> Iterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    yield from serve(Site(), context)


async def test_the_certificate_is_compared_with_the_name(
    secure_site: Site, certificate: Path, tmp_path: Path
) -> None:
    def trusting() -> httpx2.AsyncBaseTransport:
        return httpx2.AsyncHTTPTransport(verify=context, trust_env=False)

    async def anything(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    context = ssl.create_default_context(cafile=str(certificate.with_suffix(".crt")))
    fetcher = Fetcher(resolve=anything, allowed=only_the_site, inner=trusting)
    url = secure_site.page("/a", PAGE)
    page = await fetcher.fetch(url)
    assert b"Title" in page.data
    assert secure_site.asked == [(f"site.invalid:{secure_site.port}", "/a")]
    with pytest.raises(ToolError, match="no connection"):
        await fetcher.fetch(url.replace("site.invalid", "other.invalid"))
    untrusting = Fetcher(resolve=anything, allowed=only_the_site)
    with pytest.raises(ToolError, match="no connection"):
        await untrusting.fetch(url)


async def test_no_proxy_is_asked(call: Calls, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://10.0.0.1:3128")
    assert "Title" in await call("read_url", url=site.page("/a", PAGE))


async def test_a_page_that_takes_too_long_to_read(
    call: Calls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbinline_rtc.toolset.web.SECONDS", 0.5)
    url = site.page("/a", b"<html><body>" + b"<p>a" * 400_000)
    with pytest.raises(ToolError, match="too large or too deeply"):
        await call("read_url", url=url)
    monkeypatch.setattr("nbinline_rtc.toolset.web.SECONDS", 30)
    url = site.page("/b", b"<html><body>" + b"<div>" * 100_000)
    with pytest.raises(ToolError, match="deeply nested"):
        await call("read_url", url=url)
