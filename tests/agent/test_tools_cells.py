"""Tools on live cells: what they read, what they change, what they refuse."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from nbinline_agent.context.choices import Policy
from nbinline_agent.document.edits import short_hash
from nbinline_agent.document.notebook import Notebook
from nbinline_agent.document.presence import AgentUser, end_cursor
from nbinline_agent.errors import CellGone, NbinlineError, SourceChanged
from nbinline_agent.ids import CellId
from nbinline_agent.testing import MemoryRooms, answer, code, markdown, prompt
from nbinline_agent.tools.base import ToolError
from tests.agent.cell_calls import TOOLS, Calls, calls

pytestmark = pytest.mark.asyncio

STREAM = {"output_type": "stream", "name": "stdout", "text": "1\n"}
LINES = "a = 1\nb = 2\nc = 3"
PICTURE = {
    **markdown("![x](attachment:x.png)", "picture", note="kept"),
    "attachments": {"x.png": {"image/png": "eA=="}},
}
CELLS: list[dict[str, Any]] = [
    markdown("# Title\n\nSome *words* about Größe.", "title"),
    code(LINES, "code", outputs=[STREAM], count=7),
    prompt("Why?", "q"),
    answer("Because.", "a", to="q", status="running"),
    code("print(1)", "last"),
    PICTURE,
]
HASH = short_hash(LINES)


def reason(error: NbinlineError) -> str:
    return str(error.details.get("reason", error.code))


class TestReading:
    async def test_the_list(self) -> None:
        async with calls(CELLS) as call:
            page = json.loads((await call("list_cells", start=1, limit=3)).text)
            assert (page["total"], page["next_start"]) == (6, 4)
            assert page["cells"] == [
                {
                    "index": 1,
                    "id": "code",
                    "type": "code",
                    "number": 7,
                    "preview": "a = 1 b = 2 c = 3",
                },
                {"index": 2, "id": "q", "type": "markdown", "ai": "question", "preview": "Why?"},
                {"index": 3, "id": "a", "type": "markdown", "ai": "answer", "preview": "Because."},
            ]
            assert "next_start" not in json.loads((await call("list_cells", limit=50)).text)

    async def test_numbered_lines_and_a_hash(self) -> None:
        async with calls(CELLS) as call:
            result = await call("read_cell", cell_id="code", start_line=2)
            assert result.text == (
                f"cell code (index 1, code, In [7]), lines 2-3 of 3, hash {HASH}\n2| b = 2\n"
                "3| c = 3\n[1 output: read_output]"
            )
            assert result.cells == ("code",)
            by_index = await call("read_cell", cell_id="index:1", start_line=2)
            assert by_index.text == result.text
            with pytest.raises(ToolError, match="3 lines"):
                await call("read_cell", cell_id="code", start_line=4)
            with pytest.raises(CellGone):
                await call("read_cell", cell_id="index:6")

    async def test_an_empty_cell(self) -> None:
        async with calls([code("", "empty"), code("\n", "newline")]) as call:
            assert "empty, hash sha256:" in (await call("read_cell", cell_id="empty")).text
            assert "lines 1-1 of 1" in (await call("read_cell", cell_id="newline")).text

    async def test_finding(self) -> None:
        async with calls(CELLS) as call:
            found = json.loads((await call("find_cells", query="GRÖSSE")).text)
            assert [hit["id"] for hit in found["hits"]] == ["title"]
            assert found["hits"][0]["lines"] == [3]
            assert found["hits"][0]["hash"] == short_hash(CELLS[0]["source"])
            found = json.loads((await call("find_cells", query="=", cell_type="markdown")).text)
            assert found["hits"] == []
            found = json.loads((await call("find_cells", query="a", limit=1)).text)
            assert found["more"] is True

    async def test_outputs(self) -> None:
        png = base64.b64encode(b"\x89PNG of no great size").decode()
        shown = {"output_type": "display_data", "metadata": {}, "data": {"image/png": png}}
        failed = {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": "bad",
            "traceback": ["\x1b[31mValueError\x1b[0m: bad"],
        }
        async with calls([code("x", "c", [STREAM, shown, failed]), code("y", "none")]) as call:
            result = await call("read_output", cell_id="c")
            assert "ValueError: bad" in result.text
            assert "\x1b" not in result.text
            assert [image.media_type for image in result.images] == ["image/png"]
            only = await call("read_output", cell_id="c", output=0)
            assert only.text.endswith("outputs:\n1")
            assert only.images == ()
            assert "no outputs" in (await call("read_output", cell_id="none")).text
            with pytest.raises(ToolError, match="3 outputs"):
                await call("read_output", cell_id="c", output=3)


class TestEditing:
    @pytest.mark.parametrize("expected", [LINES, HASH])
    async def test_replacing(self, expected: str) -> None:
        async with calls(CELLS) as call:
            updates: list[Any] = []
            call.notebook.peer.doc.observe(updates.append)
            new = "a = 1\nb = 20\nc = 3"
            result = await call(
                "replace_cell", cell_id="code", expected_source=expected, new_source=new
            )
            assert len(updates) == 1
            assert await call.source("code") == new
            cell = call.shared.cell("code")
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            assert short_hash(new) in result.text
            assert result.text.endswith("1| a = 1\n2| b = 20\n3| c = 3")
            assert call.visited[0] == "code"

    async def test_what_was_not_seen_is_not_replaced(self) -> None:
        async with calls(CELLS) as call:
            before = await call.seen()
            with pytest.raises(SourceChanged) as raised:
                await call("replace_cell", cell_id="code", expected_source="old", new_source="x")
            assert raised.value.details["current_hash"] == HASH
            assert raised.value.details["current_source"] == LINES
            assert await call.seen() == before

    async def test_replacing_a_part(self) -> None:
        async with calls(CELLS) as call:
            await call("cell_str_replace", cell_id="code", old_str="b = 2", new_str="b = 3")
            assert await call.source("code") == "a = 1\nb = 3\nc = 3"
            with pytest.raises(ToolError, match="occurs 3 times"):
                await call("cell_str_replace", cell_id="code", old_str=" = ", new_str="=")
            await call(
                "cell_str_replace", cell_id="code", old_str=" = ", new_str="=", expected_matches=3
            )
            assert await call.source("code") == "a=1\nb=3\nc=3"
            with pytest.raises(ToolError, match="blank"):
                await call("cell_str_replace", cell_id="code", old_str=" ", new_str="x")

    @pytest.mark.parametrize(
        ("line", "source"),
        [
            (1, "new\na = 1\nb = 2\nc = 3"),
            (3, "a = 1\nb = 2\nnew\nc = 3"),
            (4, "a = 1\nb = 2\nc = 3\nnew"),
        ],
    )
    async def test_inserting_a_line(self, line: int, source: str) -> None:
        async with calls(CELLS) as call:
            await call(
                "cell_insert_line", cell_id="code", line=line, content="new", expected_source=HASH
            )
            assert await call.source("code") == source

    async def test_replacing_lines(self) -> None:
        async with calls(CELLS) as call:
            fields = {"cell_id": "code", "expected_source": HASH}
            with pytest.raises(ToolError, match="1 to 3"):
                await call("cell_replace_lines", start_line=3, end_line=4, content="", **fields)
            await call("cell_replace_lines", start_line=2, end_line=3, content="z", **fields)
            assert await call.source("code") == "a = 1\nz"

    async def test_a_long_cell_can_be_edited_by_lines(self) -> None:
        source = "".join(f"value_{n} = {n}\n" for n in range(20_000))
        async with calls([code(source, "long")]) as call:
            result = await call(
                "cell_replace_lines",
                cell_id="long",
                start_line=10_000,
                end_line=10_000,
                content="here",
                expected_source=short_hash(source),
            )
            assert (await call.source("long")).count("here\n") == 1
            assert "10000| here" in result.text
            assert len(result.text) < 400

    @pytest.mark.parametrize("name", ["insert_markdown", "insert_code"])
    async def test_inserting(self, name: str) -> None:
        async with calls(CELLS) as call:
            first = (await call(name, content="one")).cells[0]
            second = (await call(name, content="two")).cells[0]
            top = (await call(name, content="top", after_cell_id="index:0")).cells[0]
            below = (await call(name, content="x", after_cell_id="last")).cells[0]
            assert await call.order() == [
                top,
                "title",
                "code",
                "q",
                "a",
                first,
                second,
                "last",
                below,
                "picture",
            ]
            assert call.shared.cell(first)["metadata"] == {}
            again = (await call(name, content="top 2", after_cell_id="index:0")).cells[0]
            assert (await call.order())[:2] == [top, again]

    async def test_nothing_comes_between_question_and_answer(self) -> None:
        async with calls(CELLS) as call:
            new = (await call("insert_code", content="x", after_cell_id="q")).cells[0]
            assert (await call.order())[2:5] == ["q", "a", new]
            with pytest.raises(ToolError, match="between a question"):
                await call("move_cell", cell_id="last", after_cell_id="q")

    async def test_deleting(self) -> None:
        async with calls(CELLS) as call:
            with pytest.raises(SourceChanged):
                await call("delete_cell", cell_id="code", expected_source="x")
            result = await call("delete_cell", cell_id="code", expected_source=HASH)
            assert result.text == "Deleted cell code."
            assert "code" not in await call.order()

    async def test_moving_keeps_everything(self) -> None:
        async with calls(CELLS) as call:
            before = call.shared.cell("code")
            await call("move_cell", cell_id="code", after_cell_id="picture")
            assert await call.order() == ["title", "q", "a", "last", "picture", "code"]
            after = call.shared.cell("code")
            assert after["outputs"] == before["outputs"]
            assert after["execution_count"] == 7
            await call("move_cell", cell_id="picture", after_cell_id="index:0")
            assert (await call.order())[0] == "picture"
            moved = call.shared.cell("picture")
            assert moved["attachments"] == PICTURE["attachments"]
            assert moved["metadata"] == {"note": "kept"}
            with pytest.raises(ToolError, match="follow itself"):
                await call("move_cell", cell_id="code", after_cell_id="code")

    async def test_moving_where_it_stands_writes_nothing(self) -> None:
        async with calls(CELLS) as call:
            updates: list[Any] = []
            call.notebook.peer.doc.observe(updates.append)
            await call("move_cell", cell_id="code", after_cell_id="title")
            assert updates == []

    async def test_copying(self) -> None:
        async with calls(CELLS) as call:
            new = (await call("copy_cell", cell_id="code", after_cell_id="last")).cells[0]
            assert call.shared.cell("code")["outputs"] == [STREAM]
            assert await call.source(new) == LINES
            assert call.shared.cell(new)["outputs"] == []
            new = (await call("copy_cell", cell_id="picture", after_cell_id="")).cells[0]
            await call.seen()
            assert call.shared.cell(new)["attachments"] == PICTURE["attachments"]
            assert (await call.order())[4] == new

    async def test_splitting_and_merging(self) -> None:
        async with calls(CELLS) as call:
            result = await call("split_cell", cell_id="code", line=2, expected_source=HASH)
            first, second = result.cells
            assert (await call.source(first), await call.source(second)) == (
                "a = 1",
                "b = 2\nc = 3",
            )
            assert (await call.order())[1:3] == ["code", second]
            await call(
                "merge_cells",
                first_cell_id=first,
                second_cell_id=second,
                expected_first="a = 1",
                expected_second=short_hash("b = 2\nc = 3"),
            )
            assert await call.source("code") == LINES
            assert second not in await call.order()

    @pytest.mark.parametrize(
        ("first", "second", "why"),
        [
            ("title", "last", "not-next"),
            ("title", "code", "cell-type"),
            ("left", "right", "conflict"),
        ],
    )
    async def test_cells_that_cannot_be_merged(self, first: str, second: str, why: str) -> None:
        cells = [*CELLS, markdown("l", "left", x=1), markdown("r", "right", x=2)]
        sources = {cell["id"]: cell["source"] for cell in cells}
        async with calls(cells) as call:
            before = await call.seen()
            with pytest.raises(ToolError) as raised:
                await call(
                    "merge_cells",
                    first_cell_id=first,
                    second_cell_id=second,
                    expected_first=sources[first],
                    expected_second=sources[second],
                )
            assert reason(raised.value) == why
            assert await call.seen() == before

    async def test_cells_that_different_runs_have_edited_can_be_merged(self) -> None:
        def by(run: str) -> dict[str, Any]:
            return {"nbinlineai": {"editedBy": {"runId": run}, "contextInclude": True}}

        async with calls([markdown("a", "l", **by("r1")), markdown("b", "r", **by("r2"))]) as call:
            await call(
                "merge_cells",
                first_cell_id="l",
                second_cell_id="r",
                expected_first="a",
                expected_second="b",
            )
            assert await call.source("l") == "a\n\nb"

    async def test_merging_takes_metadata_and_attachments_along(self) -> None:
        cells = [markdown("one", "first", kept=True), {**PICTURE, "id": "second"}]
        async with calls(cells) as call:
            await call(
                "merge_cells",
                first_cell_id="first",
                second_cell_id="second",
                expected_first="one",
                expected_second=PICTURE["source"],
            )
            [cell] = await call.seen()
            assert cell["source"] == "one\n\n![x](attachment:x.png)"
            assert cell["metadata"] == {"kept": True, "note": "kept"}
            assert cell["attachments"] == PICTURE["attachments"]

    async def test_another_type(self) -> None:
        async with calls(CELLS) as call:
            await call("set_cell_type", cell_id="code", cell_type="markdown", expected_source=HASH)
            cell = (await call.seen())[1]
            assert (cell["id"], cell["cell_type"], cell["source"]) == ("code", "markdown", LINES)
            assert "outputs" not in cell
            await call("set_cell_type", cell_id="code", cell_type="code", expected_source=HASH)
            cell = (await call.seen())[1]
            assert (cell["cell_type"], cell["outputs"]) == ("code", [])


class TestManyAtOnce:
    async def test_all_in_one_transaction(self) -> None:
        async with calls(CELLS) as call:
            updates: list[Any] = []
            call.notebook.peer.doc.observe(updates.append)
            edits = [
                {
                    "tool": "cell_str_replace",
                    "arguments": {"cell_id": "code", "old_str": "a = 1", "new_str": "a = 9"},
                },
                {"tool": "insert_code", "arguments": {"content": "one"}},
                {"tool": "insert_markdown", "arguments": {"content": "two"}},
                {"tool": "move_cell", "arguments": {"cell_id": "title", "after_cell_id": "last"}},
                {
                    "tool": "cell_str_replace",
                    "arguments": {"cell_id": "code", "old_str": "a = 9", "new_str": "a = 10"},
                },
                {
                    "tool": "delete_cell",
                    "arguments": {"cell_id": "picture", "expected_source": PICTURE["source"]},
                },
                {
                    "tool": "set_cell_type",
                    "arguments": {
                        "cell_id": "last",
                        "cell_type": "raw",
                        "expected_source": "print(1)",
                    },
                },
            ]
            result = await call("apply_edits", edits=edits)
            assert len(updates) == 1
            one, two = result.cells[1], result.cells[2]
            assert await call.order() == ["code", "q", "a", one, two, "last", "title"]
            assert await call.source("code") == "a = 10\nb = 2\nc = 3"
            assert call.shared.cell("last")["cell_type"] == "raw"
            later = (await call("insert_code", content="three")).cells[0]
            assert (await call.order())[3:6] == [one, two, later]

    async def test_or_nothing(self) -> None:
        async with calls(CELLS) as call:
            before = await call.seen()
            edits = [
                {
                    "tool": "cell_str_replace",
                    "arguments": {"cell_id": "code", "old_str": "a = 1", "new_str": "a = 9"},
                },
                {"tool": "delete_cell", "arguments": {"cell_id": "last", "expected_source": "no"}},
            ]
            with pytest.raises(ToolError) as raised:
                await call("apply_edits", edits=edits)
            assert raised.value.details["edit"] == 2
            assert reason(raised.value) == "source-changed"
            assert raised.value.details["current_source"] == "print(1)"
            assert await call.seen() == before

    @pytest.mark.parametrize(
        ("edit", "why"),
        [
            ({"tool": "read_cell", "arguments": {"cell_id": "code"}}, "unknown-tool"),
            ({"tool": "apply_edits", "arguments": {"edits": []}}, "unknown-tool"),
            ({"tool": "delete_cell", "arguments": {"cell_id": "code"}}, "bad-arguments"),
            ({"tool": "delete_cell", "arguments": {"id": "code"}}, "bad-arguments"),
        ],
    )
    async def test_only_edits(self, edit: dict[str, Any], why: str) -> None:
        async with calls(CELLS) as call:
            with pytest.raises(ToolError) as raised:
                await call("apply_edits", edits=[edit])
            assert reason(raised.value) == why


def every_edit(cell: str, source: str) -> list[tuple[str, dict[str, Any]]]:
    seen = {"cell_id": cell, "expected_source": source}
    return [
        ("replace_cell", {**seen, "new_source": "x"}),
        ("cell_str_replace", {"cell_id": cell, "old_str": source[:3], "new_str": "x"}),
        ("cell_insert_line", {**seen, "line": 1, "content": "x"}),
        ("cell_replace_lines", {**seen, "start_line": 1, "end_line": 1, "content": "x"}),
        ("delete_cell", seen),
        ("move_cell", {"cell_id": cell, "after_cell_id": "index:0"}),
        ("split_cell", {**seen, "line": 2}),
        ("set_cell_type", {**seen, "cell_type": "raw"}),
    ]


class TestRefusing:
    @pytest.mark.parametrize("cell", ["q", "a"])
    async def test_ai_cells(self, cell: str) -> None:
        async with calls(CELLS) as call:
            before = await call.seen()
            for name, arguments in every_edit(cell, call.shared.source(cell)):
                with pytest.raises(ToolError) as raised:
                    await call(name, **arguments)
                assert reason(raised.value) == "protected", name
            with pytest.raises(ToolError):
                await call("copy_cell", cell_id=cell, after_cell_id="last")
            assert await call.seen() == before

    @pytest.mark.parametrize(
        ("metadata", "edits", "deletes"),
        [
            ({"editable": False}, False, True),
            ({"deletable": False}, True, False),
            ({"nbgrader": {"locked": True}}, False, False),
            ({"nbgrader": {"locked": False, "solution": True}}, True, True),
            ({"editable": True, "deletable": True}, True, True),
        ],
    )
    async def test_locks(self, metadata: dict[str, Any], edits: bool, deletes: bool) -> None:
        cells = [code("x = 1\ny = 2", "other"), {**code("x = 1\ny = 2", "c"), "metadata": metadata}]
        async with calls(cells) as call:
            listed = json.loads((await call("list_cells")).text)["cells"][1]
            assert listed.get("locked", False) is not edits
        for name, arguments in every_edit("c", "x = 1\ny = 2"):
            async with calls(cells) as call:
                needs_edit = name not in ("delete_cell", "move_cell")
                needs_delete = name in ("delete_cell", "move_cell", "set_cell_type")
                allowed = (edits or not needs_edit) and (deletes or not needs_delete)
                if allowed:
                    await call(name, **arguments)
                    continue
                with pytest.raises(ToolError) as raised:
                    await call(name, **arguments)
                assert reason(raised.value) == "locked", name

    async def test_what_the_course_hides(self) -> None:
        secret = "x = 1\n### BEGIN SOLUTION\nsecret = 42\n### END SOLUTION\ny = 2"
        tagged = {**code("answer = 43", "tagged"), "metadata": {"tags": ["teacher"]}}
        cells = [{**code(secret, "solution"), "outputs": [STREAM]}, tagged, *CELLS]
        async with calls(cells, Policy(hidden_tags=frozenset({"teacher"}))) as call:
            before = await call.seen()
            read = [
                await call("list_cells", limit=50),
                await call("read_cell", cell_id="solution"),
                await call("read_cell", cell_id="tagged"),
                await call("find_cells", query="secret"),
                await call("find_cells", query="43"),
                await call("find_cells", query="x = 1"),
            ]
            for result in read:
                assert "42" not in result.text
                assert "answer = 43" not in result.text
            assert json.loads(read[3].text)["hits"] == []
            assert json.loads(read[4].text)["hits"] == []
            assert [hit["id"] for hit in json.loads(read[5].text)["hits"]] == ["solution"]
            for cell, source in (("solution", secret), ("tagged", "answer = 43")):
                with pytest.raises(ToolError, match="hidden"):
                    await call("read_output", cell_id=cell)
                for name, arguments in every_edit(cell, source):
                    with pytest.raises(ToolError) as raised:
                        await call(name, **arguments)
                    assert "42" not in raised.value.message
                    assert reason(raised.value) == "hidden", name
                with pytest.raises(ToolError):
                    await call("copy_cell", cell_id=cell, after_cell_id="last")
            assert await call.seen() == before

    async def test_copies_are_no_second_grade(self) -> None:
        graded = {**code("x = 1\ny = 2", "c"), "metadata": {"nbgrader": {"grade_id": "g"}}}
        async with calls([graded]) as call:
            new = (await call("copy_cell", cell_id="c", after_cell_id="c")).cells[0]
            await call("split_cell", cell_id="c", line=2, expected_source="x = 1\ny = 2")
            cells = await call.seen()
            graded_ids = [cell["id"] for cell in cells if "nbgrader" in cell["metadata"]]
            assert (graded_ids, len(cells)) == (["c"], 3)
            assert call.shared.source(new) == "x = 1\ny = 2"

    async def test_a_cell_somebody_is_in_stays(self) -> None:
        async with MemoryRooms() as rooms:
            shared = await rooms.add("notebook.ipynb", CELLS)
            async with rooms.join(shared.path) as ours, rooms.join(shared.path) as theirs:
                state = {
                    "user": {"username": "bob", "name": "Bob", "display_name": "Bob B."},
                    "cursors": end_cursor(theirs.peer.index, CellId("code")),
                }
                await theirs.peer.set_awareness(state)
                await ours.peer.changed_until(lambda: bool(ours.peer.others()))
                call = Calls(Notebook(ours.peer), shared)
                for name, arguments in every_edit("code", LINES):
                    if name not in ("delete_cell", "move_cell", "set_cell_type"):
                        continue
                    with pytest.raises(ToolError, match="Bob B. has the cursor"):
                        await call(name, **arguments)
                await call("cell_str_replace", cell_id="code", old_str="a = 1", new_str="a = 2")
                assert (await call.source("code")).startswith("a = 2")
                # Agents' cursors stand everywhere and mean nothing.
                await theirs.peer.set_awareness({**state, "user": AgentUser().shown()})
                await ours.peer.changed_until(
                    lambda: all(user.get("agent") for user in ours.peer.others())
                )
                source = await call.source("code")
                await call("delete_cell", cell_id="code", expected_source=source)

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("read_cell", {}),
            ("read_cell", {"cell_id": "x" * 201}),
            ("insert_code", {"content": ""}),
            ("insert_code", {"content": "x" * 32_001}),
            ("list_cells", {"limit": 51}),
            ("list_cells", {"limit": "many"}),
            ("find_cells", {"query": "x", "cell_type": "sql"}),
            ("move_cell", {"cell_id": "code"}),
            ("apply_edits", {"edits": [{"tool": "x", "arguments": {}}] * 21}),
            ("read_cell", {"cell_id": "code", "more": 1}),
        ],
    )
    async def test_arguments_out_of_bounds(self, name: str, arguments: dict[str, Any]) -> None:
        async with calls(CELLS) as call:
            with pytest.raises(ToolError) as raised:
                await call(name, **arguments)
            assert reason(raised.value) == "bad-arguments"

    async def test_a_cell_that_would_become_endless(self) -> None:
        async with calls([code("x" * 990_000, "c")]) as call:
            with pytest.raises(ToolError, match="1,000,000"):
                await call(
                    "cell_insert_line",
                    cell_id="c",
                    line=1,
                    content="y" * 20_000,
                    expected_source=short_hash("x" * 990_000),
                )


class TestPreviews:
    async def test_a_diff_and_nothing_written(self) -> None:
        async with calls(CELLS) as call:
            before = await call.seen()
            shown = await call.preview(
                "cell_str_replace", cell_id="code", old_str="b = 2", new_str="b = 3"
            )
            assert shown.cell_id == "code"
            assert shown.diff is not None
            assert shown.diff.splitlines()[2:] == [
                "@@ -1,3 +1,3 @@",
                " a = 1",
                "-b = 2",
                "+b = 3",
                " c = 3",
            ]
            shown = await call.preview("delete_cell", cell_id="last", expected_source="print(1)")
            assert shown.diff is not None
            assert "-print(1)" in shown.diff
            shown = await call.preview("insert_code", content="new")
            assert shown.cell_id is None
            assert "+new" in (shown.diff or "")
            assert await call.seen() == before

    async def test_what_cannot_be_done_is_not_asked_for(self) -> None:
        async with calls(CELLS) as call:
            with pytest.raises(SourceChanged):
                await call.preview("delete_cell", cell_id="last", expected_source="no")


async def test_every_edit_has_a_preview() -> None:
    assert all(tool.preview is not None for tool in TOOLS.values() if tool.writes)
    assert len(TOOLS) == 17
