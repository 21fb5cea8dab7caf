"""Looking into a Python kernel beside what it runs: our listener, and questions to it.

A question must not wait behind a cell, so it goes over the control channel, which ipykernel serves
in a thread of its own. Running code there would do more than look: IPython's hooks would run, and
flush half-made figures of the cell that is running. So a listener is installed once for each
kernel process, while nothing runs if possible, and questions reach it inside
``comm_info_request``, which neither Jupyter Server nor JupyterLab takes for activity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import anyio

from nbinline_agent.errors import KernelBusy, KernelRefused
from nbinline_agent.inkernel import KEY, SOURCES

from .kernel_channels import KernelChannels

CHANNEL = "comm_info_request"
FIELD = "nbinline"

NOTICED = 0.7
"""Seconds within which a kernel that listens beside its cells begins with a question."""

ANSWER_DEADLINE = 15.0
"""Seconds for an answer; the kernel's own limits are far lower."""

INSTALL_DEADLINE = 5.0
"""Seconds for the listener to be installed."""

NOT_PYTHON = "Only Python kernels can be looked into; this one runs {language}."

_PROTECT = """
import sys, threading
def protect(shell, kernel, here):
    class Elsewhere:
        def __init__(self, callback):
            self.callback = callback
        def __call__(self, *arguments):
            if threading.current_thread() is not here:
                return self.callback(*arguments)
        def __eq__(self, other):
            return other == self.callback or other is self
        __hash__ = None
    callbacks = shell.events.callbacks["post_execute"]
    callbacks[:] = [Elsewhere(each) for each in callbacks]
    running = kernel.get_parent("shell").get("content", {})
    kernel._allow_stdin = running.get("allow_stdin", False)
shell = sys.modules["IPython"].get_ipython()
protect(shell, shell.kernel, threading.current_thread())
"""
"""Run on the control channel before anything else if a cell runs: IPython's hooks belong to it."""

_RELEASE = """
import sys
callbacks = sys.modules["IPython"].get_ipython().events.callbacks["post_execute"]
callbacks[:] = [getattr(each, "callback", each)
                if type(each).__qualname__ == "protect.<locals>.Elsewhere" else each
                for each in callbacks]
"""


async def ask(
    channels: KernelChannels, question: str, arguments: Mapping[str, Any], wait: float = 0.0
) -> Any:
    """Ask the listener in a kernel.

    Args:
        channels: The connection.
        question: As in ``inkernel/serving.py``.
        arguments: Of the question.
        wait: Seconds to wait for a kernel that is too busy to answer.

    Raises:
        KernelRefused: It is no kernel that can be looked into, or it says why it has no answer.
        KernelBusy: It is too busy.
        KernelDied: It went away.
    """
    give_up = anyio.current_time() + wait
    while True:
        try:
            await _listening(channels)
            return await _asked(channels, question, arguments)
        except KernelBusy:
            left = give_up - anyio.current_time()
            if left <= 0:
                raise
            await channels.rest(min(left, 1.0))


async def _asked(channels: KernelChannels, question: str, arguments: Mapping[str, Any]) -> Any:
    content = {FIELD: {"what": question, "arguments": arguments}}
    with channels.request("control", CHANNEL, content) as request:
        if not await request.until(lambda: request.begun, NOTICED) and channels.busy:
            raise KernelBusy
        if not await request.until(lambda: request.reply is not None, ANSWER_DEADLINE):
            raise KernelBusy
        assert request.reply is not None
        if FIELD not in request.reply:
            # Somebody replaced the listener.
            channels.listening = ""
            raise KernelBusy
        answer = json.loads(request.reply[FIELD])
    if "ok" in answer:
        return clean(answer["ok"])
    raise KernelRefused(f"The kernel says: {clean(answer['bad'])}.")


async def _listening(channels: KernelChannels) -> None:
    """Install the listener unless it is there."""
    async with channels.installing:
        if channels.listening == KEY:
            return
        if channels.language != "python":
            raise KernelRefused(NOT_PYTHON.format(language=channels.language or "another language"))
        if channels.busy:
            await _install(channels, "control", _run(_PROTECT), release=True)
            await _asked(channels, "show_busy", {})
        else:
            await _install(channels, "shell", "", release=False)


async def _install(channels: KernelChannels, channel: str, code: str, *, release: bool) -> None:
    steps = [*SOURCES, *([("<nbinline release>", _RELEASE)] if release else [])]
    content = {
        "code": code,
        "silent": True,
        "store_history": False,
        "user_expressions": {FIELD: _installation(steps)},
        "allow_stdin": False,
        "stop_on_error": False,
    }
    with channels.request(channel, "execute_request", content) as request:
        if not await request.until(lambda: request.begun or request.reply is not None, NOTICED):
            # Too late is as good: the listener is there for the next question.
            raise KernelBusy
        if not await request.until(lambda: request.reply is not None, INSTALL_DEADLINE):
            raise KernelBusy
        assert request.reply is not None
        found = request.reply.get("user_expressions", {}).get(FIELD, {})
    if found.get("status") != "ok":
        raise KernelRefused("This kernel cannot be looked into; it is not based on ipykernel.")
    channels.listening = KEY


def _installation(steps: list[tuple[str, str]]) -> str:
    """One expression that executes our parts in a dictionary of their own and leaves no name."""
    return (
        '(lambda builtins, names: ([builtins.exec(builtins.compile(text, name, "exec", 0, True), '
        f'names) for name, text in {steps!r}], names["install"]({KEY!r}))[1])'
        '(__import__("builtins"), {"__name__": "nbinline"})'
    )


def _run(text: str) -> str:
    return f'__import__("builtins").exec({text!r}, {{}})'


_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(value: Any) -> Any:
    """Texts without lone surrogates, which neither documents nor requests can carry."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [clean(each) for each in value]
    if isinstance(value, dict):
        return {clean(name): clean(each) for name, each in value.items()}
    return value
