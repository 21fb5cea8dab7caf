"""Tools for the cells of the live notebook, and for notebooks as they are saved."""

from __future__ import annotations

from .declaring import only_declared


def search_notebooks(query: str, path: str = ".", limit: int = 20) -> str:
    """Search the cells of saved notebooks below a folder; one hit a cell."""
    raise only_declared()


def notebook_outline(path: str, start: int = 0, limit: int = 20) -> str:
    """The cells of a saved notebook: number, id, kind and first line."""
    raise only_declared()


def list_notebooks(path: str = ".", limit: int = 30) -> str:
    """List the notebooks below a folder."""
    raise only_declared()


def find_notebook_cells(path: str, query: str, limit: int = 10) -> str:
    """Find cells of a saved notebook by text, upper and lower case alike."""
    raise only_declared()


def read_notebook_cell(path: str, cell_id: str, start_line: int = 1, end_line: int = 40) -> str:
    """Read up to 80 numbered lines of a cell of a saved notebook, by id or index:N."""
    raise only_declared()


def list_cells(start: int = 0, limit: int = 20) -> str:
    """List the live notebook's cells: number, id, kind and a preview."""
    raise only_declared()


def read_cell(cell_id: str, start_line: int = 1, end_line: int = 40) -> str:
    """Read numbered lines of a live cell, unsaved edits included."""
    raise only_declared()


def find_cells(query: str, cell_type: str = "", limit: int = 20) -> str:
    """Find live cells by text, upper and lower case alike."""
    raise only_declared()


def insert_markdown(content: str, after_cell_id: str = "") -> str:
    """Insert a Markdown cell, by default below the answer."""
    raise only_declared()


def insert_code(content: str, after_cell_id: str = "") -> str:
    """Insert a code cell, by default below the answer; it is not run."""
    raise only_declared()


def replace_cell(cell_id: str, expected_source: str, new_source: str) -> str:
    """Replace a cell's text if it is still what was read."""
    raise only_declared()


def cell_str_replace(cell_id: str, old_str: str, new_str: str, expected_matches: int = 1) -> str:
    """Replace a literal text in a cell if it occurs exactly as often as expected."""
    raise only_declared()


def cell_insert_line(cell_id: str, line: int, content: str, expected_source: str) -> str:
    """Insert text before a line of a cell; the number of lines plus one is the end."""
    raise only_declared()


def cell_replace_lines(
    cell_id: str, start_line: int, end_line: int, content: str, expected_source: str
) -> str:
    """Replace a range of lines of a cell, both ends included."""
    raise only_declared()


def delete_cell(cell_id: str, expected_source: str) -> str:
    """Delete a cell if its text is still what was read."""
    raise only_declared()


def move_cell(cell_id: str, after_cell_id: str) -> str:
    """Move a cell below another one."""
    raise only_declared()


def copy_cell(cell_id: str, after_cell_id: str) -> str:
    """Copy a cell below another one, without its outputs."""
    raise only_declared()


def split_cell(cell_id: str, line: int, expected_source: str) -> str:
    """Split a cell before a line; the second part is a new cell."""
    raise only_declared()


def merge_cells(
    first_cell_id: str, second_cell_id: str, expected_first: str, expected_second: str
) -> str:
    """Merge two neighbouring cells of one kind."""
    raise only_declared()
