"""Events for operators: what is said, what never is, and that the schemas hold."""

import asyncio
import io
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from jupyter_events import EventLogger

from nbinline_rtc.liveliness import stay_lively
from nbinline_rtc.operator_events import PREFIX, SCHEMAS, OperatorEvents
from tests.extension.conftest import stopping, until
from tests.extension.people import NamedByHeader, People, people
from tests.vendor.plugin import Vendor

KEY = "sk-test-0123456789abcdef"
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
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("JUPYTERHUB_USER", "teacher")
    server = jp_server_config["ServerApp"]
    server["jpserver_extensions"]["nbinline_rtc"] = True
    server["identity_provider_class"] = NamedByHeader
    jp_server_config["NbinlineApp"] = {"openai_base_url": vendor.v1, "idle_seconds": 0.3}
    return jp_server_config


async def test_what_operators_read(
    jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor, jp_serverapp: Any
) -> None:
    out = io.StringIO()
    jp_serverapp.event_logger.register_handler(logging.StreamHandler(out))
    broadcast: list[str] = []

    async def subscriber(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        broadcast.append(schema_id)

    person: People = people(jp_fetch, jp_root_dir, ydoc, vendor)
    ada, teacher = person("ada"), person("teacher")
    async with stopping(ydoc):
        asking = {"nbinlineai": {"toolApproval": {"notebook": "ask"}}}
        turns = [{"text": "Setting. ", "tools": [EDIT]}, {"text": "Done with it."}]
        question = vendor.prompt("Set $`x`, a private matter. &`cell_str_replace`", turns=turns)
        ada.write(question, metadata=asking)
        await ada.request("GET", "status")
        jp_serverapp.event_logger.add_listener(listener=subscriber)
        run_id = await ada.ask()
        await ada.reached(run_id, "waiting-approval")
        [approval] = (await ada.run(run_id))["approvals"]
        answer = f"runs/{run_id}/approvals/{approval['approval_id']}"
        assert (await person("bob").request("POST", answer, {"allow": True}))[0] == 403
        assert (await ada.request("POST", answer, {"allow": True}))[0] == 202
        assert (await ada.ended(run_id))["status"] == "done"
        await teacher.request("GET", f"runs/{run_id}/transcript")
        await teacher.request("PUT", "pauses", {"path": "a.ipynb"})
        status, _ = await ada.request("POST", "runs", {"path": "a.ipynb", "cell_id": "p0"})
        assert status == 409
        await until(lambda: '"ai-paused"' in out.getvalue())

        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        ours = [line for line in lines if line["__schema__"].startswith(PREFIX)]
        told = [
            (
                line["__schema__"].split("/")[-2],
                line.get("status")
                or line.get("outcome")
                or line.get("answer")
                or line.get("action")
                or line.get("code"),
            )
            for line in ours
        ]
        assert told == [
            ("run", "queued"),
            ("run", "preparing"),
            ("approval", "waiting"),
            ("refused", "not-yours"),
            ("approval", "allowed"),
            ("tool_call", "ok"),
            ("run", "done"),
            ("access", "read-transcript"),
            ("access", "paused"),
            ("refused", "ai-paused"),
        ]
        done = ours[6]
        assert (done["username"], done["path"]) == ("ada", "a.ipynb")
        assert done["output_tokens"] > 0
        assert ours[3]["route"] == "POST nbinline/runs/…/approvals/…"
        text = "".join(json.dumps(line) for line in ours)
        for secret in (KEY, "private matter", "x = 2", "Done with it"):
            assert secret not in text
        assert not [each for each in broadcast if each.startswith(PREFIX)]


def test_every_schema_is_registered_and_named_after_its_file() -> None:
    server = EventLogger()
    OperatorEvents(server)
    names = {path.stem for path in SCHEMAS.glob("*.yaml")}
    assert names == {"access", "approval", "refused", "run", "tool_call"}
    for name in names:
        assert f"{PREFIX}/{name}/v1" in server.schemas


async def test_a_run_is_activity() -> None:
    app = SimpleNamespace(settings={"last_activity_times": {}})
    running = 0
    task = asyncio.ensure_future(stay_lively(app, lambda: running, 0.01))
    try:
        await anyio.sleep(0.05)
        assert app.settings["last_activity_times"] == {}
        running = 1
        before = datetime.now(UTC)
        times: dict[str, datetime] = app.settings["last_activity_times"]
        await until(lambda: times.get("nbinline", before) > before)
    finally:
        task.cancel()
