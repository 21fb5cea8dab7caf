"""When a call is repeated, and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

from nbinline_agent.errors import ProviderError, RateLimited


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of a service or its SDK, told in our terms.

    Attributes:
        error: What the caller gets if the call is not repeated.
        again: Whether a repetition soon may help.
        after: Seconds the service asked to wait, or None if it did not say; 0 asks for one
            repetition at once.
    """

    error: ProviderError
    again: bool = False
    after: float | None = None


class Failed(Exception):
    """Carries a failure from an adapter to where retrying is decided; it never leaves providers."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error.code)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter; only ever used while nothing has streamed.

    Attributes:
        rate_limited: Repetitions when the service limits requests.
        unavailable: Repetitions for every other passing failure.
        first: Seconds before the first repetition, doubled each time.
        longest: Upper bound of that, in seconds.
        patience: Longest wait a service may ask for, in seconds; beyond it the call fails.
    """

    rate_limited: int = 4
    unavailable: int = 2
    first: float = 1.0
    longest: float = 30.0
    patience: float = 60.0

    def wait(self, failure: Failure, attempt: int) -> float | None:
        """Seconds before repetition number ``attempt`` (from 1), or None to give up."""
        limited = isinstance(failure.error, RateLimited)
        if not failure.again or attempt > (self.rate_limited if limited else self.unavailable):
            return None
        if failure.after is not None and (failure.after > 0 or attempt == 1):
            if failure.after > self.patience:
                return None
            # Never earlier than asked, and not all the waiting calls at the same moment.
            return failure.after + random.uniform(0.0, 0.1 * failure.after)
        backoff = min(self.longest, self.first * 2.0 ** (attempt - 1))
        return random.uniform(0.5 * backoff, backoff)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Read ``Retry-After`` (seconds or an HTTP date) or ``retry-after-ms``.

    Args:
        headers: Of the response, with names in any case.
        now: Seconds since the epoch, for dates; the clock's by default.

    Returns:
        Seconds to wait, not negative; None if the service does not say or cannot be understood.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(lower[name]) * unit
        except (KeyError, ValueError):
            continue
        if isfinite(seconds):
            return max(0.0, seconds)
    try:
        date = parsedate_to_datetime(lower["retry-after"])
    except (KeyError, ValueError, TypeError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - (time.time() if now is None else now))
