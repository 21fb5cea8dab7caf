"""Calling a function of a kernel: on its main thread, in its queue, without a trace of ours."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from nbinline_agent.errors import KernelRefused
from nbinline_agent.kernel import CallResult
from nbinline_agent.messages import Image, JsonValue

from .kernel_channels import KernelChannels
from .kernel_looking import CHANNEL, ask
from .kernel_runs import Code, Interrupt, check_alive, run_code
from .kernel_values import images_of

VALUE_LENGTH = 12_000
"""Characters of a returned value."""

PRINTED_LENGTH = 20_000
"""Characters of each stream that are kept; the middle goes."""

_SERVICE = f'__import__("IPython").get_ipython().kernel.control_handlers["{CHANNEL}"].service'


async def called(
    channels: KernelChannels,
    name: str,
    arguments: Mapping[str, JsonValue],
    deadline: float,
    interrupt: Interrupt,
) -> CallResult:
    """Call a function by name.

    Raises:
        KernelError: It could not be called.
    """
    asked = {"what": "call", "name": name, "arguments": dict(arguments), "length": VALUE_LENGTH}
    printed = _Printed()
    outcome = await _performed(channels, asked, printed, deadline, interrupt)
    shown = outcome.get("ok", {})
    return CallResult(
        text=str(shown.get("text", "")),
        type=str(shown.get("type", "")),
        stdout=printed.text("stdout"),
        stderr=printed.text("stderr"),
        images=(*images_of(shown.get("images")), *printed.images),
        error=str(outcome.get("bad", "")),
    )


async def traced(
    channels: KernelChannels,
    arguments: Mapping[str, JsonValue],
    deadline: float,
    interrupt: Interrupt,
) -> Mapping[str, Any]:
    """Call a function once and list what happened inside it.

    Raises:
        KernelError: It could not be called.
    """
    asked = {"what": "trace_function", "arguments": dict(arguments)}
    outcome = await _performed(channels, asked, _Printed(), deadline, interrupt)
    if "bad" in outcome:
        raise KernelRefused(f"The kernel says: {outcome['bad']}.")
    found: Mapping[str, Any] = outcome["ok"]
    return found


async def _performed(
    channels: KernelChannels,
    asked: Mapping[str, Any],
    printed: _Printed,
    deadline: float,
    interrupt: Interrupt,
) -> Mapping[str, Any]:
    token = uuid4().hex
    # Looking first installs the listener, and finds a kernel that has none.
    await ask(channels, "variables", {"limit": 0}, wait=deadline)
    request = json.dumps({**asked, "token": token})

    async def forget() -> None:
        await ask(channels, "forget", {"token": token})

    async def run(code: str) -> None:
        execution = await run_code(
            channels,
            Code(code, store_history=False, silent=True),
            on_output=printed,
            deadline=deadline,
            wait=deadline,
            interrupt=interrupt,
            on_abandon=forget,
        )
        check_alive(execution)

    await run(f"{_SERVICE}.perform({request!r})")
    outcome = await _taken(channels, token)
    if isinstance(outcome.get("ok"), dict) and outcome["ok"].get("awaits"):
        await run(f"await {_SERVICE}.finish({token!r})")
        outcome = await _taken(channels, token)
    return outcome


async def _taken(channels: KernelChannels, token: str) -> Mapping[str, Any]:
    outcome = await ask(channels, "take", {"token": token}, wait=5.0)
    if not isinstance(outcome, dict):
        return {"bad": "it was interrupted before it returned"}
    if outcome.get("interrupted"):
        return {"bad": "it took too long, or somebody interrupted the kernel"}
    return outcome


class _Printed:
    """Gathers what a call prints and displays."""

    def __init__(self) -> None:
        self._texts = {"stdout": "", "stderr": ""}
        self.images: list[Image] = []

    def __call__(self, message: Mapping[str, Any]) -> None:
        content = message["content"]
        if message["type"] == "stream" and content.get("name") in self._texts:
            text = self._texts[content["name"]] + str(content.get("text", ""))
            if len(text) > PRINTED_LENGTH:
                half = PRINTED_LENGTH // 2
                text = f"{text[:half]}\n[…]\n{text[-half + 5 :]}"
            self._texts[content["name"]] = text
        elif message["type"] in ("display_data", "execute_result") and len(self.images) < 3:
            encoded = content.get("data", {}).get("image/png")
            if isinstance(encoded, str):
                try:
                    self.images.append(Image("image/png", base64.b64decode(encoded)))
                except binascii.Error:
                    return

    def text(self, name: str) -> str:
        """What was printed to one stream."""
        return self._texts[name]
