"""The seam to a notebook's kernel: looking, calling and running, whoever hosts the process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .ids import NotebookPath
from .messages import Image, JsonValue

OnOutput = Callable[[Mapping[str, Any]], None]
"""Takes each message of the kernel's output channel as ``{"type": msg_type, "content": {...}}``.

It must return at once: it only gathers. A message that was too large to read has the field
``refused`` with its size in bytes, and of its content only what could be had cheaply.
"""


@dataclass(frozen=True, slots=True)
class KernelState:
    """What is known of a kernel without asking it anything.

    Attributes:
        kernel_id: Its id on the server.
        language: For example ``python``; an empty string if unknown.
        status: ``idle``, ``busy``, ``starting``, ``dead`` or ``none``.
        state_lost: Whether the kernel died or was restarted since this notebook last used it,
            and nobody was told yet.
    """

    kernel_id: str
    language: str
    status: str
    state_lost: bool = False


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A value as it goes to a model.

    Attributes:
        expression: What was asked for.
        text: The bounded rendering, or why there is none.
        type: Name of its type; empty if it could not be looked at.
        images: For models that take images.
        problem: A stable code such as ``undefined`` or ``kernel-busy``; empty if all is well.
        cut: Whether something was left out.
    """

    expression: str
    text: str
    type: str = ""
    images: tuple[Image, ...] = ()
    problem: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class LiveFunction:
    """A function of the kernel that a model may call; ``problem`` says why it may not."""

    name: str
    description: str = ""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call of a kernel function gave back, bounded.

    Attributes:
        text: The value by the value rules; a string as it is.
        type: Name of the value's type.
        stdout: What it printed.
        stderr: What it printed as errors and warnings.
        images: Pictures of the value, and those it displayed.
        error: What went wrong, as one line; empty if nothing did.
    """

    text: str
    type: str = ""
    stdout: str = ""
    stderr: str = ""
    images: tuple[Image, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """How an execution ended.

    Attributes:
        status: ``ok``, ``error``, ``timed-out``, ``interrupted``, ``aborted`` or ``dead``.
        execution_count: The kernel's counter, or None if it did not count.
        error: Last line of the error, if any.
        seconds: How long it took, without waiting for its turn.
        state_lost: Whether it ran on a fresh kernel although the notebook had used one before.
        stuck: Whether it still runs although it was interrupted.
    """

    status: str
    execution_count: int | None = None
    error: str = ""
    seconds: float = 0.0
    state_lost: bool = False
    stuck: bool = False


class Kernel(Protocol):
    """One notebook's kernel. Nothing here waits behind a cell that runs, but what runs code."""

    async def state(self) -> KernelState:
        """What is known without asking the kernel; never starts one."""

    async def start(self, name: str = "") -> None:
        """Start a kernel if the notebook has none.

        Args:
            name: Of the kernel specification; empty takes the server's default.

        Raises:
            KernelError: It did not start.
        """

    async def inspect(
        self, expressions: Sequence[str], *, wait: float = 0.0, images: bool = False
    ) -> Mapping[str, LiveValue]:
        """Live values, without a trace in the kernel; every expression gets an entry.

        Args:
            expressions: Names, attributes and items; the grammar of ``$`` references.
            wait: Seconds to wait for a kernel that is too busy to be looked into.
            images: Whether figures and images are wanted as pictures too.
        """

    async def functions(
        self, names: Sequence[str], *, wait: float = 0.0
    ) -> Mapping[str, LiveFunction]:
        """Signatures and descriptions of live functions; every name gets an entry."""

    async def ask(
        self, question: str, arguments: Mapping[str, JsonValue], *, wait: float = 0.0
    ) -> Mapping[str, Any]:
        """Ask the code that looks into a Python kernel, beside what runs there.

        Raises:
            KernelError: There is no kernel, it cannot be looked into, or it is too busy.
            KernelRefused: The question could not be answered; the message says why.
        """

    async def call(
        self, name: str, arguments: Mapping[str, JsonValue], *, deadline: float
    ) -> CallResult:
        """Call a live function in the order of the kernel's queue.

        At the deadline, or when it is cancelled, the call is interrupted, and nothing else.

        Raises:
            KernelError: It could not be called.
        """

    async def trace(
        self, arguments: Mapping[str, JsonValue], *, deadline: float
    ) -> Mapping[str, Any]:
        """Call a live function once and list what happened inside it; see ``trace_function``.

        Raises:
            KernelError: It could not be called.
            KernelRefused: It could not be traced; the message says why.
        """

    async def execute(
        self,
        code: str,
        *,
        on_output: OnOutput,
        deadline: float,
        wait: float | None = None,
        store_history: bool = True,
        silent: bool = False,
        cell_id: str = "",
        stop_on_error: bool = False,
        on_start: Callable[[], None] | None = None,
    ) -> Execution:
        """Run code in the order of the kernel's queue; at the deadline it is interrupted.

        A cancelled execution is interrupted as well, if it runs.

        Args:
            code: What to run.
            on_output: Takes the output messages.
            deadline: Seconds it may run.
            wait: Seconds to wait for its turn; as long as the deadline by default.
            store_history: Whether it counts and is remembered.
            silent: Whether it leaves no trace but its effects.
            cell_id: Of the cell the code stands in.
            stop_on_error: Whether an error drops what waits in the kernel's queue, as it does for
                people's own runs.
            on_start: Called when its turn has come.

        Raises:
            KernelError: There is no kernel, it cannot be reached, or it stayed busy.
        """

    async def interrupt(self) -> None:
        """Interrupt what runs, whoever runs it.

        Raises:
            KernelError: There is no kernel.
        """

    async def restart(self) -> None:
        """Restart; everything the kernel knew is gone.

        Raises:
            KernelError: There is no kernel, or it did not come back.
        """


class Kernels(Protocol):
    """The kernels of one server."""

    def of(self, path: NotebookPath) -> Kernel:
        """The kernel of a notebook; its state says ``none`` where no session runs."""
