"""The pictures among the outputs of a code cell."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from nbinline_agent.messages import Image

MOST = 8
"""Images that are taken out of one cell's outputs."""

MOST_ENCODED = 40_000_000
"""Characters of base64 that are decoded."""

RASTER: tuple[Literal["image/png", "image/jpeg", "image/webp", "image/gif"], ...] = (
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/gif",
)
"""Types that models take, in the order in which one of several is chosen."""


def images_of(outputs: Sequence[Mapping[str, Any]]) -> tuple[Image, ...]:
    """One raster image of each output that has one, as it stands there."""
    found = [image for output in outputs if (image := _image(output)) is not None]
    return tuple(found[:MOST])


def _image(output: Mapping[str, Any]) -> Image | None:
    bundle = output.get("data")
    if not isinstance(bundle, Mapping):
        return None
    for media_type in RASTER:
        encoded = bundle.get(media_type)
        if isinstance(encoded, list):
            encoded = "".join(part for part in encoded if isinstance(part, str))
        if not isinstance(encoded, str) or len(encoded) > MOST_ENCODED:
            continue
        try:
            data = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            continue
        if data:
            return Image(media_type, data)
    return None
