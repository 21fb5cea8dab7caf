"""One canonical, redacted log line a run, on the server's own log."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import structlog

from nbinline_agent.journal import RunRecord

HIDDEN = "[hidden]"

_KEY_FORMS = re.compile(
    r"""
      \b(?:sk|pk|rk)-[A-Za-z0-9_\-]{8,}          # OpenAI's, Anthropic's and look-alikes
    | (?<=\bbearer\s)[A-Za-z0-9._~+/=\-]{8,}     # authorisation headers
    | (?<=x-api-key['"]:\s['"])[^'"]+
    | (?<=x-api-key:\s)\S+
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SECRET_NAMES = re.compile(r"(?i)(?:api[_-]?key|authorization|secret|password|cookie)$")
_SHORTEST = 6


class Redactor:
    """Hides keys in text: known forms always, and every value it was told.

    It is called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def register(self, secret: str) -> None:
        """Hide this very value from now on; values under 6 characters would hide ordinary text."""
        if len(secret) < _SHORTEST or secret in self._values:
            return
        with self._lock:
            self._values |= {secret}
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def known(self) -> list[str]:
        """The values it was told, longer ones first."""
        return sorted(self._values, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text with every key replaced by ``[hidden]``."""
        if self._pattern is not None:
            text = self._pattern.sub(HIDDEN, text)
        return _KEY_FORMS.sub(HIDDEN, text)

    def value(self, value: Any) -> Any:
        """The same through lists and mappings; an entry named like a secret is hidden whole."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "replace"))
        if isinstance(value, Mapping):
            return {
                self.value(name): HIDDEN if _names_secret(name, item) else self.value(item)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))

    def __call__(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """A structlog processor; it stands behind the one that writes out tracebacks."""
        clean = self.value(event)
        assert isinstance(clean, dict)
        return clean

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"


class RedactionFilter(logging.Filter):
    """The same for records that do not come through structlog: other packages on the same log."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place; it is always let through."""
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        record.msg, record.args = self._redactor.text(message), None
        if record.exc_info:
            record.exc_text = record.exc_text or _FORMATTER.formatException(record.exc_info)
            # Formatters that cannot be trusted to use exc_text get no exception to write out.
            record.exc_info = None
        if record.exc_text:
            record.exc_text = self._redactor.text(record.exc_text)
        if record.stack_info:
            record.stack_info = self._redactor.text(record.stack_info)
        return True


_FORMATTER = logging.Formatter()


@contextlib.contextmanager
def logging_to(
    logger: logging.Logger, redactor: Redactor, *, as_json: bool = False
) -> Iterator[None]:
    """Send structlog's lines to this logger, and hide keys in all that its handlers write.

    Args:
        logger: The server's own.
        redactor: Knows the keys.
        as_json: One JSON object a line instead of ``key=value`` pairs.
    """
    guard = RedactionFilter(redactor)
    handlers = list(_handlers(logger))
    for handler in handlers:
        handler.addFilter(guard)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redactor,
            _renderer(as_json),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=lambda *names: logger,
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
        for handler in handlers:
            handler.removeFilter(guard)


@contextlib.contextmanager
def run_context(*, run: str, notebook: str, cell: str) -> Iterator[None]:
    """Every line logged inside carries these three; they follow into tasks started inside."""
    with structlog.contextvars.bound_contextvars(run=run, notebook=notebook, cell=cell):
        yield


def log_run(record: RunRecord) -> None:
    """Write the canonical line of an ended run: what it was, how it ended, what it cost.

    It holds no prompt text, no answer text and no key; times are in milliseconds.
    """
    ended = record.ended_at if record.ended_at is not None else record.created_at
    started = record.started_at if record.started_at is not None else ended
    structlog.get_logger().info(
        "run",
        run=record.run_id,
        notebook=record.path,
        cell=record.prompt_cell_id,
        status=record.status.value,
        connection=record.connection,
        model=record.model,
        author=record.author.username,
        queued_ms=round(1000 * (started - record.created_at)),
        duration_ms=round(1000 * (ended - started)),
        steps=record.steps,
        input_tokens=record.usage.input_tokens,
        output_tokens=record.usage.output_tokens,
        cached_input_tokens=record.usage.cached_input_tokens,
        thinking_tokens=record.usage.thinking_tokens,
        error=record.error_code,
    )


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Every handler a record of this logger reaches."""
    current: logging.Logger | None = logger
    while current is not None:
        yield from current.handlers
        current = current.parent if current.propagate else None


def _renderer(as_json: bool) -> structlog.typing.Processor:
    if as_json:
        return structlog.processors.JSONRenderer(sort_keys=True, ensure_ascii=False)
    return structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True)


def _names_secret(name: Any, item: Any) -> bool:
    return isinstance(name, str) and isinstance(item, str) and bool(_SECRET_NAMES.search(name))
