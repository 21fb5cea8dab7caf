"""Notebooks for the browser tests, and questions that tell the fake vendor what to answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def prompt(cell_id: str, question: str = "Explain.", **script: Any) -> dict[str, Any]:
    """A question; ``script`` goes to the fake vendor (see its ``script.py``)."""
    source = f"{question}\n\n{json.dumps({'vendor': script})}" if script else question
    return new_markdown_cell(source, id=cell_id, metadata={"nbinlineai": {"isPromptCell": True}})


def code(cell_id: str, source: str = "1 + 1") -> dict[str, Any]:
    """A code cell."""
    return new_code_cell(source, id=cell_id)


def text(cell_id: str, source: str) -> dict[str, Any]:
    """A Markdown cell."""
    return new_markdown_cell(source, id=cell_id)


def answer(cell_id: str, prompt_id: str, source: str, **mark: Any) -> dict[str, Any]:
    """An answer that somebody left in the file."""
    metadata = {"isOutputCell": True, "promptCellId": prompt_id, **mark}
    return new_markdown_cell(source, id=cell_id, metadata={"nbinlineai": metadata})


def write(
    path: Path,
    *cells: dict[str, Any],
    kernel: bool = False,
    nbinline: dict[str, Any] | None = None,
) -> Path:
    """Write a notebook; without ``kernel`` it names none, so JupyterLab starts none.

    Args:
        path: Where to.
        cells: What it holds.
        kernel: Whether it has a kernel.
        nbinline: Our own part of the notebook's metadata.
    """
    metadata: dict[str, Any] = {"language_info": {"name": "python"}}
    if nbinline is not None:
        metadata["nbinlineai"] = nbinline
    if kernel:
        metadata["kernelspec"] = KERNEL
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells), metadata=metadata), path)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    """The cells that the file holds now."""
    cells: list[dict[str, Any]] = nbformat.read(path, as_version=4).cells
    return cells
