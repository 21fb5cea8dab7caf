"""Hashes of what an answer was made from, so that a later look can tell whether it changed.

The plugin makes the same hashes of the cells it shows (``lab/src/inputHash.ts``); both are tested
against the same examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nbinline_agent.ids import CellId

LENGTH = 16
"""Hexadecimal digits of a hash."""


def cell_hash(source: str, outputs: Sequence[Mapping[str, Any]] | None = None) -> str:
    """Hash of a cell: of its source, and behind a dot of its outputs if they went along.

    Args:
        source: The whole source, whatever part of it went.
        outputs: As in nbformat; None if none of them went.
    """
    own = _short(source)
    return own if outputs is None else f"{own}.{_short(outputs_text(outputs))}"


def outputs_text(outputs: Iterable[Mapping[str, Any]]) -> str:
    """What outputs show, as one text: the same whoever reads them, however streams are cut.

    Of a picture only the length counts, of other data only the type; execution counts do not.
    """
    parts: list[str] = []
    last = ""
    for output in outputs:
        kind = output.get("output_type")
        if kind == "stream":
            name = _text(output.get("name"))
            if last != f"stream {name}":
                parts.append(f"\0stream {name}\0")
            last = f"stream {name}"
            parts.append(_text(output.get("text")))
            continue
        last = ""
        if kind == "error":
            parts.append(f"\0error\0{_text(output.get('ename'))}\0{_text(output.get('evalue'))}")
        elif kind in ("display_data", "execute_result"):
            parts.extend(_bundle(output.get("data")))
    return "".join(parts)


def digest(inputs: Mapping[CellId, str]) -> str:
    """One hash over the hashes of all cells, in their order; hexadecimal."""
    lines = "\n".join(f"{cell} {value}" for cell, value in inputs.items())
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()


def _bundle(data: Any) -> Iterator[str]:
    yield "\0data"
    if not isinstance(data, Mapping):
        return
    for media_type in sorted(key for key in data if isinstance(key, str)):
        content = _text(data[media_type])
        if media_type.startswith("text/") or media_type == "image/svg+xml":
            yield f"\0{media_type}\0{content}"
        else:
            yield f"\0{media_type}\0{len(content) if media_type.startswith('image/') else ''}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return "".join(part for part in value if isinstance(part, str))
    return ""


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:LENGTH]
