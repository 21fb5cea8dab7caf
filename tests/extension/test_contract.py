"""The golden examples of ``tests/contract``: what the server really says has that shape.

The plugin's readers are given the same files (``lab/src/__tests__/contract.spec.ts``). A server may
say more than an example; it may not leave anything out, nor say it otherwise.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nbinline_agent.journal import EventPage, StoredEvent
from nbinline_rtc import wire
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker
from tests.vendor.plugin import Vendor

CONTRACT = Path(__file__).parents[1] / "contract"
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}Z|\+00:00)")
SHA256 = re.compile(r"[0-9a-f]{64}")
HASH = re.compile(r"[0-9a-f]{16}")
TIMES = frozenset({"at", "created_at", "started_at", "ended_at", "expires_at", "endedAt"})
DIGESTS = frozenset({"request_sha256", "inputs_sha256", "inputsSha256"})
FREE = frozenset(
    {
        *("message", "summary", "seconds", "version", "display_name", "on_behalf_of", "clock"),
        *("label", "model", "models", "default_model", "wording", "compact", "full", "learning"),
        *("input_tokens", "output_tokens", "cached_input_tokens", "thinking_tokens", "client"),
        *("used", "allowed", "fixed", "counter", "efforts", "images", "other_efforts"),
    }
)
"""Fields of which only the kind counts."""

EDIT = {
    "name": "cell_str_replace",
    "arguments": {"cell_id": "code", "old_str": "x = 1", "new_str": "x = 2"},
}
QUESTION = "Set $`x`. &`cell_str_replace` &`read_url`"
TURNS = [{"text": "I would.", "tools": [EDIT]}, {"text": "Done."}]
ASKING = {"nbinlineai": {"toolApproval": {"notebook": "ask"}}}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    jp_server_config["ServerApp"]["jpserver_extensions"]["nbinline_rtc"] = True
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, "idle_seconds": 0.3}
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


def golden(file: str, example: str, **names: str) -> Any:
    """An example in which the names stand for what is really there."""
    text = json.dumps(json.loads((CONTRACT / f"{file}.json").read_text("utf-8"))[example])
    for name, real in names.items():
        text = text.replace(f'"{name.replace("_", "-")}"', json.dumps(real))
    return json.loads(text)


def check(expected: Any, told: Any, at: str = "", key: str = "") -> None:
    """Whether what was told has all of the example, said in the same way."""
    assert type(told) is type(expected), f"{at}: {told!r}, not {expected!r}"
    if isinstance(expected, dict) and key not in FREE:
        missing = expected.keys() - told.keys()
        assert not missing, f"{at} lacks {missing}: {told}"
        for name, each in expected.items():
            check(each, told[name], f"{at}.{name}", name)
    elif isinstance(expected, list) and key not in FREE:
        assert len(told) == len(expected), f"{at}: {told}"
        for number, (one, other) in enumerate(zip(expected, told, strict=True)):
            check(one, other, f"{at}[{number}]")
    elif key in TIMES and expected is not None:
        assert ISO.fullmatch(told), f"{at}: {told}"
    elif key in DIGESTS:
        assert SHA256.fullmatch(told), f"{at}: {told}"
    elif isinstance(expected, str) and HASH.fullmatch(expected):
        assert HASH.fullmatch(told), f"{at}: {told}"
    elif key not in FREE:
        assert told == expected, f"{at}: {told!r}, not {expected!r}"


async def test_a_run_that_asks(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(QUESTION, turns=TURNS), metadata=ASKING)
        document = await asker.document()
        room = asker.room()
        start = {"path": "a.ipynb", "cell_id": "p0"}
        status, accepted = await asker.request("POST", "runs", start)
        assert status == 202
        run_1, answer_1 = accepted["run_id"], accepted["answer_cell_id"]
        check(golden("run", "accepted", run_1=run_1, answer_1=answer_1), accepted)

        await asker.reached(run_1, "waiting-approval")
        waiting = await asker.run(run_1)
        names = {
            "run_1": run_1,
            "answer_1": answer_1,
            "approval_1": waiting["approvals"][0]["approval_id"],
            "file_1": waiting["file_id"],
            "person_1": waiting["author"]["username"],
        }
        check(golden("run", "waiting", **names), waiting)

        def mark() -> dict[str, Any]:
            answer = asker.answer(document)
            assert answer is not None
            found: dict[str, Any] = answer["metadata"]["nbinlineai"]
            return found

        await until(lambda: "approvalId" in mark())
        check(golden("document", "waiting", **names), mark())
        await until(lambda: agent(room)["nbinline"]["status"] == "waiting-approval")
        check(golden("document", "presence", **names), agent(room))
        refused = await asker.request("POST", "runs", start)
        check(golden("errors", "run-active", **names), told_error(*refused))

        route = f"runs/{run_1}/approvals/{names['approval_1']}"
        status, answered = await asker.request("POST", route, {"allow": True})
        assert status == 202
        check(golden("run", "answered", **names), answered)
        refused = await asker.request("POST", route, {"allow": True})
        check(golden("errors", "approval-answered"), told_error(*refused))

        check(golden("run", "done", **names), await asker.ended(run_1))
        check(golden("document", "done", **names), mark())
        assert "approvalId" not in mark()
        _, page = await asker.request("GET", f"runs/{run_1}/events")
        check(golden("events", "page", **names), page)
        _, page = await asker.request("GET", f"runs/{run_1}/events", params={"after": 16})
        check(golden("events", "rest"), page)
        _, inputs = await asker.request("GET", "inputs", params={"run": run_1})
        expected = golden("run", "inputs")
        check({"inputs": {run_1: expected["inputs"]["run-1"]}}, inputs)
        _, listed = await asker.request("GET", "runs", params={"path": "a.ipynb"})
        assert [each["run_id"] for each in listed["runs"]] == [run_1]


def agent(room: Any) -> dict[str, Any]:
    """The agent's entry among those of everybody in the room."""
    states = room.awareness.states.values()
    found = [each for each in states if each.get("user", {}).get("agent") is True]
    return found[0] if found else {"nbinline": {"status": ""}}


def told_error(status: int, body: dict[str, Any]) -> dict[str, Any]:
    return {"http": status, "body": body}


async def test_a_run_that_fails(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        refusal = {"status": 401, "error": {"message": "no such key"}}
        asker.write("First", asker.vendor.prompt("Second", **refusal))
        run_2 = await asker.ask("p1")
        failed = await asker.ended(run_2)
        names = {
            "run_2": run_2,
            "answer_2": failed["answer_cell_id"],
            "person_1": failed["author"]["username"],
        }
        check(golden("run", "failed", **names), failed)
        answer = asker.answer(await asker.document(), "p1")
        assert answer is not None
        check(golden("document", "failed", **names), answer["metadata"]["nbinlineai"])


async def test_what_a_run_would_send(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(QUESTION, turns=TURNS), "Next?")
        body = {"path": "a.ipynb", "cell_id": "p0"}
        status, told = await asker.request("POST", "context-preview", body)
        assert status == 200
        check(golden("preview", "report"), told["report"])


@pytest.mark.parametrize(
    ("example", "route"),
    [("status", "status"), ("keys", "settings/keys"), ("styles", "settings/styles")],
)
async def test_what_the_server_offers(asker: Asker, example: str, route: str) -> None:
    async with stopping(asker.ydoc):
        status, told = await asker.request("GET", route)
        assert status == 200
        check(golden("status", example), told)


async def test_refusals(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt("Go", text="Yes."))
        run_1 = await asker.ask()
        answer_1 = (await asker.ended(run_1))["answer_cell_id"]
        document = await asker.document()
        check(golden("document", "question"), asker.cells(document)["p0"]["metadata"]["nbinlineai"])
        stale = {"path": "a.ipynb", "cell_id": "p0", "source_sha256": "0" * 64}
        for code, method, path, body in (
            ("bad-request", "POST", "runs", {"path": "a.ipynb"}),
            ("unknown-run", "GET", "runs/none", None),
            ("unknown-notebook", "POST", "runs", {"path": "b.ipynb", "cell_id": "p0"}),
            ("not-caught-up", "POST", "runs", stale),
        ):
            refused = await asker.request(method, path, body)
            check(golden("errors", code), told_error(*refused))
        with document.ydoc.transaction(origin="person"):
            keep = {"nbinlineai": {"isPromptCell": True, "keepAnswer": True}}
            document.ycells[1]["metadata"].update(keep)
        refused = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "p0"})
        check(golden("errors", "answer-kept", answer_1=answer_1), told_error(*refused))


def test_a_page_of_many_events_says_where_to_go_on() -> None:
    events = [StoredEvent(number, 0.0, "progress", {}) for number in (4, 5)]
    told = wire.events_json(EventPage(events, 9, gap=True))
    assert (told["last_seq"], told["gap"], told["more"]) == (5, True, True)
    told = wire.events_json(EventPage([], 9, gap=False))
    assert (told["last_seq"], told["more"]) == (9, False)


def test_the_check_can_fail() -> None:
    example = golden("run", "accepted")
    check(example, {**example, "more": 1})
    for wrong in (
        {**example, "status": "sent"},
        {**example, "run_id": None},
        {"run_id": "run-1", "status": "queued"},
    ):
        with pytest.raises(AssertionError):
            check(example, wrong)
