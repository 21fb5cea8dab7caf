"""A data frame's HTML, as pandas and polars make it, as a few lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser

PARSED = 64_000
"""Characters of the HTML that are looked at; the rest is only counted."""
PARSED_ROWS = 8
"""Rows by which the types of columns are told."""

SHOWN_ROWS = 5
SHOWN_COLUMNS = 30
VALUE_LENGTH = 60
SHAPE = "[data frame, "
"""How the text of every data frame begins."""

_PANDAS_SHAPE = re.compile(r"<p>([\d,]+) rows? × ([\d,]+) columns?</p>")
_POLARS_SHAPE = re.compile(r"<small>shape: \(([\d_,]+), ([\d_,]+)\)</small>")
_PANDAS_FOOTER = re.compile(r"\n\n\[(\d+) rows? x (\d+) columns?\]\s*\Z")
_POLARS_HEADER = re.compile(r"shape: \(([\d_,]+), ([\d_,]+)\)\n┌")
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

    def updatepos(self, i: int, j: int) -> int:
        """Do without line numbers: counting them takes a tenth of the time."""
        return j

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
    beginning, cut = _first_rows(html[:PARSED])
    try:
        reader.feed(beginning)
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
    if len(html) > PARSED and not cut:
        table.body.pop()
    rows, columns = _shape(html, table, len(names))
    stated = "" if types else ", types as they look"
    shown = table.body[:SHOWN_ROWS]
    width = table.row_headers + SHOWN_COLUMNS
    lines = [
        f"{SHAPE}{_count(rows, 'row')} × {_count(columns, 'column')}{stated}]",
        " | ".join((*index, *_columns(table, names, types))),
        *(" | ".join(map(_short, row[:width])) for row in shown),
    ]
    if rows > len(shown):
        lines.append(f"[first {_count(len(shown), 'row')} shown]")
    return "\n".join(lines)


def _first_rows(html: str) -> tuple[str, bool]:
    """The HTML up to the end of the last row that is read, and whether that cut it."""
    at = html.find("<tbody")
    for _ in range(PARSED_ROWS):
        found = html.find("</tr>", at)
        if found < 0:
            return html, False
        at = found + len("</tr>")
    return html[:at], True


def table_from_text(text: str) -> str:
    """The same from plain text, as ``print`` shows a frame; empty for any other text."""
    if found := _PANDAS_FOOTER.search(text[-80:]):
        names, rows = _pandas_text(text[:PARSED])
    elif found := _POLARS_HEADER.match(text):
        names, rows = _polars_text(text[:PARSED])
    else:
        return ""
    height, width = (int(re.sub(r"[_,]", "", group)) for group in found.groups())
    if not names:
        return ""
    shown = rows[:SHOWN_ROWS]
    lines = [
        f"{SHAPE}{_count(height, 'row')} × {_count(width, 'column')}]",
        " | ".join(map(_short, names[:SHOWN_COLUMNS])),
        *shown,
    ]
    if len(names) > SHOWN_COLUMNS:
        lines[1] += f" | [{_count(len(names) - SHOWN_COLUMNS, 'more column')}]"
    if height > len(shown):
        lines.append(f"[first {_count(len(shown), 'row')} shown]")
    return "\n".join(lines)


_GAP = re.compile(r"\s{2,}")


def _pandas_text(text: str) -> tuple[list[str], list[str]]:
    """Column names of all blocks, side by side in wide frames, and the rows of the first."""
    names: list[str] = []
    blocks = text.split("\n\n")
    for block in blocks[:SHOWN_COLUMNS]:
        head = block.split("\n", 1)[0].rstrip(" \\")
        if head.startswith("["):
            break
        found = _GAP.split(head.strip())
        # The columns of a frame may have a name of their own; it stands over the index.
        names += found if head[:1].isspace() else found[1:]
    rows = [_GAP.split(row.rstrip(" \\").strip()) for row in blocks[0].split("\n")[1:]]
    # A named index has its name in a line of its own.
    index = rows.pop(0)[0] if len(rows) > 1 and len(rows[0]) == 1 else "index"
    names = ["…" if name == "..." else name for name in names]
    return [index, *names], [" | ".join(map(_short, row)) for row in rows]


def _polars_text(text: str) -> tuple[list[str], list[str]]:
    rows = [
        [part.strip() for part in line.strip("│ ").split("┆")]
        for line in text.split("\n")
        if line.startswith("│")
    ]
    if not rows:
        return [], []
    names, *rest = rows
    if len(rest) > 1 and set(rest[0]) <= {"---", ""}:
        names = [
            f"{name} ({kind})" if kind else name for name, kind in zip(names, rest[1], strict=False)
        ]
        rest = rest[2:]
    return names, [" | ".join(map(_short, row)) for row in rest]


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
