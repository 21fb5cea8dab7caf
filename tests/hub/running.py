"""A real JupyterHub with its proxy and single-user servers, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from nbformat.v4 import new_markdown_cell, new_notebook, writes

HERE = Path(__file__).parent
BASE = "/campus"
PROMPT = {"nbinlineai": {"isPromptCell": True}}

Json = dict[str, Any]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a token of the hub, on one server.

    Attributes:
        client: Sends requests as them.
        server: Path of the server, with its base URL.
    """

    client: httpx.Client
    server: str

    def request(self, method: str, route: str, body: Any = None, **params: Any) -> tuple[int, Any]:
        """Send a request to the server; status and what it says."""
        answer = self.client.request(
            method,
            f"{self.server}{route}",
            json=body,
            params=params or None,
            headers=self._against_forgery(),
        )
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    def _against_forgery(self) -> dict[str, str]:
        """What a page of the server adds to its requests beside the cookies."""
        found = [each for each in self.client.cookies.jar if each.name == "_xsrf"]
        ours = [each for each in found if f"{self.server}/".startswith(each.path)]
        nearest = max(ours, key=lambda each: len(each.path), default=None)
        return {"X-XSRFToken": nearest.value or ""} if nearest is not None else {}

    def write(self, *questions: str, path: str = "a.ipynb") -> None:
        """Write a notebook with questions p0, p1 and so on."""
        cells = [
            new_markdown_cell(text, id=f"p{number}", metadata=PROMPT)  # type: ignore[no-untyped-call]
            for number, text in enumerate(questions)
        ]
        notebook = json.loads(writes(new_notebook(cells=cells)))  # type: ignore[no-untyped-call]
        body = {"type": "notebook", "format": "json", "content": notebook}
        status, told = self.request("PUT", f"/api/contents/{path}", body)
        assert status in (200, 201), told

    def ask(self, cell: str = "p0", path: str = "a.ipynb") -> str:
        """Run a prompt; the run's id."""
        status, told = self.request("POST", "/nbinline/runs", {"path": path, "cell_id": cell})
        assert status == 202, told
        run_id: str = told["run_id"]
        return run_id

    def run(self, run_id: str) -> Json:
        """The run as it stands."""
        status, told = self.request("GET", f"/nbinline/runs/{run_id}")
        assert status == 200, told
        return dict(told)

    def until(self, run_id: str, *statuses: str, seconds: float = 30.0) -> Json:
        """The run once it has one of the statuses."""
        found = waited(lambda: self.run(run_id), lambda run: run["status"] in statuses, seconds)
        return dict(found)


def waited(look: Any, holds: Any, seconds: float = 30.0) -> Any:
    """What is seen once something holds.

    Raises:
        TimeoutError: It does not in time.
    """
    ends = time.monotonic() + seconds
    while True:
        seen = look()
        if holds(seen):
            return seen
        if time.monotonic() > ends:
            raise TimeoutError(seen)
        time.sleep(0.2)


@dataclass
class Hub:
    """A running hub.

    Attributes:
        url: Root of the proxy.
        password: Everybody's.
    """

    url: str
    token: str
    password: str
    _clients: list[httpx.Client] = field(default_factory=list)

    def client(self, **headers: str) -> httpx.Client:
        """An HTTP client that ends with the hub."""
        client = httpx.Client(
            base_url=self.url, headers=headers, trust_env=False, timeout=40, follow_redirects=True
        )
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close every client."""
        for client in self._clients:
            client.close()

    def api(self, method: str, route: str, body: Any = None) -> Any:
        """Ask the hub's own API as the tests' service."""
        with httpx.Client(trust_env=False, timeout=40) as client:
            answer = client.request(
                method,
                f"{self.url}{BASE}/hub/api{route}",
                json=body,
                headers={"Authorization": f"token {self.token}"},
            )
        assert answer.status_code < 400, answer.text
        return answer.json() if answer.content else None

    def start(self, user: str, server: str = "") -> None:
        """Start somebody's server and wait until it is ready."""
        route = f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
        self.api("POST", route)
        waited(lambda: self.ready(user, server), bool, 60)

    def ready(self, user: str, server: str = "") -> bool:
        """Whether somebody's server runs."""
        servers: Json = self.api("GET", f"/users/{user}?include_stopped_servers=1")["servers"]
        return bool(servers.get(server, {}).get("ready"))

    def person(self, name: str, owner: str, server: str = "", seconds: int | None = None) -> Person:
        """Somebody on somebody's server, by a token of their own."""
        body = {"expires_in": seconds} if seconds else {}
        token = self.api("POST", f"/users/{name}/tokens", body)["token"]
        path = f"{BASE}/user/{owner}" + (f"/{server}" if server else "")
        return Person(self.client(Authorization=f"token {token}"), path)

    def logged_in(self, name: str, owner: str) -> Person:
        """Somebody on somebody's server, by the login page and its cookies."""
        client = self.client()
        client.get(f"{BASE}/hub/login")
        xsrf = next(each.value for each in client.cookies.jar if each.name == "_xsrf")
        answer = client.post(
            f"{BASE}/hub/login",
            params={"_xsrf": xsrf},
            data={"username": name, "password": self.password},
        )
        assert answer.status_code == 200, answer.text[:500]
        page = client.get(f"{BASE}/user/{owner}/lab")
        if "oauth2/authorize" in str(page.url):  # the server is somebody else's: the hub asks once
            fields = dict(re.findall(r'name="(_xsrf|scopes)"[^>]*value="([^"]*)"', page.text))
            fields["scopes"] = re.findall(r'name="scopes"[^>]*value="([^"]*)"', page.text)
            page = client.post(str(page.url), data=fields, headers={"Referer": str(page.url)})
        assert page.status_code == 200, page.text[:500]
        assert str(page.url).endswith("/lab"), page.text[:3000]
        return Person(client, f"{BASE}/user/{owner}")


@contextmanager
def running_hub(state: Path, vendor: str, *, instructors: str, students: str) -> Iterator[Hub]:
    """Run a hub with everything below it; all of it ends with the block.

    Args:
        state: An empty folder.
        vendor: Base URL of the fake vendor.
        instructors: Usernames, with spaces between them.
        students: The same.
    """
    ports = free_ports(3)
    config = state / "config"
    config.mkdir(parents=True)
    (config / "jupyter_server_config.json").write_text(
        json.dumps(
            {
                "ServerApp": {"jpserver_extensions": {"nbinline_rtc": True}},
                "HubOAuth": {"cache_max_age": 1},
                "JupyterHubIdentityProvider": {},
            }
        )
    )
    shipped = HERE.parents[1] / "deploy" / "server-config"
    shutil.copy(shipped / "jupyter_jupyter_server_ydoc_config.json", config)
    token, password = secrets.token_hex(16), secrets.token_hex(8)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        "HUB_CONFIG_DIR": str(HERE),
        "HUB_STATE": str(state),
        "HUB_PORTS": json.dumps(ports),
        "HUB_TOKEN": token,
        "HUB_PASSWORD": password,
        "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
        "COURSE_INSTRUCTORS": instructors,
        "COURSE_STUDENTS": students,
        "CULL_AFTER": "10",
        "CULL_EVERY": "1",
        "OPENAI_API_KEY": "sk-test-0123456789abcdef",
        "OPENAI_BASE_URL": vendor,
    }
    hub = Hub(f"http://127.0.0.1:{ports[0]}", token, password)
    with (state / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", str(HERE / "jupyterhub_config.py")],
            cwd=state,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            waited(lambda: _answers(hub, process), bool, 60)
            yield hub
        finally:
            hub.close()
            _end(hub, process)


def _answers(hub: Hub, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the hub ended"
    try:
        hub.api("GET", "/")
    except (httpx.HTTPError, AssertionError):
        return False
    return True


def _end(hub: Hub, process: subprocess.Popen[bytes]) -> None:
    """The hub stops its servers, culler and proxy when it is told to end."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(45)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
