"""Files for tools: bounds, links, races, line ends, and what a course hides."""

import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from nbinline_agent.context.choices import Policy
from nbinline_agent.tools.base import ToolError
from nbinline_rtc.jobs.below import Place, Refused, locate, read
from nbinline_rtc.toolset import server_tools
from nbinline_rtc.toolset.file_edits import InsertLine, create, insert_line, write
from tests.extension.toolcalls import Calls, Context


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "course").mkdir(parents=True)
    return folder


@pytest.fixture
def call(root: Path) -> Calls:
    return Calls(server_tools(), Context(root))


async def test_relative_paths_start_at_the_notebook(call: Calls, root: Path) -> None:
    (root / "course" / "notes.txt").write_text("one\ntwo\n")
    (root / "top.txt").write_text("top\n")
    assert "1  one\n2  two" in await call("view_file", path="notes.txt")
    assert "top" in await call("view_file", path="../top.txt")
    assert "top" in await call("view_file", path=str(root / "top.txt"))
    info = await call("path_info")
    assert "course: a folder" in info
    assert "'course' below" in info


@pytest.mark.parametrize(
    "path",
    [
        "../../outside.txt",
        "/etc/passwd",
        "../../root2/x",
        ".env",
        "../.git/config",
        "a/.ssh/id",
        "x\0y",
    ],
)
async def test_paths_that_are_refused(call: Calls, root: Path, path: str) -> None:
    (root.parent / "outside.txt").write_text("secret\n")
    (root.parent / "root2").mkdir()
    (root / "course" / ".env").write_text("KEY=1\n")
    for name in ("view_file", "view_file_hashes", "path_info", "list_files", "search_files"):
        extra = {"query": "x"} if name == "search_files" else {}
        with pytest.raises(ToolError, match=r"outside|hidden|not a path"):
            await call(name, path=path, **extra)
    with pytest.raises(ToolError, match=r"outside|hidden|not a path"):
        await call("create_file", path=path, contents="x")


async def test_links_out_are_refused_and_links_inside_followed(call: Calls, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    (root / "real.txt").write_text("real\n")
    (root / "course" / "out").symlink_to(outside)
    (root / "course" / "file").symlink_to(outside / "secret.txt")
    (root / "course" / "inside").symlink_to(root / "real.txt")
    for path in ("out/secret.txt", "file"):
        with pytest.raises(ToolError, match="outside"):
            await call("view_file", path=path)
    with pytest.raises(ToolError, match="outside"):
        await call("create_file", path="out/new.txt", contents="x")
    assert "real" in await call("view_file", path="inside")
    listed = await call("list_files", path=".")
    assert "nothing that fits" in listed
    await call("file_str_replace", path="inside", old_str="real", new_str="changed")
    assert (root / "course" / "inside").is_symlink()
    assert (root / "real.txt").read_text() == "changed\n"


def test_a_folder_that_becomes_a_link_after_the_check(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "data.txt").write_text("secret\n")
    (root / "course" / "data.txt").write_text("mine\n")
    place = locate(root, root, "course/data.txt")
    (root / "course").rename(root / "moved")
    (root / "course").symlink_to(outside)
    with pytest.raises(Refused):
        read(place, 1_000)
    with pytest.raises(Refused):
        write(place, lambda text: "changed", hides=True)
    with pytest.raises(Refused):
        create(Place(place.root, ("course", "new.txt")), "x")
    assert (outside / "data.txt").read_text() == "secret\n"
    assert sorted(os.listdir(outside)) == ["data.txt"]


async def test_a_pipe_in_a_files_place_does_not_hang(call: Calls, root: Path) -> None:
    os.mkfifo(root / "course" / "pipe")
    with pytest.raises(ToolError, match="not a regular file"):
        await call("view_file", path="pipe")


async def test_looking_has_bounds(call: Calls, root: Path) -> None:
    file = root / "course" / "long.txt"
    file.write_text("".join(f"line {n}\n" for n in range(1, 201)))
    shown = await call("view_file", path="long.txt", start_line=100, end_line=179)
    assert "lines 100-179 of 200" in shown
    assert shown.endswith("179  line 179")
    with pytest.raises(ToolError, match="At most 80"):
        await call("view_file", path="long.txt", start_line=1, end_line=81)
    with pytest.raises(ToolError, match="only 200"):
        await call("view_file", path="long.txt", start_line=201, end_line=202)
    with pytest.raises(ToolError, match="before"):
        await call("view_file", path="long.txt", start_line=5, end_line=4)
    file.write_bytes(b"x" * 1_000_001)
    with pytest.raises(ToolError, match="larger than 1,000,000"):
        await call("view_file", path="long.txt")
    file.write_bytes(b"a\0b")
    with pytest.raises(ToolError, match="not a text file"):
        await call("view_file", path="long.txt")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match="not UTF-8"):
        await call("view_file", path="long.txt")
    file.write_text("x" * 10_000)
    assert "8,000 characters left out" in await call("view_file", path="long.txt")
    file.write_text("")
    assert "empty" in await call("view_file", path="long.txt")


async def test_the_hash_is_that_of_the_whole_file(call: Calls, root: Path) -> None:
    data = "eins\r\nzwei ö\r\n".encode()
    (root / "course" / "a.txt").write_bytes(data)
    shown = await call("view_file_hashes", path="a.txt")
    assert f"sha256: {hashlib.sha256(data).hexdigest()}" in shown


async def test_listing_skips_what_nobody_means(call: Calls, root: Path) -> None:
    for folder in ("src", ".git", "node_modules", "venv", "own_env", "src/__pycache__"):
        (root / "course" / folder).mkdir()
        (root / "course" / folder / "file.py").write_text("x\n")
    (root / "course" / "own_env" / "pyvenv.cfg").write_text("")
    listed = await call("list_files", recursive=True)
    assert "src/file.py  2 bytes" in listed
    assert all(word not in listed for word in (".git", "node_modules", "venv/", "__pycache__"))
    assert "own_env/file.py" not in listed
    assert "src/file.py" in await call("list_files", recursive=True, pattern="*.py")
    assert "src/" in await call("list_files")
    assert "file.py" not in await call("list_files")


async def test_listing_has_bounds(call: Calls, root: Path) -> None:
    for number in range(40):
        (root / "course" / f"f{number:02}").write_text("")
    assert "10 more" in await call("list_files")
    with pytest.raises(ValidationError):
        await call("list_files", limit=101)
    many = root / "many"
    many.mkdir()
    for number in range(2_100):
        (many / f"{number}").touch()
    assert "not everything was looked at" in await call("list_files", path="../many")
    deep = root.joinpath("deep", *"abcdefgh")
    deep.mkdir(parents=True)
    (deep / "hidden_by_depth").touch()
    listed = await call("list_files", path="../deep", recursive=True, limit=100)
    assert "hidden_by_depth" not in listed
    assert "not everything was looked at" in listed


async def test_making_a_file(call: Calls, root: Path) -> None:
    await call("create_file", path="new/deep/a.txt", contents="hello\n")
    assert (root / "course/new/deep/a.txt").read_text() == "hello\n"
    with pytest.raises(ToolError, match="exists already"):
        await call("create_file", path="new/deep/a.txt", contents="other")
    assert (root / "course/new/deep/a.txt").read_text() == "hello\n"
    with pytest.raises(ToolError, match="notebook"):
        await call("create_file", path="b.ipynb", contents="{}")
    assert os.listdir(root / "course/new/deep") == ["a.txt"]
    preview = await call.preview("create_file", path="c.txt", contents="x\n")
    assert preview.diff is not None
    assert "+x" in preview.diff
    assert not (root / "course/c.txt").exists()


async def test_replacing_text(call: Calls, root: Path) -> None:
    file = root / "course" / "a.txt"
    file.write_bytes(b"one\r\ntwo\r\nthree two\r\n")
    file.chmod(0o640)
    with pytest.raises(ToolError, match="occurs 2 times, not 1"):
        await call("file_str_replace", path="a.txt", old_str="two", new_str="2")
    told = await call("file_str_replace", path="a.txt", old_str="one\ntwo", new_str="1\n2\n2b")
    assert file.read_bytes() == b"1\r\n2\r\n2b\r\nthree two\r\n"
    assert "-one\n-two\n+1\n+2\n+2b\n three two" in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    await call("file_str_replace", path="a.txt", old_str="2", new_str="zwei", expected_matches=2)
    assert file.read_bytes() == b"1\r\nzwei\r\nzweib\r\nthree two\r\n"
    assert os.listdir(root / "course") == ["a.txt"]


async def test_replacing_several_texts_is_all_or_nothing(call: Calls, root: Path) -> None:
    file = root / "course" / "a.txt"
    file.write_text("alpha beta gamma\n")
    for old, new, why in (
        (["alpha", "delta"], ["A", "D"], "occurs 0 times"),
        (["alpha beta", "beta gamma"], ["A", "B"], "overlap"),
        (["alpha", "alpha"], ["A", "B"], "different"),
        (["alpha", "beta"], ["A"], "same length"),
    ):
        with pytest.raises(ToolError, match=why):
            await call("file_strs_replace", path="a.txt", old_strings=old, new_strings=new)
    assert file.read_text() == "alpha beta gamma\n"
    await call(
        "file_strs_replace", path="a.txt", old_strings=["gamma", "alpha"], new_strings=["", "beta"]
    )
    assert file.read_text() == "beta beta \n"
    with pytest.raises(ValidationError):
        await call(
            "file_strs_replace", path="a.txt", old_strings=["x"] * 21, new_strings=["y"] * 21
        )


async def test_lines(call: Calls, root: Path) -> None:
    file = root / "course" / "a.txt"
    file.write_text("one\ntwo")
    await call("file_insert_line", path="a.txt", line=2, new_str="three")
    assert file.read_text() == "one\ntwo\nthree"
    await call("file_insert_line", path="a.txt", line=0, new_str="zero\n")
    assert file.read_text() == "zero\none\ntwo\nthree"
    await call("file_replace_lines", path="a.txt", start_line=2, end_line=3, new_content="1\n2")
    assert file.read_text() == "zero\n1\n2\nthree"
    await call("file_replace_lines", path="a.txt", start_line=4, end_line=4, new_content="3\n")
    assert file.read_text() == "zero\n1\n2\n3"
    await call("file_replace_lines", path="a.txt", start_line=2, end_line=3, new_content="")
    assert file.read_text() == "zero\n3"
    with pytest.raises(ToolError, match="only 2 lines"):
        await call("file_insert_line", path="a.txt", line=3, new_str="x")
    with pytest.raises(ToolError, match="only 2 lines"):
        await call("file_replace_lines", path="a.txt", start_line=2, end_line=3, new_content="x")
    (root / "course" / "empty.txt").touch()
    await call("file_insert_line", path="empty.txt", line=0, new_str="first")
    assert (root / "course" / "empty.txt").read_text() == "first\n"


async def test_a_checked_replacement(call: Calls, root: Path) -> None:
    file = root / "course" / "a.txt"
    file.write_text("one\n")
    key = hashlib.sha256(b"one\n").hexdigest()
    arguments = {"path": "a.txt", "old_str": "one", "expected_sha256": key}
    await call("file_replace_checked", **arguments, new_str="two")
    with pytest.raises(ToolError, match="changed since"):
        await call("file_replace_checked", **arguments, new_str="three")
    assert file.read_text() == "two\n"


async def test_notebooks_are_never_read_or_written_as_files(call: Calls, root: Path) -> None:
    file = root / "course" / "b.ipynb"
    file.write_text('{"cells": []}')
    with pytest.raises(ToolError, match="read_notebook_cell"):
        await call("view_file", path="b.ipynb")
    with pytest.raises(ToolError, match="cell by cell"):
        await call("file_str_replace", path="b.ipynb", old_str="cells", new_str="x")
    assert file.read_text() == '{"cells": []}'


@pytest.mark.parametrize("how", ["rewritten", "replaced", "removed"])
def test_a_file_that_changes_while_it_is_edited_is_left_alone(root: Path, how: str) -> None:
    file = root / "course" / "a.txt"
    file.write_text("before\n")

    def change(text: str) -> str:
        # Somebody else is quicker, between the read and the replacement.
        if how == "removed":
            file.unlink()
        elif how == "replaced":
            (root / "course" / "b.txt").write_text("others\n")
            (root / "course" / "b.txt").replace(file)
        else:
            file.write_text("others\n")
        return "ours\n"

    with pytest.raises(Refused, match=r"meanwhile|no '"):
        write(locate(root, root, "course/a.txt"), change, hides=True)
    assert how == "removed" or file.read_text() == "others\n"
    assert [name for name in os.listdir(root / "course") if name.startswith(".")] == []


def test_edits_at_the_same_time_lose_nothing(root: Path) -> None:
    file = root / "course" / "count.txt"
    file.write_text("start\n")
    place = locate(root, root, "course/count.txt")
    done: list[int] = []

    def add(number: int) -> None:
        while True:
            try:
                write(place, lambda text: f"{text}{number}\n", hides=True)
            except Refused:
                continue
            done.append(number)
            return

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(map(int, file.read_text().split()[1:])) == list(range(12)) == sorted(done)


async def test_a_read_only_folder_is_told(call: Calls, root: Path) -> None:
    file = root / "course" / "a.txt"
    file.write_text("one\n")
    (root / "course").chmod(0o500)
    try:
        if os.access(root / "course", os.W_OK):  # root may write anywhere
            return
        with pytest.raises(ToolError, match="may not be"):
            await call("file_str_replace", path="a.txt", old_str="one", new_str="two")
    finally:
        (root / "course").chmod(0o700)


HIDING = "def f():\n    ### BEGIN SOLUTION\n    return 42\n    ### END SOLUTION\n\nx = 1\n"


async def test_what_the_course_hides_is_neither_shown_nor_changed(call: Calls, root: Path) -> None:
    file = root / "course" / "task.py"
    file.write_text(HIDING)
    shown = await call("view_file", path="task.py")
    assert "42" not in shown
    assert "6  x = 1" in shown
    assert "No lines match" in await call("search_files", query="42")
    outline = await call("document_outline", path="task.py")
    address = outline.split("[")[1].split("]")[0]
    assert "42" not in await call("read_document_section", path="task.py", section=address)
    with pytest.raises(ToolError, match="hides"):
        await call("file_str_replace", path="task.py", old_str="return 42", new_str="return 1")
    with pytest.raises(ToolError, match="hides"):
        await call("file_replace_lines", path="task.py", start_line=1, end_line=4, new_content="")
    told = await call("file_insert_line", path="task.py", line=4, new_str="# below")
    assert "SOLUTION" not in told
    assert file.read_text() == HIDING.replace("SOLUTION\n\n", "SOLUTION\n# below\n\n")
    call.context.policy = Policy(hide_solutions=False)
    assert "42" in await call("view_file", path="task.py")


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0")), max_size=8),
    ends=st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=8, max_size=8),
    at=st.integers(0, 8),
    new=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1),
)
def test_an_inserted_line_leaves_every_other_byte(
    root: Path, lines: list[str], ends: list[str], at: int, new: str
) -> None:
    whole = [line + end for line, end in zip(lines, ends, strict=False)]
    before = "".join(whole)
    file = root / "course" / "any.txt"
    file.write_bytes(before.encode())
    # A \r at the end of one line and an empty line ended by \n are one end of a line.
    counted = re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", before)
    at = min(at, len(counted))
    change: Callable[[str], str] = insert_line(InsertLine(path="x", line=at, new_str=new))
    write(locate(root, root, "course/any.txt"), change, hides=False)
    after = file.read_bytes().decode()
    head, tail = "".join(counted[:at]), "".join(counted[at:])
    assert after.startswith(head)
    assert after.endswith(tail)
    assert after[len(head) : len(after) - len(tail)].strip("\r\n") == new
