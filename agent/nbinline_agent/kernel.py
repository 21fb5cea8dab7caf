"""The seam to a notebook's kernel: looking, calling and running, whoever hosts the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .ids import NotebookPath
from .messages import Image, JsonValue

OnOutput = Callable[[Mapping[str, JsonValue]], Awaitable[None]]
"""Takes each message of the kernel's output channel as ``{"type": msg_type, "content": {...}}``."""


@dataclass(frozen=True, slots=True)
class KernelState:
    """What is known of a kernel without asking it anything.

    Attributes:
        kernel_id: Its id on the server.
        language: For example ``python``; an empty string if unknown.
        status: ``idle``, ``busy``, ``starting``, ``dead`` or ``none``.
        state_lost: Whether the kernel died or was restarted since this run last used it.
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
    """What a call of a kernel function gave back, bounded; ``error`` is its last line, if any."""

    text: str
    images: tuple[Image, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """How an execution ended.

    Attributes:
        status: ``ok``, ``error``, ``timed-out``, ``interrupted`` or ``dead``.
        execution_count: The kernel's counter, or None if it did not count.
        error: Last line of the error, if any.
        seconds: How long it took.
    """

    status: str
    execution_count: int | None = None
    error: str = ""
    seconds: float = 0.0


class Kernel(Protocol):
    """One notebook's kernel. Nothing here waits behind a cell that runs, but ``execute``."""

    def state(self) -> KernelState:
        """What is known without asking."""

    async def inspect(
        self, expressions: Sequence[str], *, wait: float = 0.0
    ) -> Mapping[str, LiveValue]:
        """Live values, without a trace in the kernel; every expression gets an entry.

        Args:
            expressions: Names, attributes and items; the grammar of ``$`` references.
            wait: Seconds to wait for a busy kernel.
        """

    async def functions(self, names: Sequence[str]) -> Mapping[str, LiveFunction]:
        """Signatures and descriptions of live functions; every name gets an entry."""

    async def call(
        self, name: str, arguments: Mapping[str, JsonValue], *, deadline: float
    ) -> CallResult:
        """Call a live function.

        Raises:
            KernelError: It could not be called, or did not end in time.
        """

    async def execute(
        self,
        code: str,
        *,
        on_output: OnOutput,
        deadline: float,
        store_history: bool = True,
        silent: bool = False,
    ) -> Execution:
        """Run code in the order of the kernel's queue; at the deadline it is interrupted.

        Raises:
            KernelError: There is no kernel, or it cannot be reached.
        """

    async def interrupt(self) -> None:
        """Interrupt what runs."""

    async def restart(self) -> None:
        """Restart; everything the kernel knew is gone."""


class Kernels(Protocol):
    """The kernels of one server."""

    def of(self, path: NotebookPath) -> Kernel:
        """The kernel of a notebook; its state says ``none`` where no session runs."""
