"""Rules of the house that no linter knows."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

from nbinline_agent import errors
from nbinline_rtc.host import NotReady

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (ROOT / "nbinline_rtc", ROOT / "agent" / "nbinline_agent")
SOURCES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "core"}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        return [path for path in ROOT.rglob("*") if path.is_file() and ".git" not in path.parts]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_drawer_modules() -> None:
    for path in tracked():
        assert path.stem not in BANNED_NAMES, f"{path} has a name that says nothing"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_augmented_assignment_to_a_subscripted_text(source: Path) -> None:
    """``cell["source"] += "x"`` empties the cell: Python writes the integrated type back."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            key = node.target.slice
            assert not (isinstance(key, ast.Constant) and key.value in ("source", "text")), (
                f"{source}:{node.lineno}"
            )


def test_the_augmented_assignment_check_can_fail() -> None:
    tree = ast.parse('cell["source"] += "x"')
    [node] = [node for node in ast.walk(tree) if isinstance(node, ast.AugAssign)]
    assert isinstance(node.target, ast.Subscript)
    assert isinstance(node.target.slice, ast.Constant)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_nobody_observes_a_ynotebook(source: Path) -> None:
    """``YNotebook.observe`` drops every other observer of that document first."""
    text = source.read_text("utf-8")
    assert not re.search(r"(ynotebook|_document)\.observe\(", text)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_shields_have_deadlines(source: Path) -> None:
    """A shield without a deadline could keep a server from stopping."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call) and any(
            keyword.arg == "shield"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is True
            for keyword in node.keywords
        ):
            name = ast.unparse(node.func).rsplit(".", 1)[-1]
            assert name in ("move_on_after", "fail_after"), f"{source}:{node.lineno}"


def all_errors() -> list[type[errors.NbinlineError]]:
    found: list[type[errors.NbinlineError]] = []
    waiting = [errors.NbinlineError]
    while waiting:
        each = waiting.pop()
        found.append(each)
        waiting.extend(each.__subclasses__())
    return found


def test_every_error_code_is_in_the_contract() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    rows = {
        code: (int(status), retry == "yes")
        for code, status, retry in re.findall(
            r"^\| `([a-z-]+)` \| (\d+) \| (yes|no) \|", page, re.M
        )
    }
    assert NotReady in all_errors()
    for error in all_errors():
        if error is errors.EditConflict:
            continue  # only ever raised as one of its kinds
        assert rows.get(error.code) == (error.http_status, error.retryable), error.__name__


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for error in all_errors():
        if error.__module__ == errors.__name__:
            assert re.search(rf"\b{error.__name__}\b", drawn), error.__name__


def test_messages_are_sentences_for_people() -> None:
    for error in all_errors():
        message = error.default_message
        assert message.endswith(".")
        assert message[0].isupper()


def test_nothing_names_the_machine_it_was_made_on() -> None:
    home = str(Path.home())
    for path in tracked():
        if path.suffix in {".png", ".gguf", ".lock"} or not path.is_file():
            continue
        text = path.read_text("utf-8", errors="replace")
        assert f"{ROOT.parent}/" not in text, path
        if len(home) > len("/root"):
            assert f"{home}/" not in text, path
