"""Public web pages as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urldefrag

from pydantic import Field

from nbinline_agent.tools.base import Arguments, Preview, Tool, ToolContext, ToolError, ToolResult
from nbinline_agent.tools.catalog import description

from .addresses import MAX_URL
from .fetching import Fetcher
from .job_process import find

SECONDS = 10.0
"""Time limit of making Markdown of a page."""

MAX_READ = 3_200
"""Characters of a page that is read."""

MAX_NOTE = 8_000
"""Characters of a page that becomes a note, and of a section."""

MAX_HEADINGS = 1_500
"""Characters of the list of headings behind a page that is cut."""

Url = Annotated[str, Field(min_length=1, max_length=MAX_URL)]


class ReadUrl(Arguments):
    """Of ``read_url``."""

    url: Url


class ReadUrlSection(Arguments):
    """Of ``read_url_section``."""

    url: Url
    selector: Annotated[str, Field(max_length=200)] = ""


class UrlToNote(Arguments):
    """Of ``url_to_note``."""

    url: Url
    after_cell_id: Annotated[str, Field(max_length=200)] = ""


@dataclass(frozen=True, slots=True)
class Markdown:
    """A page, or a part of it.

    Attributes:
        url: Where it came from.
        title: Of the page.
        text: Its beginning.
        whole: Whether that is all of it.
        headings: Headings with the selectors of their sections.
    """

    url: str
    title: str
    text: str
    whole: bool
    headings: Sequence[Any]


class WebTools:
    """The tools, and where their pages come from."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    async def read_url(self, context: ToolContext, arguments: ReadUrl) -> ToolResult:
        """A page's beginning."""
        page = await self._markdown(arguments.url, MAX_READ)
        text = f"{page.title}\n{page.url}\n\n{page.text}".strip()
        if not page.whole:
            text += f"\n\n[cut; read_url_section reads a part]\n{_contents(page.headings)}"
        return ToolResult(text.rstrip())

    async def read_url_section(self, context: ToolContext, arguments: ReadUrlSection) -> ToolResult:
        """A part of a page."""
        if not arguments.selector and not urldefrag(arguments.url).fragment:
            raise ToolError("Name a CSS selector, or an address with a #fragment.")
        page = await self._markdown(
            arguments.url, MAX_NOTE, section=True, selector=arguments.selector
        )
        return ToolResult(page.text + ("" if page.whole else "\n\n[cut]"))

    async def url_to_note(self, context: ToolContext, arguments: UrlToNote) -> ToolResult:
        """A page as a cell."""
        page = await self._markdown(arguments.url, MAX_NOTE)
        source = f"{page.text}\n\nSource: <{page.url}>"
        if not page.whole:
            source += " (the beginning of the page)"
        cell = context.insert("markdown", source, after=arguments.after_cell_id)
        await context.at(cell)
        standing = context.notebook.source(cell)
        return ToolResult(
            f"Inserted the note {cell}, {len(standing):,} characters, from {page.url}.",
            cells=(cell,),
        )

    async def _markdown(
        self, url: str, most: int, *, section: bool = False, selector: str = ""
    ) -> Markdown:
        page = await self._fetcher.fetch(url)
        found = await find(
            "page",
            {
                "url": page.url,
                "content_type": page.content_type,
                "charset": page.charset,
                "section": section,
                "selector": selector,
                "most": most,
            },
            seconds=SECONDS,
            data=page.data,
        )
        if not found.items:
            raise ToolError("This page is too large or too deeply nested to be read.")
        [told] = found.items
        whole = told["length"] <= most and not page.cut
        return Markdown(page.url, told["title"], told["text"], whole, told["headings"])


def _contents(headings: Sequence[Any]) -> str:
    lines = [
        f"{'  ' * (int(each['level']) - 1)}{each['title']}  {each['selector']}".rstrip()
        for each in headings
        if each["selector"]
    ]
    text = "\n".join(lines)
    return text if len(text) <= MAX_HEADINGS else text[:MAX_HEADINGS].rsplit("\n", 1)[0]


async def _preview(context: ToolContext, arguments: Any) -> Preview:
    return Preview(f"Read the web page {arguments.url}")


def web_tools(fetcher: Fetcher) -> tuple[Tool, ...]:
    """The tools that read pages from a fetcher."""
    tools = WebTools(fetcher)
    return (
        Tool("read_url", "web", description("read_url"), ReadUrl, tools.read_url, preview=_preview),
        Tool(
            "read_url_section",
            "web",
            description("read_url_section"),
            ReadUrlSection,
            tools.read_url_section,
            preview=_preview,
        ),
        Tool(
            "url_to_note",
            "web",
            description("url_to_note"),
            UrlToNote,
            tools.url_to_note,
            writes=True,
            preview=_preview,
        ),
    )
