"""Tools that look at live values, modules and skills."""

from __future__ import annotations

from .declaring import only_declared


def search_kernel_names(query: str, limit: int = 20) -> str:
    """Find live names of the kernel by a part of the name; types only, no values."""
    raise only_declared()


def inspect_python(name: str, section: str = "help") -> str:
    """Help, signature or source of a live or built-in name."""
    raise only_declared()


def show_doc(name: str, module: str = "") -> str:
    """Documentation of a name; a module that is given is imported."""
    raise only_declared()


def api_names(name: str, module: str = "", query: str = "", limit: int = 30) -> str:
    """Public members of an object with what they are."""
    raise only_declared()


def search_docs(name: str, query: str, module: str = "", depth: int = 1, limit: int = 20) -> str:
    """Search the names and docstrings of an object's members, some levels deep."""
    raise only_declared()


def inspect_value(name: str, start: int = 0, limit: int = 20) -> str:
    """A slice of a live string, list, tuple, dict, set or range."""
    raise only_declared()


def search_value(name: str, query: str, limit: int = 20) -> str:
    """Search in a live string, list, tuple, dict, set or range."""
    raise only_declared()


def source_files(name: str, module: str = "", limit: int = 30) -> str:
    """The file a live name comes from, and the Python files beside it."""
    raise only_declared()


def source_doc(path: str, symbol: str = "") -> str:
    """Docstrings and signatures of a Python file, which is not imported."""
    raise only_declared()


def list_skills(query: str = "", limit: int = 30) -> str:
    """Skills that installed packages offer: modules named by entry points of the group pyskills."""
    raise only_declared()


def read_skill(module: str) -> str:
    """Read a skill: the docstring of its module, which is not imported."""
    raise only_declared()
