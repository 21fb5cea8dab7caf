"""The Codex runtime: OpenAI's ``codex app-server`` as a child process that speaks JSON lines.

The runtime comes with the optional package ``openai-codex``. Its own client for Python is made of
threads and cannot be cancelled in mid-answer, so the few messages that are needed are spoken here.
Nothing of the runtime's own is left on: no shell, no files, no network, no plug-ins, unless the
administrator wants it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from nbinline_agent.errors import NotConfigured, TimedOut, Unavailable

from . import __version__

START_DEADLINE = 30.0
"""Seconds until the runtime must have answered for the first time."""

ANSWER_DEADLINE = 30.0
"""Seconds an answer to a command may take."""

GOODBYE = 0.7
"""Seconds it has to end by itself; then its whole process group is killed."""

LONGEST_MESSAGE = 32_000_000
"""Bytes of one message."""

INSTALL = "Install it on the server: pip install 'nbinline-rtc[codex]'."

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")
"""Variables of the server's environment that the runtime gets; proxies besides."""

OFF = (
    *("shell_tool", "unified_exec", "apply_patch_freeform", "view_image", "js_repl", "code_mode"),
    *("apps", "plugins", "remote_plugin", "hooks", "skill_search", "multi_agent", "goals"),
    *("image_generation", "browser_use", "computer_use", "tool_suggest", "sleep_tool"),
    *("memories", "shell_snapshot", "remote_control", "unbounded_connection_retries"),
    *("api_key_model_discovery", "api_key_cyber_access_programs"),
)
"""Features of the runtime that have no place here."""

Message = dict[str, Any]


class RuntimeRefused(Exception):
    """The runtime answered a command with an error; the text is its own."""


@dataclass(frozen=True, slots=True)
class CodexSettings:
    """How the runtime is started.

    Attributes:
        home: Its private folder: sign-in and state.
        root: The server's root folder; only with a sandbox it works there.
        sandbox: ``off``, or one of the runtime's own: ``read-only``, ``workspace-write``,
            ``danger-full-access``.
        base_url: Where requests go instead of OpenAI; empty for OpenAI.
    """

    home: Path
    root: Path = Path()
    sandbox: str = "off"
    base_url: str = ""

    @property
    def installed(self) -> bool:
        """Whether the runtime is there."""
        return importlib.util.find_spec("codex_cli_bin") is not None

    @property
    def signed_in(self) -> bool:
        """Whether somebody signed in; no process is asked."""
        return (self.home / "auth.json").exists()

    @property
    def native(self) -> bool:
        """Whether the runtime may use a shell and files of its own."""
        return self.sandbox != "off"

    @property
    def host(self) -> str:
        """The machine that requests go to."""
        return urlsplit(self.base_url).hostname or "chatgpt.com"

    def command(self) -> list[str]:
        """The command line.

        Raises:
            NotConfigured: The runtime is not installed.
        """
        if not self.installed:
            raise NotConfigured(f"Codex is not installed. {INSTALL}")
        from codex_cli_bin import bundled_codex_path

        config: dict[str, object] = {
            "cli_auth_credentials_store": "file",
            "history.persistence": "none",
            "analytics.enabled": False,
            "check_for_update_on_startup": False,
            "web_search": "disabled",
            "project_doc_max_bytes": 0,
            "include_environment_context": self.native,
            "include_permissions_instructions": self.native,
            "include_apps_instructions": False,
            "skills.bundled.enabled": False,
        }
        if self.base_url:
            provider = "model_providers.nbinline"
            config |= {
                "model_provider": "nbinline",
                f"{provider}.name": "nbinline",
                f"{provider}.base_url": self.base_url,
                f"{provider}.wire_api": "responses",
                f"{provider}.requires_openai_auth": True,
                f"{provider}.supports_websockets": False,
            }
        kept = ("shell_tool", "unified_exec", "apply_patch_freeform") if self.native else ()
        config |= {f"features.{name}": False for name in OFF if name not in kept}
        flags = [f"{key}={json.dumps(value)}" for key, value in config.items()]
        return [str(bundled_codex_path()), "app-server", *(x for f in flags for x in ("-c", f))]

    def environment(self) -> dict[str, str]:
        """What the runtime sees of the server's environment: no key, no home."""
        wanted = {*PASSED_ON, "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}
        passed = {name: os.environ[name] for name in wanted if name in os.environ}
        return {**passed, "HOME": str(self.home), "CODEX_HOME": str(self.home)}


class CodexProcess:
    """One running runtime; use :func:`running`."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)
        self._waiting: list[Message] = []
        self._sent = 0

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message.

        Raises:
            Unavailable: The runtime has ended.
        """
        try:
            await self._input.send(json.dumps(message).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise Unavailable(f"The Codex runtime (process {self.pid}) has ended.") from None

    async def ask(self, method: str, **params: Any) -> Message:
        """Give a command and wait for its answer; what comes meanwhile is kept for :meth:`next`.

        Raises:
            RuntimeRefused: The runtime refused.
            TimedOut: It did not answer.
            Unavailable: It has ended.
        """
        self._sent += 1
        number = self._sent
        await self.tell({"id": number, "method": method, "params": params})
        with anyio.move_on_after(ANSWER_DEADLINE):
            while True:
                message = await self._read()
                if message.get("id") == number and "method" not in message:
                    if "error" in message:
                        raise RuntimeRefused(str(message["error"].get("message", ""))[:500])
                    result: Message = message.get("result") or {}
                    return result
                self._waiting.append(message)
        raise self.silent(ANSWER_DEADLINE)

    async def next(self, seconds: float) -> Message:
        """The next message that is no answer.

        Raises:
            TimedOut: None came in time.
            Unavailable: The runtime has ended.
        """
        if self._waiting:
            return self._waiting.pop(0)
        with anyio.move_on_after(seconds):
            while True:
                message = await self._read()
                if "method" in message:
                    return message
        raise self.silent(seconds)

    def silent(self, seconds: float) -> TimedOut:
        """What to say of a runtime that hangs; it is killed when its block is left."""
        return TimedOut(
            f"The Codex runtime (process {self.pid}) gave no sign of life for {seconds:g} s and "
            "was ended. Run the prompt again."
        )

    async def _read(self) -> Message:
        try:
            line = await self._output.receive_until(b"\n", LONGEST_MESSAGE)
            message = json.loads(line)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
            raise Unavailable(f"The Codex runtime (process {self.pid}) has ended.") from None
        except (ValueError, anyio.DelimiterNotFound):
            raise Unavailable("The Codex runtime said something that cannot be read.") from None
        return message if isinstance(message, dict) else {}

    async def end(self) -> None:
        """End it; whatever it started goes with it."""
        with anyio.move_on_after(GOODBYE, shield=True):
            await self._input.aclose()
            await self._process.wait()
        with anyio.move_on_after(1, shield=True):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            await self._process.aclose()


def _prepared(settings: CodexSettings) -> list[str]:
    command = settings.command()
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return command


@contextlib.asynccontextmanager
async def running(settings: CodexSettings) -> AsyncIterator[CodexProcess]:
    """Start a runtime; leaving ends it.

    Raises:
        NotConfigured: It is not installed.
        Unavailable: It does not start.
        TimedOut: It does not answer.
    """
    command = await anyio.to_thread.run_sync(_prepared, settings)
    try:
        process = await anyio.open_process(
            command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=settings.root if settings.native else settings.home,
            env=settings.environment(),
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"The Codex runtime does not start: {error.strerror}.") from None
    runtime = CodexProcess(process)
    try:
        with anyio.move_on_after(START_DEADLINE) as starting:
            await runtime.ask(
                "initialize",
                clientInfo={"name": "nbinline", "title": "nbinline", "version": __version__},
                capabilities={"experimentalApi": True},
            )
            await runtime.tell({"method": "initialized"})
        if starting.cancelled_caught:
            raise runtime.silent(START_DEADLINE)
        yield runtime
    finally:
        await runtime.end()
