"""Outputs of a code cell as text, shortened; every cut says what it cut."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from .frames import table_from_html

HEAD_LINES = 10
TAIL_LINES = 10
LINE_LENGTH = 400
TEXT_LENGTH = 2_000
"""Characters of one output in a summary."""
CELL_LENGTH = 4_000
"""Characters of all outputs of one cell in a summary."""
FULL_LENGTH = 100_000
"""Characters of one output when outputs go in full."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_WIDGET = "application/vnd.jupyter.widget-view+json"


def summarise(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Summaries of all outputs, a blank line between them; empty if there is nothing to say."""
    return _bounded(list(_each(outputs, _summary)), CELL_LENGTH)


def in_full(outputs: Sequence[Mapping[str, Any]]) -> str:
    """All outputs as text; images and the like still as one line."""
    return "\n\n".join(_each(outputs, _whole))


def _each(
    outputs: Sequence[Mapping[str, Any]], render: Callable[[Mapping[str, Any]], str]
) -> Iterator[str]:
    for output in _joined_streams(outputs):
        text = render(output).strip("\n")
        if text:
            yield text


def _bounded(parts: list[str], limit: int) -> str:
    shown: list[str] = []
    left = limit
    for number, part in enumerate(parts):
        if len(part) > left and shown:
            rest = len(parts) - number
            shown.append(f"[{rest} more output{'s' if rest > 1 else ''} left out]")
            break
        shown.append(part)
        left -= len(part)
    return "\n\n".join(shown)


def _joined_streams(outputs: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Neighbouring pieces of one stream are one output, as on the screen."""
    pending: dict[str, Any] | None = None
    for output in outputs:
        if not isinstance(output, Mapping):
            continue
        if output.get("output_type") == "stream":
            piece = _text(output.get("text"))
            if pending is not None and pending["name"] == output.get("name"):
                pending["text"].append(piece)
                continue
            if pending is not None:
                yield pending
            pending = {"output_type": "stream", "name": output.get("name"), "text": [piece]}
            continue
        if pending is not None:
            yield pending
            pending = None
        yield output
    if pending is not None:
        yield pending


def _summary(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            text = shorten(_screen(_text(output.get("text"))))
            return f"[stderr]\n{text}" if output.get("name") == "stderr" and text else text
        case "error":
            return error_summary(output)
        case "display_data" | "execute_result":
            return _bundle(output, full=False)
        case _:
            return ""


def _whole(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            text = _screen(_text(output.get("text")))
            return f"[stderr]\n{_clip(text)}" if output.get("name") == "stderr" else _clip(text)
        case "error":
            trace = "\n".join(_lines(output.get("traceback")))
            return _clip(_ANSI.sub("", trace)) or error_summary(output)
        case "display_data" | "execute_result":
            return _bundle(output, full=True)
        case _:
            return ""


def _clip(text: str) -> str:
    if len(text) <= FULL_LENGTH:
        return text
    half = FULL_LENGTH // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters left out]\n{text[-half:]}"


def shorten(text: str) -> str:
    """Head and tail of the text, with the number of lines left out between them."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) > HEAD_LINES + TAIL_LINES + 1:
        left_out = len(lines) - HEAD_LINES - TAIL_LINES
        lines = [
            *lines[:HEAD_LINES],
            f"[{left_out:,} lines left out]",
            *lines[-TAIL_LINES:],
        ]
    short = "\n".join(_short_line(line) for line in lines)
    if len(short) <= TEXT_LENGTH:
        return short
    half = TEXT_LENGTH // 2
    return f"{short[:half]}\n[{len(short) - 2 * half:,} characters left out]\n{short[-half:]}"


def _short_line(line: str) -> str:
    if len(line) <= LINE_LENGTH:
        return line
    return f"{line[:LINE_LENGTH]} [{len(line) - LINE_LENGTH:,} characters left out]"


def _screen(text: str) -> str:
    """What a terminal would still show: colours gone, what a carriage return overwrote, too."""
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))


_FRAME = re.compile(r"(?:Cell In ?\[\d+\]|<ipython-input-\d+-[0-9a-f]+>|Input In ?\[\d+\])")
_ARROW = re.compile(r"^\s*-+>")


def error_summary(output: Mapping[str, Any]) -> str:
    """The last line of an error and the line of the user's own cell it passed through."""
    name = _text(output.get("ename")) or "Error"
    value = _text(output.get("evalue"))
    last = f"{name}: {value}" if value else name
    found = _own_frame(_ANSI.sub("", "\n".join(_lines(output.get("traceback")))))
    return f"{found}\n{shorten(last)}" if found else shorten(last)


def _own_frame(trace: str) -> str:
    """The last frame inside a cell: its header, and the line the arrow points at."""
    lines = trace.split("\n")
    for start in range(len(lines) - 1, -1, -1):
        if _FRAME.search(lines[start]):
            shown = list(takewhile(str.strip, lines[start + 1 :]))
            # A syntax error has no arrow; the line that was read comes first.
            line = next(filter(_ARROW.match, shown), shown[0] if shown else "")
            return "\n".join(_short_line(part) for part in (lines[start].strip(), line) if part)
    return ""


def _bundle(output: Mapping[str, Any], *, full: bool) -> str:
    data = output.get("data")
    if not isinstance(data, Mapping):
        return ""
    parts: list[str] = [
        _image(mime, content)
        for mime, content in data.items()
        if isinstance(mime, str) and mime.startswith("image/")
    ]
    plain = _screen(_text(data.get("text/plain")))
    if parts:
        # The text beside an image only names the object, as in <Figure size 640x480>.
        return "\n".join(parts)
    if _WIDGET in data:
        return f"[widget: {_short_line(plain.strip() or 'no text')}]"
    html = _text(data.get("text/html"))
    if html and not full and (table := table_from_html(html)):
        return table
    for mime in ("text/markdown", "text/latex"):
        if mime in data:
            text = _text(data[mime])
            return _clip(text) if full else shorten(text)
    if plain:
        return _clip(plain) if full else shorten(plain)
    others = ", ".join(sorted(mime for mime in data if isinstance(mime, str)))
    return f"[{others}]" if others else ""


def _image(mime: str, content: Any) -> str:
    if mime == "image/svg+xml":
        return f"[{mime}, {_amount(len(_text(content).encode('utf-8', 'replace')))}]"
    encoded = "".join(_text(content).split())
    size = len(encoded) * 3 // 4 - encoded[-2:].count("=")
    measured = _pixels(mime, encoded)
    pixels = f" {measured[0]}×{measured[1]}" if measured else ""
    return f"[{mime}{pixels}, {_amount(size)}]"


def _amount(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _pixels(mime: str, encoded: str) -> tuple[int, int] | None:
    """Width and height from the picture's header."""
    try:
        head = base64.b64decode(encoded[: 4 * 65536], validate=False)
        if mime == "image/png" and head[:8] == b"\x89PNG\r\n\x1a\n":
            width, height = struct.unpack(">II", head[16:24])
            return width, height
        if mime == "image/gif" and head[:3] == b"GIF":
            width, height = struct.unpack("<HH", head[6:10])
            return width, height
        if mime == "image/jpeg":
            return _jpeg_pixels(head)
    except (ValueError, struct.error):
        return None
    return None


def _jpeg_pixels(head: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 <= len(head) and head[position] == 0xFF:
        kind = head[position + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[position + 5 : position + 9])
            return width, height
        position += 2 + struct.unpack(">H", head[position + 2 : position + 4])[0]
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "".join(part for part in value if isinstance(part, str)) if _is_list(value) else ""


def _lines(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [part for part in value if isinstance(part, str)] if _is_list(value) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
