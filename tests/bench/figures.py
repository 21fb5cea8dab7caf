"""One measured figure beside what it must reach, and the machine it was measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure; smaller is better.

    Attributes:
        name: What was measured.
        measured: The value, in ``unit``.
        must: The most it may be; None for a figure that only explains others.
        unit: s, ms, bytes or a plain number.
    """

    name: str
    measured: float
    must: float | None
    unit: str

    @property
    def ok(self) -> bool:
        """Whether it reaches what it must."""
        return self.must is None or self.measured <= self.must

    def to_json(self) -> dict[str, Any]:
        """As printed."""
        fields = asdict(self)
        fields["measured"] = round(self.measured, 4)
        return {**fields, "ok": self.ok}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share (0 to 1) of the values lies.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def machine() -> dict[str, Any]:
    """What the figures depend on besides the code."""
    began = time.perf_counter()
    total = 0
    for number in range(2_000_000):
        total += number & 7
    loop = time.perf_counter() - began
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
        "loop_ms": round(loop * 1000, 1),
    }
