"""The account behind the Codex connection: signing in and out, its models and its usage."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self

import anyio
import anyio.to_thread
import structlog
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup

from nbinline_agent.errors import BadRequest, NbinlineError, Unavailable
from nbinline_agent.messages import JsonValue
from nbinline_agent.providers.base import check_allowed

from .codex_process import CodexProcess, CodexSettings, RuntimeRefused, running

LOGIN_DEADLINE = 900.0
"""Seconds a person has to sign in."""

LOGIN_START = 30.0
"""Seconds until there is an address to sign in at."""

MODELS = "nbinline-models.json"
"""File in the private folder with the models of the account, as they were last told."""

SIGN_IN_HOST = "auth.openai.com"

Kind = Literal["browser", "device"]
_METHODS: Mapping[str, str] = {"browser": "chatgpt", "device": "chatgptDeviceCode"}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AccountModel:
    """A model that the account may use.

    Attributes:
        id: Its id.
        efforts: Reasoning efforts it knows.
        images: Whether it takes images.
    """

    id: str
    efforts: tuple[str, ...]
    images: bool


@dataclass
class Login:
    """A sign-in that somebody began.

    Attributes:
        kind: In a browser on the server's own machine, or with a code on any device.
        url: Where to sign in.
        code: What to type there; empty for ``browser``.
        state: ``waiting``, ``done``, ``failed`` or ``cancelled``.
    """

    kind: Kind
    url: str = ""
    code: str = ""
    state: str = "waiting"

    def to_json(self) -> dict[str, JsonValue]:
        """As the person is told."""
        return {"kind": self.kind, "url": self.url, "code": self.code, "state": self.state}


class CodexAccount(AsyncContextManagerMixin):
    """Signs in and out; an async context manager that owns the sign-in under way.

    No process runs but while something is asked of the runtime, or while somebody signs in.

    Args:
        settings: How the runtime is started.
    """

    def __init__(self, settings: CodexSettings) -> None:
        self.settings = settings
        self.login: Login | None = None
        self._scope: anyio.CancelScope | None = None
        self._began = anyio.Event()
        self._busy = anyio.Lock()
        self._tasks: TaskGroup

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncIterator[Self]:
        async with anyio.create_task_group() as self._tasks:
            try:
                yield self
            finally:
                self._tasks.cancel_scope.cancel()

    def models(self) -> tuple[AccountModel, ...]:
        """The account's models as they were last told; it reads a file."""
        try:
            listed = json.loads((self.settings.home / MODELS).read_text("utf-8"))
            return tuple(AccountModel(m["id"], tuple(m["efforts"]), m["images"]) for m in listed)
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    async def begin(self, kind: Kind) -> Login:
        """Begin to sign in; one that was under way is cancelled.

        Raises:
            NotConfigured: The runtime is not installed.
            Unavailable: There is no address to sign in at.
        """
        if kind == "device":
            check_allowed(SIGN_IN_HOST)
        await self.cancel()
        self.login = login = Login(kind)
        self._began = began = anyio.Event()
        failures: list[NbinlineError] = []

        async def sign_in() -> None:
            with anyio.CancelScope() as self._scope:
                try:
                    await self._sign_in(login, began)
                except NbinlineError as error:
                    login.state = "failed"
                    failures.append(error)
                finally:
                    began.set()
            if login.state == "waiting":
                login.state = "cancelled"

        self._tasks.start_soon(sign_in)
        with anyio.move_on_after(LOGIN_START):
            await began.wait()
        if not login.url:
            await self.cancel()
            raise failures[0] if failures else Unavailable("Codex offers no way to sign in now.")
        return login

    async def _sign_in(self, login: Login, began: anyio.Event) -> None:
        async with running(self.settings) as runtime:
            try:
                told = await runtime.ask("account/login/start", type=_METHODS[login.kind])
            except RuntimeRefused as refused:
                raise Unavailable(f"Codex cannot sign in: {refused}") from None
            login.url = str(told.get("authUrl") or told.get("verificationUrl") or "")
            login.code = str(told.get("userCode") or "")
            began.set()
            with anyio.move_on_after(LOGIN_DEADLINE):
                while True:
                    message = await runtime.next(LOGIN_DEADLINE)
                    if message["method"] == "account/login/completed":
                        break
            done = message.get("params", {}).get("success") is True
            login.state = "done" if done else "failed"
            if done:
                await self._look(runtime)

    async def cancel(self) -> None:
        """End a sign-in that is under way."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None
        if self.login is not None and self.login.state == "waiting":
            self.login.state = "cancelled"
        await anyio.lowlevel.checkpoint()

    async def disconnect(self) -> None:
        """Sign out and forget the account.

        Raises:
            NbinlineError: The runtime cannot be asked.
        """
        await self.cancel()
        self.login = None
        if await self._signed_in():
            async with self._busy, running(self.settings) as runtime:
                with contextlib.suppress(RuntimeRefused):
                    await runtime.ask("account/logout")
        await anyio.to_thread.run_sync(self._forget)

    async def _signed_in(self) -> bool:
        return await anyio.to_thread.run_sync(lambda: self.settings.signed_in)

    def _forget(self) -> None:
        for name in (MODELS, "auth.json"):
            (self.settings.home / name).unlink(missing_ok=True)

    async def look(self) -> dict[str, JsonValue]:
        """Ask for account, models and usage: ``{account, models, usage}``.

        Raises:
            BadRequest: Nobody is signed in.
            NbinlineError: The runtime cannot be asked.
        """
        check_allowed(self.settings.host)
        if not await self._signed_in():
            raise BadRequest("Nobody is signed in to Codex.")
        async with self._busy, running(self.settings) as runtime:
            return await self._look(runtime)

    async def _look(self, runtime: CodexProcess) -> dict[str, JsonValue]:
        account = (await runtime.ask("account/read")).get("account") or {}
        listed = (await runtime.ask("model/list")).get("data", [])
        models = [_model(each) for each in listed if not each.get("hidden")]
        await anyio.to_thread.run_sync(self._keep, models)
        usage: JsonValue = None
        with contextlib.suppress(RuntimeRefused):
            usage = _usage((await runtime.ask("account/rateLimits/read")).get("rateLimits") or {})
        told: dict[str, JsonValue] = {
            key: account[key] for key in ("type", "email", "planType") if key in account
        }
        return {"account": told, "models": [each["id"] for each in models], "usage": usage}

    def _keep(self, models: list[dict[str, Any]]) -> None:
        path = self.settings.home / MODELS
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(models), "utf-8")
        os.replace(beside, path)


def _model(listed: Mapping[str, Any]) -> dict[str, Any]:
    efforts = listed.get("supportedReasoningEfforts") or ()
    return {
        "id": str(listed["id"]),
        "efforts": [str(each["reasoningEffort"]) for each in efforts],
        "images": "image" in (listed.get("inputModalities") or ("image",)),
    }


def _usage(limits: Mapping[str, Any]) -> JsonValue:
    """How much of the subscription's windows is used."""
    windows: dict[str, JsonValue] = {}
    for name in ("primary", "secondary"):
        window = limits.get(name)
        if isinstance(window, Mapping):
            windows[name] = {
                "used_percent": window.get("usedPercent"),
                "window_minutes": window.get("windowDurationMins"),
                "resets_at": window.get("resetsAt"),
            }
    return {"plan": limits.get("planType"), **windows}
