"""Tools that read public web pages."""

from __future__ import annotations

from .declaring import only_declared


def read_url(url: str) -> str:
    """Read a public web page as Markdown."""
    raise only_declared()


def read_url_section(url: str, selector: str = "") -> str:
    """Read a part of a public web page, by CSS selector or by the address's fragment."""
    raise only_declared()


def url_to_note(url: str, after_cell_id: str = "") -> str:
    """Insert a public web page as a Markdown note, by default below the answer."""
    raise only_declared()
