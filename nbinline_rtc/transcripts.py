"""A run as somebody reads it afterwards, and as a file: JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from nbinline_agent.journal import Journal, RunRecord, StoredEvent
from nbinline_agent.messages import JsonValue

from . import wire
from .watching import WATCHED

FORMATS: Mapping[str, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
}
"""What a transcript can be had as, with the type of its content."""

MOST_RUNS = 2_000
"""Runs of one export."""

ALL_EVENTS = 100_000

COLUMNS = (
    "run_id",
    "path",
    "username",
    "display_name",
    "created_at",
    "started_at",
    "ended_at",
    "status",
    "connection",
    "model",
    "input_tokens",
    "output_tokens",
    "steps",
    "tool_calls",
    "error",
    "question",
    "answer",
)
"""Of the table, one row a run."""

_FORMULA = re.compile(r"^[\s]*[=+\-@\t\r]")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, from the run's events."""

    call_id: str
    name: str
    arguments: str
    outcome: str = ""
    seconds: float | None = None
    summary: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """The call as clients see it."""
        return {
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments,
            "outcome": self.outcome,
            "seconds": self.seconds,
            "summary": self.summary,
        }


@dataclass(frozen=True, slots=True)
class Transcript:
    """One run with all that was recorded.

    Attributes:
        record: The run.
        question: Source of the question's cell as the file has it now; None if it is gone.
        answer: The answer's text as last recorded.
        events: Everything that happened, in order.
    """

    record: RunRecord
    question: str | None
    answer: str
    events: Sequence[StoredEvent] = field(default_factory=tuple)

    def calls(self) -> list[Call]:
        """The calls of tools, in order."""
        calls: dict[str, Call] = {}
        for event in self.events:
            data: Mapping[str, Any] = event.data
            key = str(data.get("call_id"))
            if event.type == "tool-called":
                calls[key] = Call(key, str(data.get("name")), str(data.get("arguments", "")))
            elif event.type == "tool-finished":
                begun = calls.get(key, Call(key, str(data.get("name")), ""))
                calls[key] = Call(
                    key,
                    begun.name,
                    begun.arguments,
                    str(data.get("outcome", "")),
                    data.get("seconds"),
                    str(data.get("summary", "")),
                )
        return list(calls.values())

    def to_json(self) -> dict[str, JsonValue]:
        """The transcript as clients see it."""
        asked = [event.data for event in self.events if event.type == "approval"]
        return {
            "run": wire.run_json(self.record),
            "question": self.question,
            "answer": self.answer,
            "calls": [call.to_json() for call in self.calls()],
            "approvals": wire.approvals_json(asked),
            "watched": [
                {**event.data, "at": wire.iso(event.at)}
                for event in self.events
                if event.type == WATCHED
            ],
            "events": [
                {**wire.shown(e), "seq": e.seq, "at": wire.iso(e.at), "type": e.type}
                for e in self.events
            ],
        }

    def row(self) -> dict[str, JsonValue]:
        """The transcript as one row of a table."""
        run = wire.run_json(self.record)
        return {
            **{name: run[name] for name in COLUMNS if name in run},
            "username": self.record.author.username,
            "display_name": self.record.author.display_name,
            "input_tokens": self.record.usage.input_tokens,
            "output_tokens": self.record.usage.output_tokens,
            "tool_calls": len(self.calls()),
            "error": self.record.error_code or "",
            "question": self.question or "",
            "answer": self.answer,
        }

    def to_markdown(self) -> str:
        """The transcript as a section; texts of people and models stand in fences."""
        record = self.record
        lines = [
            f"## {_plain(record.author.display_name)}, {wire.iso(record.created_at)}",
            "",
            f"- Notebook: {_plain(record.path)}",
            f"- Model: {_plain(record.model)} ({_plain(record.connection)})",
            f"- Ended: {record.status.value}, {wire.iso(record.ended_at) or 'not yet'}",
            f"- Tokens: {record.usage.input_tokens:,} in, {record.usage.output_tokens:,} out",
            f"- Run: {record.run_id}",
        ]
        if record.error_message:
            lines.append(f"- Error: {_plain(record.error_message)}")
        gone = "(the question's cell is gone)"
        lines += ["", "### Question", "", _fenced(self.question or gone, "markdown")]
        for call in self.calls():
            lines += ["", f"### {_plain(call.name)}: {call.outcome or 'not finished'}", ""]
            lines.append(_fenced(call.arguments, "json"))
            if call.summary:
                lines += ["", _fenced(call.summary)]
        lines += ["", "### Answer", "", _fenced(self.answer, "markdown"), ""]
        return "\n".join(lines)


def as_file(transcripts: Sequence[Transcript], form: str) -> str:
    """Several transcripts as the text of one file.

    Args:
        transcripts: In the order of the file.
        form: A key of ``FORMATS``.
    """
    if form == "csv":
        return _table(each.row() for each in transcripts)
    if form == "markdown":
        sections = "\n".join(each.to_markdown() for each in transcripts)
        return f"# AI runs\n\n{sections}"
    return json.dumps({"transcripts": [each.to_json() for each in transcripts]}, ensure_ascii=False)


async def transcripts(
    records: Iterable[RunRecord], journal: Journal, contents: Any
) -> list[Transcript]:
    """Read all that was recorded of runs.

    Args:
        records: Which.
        journal: Where they are recorded.
        contents: The server's contents manager: questions stand in the files.
    """
    questions: dict[str, dict[str, str]] = {}
    found = []
    for record in records:
        if record.path not in questions:
            questions[record.path] = await _sources(contents, record.path)
        events: list[StoredEvent] = []
        page = await journal.events(record.run_id, limit=ALL_EVENTS)
        events.extend(page.events)
        question = questions[record.path].get(record.prompt_cell_id)
        found.append(Transcript(record, question, await journal.text(record.run_id), events))
    return found


async def _sources(contents: Any, path: str) -> dict[str, str]:
    """The sources of a notebook's cells by id; none if it cannot be read."""
    try:
        model = await ensure_async(contents.get(path, content=True, type="notebook"))
    except (HTTPError, OSError):
        return {}
    return {cell.get("id", ""): cell["source"] for cell in model["content"]["cells"]}


def _table(rows: Iterable[Mapping[str, JsonValue]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def _cell(value: JsonValue) -> JsonValue:
    """A value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _plain(text: str) -> str:
    """Text on one line in which Markdown and HTML mean nothing."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>&])", r"\\\1", " ".join(text.split()))


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(each) for each in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
