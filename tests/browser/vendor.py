"""Telling the fake vendor what to answer, from code that waits."""

from __future__ import annotations

from typing import Any

import httpx

from tests.vendor.plugin import Vendor
from tests.vendor.script import pieces


def queue(vendor: Vendor, *scripts: dict[str, Any]) -> None:
    """Scripts for the next model calls whose question holds none."""
    httpx.post(f"{vendor.url}/script", json=list(scripts), trust_env=False).raise_for_status()


def requests(vendor: Vendor) -> list[dict[str, Any]]:
    """The model calls that came since the last reset, oldest first."""
    told: list[dict[str, Any]] = httpx.get(f"{vendor.url}/requests", trust_env=False).json()[
        "requests"
    ]
    return told


def expected(**script: Any) -> str:
    """The whole answer that a script gives."""
    return "".join(pieces(script))
