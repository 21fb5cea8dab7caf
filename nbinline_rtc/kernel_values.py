"""What the code in the kernel answers, as the agent's values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from nbinline_agent.kernel import LiveFunction, LiveValue
from nbinline_agent.messages import Image

MAX_IMAGES = 3
"""Pictures of one value."""


def live_value(expression: str, found: Mapping[str, Any]) -> LiveValue:
    """A value as the kernel described it."""
    if not found:
        return LiveValue(expression, "no answer", problem="kernel-error")
    return LiveValue(
        expression=expression,
        text=str(found.get("text", "")),
        type=str(found.get("type", "")),
        images=images_of(found.get("images")),
        problem=str(found.get("problem", "")),
        cut=bool(found.get("cut")),
    )


def live_function(name: str, found: Mapping[str, Any]) -> LiveFunction:
    """A function as the kernel described it."""
    if not found or found.get("problem"):
        return LiveFunction(name, problem=str(found.get("problem") or "no answer"))
    return LiveFunction(
        name=name,
        description=str(found.get("description", "")),
        parameters=dict(found.get("parameters") or {}),
    )


def images_of(value: Any) -> tuple[Image, ...]:
    """Pictures from their base64 form; what is none is left out."""
    images: list[Image] = []
    for each in value if isinstance(value, list) else ():
        try:
            images.append(Image("image/png", base64.b64decode(each["data"], validate=True)))
        except (binascii.Error, KeyError, TypeError, ValueError):
            continue
    return tuple(images[:MAX_IMAGES])
