"""Small notebooks, and looking at their files."""

import json
import time
from pathlib import Path
from typing import Any

import nbformat


def notebook(*sources: str, minor: int = 5) -> str:
    """A notebook of Markdown cells with ids cell-0, cell-1 and so on."""
    cells = [
        nbformat.v4.new_markdown_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)
    ]
    content = nbformat.v4.new_notebook(cells=cells)
    if minor < 5:
        for cell in content.cells:
            del cell["id"]
        content.nbformat_minor = minor
    return str(nbformat.writes(content))


def sources_on_disk(path: Path) -> list[str]:
    """The cells' sources in a file."""
    return ["".join(cell["source"]) for cell in content_of(path)["cells"]]


def content_of(path: Path) -> Any:
    """A notebook file's JSON; waits while the server writes it, which empties it first."""
    for _ in range(100):
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            time.sleep(0.02)
    return json.loads(path.read_text(encoding="utf-8"))
