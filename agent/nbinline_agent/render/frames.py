"""A data frame's HTML, as pandas and polars make it, as a few lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser

PARSED = 64_000
"""Characters of the HTML that are looked at; the rest is only counted."""
SHOWN_ROWS = 5
SHOWN_COLUMNS = 30
VALUE_LENGTH = 60

_PANDAS_SHAPE = re.compile(r"<p>([\d,]+) rows? × ([\d,]+) columns?</p>")
_POLARS_SHAPE = re.compile(r"<small>shape: \(([\d_,]+), ([\d_,]+)\)</small>")
_INTEGER = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.?\d+)(?:e[-+]?\d+)?|[-+]?inf", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?(?:[+-]\d{2}:\d{2})?"
)
_MISSING = frozenset({"", "NaN", "None", "NaT", "null", "<NA>"})


@dataclass(slots=True)
class _Table:
    """Cells of a table's head and body, and which of the body's cells are headers of their row."""

    head: list[list[str]] = field(default_factory=list)
    body: list[list[str]] = field(default_factory=list)
    row_headers: int = 0
    spans: bool = False


class _Reader(HTMLParser):
    """Reads the first table of class ``dataframe``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.table: _Table | None = None
        self._rows: list[list[str]] | None = None
        self._cell: list[str] | None = None
        self._headers = 0
        self._ended = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "table" and self.table is None:
            if "dataframe" in (attributes.get("class") or "").split():
                self.table = _Table()
        elif self.table is None or self._ended:
            return
        elif tag == "thead":
            self._rows = self.table.head
        elif tag == "tbody":
            self._rows = self.table.body
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
            self._headers = 0
        elif tag in ("th", "td") and self._rows:
            self._cell = []
            self.table.spans |= "colspan" in attributes or "rowspan" in attributes
            if tag == "th" and self._rows is self.table.body:
                self._headers += 1
                self.table.row_headers = max(self.table.row_headers, self._headers)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and self._cell is not None and self._rows:
            self._rows[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None
        elif tag == "table":
            self._ended = True

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def table_from_html(html: str) -> str:
    """Shape, columns with types, and first rows of a data frame; empty for any other HTML.

    A head of several levels is left to the plain text that comes along.
    """
    if "dataframe" not in html[:PARSED]:
        return ""
    reader = _Reader()
    try:
        reader.feed(html[:PARSED])
    except AssertionError:
        # The standard library's way to say that a declaration is broken.
        return ""
    table = reader.table
    if table is None or not table.head or not table.body or table.spans:
        return ""
    names = table.head[0][table.row_headers :]
    types = _stated_types(table, len(names))
    index = _index_names(table)
    if not names or len(table.head) > 1 and not types and not index:
        return ""
    if len(html) > PARSED:
        table.body.pop()
    rows, columns = _shape(html, table, len(names))
    stated = "" if types else ", types as they look"
    shown = table.body[:SHOWN_ROWS]
    width = table.row_headers + SHOWN_COLUMNS
    lines = [
        f"[data frame, {_count(rows, 'row')} × {_count(columns, 'column')}{stated}]",
        " | ".join((*index, *_columns(table, names, types))),
        *(" | ".join(map(_short, row[:width])) for row in shown),
    ]
    if rows > len(shown):
        lines.append(f"[first {_count(len(shown), 'row')} shown]")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _index_names(table: _Table) -> list[str]:
    """What stands over the row headers; pandas names a named index in a second row."""
    if not table.row_headers:
        return []
    if len(table.head) == 1:
        return ["index"] * table.row_headers
    second = table.head[1]
    only_names = len(table.head) == 2 and not any(second[table.row_headers :])
    return [_short(name) or "index" for name in second[: table.row_headers]] if only_names else []


def _stated_types(table: _Table, columns: int) -> list[str]:
    """Polars states the types in a second row of the head."""
    if len(table.head) == 2 and table.row_headers == 0 and len(table.head[1]) == columns:
        return table.head[1]
    return []


def _shape(html: str, table: _Table, columns: int) -> tuple[int, int]:
    for text in (html[-500:], html[:PARSED]):
        for pattern in (_PANDAS_SHAPE, _POLARS_SHAPE):
            if found := pattern.search(text):
                rows, wide = (int(re.sub(r"[_,]", "", group)) for group in found.groups())
                return rows, wide
    return html.count("<tr") - len(table.head), columns


def _columns(table: _Table, names: list[str], types: list[str]) -> list[str]:
    described: list[str] = []
    for place, name in enumerate(names[:SHOWN_COLUMNS]):
        if name == "...":
            described.append("…")
            continue
        at = place + table.row_headers
        kind = types[place] if types else _looks(row[at] for row in table.body if at < len(row))
        described.append(f"{_short(name)} ({kind})")
    if len(names) > SHOWN_COLUMNS:
        described.append(f"[{_count(len(names) - SHOWN_COLUMNS, 'more column')}]")
    return described


def _looks(values: Iterable[str]) -> str:
    present = [value for value in values if value not in _MISSING and value != "..."]
    if not present:
        return "empty"
    for kind, pattern in (("int", _INTEGER), ("float", _FLOAT), ("datetime", _DATE)):
        if all(pattern.fullmatch(value) for value in present):
            return kind
    return "bool" if set(present) <= {"True", "False"} else "text"


def _short(value: str) -> str:
    return value if len(value) <= VALUE_LENGTH else f"{value[:VALUE_LENGTH]}…"
