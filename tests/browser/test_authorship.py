"""Who had a cell edited is in the notebook, is seen on the cell, and can be taken out."""

from __future__ import annotations

import json
from typing import Any

from tests.browser.conftest import People
from tests.browser.lab import Lab
from tests.browser.notebooks import code, prompt, read, text

TOOLS = {"toolGroups": ["notebook"]}


def edit(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def test_edited_cells_say_so_until_it_is_taken_out(people: People, lab: Lab, write) -> None:
    calls = [
        edit("cell_str_replace", cell_id="code", old_str="1", new_str="2"),
        edit("insert_markdown", content="A note.", after_cell_id="code"),
    ]
    turns = [{"deltas": [], "tools": calls}, {"text": "Done."}]
    path = write(
        lab, code("code", "x = 1"), text("own", "Mine."), prompt("ask", turns=turns), nbinline=TOOLS
    )
    ada, ben = people.visit(lab, path), people.visit(lab, path, "bob")
    ada.run("ask")
    answer = ada.wait_status("ask", "done")
    name = ada.page.evaluate("() => jupyterapp.serviceManager.user.identity.display_name")
    (note,) = [each["id"] for each in ada.cells() if each["source"] == "A note."]
    for page in (ada, ben):
        mark = page.node("code").get_by_role("img", name="Edited by")
        said = mark.get_attribute("title").splitlines()
        assert said[:2] == [f"Edited by {answer['mark']['model']}", f"asked by {name}"]
        assert said[3] == f"run {answer['mark']['runId']}"
        page.node(note).get_by_role("img", name="Written by").wait_for()
        assert page.node("own").locator(".nbinline-EditedMark").count() == 0
        title = page.bar(answer["id"]).locator(".nbinline-CellBar-title").first
        assert f"asked by {name}" in title.get_attribute("title")

    # It is saved with the notebook, and taken out of it in one go.
    saved = lab.work / path
    ada.until(lambda: "editedBy" in saved.read_text())
    by_id = {cell["id"]: cell for cell in read(saved)}
    edited = by_id["code"]["metadata"]["nbinlineai"]["editedBy"]
    assert edited["runId"] == answer["mark"]["runId"]
    assert by_id[note]["metadata"]["nbinlineai"]["editedBy"]["made"] is True
    assert by_id[answer["id"]]["metadata"]["nbinlineai"]["authorName"] == name

    ada.command("nbinline:strip-authorship")
    ada.page.get_by_role("button", name="Take out").click()
    ben.wait("() => nbt.cells().every(cell => cell.mark?.editedBy === undefined)")
    ben.node("code").locator(".nbinline-EditedMark").wait_for(state="detached")
    marks = json.dumps([each["mark"] for each in ben.cells()])
    assert "runId" not in marks
    assert answer["mark"]["author"] not in marks
    assert ben.answer("ask")["mark"] == {
        "isOutputCell": True,
        "promptCellId": "ask",
        "status": "done",
    }
