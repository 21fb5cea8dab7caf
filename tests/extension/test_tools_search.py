"""Searches, documents and saved notebooks as tools: ignore files, time limits, hiding."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pydantic import ValidationError

from nbinline_agent.context.choices import Policy
from nbinline_agent.ids import NotebookPath
from nbinline_agent.testing import code, markdown
from nbinline_agent.tools.base import ToolError
from nbinline_rtc.toolset import server_tools
from tests.extension.toolcalls import Calls, Context, calling


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "course").mkdir()
    return tmp_path


@pytest.fixture
def call(root: Path) -> Calls:
    return Calls(server_tools(), Context(root))


@pytest.fixture
def put(root: Path) -> Callable[[str, str], None]:
    def write(path: str, text: str) -> None:
        file = root / "course" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


async def test_lines_are_found(call: Calls, put: Callable[[str, str], None]) -> None:
    put("a.py", "import os\nneedle = 1\n")
    put("sub/b.txt", "no\n  a needle here\nNEEDLE\n")
    put("sub/c.bin", "needle\0")
    found = await call("search_files", query="needle")
    assert found == "a.py:2: needle = 1\nsub/b.txt:2: a needle here"
    assert await call("search_files", query="needle", path="a.py") == "a.py:2: needle = 1"
    assert await call("search_files", query="needle", pattern="*.py") == "a.py:2: needle = 1"
    assert "b.txt:3" in await call("search_files", query="(?i)^needle$", regex=True)
    assert await call("search_files", query="nowhere") == "No lines match."
    with pytest.raises(ToolError, match="regular expression is not valid"):
        await call("search_files", query="(", regex=True)


async def test_nested_ignore_files_hold(call: Calls, put: Callable[[str, str], None]) -> None:
    for path in ("keep.log", "a.log", "sub/b.log", "sub/deep/c.log", "out/d.txt", "sub/e.tmp"):
        put(path, "needle\n")
    put(".gitignore", "*.log\n!keep.log\nout/\n")
    put("sub/.gitignore", "!b.log\n")
    put("sub/deep/.rgignore", "!c.log\n")
    put("sub/.ignore", "*.tmp\n")
    found = await call("search_files", query="needle")
    assert {line.split(":")[0] for line in found.split("\n")} == {
        "keep.log",
        "sub/b.log",
        "sub/deep/c.log",
    }
    # Patterns of the folders above hold as well …
    put("x/y/z.log", "needle\n")
    assert await call("search_files", query="needle", path="x/y") == "No lines match."
    # … but a folder that is named is searched, though it is ignored.
    assert "d.txt:1" in await call("search_files", query="needle", path="out")


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*b", r"(.*)*\d"])
async def test_an_endless_expression_ends_in_time(
    call: Calls, put: Callable[[str, str], None], expression: str
) -> None:
    put("a.txt", "aaa\n")
    put("b.txt", "a" * 5_000 + "!\n")
    began = time.monotonic()
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await anyio.sleep(0.02)
            beats += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        found = await call("search_files", query=expression, regex=True)
        tasks.cancel_scope.cancel()
    assert "stopped after 1.5 seconds" in found
    assert time.monotonic() - began < 15
    assert beats > 20, "the loop stood still"
    if expression == "(a+)+$":
        assert "a.txt:1: aaa" in found, "what was found in time is kept"
    assert not children("nbinline_rtc.jobs")


def children(name: str) -> list[str]:
    """Command lines of our own children with a name in them."""
    mine = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = re.search(r"PPid:\s+(\d+)", (process / "status").read_text())
            command = (process / "cmdline").read_text()
        except OSError:
            continue
        if parent and int(parent[1]) == os.getpid() and name in command:
            mine.append(command)
    return mine


async def test_searches_have_bounds(call: Calls, put: Callable[[str, str], None]) -> None:
    put("a.txt", "needle\n" * 60)
    found = await call("search_files", query="needle", limit=50)
    assert found.count("needle") == 50
    assert "more than 50 lines match" in found
    for wrong in ({"limit": 51}, {"query": "x" * 501}, {"query": ""}, {"other": 1}):
        with pytest.raises(ValidationError):
            await call("search_files", **{"query": "x", **wrong})
    put("big.txt", "x" * 1_000_001 + "\nneedle in a large file\n")
    assert "large file" not in await call("search_files", query="needle in a")
    put("/".join("abcdefgh") + "/deep.txt", "deep needle\n")
    found = await call("search_files", query="deep needle")
    assert "deep.txt" not in found
    assert "not everything was searched" in found


async def test_cancelling_a_search_kills_it(call: Calls, put: Callable[[str, str], None]) -> None:
    put("b.txt", "a" * 5_000 + "!\n")
    with anyio.move_on_after(0.8) as scope:
        await call("search_files", query="(a+)+$", regex=True)
    assert scope.cancelled_caught
    assert not children("nbinline_rtc.jobs")


MARKDOWN = """intro

# One

text

```
# not a heading
```

## Inside *One*

more

Two
===

end
"""


async def test_sections_of_markdown(call: Calls, put: Callable[[str, str], None]) -> None:
    put("doc.md", MARKDOWN)
    outline = await call("document_outline", path="doc.md")
    titles = re.findall(r"^( *)(.+?)  \[(L[^\]]+)\]$", outline, re.MULTILINE)
    assert [(len(indent), title) for indent, title, _ in titles] == [
        (0, "One"),
        (2, "Inside *One*"),
        (0, "Two"),
    ]
    one = await call("read_document_section", path="doc.md", section=titles[0][2])
    assert "lines 3-14" in one
    assert "Inside" in one
    assert "end" in await call("read_document_section", path="doc.md", section=titles[2][2])
    assert "intro" in await call("read_document_section", path="doc.md")
    put("doc.md", MARKDOWN + "\nchanged")
    with pytest.raises(ToolError, match="changed since"):
        await call("read_document_section", path="doc.md", section=titles[0][2])
    with pytest.raises(ToolError, match="not an address"):
        await call("read_document_section", path="doc.md", section="One")
    put("data.csv", "a,b\n")
    with pytest.raises(ToolError, match="Only Markdown and Python"):
        await call("document_outline", path="data.csv")


PYTHON = '''"""A module.

It has more to say.
"""

import os

@staticmethod
def first(a: int, *, b="x") -> str:
    """Do the first thing."""

class Thing(Base, kind=1):
    """A thing."""

    async def run(self, n=1):
        """Run it.

        For long.
        """
        raise SystemExit("never imported")

    def _own(self): ...

raise SystemExit("never imported")
'''


async def test_definitions_of_python(call: Calls, put: Callable[[str, str], None]) -> None:
    put("mod.py", PYTHON)
    outline = await call("document_outline", path="mod.py")
    assert re.findall(r"(def|class) ([\w.]+)", outline) == [
        ("def", "first"),
        ("class", "Thing"),
        ("def", "Thing.run"),
        ("def", "Thing._own"),
    ]
    address = re.findall(r"\[(.+?)\]", outline)[0]
    section = await call("read_document_section", path="mod.py", section=address)
    assert section.split("\n")[1] == "@staticmethod"
    doc = await call("source_doc", path="mod.py")
    assert "It has more to say." in doc
    assert "def first(a: int, *, b='x') -> str\n    Do the first thing." in doc
    assert "class Thing(Base, kind=1)\n    A thing." in doc
    assert "For long." in await call("source_doc", path="mod.py", symbol="Thing.run")
    with pytest.raises(ToolError, match="no 'Other'"):
        await call("source_doc", path="mod.py", symbol="Other")
    put("broken.py", "def (:\n")
    with pytest.raises(ToolError, match="not valid Python"):
        await call("source_doc", path="broken.py")
    put("nested.py", "(" * 100_000)
    with pytest.raises(ToolError, match=r"not valid|deeply nested|memory"):
        await call("document_outline", path="nested.py")
    with pytest.raises(ToolError, match="outside"):
        await call("source_doc", path="/usr/lib/os.py")


def notebook(**metadata: Any) -> str:
    cells = [
        new_markdown_cell("# Title\nsome words", id="title"),
        new_code_cell("x = 1\nprint('Needle')", id="code"),
        new_code_cell("### BEGIN SOLUTION\nsecret = 42\n### END SOLUTION\ny = 2", id="task"),
        new_code_cell("### BEGIN HIDDEN TESTS\nsecret\n### END HIDDEN TESTS", id="tests"),
        new_markdown_cell("secret of the teacher", id="tagged", metadata={"tags": ["hidden"]}),
    ]
    return str(nbformat.writes(new_notebook(cells=cells, metadata=metadata)))


async def test_saved_notebooks(call: Calls, put: Callable[[str, str], None]) -> None:
    put("b.ipynb", notebook())
    put("sub/c.ipynb", notebook())
    put(".ipynb_checkpoints/b-checkpoint.ipynb", notebook())
    call.context.policy = Policy(hidden_tags=frozenset({"hidden"}))
    assert await call("list_notebooks") == "course/b.ipynb\ncourse/sub/c.ipynb"
    outline = await call("notebook_outline", path="b.ipynb")
    assert "1  title  markdown  # Title" in outline
    assert "2  code  code  x = 1" in outline
    assert "tests" not in outline
    assert "tagged" not in outline
    assert "secret" not in outline
    found = await call("find_notebook_cells", path="b.ipynb", query="needle")
    assert found == "2  code  code  print('Needle')"
    read = await call("read_notebook_cell", path="b.ipynb", cell_id="task")
    assert "y = 2" in read
    assert "42" not in read
    by_place = await call("read_notebook_cell", path="b.ipynb", cell_id="index:1")
    assert "1  x = 1\n2  print('Needle')" in by_place
    for gone in ("tests", "tagged", "index:4", "nothing"):
        with pytest.raises(ToolError, match="no cell"):
            await call("read_notebook_cell", path="b.ipynb", cell_id=gone)
    hits = await call("search_notebooks", query="Needle")
    assert hits.split("\n") == [
        "b.ipynb cell 2 (code, code): print('Needle')",
        "sub/c.ipynb cell 2 (code, code): print('Needle')",
    ]
    assert await call("search_notebooks", query="secret") == "No cells match."
    assert await call("search_files", query="Needle") == "No lines match."
    with pytest.raises(ToolError, match="is not a notebook"):
        await call("notebook_outline", path="../course")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cells": 3}', "{" * 50_000, "\udce4"])
async def test_broken_notebooks(call: Calls, root: Path, content: str) -> None:
    file = root / "course" / "b.ipynb"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ToolError, match="not a notebook that can be read"):
        await call("notebook_outline", path="b.ipynb")


async def test_a_notebook_that_is_too_large(call: Calls, root: Path) -> None:
    cells = [{"cell_type": "code", "id": "a", "source": "x" * 8_000_000}]
    (root / "course" / "b.ipynb").write_text(json.dumps({"cells": cells}))
    with pytest.raises(ToolError, match="larger than 8,000,000"):
        await call("find_notebook_cells", path="b.ipynb", query="x")


async def test_old_notebooks_have_places_instead_of_ids(call: Calls, root: Path) -> None:
    cells = [{"cell_type": "code", "source": ["a = 1\n", "b"]}, "nonsense", {"source": 3}]
    (root / "course" / "b.ipynb").write_text(json.dumps({"cells": cells}))
    outline = await call("notebook_outline", path="b.ipynb")
    assert "1  index:0  code  a = 1" in outline
    assert "3  index:2  raw" in outline


async def test_the_notebook_that_is_asked_in_is_read_live(root: Path) -> None:
    cells = [
        markdown("typed and not saved", "m"),
        code("### BEGIN SOLUTION\nsecret\n### END SOLUTION\n", "c"),
    ]
    async with calling(server_tools(), root, *cells) as call:
        assert call.context.path == NotebookPath("course/a.ipynb")
        (root / "course" / "a.ipynb").write_text(notebook())
        outline = await call("notebook_outline", path="a.ipynb")
        assert "typed and not saved" in outline
        assert "secret" not in outline
        assert "Title" not in outline
