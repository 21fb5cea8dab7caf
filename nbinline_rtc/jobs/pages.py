"""Web pages as Markdown: the part that matters, with its links and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from bs4 import BeautifulSoup, Comment, Tag
from markdownify import ATX, MarkdownConverter
from soupsieve import SelectorSyntaxError

from .below import Refused

NOISE = (
    "script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed",
    "form", "button", "input", "select", "textarea", "dialog",
)  # fmt: skip
"""Elements without a text to read."""

AROUND = ("nav", "header", "footer", "aside")
"""Elements around the text, left out where a whole page is read."""

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
MAX_HEADINGS = 40
MAX_PARTS = 20
"""Elements that one selector may give."""

_TEXT = ("text/", "application/json", "application/xml", "application/javascript")


class _Converter(MarkdownConverter):
    """Markdown whose links are whole addresses and whose pictures are links, never loaded."""

    def __init__(self, base: str) -> None:
        super().__init__(heading_style=ATX, bullets="-", escape_misc=False)
        self._base = base

    def convert_a(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        address = _address(self._base, el.get("href"))
        words = text.strip()
        if not words or address is None:
            return text
        return f"[{words}]({address})"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        address = _address(self._base, el.get("src"))
        words = " ".join(str(el.get("alt") or "").split()) or "picture"
        if "a" in parent_tags or address is None:
            return words
        return f"[{words}]({address})"


def page(job: Mapping[str, Any], data: bytes) -> Iterator[Any]:
    """The page, or a part of it: ``{title, text, length, headings}``; the text is cut."""
    kind: str = job["content_type"]
    most: int = job["most"]
    if "html" not in kind:
        text = _plain(kind, job["charset"], data)
        yield {"title": "", "text": text[:most], "length": len(text), "headings": []}
        return
    soup = BeautifulSoup(data, "lxml", from_encoding=job["charset"] or None)
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    base = _base(soup, job["url"])
    for element in soup.find_all(NOISE):
        element.decompose()
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    wanted = job["selector"] or unquote(urldefrag(job["url"]).fragment)
    parts = _selected(soup, wanted) if job["section"] and wanted else [_main(soup)]
    text = "\n\n".join(_markdown(part, base) for part in parts).strip()
    yield {
        "title": title[:300],
        "text": text[:most],
        "length": len(text),
        "headings": _headings(soup),
    }


def _plain(kind: str, charset: str, data: bytes) -> str:
    if not kind.startswith(_TEXT) and not kind.endswith(("+json", "+xml")):
        raise Refused(f"The address leads to {kind or 'something'}, which is no text.")
    try:
        return data.decode(charset or "utf-8", "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


def _base(soup: BeautifulSoup, url: str) -> str:
    element = soup.find("base", href=True)
    return urljoin(url, str(element["href"])) if isinstance(element, Tag) else url


def _address(base: str, target: Any) -> str | None:
    """A whole http(s) or mail address; None for anything else."""
    if not isinstance(target, str) or not target.strip():
        return None
    try:
        address = urljoin(base, target.strip())
        scheme = urlsplit(address).scheme
    except ValueError:
        return None
    if scheme not in ("http", "https", "mailto"):
        return None
    return re.sub(r"[\s()<>]", lambda found: f"%{ord(found[0]):02X}", address)


def _main(soup: BeautifulSoup) -> Tag:
    for name in ("main", "article"):
        found = soup.find_all(name)
        if len(found) == 1 and len(found[0].get_text(strip=True)) > 200:
            return found[0]
    whole = soup.body or soup
    for element in whole.find_all(AROUND):
        # A heading inside an article is its own; what stands beside the text is not.
        if element.find_parent(("article", "main")) is None:
            element.decompose()
    return whole


def _selected(soup: BeautifulSoup, wanted: str) -> list[Tag]:
    by_id = soup.find(id=wanted.removeprefix("#"))
    if isinstance(by_id, Tag):
        found: list[Tag] = [by_id]
    else:
        try:
            found = soup.select(wanted, limit=MAX_PARTS)
        except (SelectorSyntaxError, NotImplementedError, ValueError):
            raise Refused(f"{wanted!r} is no CSS selector.") from None
    if not found:
        raise Refused(f"Nothing on the page fits {wanted!r}.")
    return [part for each in found for part in _with_section(each)]


def _with_section(element: Tag) -> list[Tag]:
    """A heading stands for its section: everything up to the next one of its rank."""
    heading = element if element.name in HEADINGS else None
    if heading is None and not element.get_text(strip=True):
        # An anchor without a text, in or before the heading that it names.
        heading = element.find_parent(HEADINGS) or element.find_next(HEADINGS)
    if not isinstance(heading, Tag):
        return [element]
    start: Tag = heading
    # Some pages wrap each heading in an element of its own.
    while start.parent is not None and start.find_next_sibling() is None:
        if start.parent.name in ("body", "main", "article", "section", "[document]"):
            break
        start = start.parent
    parts = [start]
    for sibling in start.find_next_siblings():
        if sibling.name in AROUND:
            break
        inside = [sibling, *sibling.find_all(HEADINGS)]
        if any(each.name in HEADINGS and each.name <= heading.name for each in inside):
            break
        parts.append(sibling)
    return parts


def _markdown(element: Tag, base: str) -> str:
    text = str(_Converter(base).convert_soup(element))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


def _headings(soup: BeautifulSoup) -> list[dict[str, str]]:
    found = []
    for heading in soup.find_all(HEADINGS)[:MAX_HEADINGS]:
        anchor = heading.get("id") or next(
            (str(each["id"]) for each in heading.find_all(id=True, limit=1)), ""
        )
        found.append(
            {
                "level": heading.name[1],
                "title": " ".join(heading.get_text().split())[:100],
                "selector": f"#{anchor}" if anchor else "",
            }
        )
    return found


JOBS = {"page": page}
