"""Runs on a real server: real rooms, real files, the official SDK against a fake vendor."""

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from nbinline_rtc.handlers import ROUTES
from tests.extension.conftest import stopping, until
from tests.extension.running import Asker, source_of
from tests.vendor.plugin import Vendor

STALL = {"deltas": ["Some ", "words ", "and"], "stall": {"after": 3}}


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The server with our extension and one configured connection."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    server = jp_server_config["ServerApp"]
    server["jpserver_extensions"]["nbinline_rtc"] = True
    server["disable_check_xsrf"] = False
    del server["token"]
    jp_server_config["IdentityProvider"] = {"token": "a-token-of-this-test"}
    jp_server_config["NbinlineApp"] = {
        "openai_base_url": vendor.v1,
        "idle_seconds": 0.3,
        "silence_timeout": 20.0,
    }
    return jp_server_config


@pytest.fixture
def asker(jp_fetch: Any, jp_root_dir: Path, ydoc: Any, vendor: Vendor) -> Asker:
    """Somebody who asks."""
    return Asker(jp_fetch, jp_root_dir, ydoc, vendor)


async def test_an_answer_without_any_browser(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(deltas=["Hel", "lo ", "wörld 🙂"], rate=100))
        run = await asker.ended(await asker.ask())

        assert run["status"] == "done"
        assert run["error"] is None
        assert run["usage"]["output_tokens"] > 0
        await until(lambda: len(asker.saved()) == 3 and source_of(asker.saved()[-1]))
        question, answer = asker.saved()[1:]
        assert source_of(answer) == "Hello wörld 🙂"
        mark = answer["metadata"]["nbinlineai"]
        assert mark["promptCellId"] == question["id"]
        assert (mark["status"], mark["runId"]) == ("done", run["run_id"])
        assert mark["author"] == run["author"]["username"]
        assert answer["id"] == run["answer_cell_id"]


async def test_the_room_is_left_and_closed(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(text="Short."))
        await asker.ended(await asker.ask())
        rooms = asker.ydoc.ywebsocket_server.rooms
        await until(lambda: not any(key.startswith("json:") for key in rooms), 10)
        await until(lambda: asker.saved() and source_of(asker.saved()[-1]) == "Short.")


async def test_the_preview_is_what_is_sent(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(text="Yes."))
        body = {"path": "a.ipynb", "cell_id": "p0"}
        status, preview = await asker.request("POST", "context-preview", body)
        assert status == 200
        assert await asker.vendor.requests() == []

        run = await asker.ended(await asker.ask())

        assert run["report"]["request_sha256"] == preview["report"]["request_sha256"]
        [request] = await asker.vendor.requests()
        assert request["body"]["store"] is False


async def test_one_prompt_cannot_run_twice(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(**STALL))
        run_id = await asker.ask()
        for _ in range(3):
            status, told = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "p0"})
            assert (status, told["error"]["code"]) == (409, "run-active")
            assert told["error"]["run_id"] == run_id
        await asker.vendor.came()
        await asker.request("DELETE", f"runs/{run_id}")
        assert len(await asker.vendor.requests()) == 1


async def test_the_same_request_id_is_the_same_run(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(**STALL))
        first = await asker.ask(client_request_id="once")
        assert await asker.ask(client_request_id="once") == first
        await asker.request("DELETE", f"runs/{first}")


async def test_prompts_of_a_notebook_wait_in_order(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        vendor = asker.vendor
        asker.write(*(vendor.prompt(f"Q{n}", deltas=6, rate=60) for n in range(3)))
        runs = [await asker.ask(f"p{n}") for n in range(3)]
        document = await asker.document()
        await until(lambda: asker.status(document, "p2") == "queued")

        ended = [await asker.ended(run) for run in runs]

        assert [run["status"] for run in ended] == ["done"] * 3
        spans = [(run["started_at"], run["ended_at"]) for run in ended]
        assert spans[0][1] <= spans[1][0]
        assert spans[1][1] <= spans[2][0]


async def test_notebooks_do_not_wait_for_each_other(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(**STALL), path="a.ipynb")
        asker.write(asker.vendor.prompt(text="Quick."), path="b.ipynb")
        slow = await asker.ask(path="a.ipynb")
        quick = await asker.ended(await asker.ask(path="b.ipynb"))
        assert quick["status"] == "done"
        assert (await asker.run(slow))["status"] in ("preparing", "streaming")
        await asker.request("DELETE", f"runs/{slow}")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param({"header_delay": 60, "text": "Never."}, id="before the headers"),
        pytest.param({"delay": 60, "text": "Never."}, id="before the first word"),
        pytest.param(STALL, id="stalled in the middle"),
        pytest.param({"deltas": 5000, "rate": 50}, id="endless answer"),
    ],
)
async def test_a_run_ends_within_two_seconds(asker: Asker, script: dict[str, Any]) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(**script))
        run_id = await asker.ask()
        await asker.vendor.came()
        if "stall" in script or script.get("deltas") == 5000:
            await asker.reached(run_id, "streaming")
        began = time.monotonic()

        status, _ = await asker.request("DELETE", f"runs/{run_id}")
        run = await asker.ended(run_id)

        assert time.monotonic() - began < 2
        assert (status, run["status"]) == (202, "cancelled")
        assert asker.status(await asker.document()) == "cancelled"
        assert (await asker.vendor.ended())["disconnected"] is True
        again, told = await asker.request("DELETE", f"runs/{run_id}")
        assert (again, told["status"]) == (202, "cancelled")


async def test_a_queued_run_ends_at_once(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(**STALL), "Second?")
        first, second = await asker.ask("p0"), await asker.ask("p1")
        await asker.request("DELETE", f"runs/{second}")
        assert (await asker.run(second))["status"] == "cancelled"
        assert asker.status(await asker.document(), "p1") == "cancelled"
        assert (await asker.run(first))["live"] is True
        await asker.request("DELETE", f"runs/{first}")


async def test_the_old_answer_stays_until_the_first_word(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write("Which?")
        vendor = asker.vendor
        await vendor.script({"text": "The old answer."}, {"delay": 60, "text": "New."})
        await asker.ended(await asker.ask())
        document = await asker.document()

        second = await asker.ask()
        await vendor.came(1)
        assert source_of(asker.answer(document)) == "The old answer."
        await asker.request("DELETE", f"runs/{second}")
        assert source_of(asker.answer(document)) == "The old answer."

        await vendor.script({"text": "The new answer."})
        await asker.ended(await asker.ask())
        assert source_of(asker.answer(document)) == "The new answer."
        assert len(document.ycells) == 3


async def test_a_failure_is_said_and_the_old_answer_stays(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write("Which?")
        await asker.vendor.script({"text": "Good."}, {"status": 401})
        await asker.ended(await asker.ask())
        run = await asker.ended(await asker.ask())
        assert run["status"] == "error"
        assert run["error"]["code"] == "not-authenticated"
        document = await asker.document()
        answer = asker.answer(document)
        assert answer is not None
        assert source_of(answer) == "Good."
        mark = answer["metadata"]["nbinlineai"]
        assert mark["status"] == "error"
        assert mark["error"] == run["error"]


async def test_continue_goes_on_behind_what_stands(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write("Count.")
        await asker.vendor.script(
            {"deltas": ["one ", "two "], "cut": {"after": 2}}, {"deltas": ["three ", "four"]}
        )
        first = await asker.ended(await asker.ask())
        assert first["status"] == "error"

        status, told = await asker.request("POST", f"runs/{first['run_id']}/continue")
        assert status == 202
        second = await asker.ended(told["run_id"])

        assert second["status"] == "done"
        assert second["continues"] == first["run_id"]
        document = await asker.document()
        assert source_of(asker.answer(document)) == "one two three four"
        assert len(document.ycells) == 3
        status, told = await asker.request("POST", f"runs/{second['run_id']}/continue")
        assert (status, told["error"]["code"]) == (409, "nothing-to-continue")


async def test_a_kept_answer_makes_no_request(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write("Which?", metadata={"nbinlineai": {"defaults": {"keepAnswers": True}}})
        await asker.vendor.script({"text": "Kept."})
        first = await asker.ended(await asker.ask())
        status, told = await asker.request("POST", "runs", {"path": "a.ipynb", "cell_id": "p0"})
        assert (status, told["error"]["code"]) == (409, "answer-kept")
        assert told["error"]["answer_cell_id"] == first["answer_cell_id"]
        assert len(await asker.vendor.requests()) == 1


async def test_the_run_sees_what_the_asker_saw(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write("Draft?")
        document = await asker.document()
        question = "Final?"
        # The click overtakes the keystrokes: the request is sent before they arrive.
        page = type(document)()
        page.ydoc.apply_update(document.ydoc.get_update())
        source = page.ycells[1]["source"]
        with page.ydoc.transaction(origin="typing"):
            source.clear()
            source.insert(0, question)
        vector = base64.b64encode(page.ydoc.get_state()).decode()
        digest = hashlib.sha256(question.encode()).hexdigest()
        await asker.vendor.script({"text": "Seen."})

        async def typed() -> None:
            await until(lambda: asker.ydoc.ywebsocket_server.rooms)
            document.ydoc.apply_update(page.ydoc.get_update(document.ydoc.get_state()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(typed)
            run_id = await asker.ask(state_vector=vector, source_sha256=digest)
        run = await asker.ended(run_id)
        assert run["status"] == "done"
        [request] = await asker.vendor.requests()
        assert question in json.dumps(request["body"])
        assert "Draft" not in json.dumps(request["body"])


async def test_people_type_while_it_streams(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        deltas = [f"w{n} " for n in range(60)]
        asker.write(asker.vendor.prompt(deltas=deltas, rate=60))
        document = await asker.document()
        run_id = await asker.ask()
        await asker.reached(run_id, "streaming")
        await until(lambda: "w5" in source_of(asker.answer(document)))
        place = next(n for n, cell in enumerate(document.ycells) if n > 1)
        text = document.ycells[place]["source"]
        with document.ydoc.transaction(origin="person"):
            text.insert(0, "ABOVE ")
        with document.ydoc.transaction(origin="person"):
            text.insert(str(text).encode().index(b"w3"), "INSIDE ")
        with document.ydoc.transaction(origin="person"):
            text.insert(len(str(text).encode()), "BELOW")

        run = await asker.ended(run_id)

        assert run["status"] == "done"
        written = source_of(asker.answer(document))
        for word in ("ABOVE ", "INSIDE ", "BELOW"):
            assert written.count(word) == 1
            written = written.replace(word, "")
        assert written == "".join(deltas)


async def test_a_room_replaced_under_a_run_loses_nothing(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        deltas = [f"word{n} " for n in range(80)]
        asker.write(asker.vendor.prompt(deltas=deltas, rate=40))
        run_id = await asker.ask()
        document = await asker.document()
        await until(lambda: "word9 " in source_of(asker.answer(document)))
        await asker.ydoc.ywebsocket_server.delete_room(room=asker.room())

        run = await asker.ended(run_id)

        assert run["status"] == "done"
        document = await asker.document()
        assert source_of(asker.answer(document)) == "".join(deltas)
        await until(lambda: asker.saved() and source_of(asker.saved()[-1]) == "".join(deltas))
        assert len(document.ycells) == 3


async def test_a_deleted_answer_ends_the_run(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(asker.vendor.prompt(deltas=4000, rate=50))
        document = await asker.document()
        run_id = await asker.ask()
        await asker.reached(run_id, "streaming")
        with document.ydoc.transaction(origin="person"):
            del document.ycells[2]
        run = await asker.ended(run_id)
        assert run["status"] == "cancelled"
        assert run["error"]["code"] == "cell-gone"
        assert len(document.ycells) == 2


async def test_marks_that_others_left_are_settled(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        file = asker.write(asker.vendor.prompt(text="Fresh."))
        content = json.loads(file.read_text())
        content["cells"].append(
            {
                "cell_type": "markdown",
                "id": "old",
                "metadata": {
                    "nbinlineai": {
                        "isOutputCell": True,
                        "promptCellId": "gone",
                        "status": "running",
                    }
                },
                "source": "Half an ans",
            }
        )
        file.write_text(json.dumps(content))
        await asker.ended(await asker.ask())
        document = await asker.document()
        old = asker.cells(document)["old"]
        assert old["metadata"]["nbinlineai"]["status"] == "interrupted"
        assert source_of(old) == "Half an ans"


async def test_links_of_an_old_format_hold(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write("Which?", minor=4)
        document = await asker.document()
        prompt = document.ycells[1]["id"]
        await asker.vendor.script({"text": "First."}, {"text": "Second."})
        await asker.ended(await asker.ask(prompt))
        rooms = asker.ydoc.ywebsocket_server.rooms
        await until(lambda: asker.saved() and source_of(asker.saved()[-1]) == "First.")
        await asker.ydoc.ywebsocket_server.delete_room(room=asker.room())
        assert not rooms
        document = await asker.document()
        assert document.ycells[1]["id"] == prompt
        first = asker.answer(document, prompt)
        assert first is not None
        assert first["metadata"]["nbinlineai"]["note"] == "format-raised"
        await asker.ended(await asker.ask(prompt))
        assert len(document.ycells) == 3
        second = asker.answer(document, prompt)
        assert second is not None
        assert source_of(second) == "Second."
        assert "note" not in second["metadata"]["nbinlineai"]


async def test_an_emptied_document_is_refused(asker: Asker) -> None:
    async with stopping(asker.ydoc):
        asker.write(*(f"Question {n}?" for n in range(8)))
        await asker.vendor.script({"text": "One."}, {"text": "Two."})
        await asker.ended(await asker.ask("p7"))
        document = await asker.document()
        await until(lambda: asker.saved() and source_of(asker.saved()[-1]) == "One.")
        with document.ydoc.transaction(origin="fault"):
            for _ in range(6):
                del document.ycells[0]
        left = asker.cells(document)
        body = {"path": "a.ipynb", "cell_id": "p7"}
        status, told = await asker.request("POST", "runs", body)
        assert (status, told["error"]["code"]) == (409, "document-suspect")
        assert asker.cells(document) == left
        run = await asker.ended(await asker.ask("p7", override={"acknowledge": True}))
        assert run["status"] == "done"


async def test_no_key_ever_comes_out(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    async with stopping(asker.ydoc):
        secret = "sk-saved-abcdefghijklmnop"
        asker.write("Which?")
        status, told = await asker.request("PUT", "settings/keys/openai_api", {"key": secret})
        assert (status, told) == (200, {"configured": True, "source": "saved"})
        await asker.vendor.script({"status": 401, "error": {"message": f"bad key {secret}"}})
        run = await asker.ended(await asker.ask())
        [request] = await asker.vendor.requests()
        headers = {name.lower(): value for name, value in request["headers"].items()}
        assert headers["authorization"] == f"Bearer {secret}"
        routes = ("status", "settings/keys", "runs", f"runs/{run['run_id']}/events")
        told_everywhere = [json.dumps(run), caplog.text, json.dumps(asker.saved())]
        told_everywhere += [json.dumps((await asker.request("GET", route))[1]) for route in routes]
        assert all(secret not in text for text in told_everywhere)
        status, told = await asker.request("DELETE", "settings/keys/openai_api")
        assert (status, told["source"]) == (200, "environment")


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in ROUTES])
async def test_every_route_asks_who_is_there(
    ydoc: Any, http_server_client: Any, jp_base_url: str, pattern: str
) -> None:
    handler = dict(ROUTES)[pattern]
    path = pattern.replace("([^/]+)", "x").replace("([a-z_]+)", "x").replace("(.*)", "x")
    async with stopping(ydoc):
        own = [m for m in ("get", "post", "put", "delete") if m in vars(handler)]
        assert own
        for method in own:
            answer = await http_server_client.fetch(
                jp_base_url.rstrip("/") + path,
                method=method.upper(),
                body="{}" if method in ("post", "put") else None,
                headers={"Content-Type": "application/json"},
                raise_error=False,
                follow_redirects=False,
            )
            assert answer.code in (302, 403), (method, path)


async def test_state_changing_requests_need_the_xsrf_token(
    asker: Asker, jp_serverapp: Any, http_server_client: Any, jp_base_url: str
) -> None:
    async with stopping(asker.ydoc):
        asker.write("Which?")
        login = await http_server_client.fetch(
            f"{jp_base_url}api/me?token={jp_serverapp.identity_provider.token}"
        )
        cookies = "; ".join(header.split(";")[0] for header in login.headers.get_list("Set-Cookie"))
        assert "username" in cookies
        answer = await http_server_client.fetch(
            f"{jp_base_url}nbinline/runs",
            method="POST",
            body=json.dumps({"path": "a.ipynb", "cell_id": "p0"}),
            headers={"Cookie": cookies},
            raise_error=False,
        )
        assert answer.code == 403
        assert await asker.vendor.requests() == []
