"""Outputs of a code cell as text, shortened; every cut says what it cut."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from nbinline_agent.document.terminal import ScreenText

from .frames import SHAPE, table_from_html, table_from_text

HEAD_LINES = 10
TAIL_LINES = 10
LINE_LENGTH = 400
TEXT_LENGTH = 2_000
"""Characters of one output in a summary."""
CELL_LENGTH = 4_000
"""Characters of all outputs of one cell in a summary."""
FULL_LENGTH = 100_000
"""Characters of one output when outputs go in full."""

BRIEF_LENGTH = 160
"""Characters of an output that is shown in one line."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_ERASED = re.compile(r"[^\n]*(?:\r\x1b\[[02]?K|\x1b\[2K\r?)")
_WIDGET = "application/vnd.jupyter.widget-view+json"


def summarise(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Summaries of all outputs, a blank line between them; empty if there is nothing to say."""
    return _bounded(list(_each(outputs, _summary)), CELL_LENGTH)


def in_brief(outputs: Sequence[Mapping[str, Any]]) -> str:
    """One line for each output: what it is, how much of it, its most telling line."""
    return "\n".join(_each(outputs, _brief))


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
            screen = _screen(_text(output.get("text")))
            text = table_from_text(screen) or shorten(screen)
            return f"[stderr]\n{text}" if output.get("name") == "stderr" and text else text
        case "error":
            return error_summary(output)
        case "display_data" | "execute_result":
            return _bundle(output, full=False)
        case _:
            return ""


def _brief(output: Mapping[str, Any]) -> str:
    if output.get("output_type") == "error":
        return _short_line(_last_error_line(output).split("\n", 1)[0], BRIEF_LENGTH)
    first, *rest = _summary(output).strip("\n").split("\n")
    if first == "[stderr]" and rest:
        first, *rest = (f"[stderr] {rest[0]}", *rest[1:])
    if first.startswith(SHAPE) and rest:
        return f"{first} {_short_line(rest[0], BRIEF_LENGTH)}"
    short = _short_line(first, BRIEF_LENGTH)
    return f"{short} [{_lines_more(output, len(rest))} left out]" if rest else short


def _lines_more(output: Mapping[str, Any], shown: int) -> str:
    """How many lines are left out behind the first; of a stream all that it has are counted."""
    if output.get("output_type") == "stream":
        shown = max(shown, _text(output.get("text")).rstrip("\n").count("\n"))
    return f"{shown:,} more line{'s' if shown > 1 else ''}"


def _whole(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            text = _screen(_text(output.get("text")))
            return f"[stderr]\n{_clip(text)}" if output.get("name") == "stderr" else _clip(text)
        case "error":
            trace = "\n".join(_lines(output.get("traceback")))
            return _clip(_screen(trace)) or error_summary(output)
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
    text = text.rstrip("\n")
    lines_left_out = text.count("\n") + 1 - HEAD_LINES - TAIL_LINES
    if lines_left_out > 1:
        # Only the two ends are taken apart: there may be a million lines between them.
        *head, _ = text.split("\n", HEAD_LINES)
        _, *tail = text.rsplit("\n", TAIL_LINES)
        lines = [*head, f"[{lines_left_out:,} lines left out]", *tail]
    else:
        lines = text.split("\n")
    short = "\n".join(_short_line(line) for line in lines)
    if len(short) <= TEXT_LENGTH:
        return short
    half = TEXT_LENGTH // 2
    return f"{short[:half]}\n[{len(short) - 2 * half:,} characters left out]\n{short[-half:]}"


def _short_line(line: str, length: int = LINE_LENGTH) -> str:
    if len(line) <= length:
        return line
    return f"{line[:length]} [{len(line) - length:,} characters left out]"


def _screen(text: str) -> str:
    """What a terminal would still show: colours gone, what a carriage return overwrote, too."""
    if "\x1b" in text:
        # What is left of an escape sequence that was cut must not start one.
        text = _ANSI.sub("", _ERASED.sub("", text)).replace("\x1b", "")
    if "\r" not in text and "\b" not in text:
        return text
    screen = ScreenText()
    screen.feed(text)
    return screen.text


_FRAME = re.compile(r"(?:Cell In ?\[\d+\]|<ipython-input-\d+-[0-9a-f]+>|Input In ?\[\d+\])")
_ARROW = re.compile(r"^\s*-+>")


def error_summary(output: Mapping[str, Any]) -> str:
    """The last line of an error and the line of the user's own cell it passed through."""
    last = _last_error_line(output)
    found = _own_frame(_screen("\n".join(_lines(output.get("traceback")))))
    return f"{found}\n{shorten(last)}" if found else shorten(last)


def _last_error_line(output: Mapping[str, Any]) -> str:
    name = _screen(_text(output.get("ename"))).strip() or "Error"
    value = _screen(_text(output.get("evalue")))
    return f"{name}: {value}" if value else name


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
    if parts:
        # The text beside an image only names the object, as in <Figure size 640x480>.
        return "\n".join(parts)
    plain = _screen(_text(data.get("text/plain")))
    if _WIDGET in data:
        return f"[widget: {_short_line(plain.strip() or 'no text')}]"
    html = _text(data.get("text/html"))
    if html and not full and (table := table_from_html(html)):
        return table
    for mime in ("text/markdown", "text/latex"):
        if mime in data:
            text = _screen(_text(data[mime]))
            return _clip(text) if full else shorten(text)
    if plain:
        return _clip(plain) if full else table_from_text(plain) or shorten(plain)
    others = ", ".join(sorted(mime for mime in data if isinstance(mime, str)))
    return f"[{others}]" if others else ""


def _image(mime: str, content: Any) -> str:
    if mime == "image/svg+xml":
        return f"[{mime}, {_amount(len(_text(content).encode('utf-8', 'replace')))}]"
    encoded = _text(content)
    # Counted where it stands: a picture may be most of the file.
    blank = sum(encoded.count(each) for each in "\n\r\t ")
    size = (len(encoded) - blank) * 3 // 4 - encoded[-8:].rstrip()[-2:].count("=")
    measured = _pixels(mime, encoded)
    pixels = f" {measured[0]}×{measured[1]}" if measured else ""
    return f"[{mime}{pixels}, {_amount(size)}]"


_EMBEDDED = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/=\s]{200,})")


def embedded_images(source: str) -> str:
    """Markdown in which pictures that stand in the text itself are named in a few words."""
    if ";base64," not in source:
        return source
    return _EMBEDDED.sub(lambda found: _image(found[1], found[2]), source)


def _amount(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _pixels(mime: str, encoded: str) -> tuple[int, int] | None:
    """Width and height from the picture's header."""
    try:
        head = base64.b64decode("".join(encoded[: 5 * 65536].split())[: 4 * 65536])
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
