"""The fake vendor as a pytest fixture, for every kind of test and for the benches."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

SERVER = Path(__file__).with_name("server.py")


class Vendor:
    """A running fake vendor.

    Attributes:
        url: Root of the server; also the base URL of the ``anthropic`` adapter.
        v1: Base URL of the ``openai`` and ``chat`` adapters.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.v1 = f"{url}/v1"

    def base_url(self, kind: str) -> str:
        """The base URL an adapter is given."""
        return self.url if kind == "anthropic" else self.v1

    @staticmethod
    def prompt(question: str = "What is this?", **script: Any) -> str:
        """A question that carries its script."""
        return f"{question}\n\n{json.dumps({'vendor': script})}"

    async def script(self, *scripts: dict[str, Any]) -> None:
        """Queue scripts for the next requests without one of their own."""
        async with self._client() as client:
            (await client.post(f"{self.url}/script", json=list(scripts))).raise_for_status()

    async def requests(self) -> list[dict[str, Any]]:
        """What came since the last reset, oldest first."""
        async with self._client() as client:
            told: list[dict[str, Any]] = (await client.get(f"{self.url}/requests")).json()[
                "requests"
            ]
            return told

    async def ended(self, number: int = 0, wait: float = 5.0) -> dict[str, Any]:
        """One request once it has ended, or after ``wait`` seconds as it is."""
        return await self._request(number, wait, "ended")

    async def came(self, number: int = 0, wait: float = 5.0) -> dict[str, Any]:
        """One request once it is there."""
        return await self._request(number, wait, "came")

    async def _request(self, number: int, wait: float, until: str) -> dict[str, Any]:
        params: dict[str, str | float] = {"wait": wait, "until": until}
        async with self._client(wait + 5) as client:
            answer = await client.get(f"{self.url}/requests/{number}", params=params)
            told: dict[str, Any] = answer.raise_for_status().json()
            return told

    @staticmethod
    def _client(timeout: float = 5.0) -> httpx.AsyncClient:
        # Reading certificates takes longer than most of the tests that use this.
        return httpx.AsyncClient(trust_env=False, verify=False, timeout=timeout)

    def reset(self) -> None:
        """Forget requests, scripts and counters."""
        httpx.delete(f"{self.url}/requests", trust_env=False, verify=False).raise_for_status()


@contextmanager
def running_vendor() -> Iterator[Vendor]:
    """Run a fake vendor in a process of its own; it ends with this one."""
    command = [sys.executable, str(SERVER), "--port", "0", "--until-stdin-closes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Vendor(json.loads(process.stdout.readline())["url"])
        finally:
            process.stdin.close()
            process.wait(10)


@pytest.fixture(scope="session")
def vendor_process() -> Iterator[Vendor]:
    """One fake vendor for the whole session."""
    with running_vendor() as vendor:
        yield vendor


@pytest.fixture
def vendor(vendor_process: Vendor) -> Vendor:
    """The fake vendor, with nothing remembered."""
    vendor_process.reset()
    return vendor_process
