"""Tools for text files below the server's folder, and for documents made of sections."""

from __future__ import annotations

from .declaring import only_declared


def path_info(path: str = ".") -> str:
    """Where a path leads: kind, size, time of change; and what relative paths start from."""
    raise only_declared()


def list_files(
    path: str = ".", pattern: str = "*", recursive: bool = False, limit: int = 30
) -> str:
    """List a folder. Hidden files, links and folders of environments are left out."""
    raise only_declared()


def view_file(path: str, start_line: int = 1, end_line: int = 40) -> str:
    """Read up to 80 numbered lines of a text file."""
    raise only_declared()


def view_file_hashes(path: str, start_line: int = 1, end_line: int = 40) -> str:
    """As view_file, with the SHA-256 of the whole file for file_replace_checked."""
    raise only_declared()


def create_file(path: str, contents: str) -> str:
    """Create a new text file and the folders it needs; an existing file is never replaced."""
    raise only_declared()


def file_str_replace(path: str, old_str: str, new_str: str, expected_matches: int = 1) -> str:
    """Replace a literal text in a file if it occurs exactly as often as expected."""
    raise only_declared()


def file_strs_replace(path: str, old_strings: list[str], new_strings: list[str]) -> str:
    """Replace several literal texts at once; each must occur exactly once, and none may overlap."""
    raise only_declared()


def file_insert_line(path: str, line: int, new_str: str) -> str:
    """Insert text below a line of a file; line 0 is the top."""
    raise only_declared()


def file_replace_lines(path: str, start_line: int, end_line: int, new_content: str) -> str:
    """Replace a range of lines of a file, both ends included."""
    raise only_declared()


def file_replace_checked(path: str, old_str: str, new_str: str, expected_sha256: str) -> str:
    """Replace a literal text once, only if the whole file still has this SHA-256."""
    raise only_declared()


def search_files(
    query: str, path: str = ".", pattern: str = "*", regex: bool = False, limit: int = 20
) -> str:
    """Search the lines of text files below a folder; ignore files such as .gitignore hold."""
    raise only_declared()


def document_outline(path: str, start: int = 0, limit: int = 20) -> str:
    """Headings of a Markdown file, or definitions of a Python file, with addresses of sections."""
    raise only_declared()


def read_document_section(path: str, section: str = "") -> str:
    """Read a section by its address in document_outline; without one, the part before the first."""
    raise only_declared()
