"""Running tools in a person's own kernel: those that need no live notebook."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import anyio

from nbinline_agent.context.choices import Policy
from nbinline_agent.errors import KernelRefused
from nbinline_agent.inkernel import SOURCES
from nbinline_agent.messages import JsonValue
from nbinline_agent.tools.base import Tool, ToolContext, ToolError
from nbinline_agent.tools.cells import cell_tools
from nbinline_agent.tools.execution import execution_tools
from nbinline_agent.tools.inspect import inspect_tools
from nbinline_rtc.toolset import server_tools

FOR_THE_AGENT = (
    "{name} works on the live notebook, so it is the agent's to call: write &`{name}` in a "
    "Markdown cell above your question."
)


@functools.cache
def _tools() -> Mapping[str, Tool]:
    every = (*cell_tools(), *execution_tools(), *inspect_tools(), *server_tools())
    return {tool.name: tool for tool in every}


def built_in(name: str) -> Tool:
    """A tool by its name.

    Raises:
        KeyError: There is none.
    """
    return _tools()[name]


def run_here(name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool in this process, from the current folder on.

    Raises:
        ToolError: It cannot be done, or only the agent can do it.
        ValueError: An argument is out of bounds.
    """
    tool = built_in(name)
    if tool.group in ("notebook", "execution") and name != "trace_function":
        raise ToolError(FOR_THE_AGENT.format(name=name))
    checked = tool.arguments.model_validate_json(json.dumps(arguments))
    context = cast("ToolContext", Here(name))
    # The thread of the cell has a running loop already.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(anyio.run, tool.call, context, checked).result().text


@dataclass
class Here:
    """What a tool may use in a kernel: files from the current folder on, and this very process."""

    name: str
    root: Path = field(default_factory=Path.cwd)
    policy: Policy = field(default_factory=lambda: Policy(hide_solutions=False))
    path: str = ""

    @property
    def folder(self) -> Path:
        """Relative paths start here."""
        return self.root

    @property
    def kernel(self) -> ThisKernel:
        """This process."""
        return ThisKernel()

    def insert(self, *_: object, **__: object) -> NoReturn:
        """There is no notebook to insert into.

        Raises:
            ToolError: Always.
        """
        raise ToolError(FOR_THE_AGENT.format(name=self.name))


class ThisKernel:
    """Answers about this process as a kernel does to the server."""

    def __init__(self) -> None:
        self._parts = _parts()

    async def ask(
        self, question: str, arguments: Mapping[str, JsonValue], *, wait: float = 0.0
    ) -> Mapping[str, Any]:
        """See ``Kernel``.

        Raises:
            KernelRefused: There is no answer.
        """
        service = self._parts["Service"](_shell(), None)
        return self._caught(service.answer, question, arguments, None)

    async def trace(
        self, arguments: Mapping[str, JsonValue], *, deadline: float
    ) -> Mapping[str, Any]:
        """See ``Kernel``.

        Raises:
            KernelRefused: The function cannot be traced.
        """
        return self._caught(self._parts["trace_function"], _shell().user_ns, **arguments)

    def _caught(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = work(*arguments, **named)
        except self._parts["BadArguments"] as error:
            raise KernelRefused(f"{error}.") from None
        return found


@dataclass
class _Names:
    """Stands for IPython's shell where there is none."""

    user_ns: dict[str, Any]
    user_ns_hidden: Sequence[str] = ()


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell or _Names(vars(sys.modules["__main__"]))


@functools.cache
def _parts() -> dict[str, Any]:
    """The code that the server also sends into kernels."""
    names: dict[str, Any] = {"__name__": "nbinline"}
    for name, text in SOURCES:
        exec(compile(text, name, "exec", 0, True), names)
    return names
