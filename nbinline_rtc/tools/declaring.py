"""Notes that declare tools: which ones, and how they are written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping

from nbinline_agent.tools.catalog import DECLARED, GROUPS, description

MOST = 20
"""Tools and variables that one question may refer to."""

Named = str | Callable[..., object]
"""A tool or function, or its name."""

TOOL_GROUPS: Mapping[str, tuple[str, ...]] = GROUPS
"""Names of tools by group."""


def tool_catalog(group: str = "") -> str:
    """List tools with their arguments and what they do; the listing declares nothing.

    Args:
        group: One of ``TOOL_GROUPS``; empty for all.

    Raises:
        ValueError: There is no such group.
    """
    names = _group(group) if group else _everything()
    return "\n".join(f"{name}{_signature(name)}\n    {_described(name)}" for name in names)


def tools_markdown(
    names: Iterable[Named] | None = None,
    custom: Iterable[Named] | None = None,
    group: str = "starter",
) -> str:
    """Write the Markdown of a note that declares tools.

    Args:
        names: Built-in tools; None takes the group.
        custom: Functions of your own.
        group: One of ``TOOL_GROUPS``.

    Raises:
        ValueError: A name or group is unknown, or there are more than 20 names.
    """
    chosen = _group(group) if names is None else [_known(each) for each in _each(names)]
    own = [_own(each) for each in _each(custom or ())]
    every = list(dict.fromkeys((*chosen, *own)))
    if len(every) > MOST:
        raise ValueError(f"One question may have {MOST} tools at most; these are {len(every)}.")
    lines = [
        f"- &`{name}`: {_described(name)}" if name in chosen else f"- &`{name}`" for name in every
    ]
    return "\n".join(["**Tools for the AI agent**", "", *lines])


def _each(names: Iterable[Named]) -> Iterable[Named]:
    return [names] if isinstance(names, str) or callable(names) else names


def _name(named: Named) -> str:
    return named if isinstance(named, str) else getattr(named, "__name__", "")


def _known(named: Named) -> str:
    name = _name(named)
    if name not in _everything():
        raise ValueError(f"There is no tool {name!r}; tool_catalog() lists them.")
    return name


def _own(named: Named) -> str:
    name = _name(named)
    if not name.isidentifier():
        raise ValueError(f"{name!r} is not the name of a function.")
    return name


def _group(group: str) -> list[str]:
    try:
        return list(GROUPS[group])
    except KeyError:
        known = ", ".join(GROUPS)
        raise ValueError(f"There is no group {group!r}; the groups are {known}.") from None


def _everything() -> list[str]:
    return list(dict.fromkeys(name for group in GROUPS.values() for name in group))


def _signature(name: str) -> str:
    if name in DECLARED:
        return str(inspect.signature(DECLARED[name], eval_str=True)).split(" -> ")[0]
    from .running import built_in

    fields = built_in(name).arguments.model_fields
    shown = (f"{key}" if field.is_required() else f"{key}=…" for key, field in fields.items())
    return f"({', '.join(shown)})"


def _described(name: str) -> str:
    if name in DECLARED:
        return description(name)
    # Looking at the tool itself takes longer, so it waits until somebody asks.
    from .running import built_in

    return built_in(name).description.split("\n\n", 1)[0].replace("\n", " ")
