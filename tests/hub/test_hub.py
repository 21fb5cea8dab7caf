"""A real JupyterHub: a shared course server, two students, an instructor, and its culler."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.hub.running import BASE, Hub, Json, running_hub, waited
from tests.vendor.plugin import Vendor, running_vendor

pytestmark = pytest.mark.timeout(180)

COURSE = "course"


@pytest.fixture(scope="module")
def vendor_of_hub() -> Iterator[Vendor]:
    with running_vendor() as vendor:
        yield vendor


@pytest.fixture(scope="module")
def hub(vendor_of_hub: Vendor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a course and its server, and a named server of one student's own."""
    state = tmp_path_factory.mktemp("hub")
    with running_hub(state, vendor_of_hub.v1, instructors="grace", students="ada bob") as hub:
        for name in (COURSE, "ada", "bob", "grace", "mallory"):
            if name in (COURSE, "mallory"):
                hub.api("POST", f"/users/{name}")
        hub.start(COURSE)
        try:
            yield hub
        except BaseException:
            print((state / "hub.log").read_text()[-8000:])
            raise


def stalls(question: str = "What is this?") -> str:
    return Vendor.prompt(question, deltas=["Some ", "words ", "and"], stall={"after": 3})


def test_a_course(hub: Hub, vendor_of_hub: Vendor) -> None:
    ada, bob = hub.person("ada", COURSE), hub.person("bob", COURSE)
    grace = hub.person("grace", COURSE)

    # Who is not in the course does not get in.
    assert hub.person("mallory", COURSE).request("GET", "/nbinline/status")[0] == 403
    _, status = ada.request("GET", "/nbinline/status")
    assert status["ready"] is True
    assert status["recording"]["may_watch"] is False
    assert grace.request("GET", "/nbinline/status")[1]["recording"]["may_watch"] is True

    # A student asks; the author is who the hub says.
    start = grace.request("GET", "/nbinline/activity")[1]
    ada.write(stalls(), Vendor.prompt(text="Yes."))
    run_id = ada.ask()
    run = ada.until(run_id, "streaming")
    assert run["author"]["username"] == "ada"

    # The instructor watches live; the other student does not see it.
    seen: list[Json] = []
    cursor = start["last_seq"]
    while not any(event["data"].get("status") == "streaming" for event in seen):
        code, page = grace.request("GET", "/nbinline/activity", after=cursor, wait=10)
        assert code == 200
        cursor, seen = page["last_seq"], [*seen, *page["events"]]
    assert {event["run_id"] for event in seen if "run_id" in event} == {run_id}
    assert bob.request("GET", "/nbinline/activity")[1]["runs"] == []
    assert bob.request("GET", f"/nbinline/runs/{run_id}/transcript")[0] == 403

    # The student reloads the page, by cookies and the hub's login, and is told how it stands.
    page = hub.logged_in("ada", COURSE)
    assert page.request("GET", "/lab")[0] == 200
    assert page.run(run_id)["status"] == "streaming"
    assert page.request("GET", "/api/me")[1]["identity"]["username"] == "ada"

    # The instructor stops it, and pauses the class; the student is told by whom.
    assert grace.request("DELETE", f"/nbinline/runs/{run_id}")[0] == 202
    assert ada.until(run_id, "cancelled", seconds=5)["status"] == "cancelled"
    assert bob.request("PUT", "/nbinline/pauses", {"path": ""})[0] == 403
    assert grace.request("PUT", "/nbinline/pauses", {"path": "", "reason": "exam"})[0] == 200
    code, told = ada.request("POST", "/nbinline/runs", {"path": "a.ipynb", "cell_id": "p1"})
    assert (code, told["error"]["code"]) == (409, "ai-paused")
    assert grace.request("DELETE", "/nbinline/pauses", path="")[0] == 200
    assert ada.until(ada.ask("p1"), "done", "error")["status"] == "done"

    # What the instructor did stands in the record, and the student can read it.
    _, told = ada.request("GET", f"/nbinline/runs/{run_id}/events")
    who = {(e["type"], e["username"]) for e in told["events"] if "username" in e}
    assert who == {("watched", "grace"), ("stopped", "grace")}
    _, told = grace.request("GET", "/nbinline/transcripts")
    assert len(told["transcripts"]) == 2


def test_a_token_that_expires_does_not_end_the_run(hub: Hub) -> None:
    brief = hub.person("ada", COURSE, seconds=6)
    brief.write(stalls(), path="token.ipynb")
    run_id = brief.ask(path="token.ipynb")
    brief.until(run_id, "streaming")
    refused = waited(
        lambda: brief.request("GET", "/nbinline/status")[0], lambda code: code != 200, 30
    )
    assert refused == 403
    again = hub.person("ada", COURSE)
    assert again.run(run_id)["status"] == "streaming"
    assert again.request("DELETE", f"/nbinline/runs/{run_id}")[0] == 202
    assert again.until(run_id, "cancelled")["author"]["username"] == "ada"


def test_the_culler_leaves_a_running_run_alone(hub: Hub) -> None:
    """On a named server, below its own base URL; nobody looks while it runs."""
    hub.start("bob", "project")
    bob = hub.person("bob", "bob", "project")
    assert bob.server == f"{BASE}/user/bob/project"
    bob.write(stalls())
    run_id = bob.ask()
    bob.until(run_id, "streaming")
    time.sleep(15)  # well beyond the time after which it would be culled
    assert hub.ready("bob", "project")
    assert bob.run(run_id)["status"] == "streaming"
    assert bob.request("DELETE", f"/nbinline/runs/{run_id}")[0] == 202
    waited(lambda: hub.ready("bob", "project"), lambda ready: not ready, 60)
