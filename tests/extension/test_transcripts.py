"""Transcripts: what they hold, who may read them, and that they are safe to open."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from nbinline_agent.ids import CellId, FileId, NotebookPath, RunId
from nbinline_agent.journal import Author, RunRecord, RunStatus, StoredEvent
from nbinline_rtc.transcripts import COLUMNS, Transcript, as_file
from tests.extension.conftest import stopping
from tests.extension.people import NamedByHeader, People, people
from tests.vendor.plugin import Vendor

EDIT = {
    "name": "cell_str_replace",
    "arguments": {"cell_id": "code", "old_str": "x = 1", "new_str": "x = 2"},
}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A course server of the account ``teacher``."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("JUPYTERHUB_USER", "teacher")
    server = jp_server_config["ServerApp"]
    server["jpserver_extensions"]["nbinline_rtc"] = True
    server["identity_provider_class"] = NamedByHeader
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, "idle_seconds": 0.3}
    return jp_server_config


async def test_a_transcript_in_every_form(
    jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor
) -> None:
    person: People = people(jp_fetch, jp_root_dir, ydoc, vendor)
    ada, bob, teacher = person("ada"), person("bob"), person("teacher")
    async with stopping(ydoc):
        turns = [{"text": "Setting. ", "tools": [EDIT]}, {"text": "Done."}]
        ada.write(vendor.prompt("Set $`x`. &`cell_str_replace`", turns=turns))
        run_id = await ada.ask()
        assert (await ada.ended(run_id))["status"] == "done"

        route = f"runs/{run_id}/transcript"
        status, told = await bob.request("GET", route)
        assert (status, told["error"]["code"]) == (403, "not-allowed")
        assert (await bob.request("GET", "transcripts"))[1] == {"transcripts": []}
        assert (await ada.request("GET", route, params={"format": "pdf"}))[0] == 400

        _, told = await teacher.request("GET", route)
        [transcript] = told["transcripts"]
        assert transcript["run"]["author"]["username"] == "ada"
        assert transcript["question"].startswith("Set $`x`.")
        assert transcript["answer"].endswith("Done.")
        [call] = transcript["calls"]
        assert (call["name"], call["outcome"]) == ("cell_str_replace", "ok")
        assert "x = 2" in call["arguments"]
        assert [each["username"] for each in transcript["watched"]] == ["teacher"]
        await teacher.request("GET", "transcripts", params={"path": "a.ipynb"})
        _, told = await ada.request("GET", "transcripts")
        [transcript] = told["transcripts"]
        assert [each["what"] for each in transcript["watched"]] == ["transcript", "transcript"]
        assert (await teacher.request("GET", "transcripts", params={"path": "b"}))[1] == {
            "transcripts": []
        }

        fetched = await _text(jp_fetch, run_id, "csv")
        [row] = csv.DictReader(io.StringIO(fetched))
        assert tuple(row) == COLUMNS
        assert (row["username"], row["tool_calls"], row["status"]) == ("ada", "1", "done")
        fetched = await _text(jp_fetch, run_id, "markdown")
        assert "### cell\\_str\\_replace: ok" in fetched
        assert "Done." in fetched


async def _text(fetch: Any, run_id: str, form: str) -> str:
    answer = await fetch(
        *("nbinline", "runs", run_id, "transcript"),
        params={"format": form},
        headers={"X-Test-User": "ada"},
    )
    assert "attachment" in answer.headers["Content-Disposition"]
    text: str = answer.body.decode()
    return text


def transcript(question: str, answer: str, *events: StoredEvent) -> Transcript:
    record = RunRecord(
        run_id=RunId("run-1"),
        path=NotebookPath("=cmd.ipynb"),
        file_id=FileId("file-1"),
        prompt_cell_id=CellId("p0"),
        answer_cell_id=None,
        status=RunStatus.DONE,
        author=Author("ada", "<img src=x>"),
        connection="openai_api",
        model="m",
        created_at=0.0,
    )
    return Transcript(record, question, answer, events)


def test_no_cell_of_the_table_is_a_formula() -> None:
    text = as_file([transcript("=HYPERLINK(1)", "\t@SUM(1)")], "csv")
    [row] = csv.DictReader(io.StringIO(text))
    assert row["path"] == "'=cmd.ipynb"
    assert row["question"] == "'=HYPERLINK(1)"
    assert row["answer"] == "'\t@SUM(1)"


def test_nothing_gets_out_of_its_fence() -> None:
    text = as_file(
        [transcript("```\n# Owned", "````python\n![x](http://x.test/y.png)")], "markdown"
    )
    assert "`````markdown\n````python" in text
    assert "\n````markdown\n```\n# Owned\n````\n" in text
    assert "## \\<img src=x\\>" in text


def test_a_call_that_never_finished_is_there() -> None:
    called = StoredEvent(1, 0.0, "tool-called", {"call_id": "c", "name": "run_cell"})
    told = json.loads(as_file([transcript("q", "a", called)], "json"))
    assert told["transcripts"][0]["calls"][0]["outcome"] == ""
