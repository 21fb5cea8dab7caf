"""Figures and images as PNG, small enough to send."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .values import _of

SIDE = 1568
"""Longest side in pixels; vendors scale larger pictures down themselves."""
BYTES = 4_000_000
"""Bytes one picture may have."""


def picture(value, wanted):
    """Text and pictures of a figure or image; None if the value is neither."""
    if _of(value, "matplotlib.figure", "Figure"):
        return _figure(value, wanted)
    if _of(value, "matplotlib.axes", "Axes"):
        text, pictures = _figure(value.get_figure(), wanted)
        return f"matplotlib Axes of a {text}", pictures
    if _of(value, "PIL.Image", "Image"):
        return _image(value, wanted)
    return None


def _figure(figure, wanted):
    width, height = figure.get_size_inches()
    dpi = min(figure.get_dpi(), SIDE / max(width, height, 0.1))
    axes = figure.get_axes()
    titles = [axis.get_title() for axis in axes[:10] if axis.get_title()]
    text = f"matplotlib Figure, {width * dpi:.0f}×{height * dpi:.0f} pixels, {len(axes)} axes"
    if titles:
        text += f", titled {', '.join(map(repr, titles))}"
    if not wanted:
        return text, []
    stale = figure.stale
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=dpi)
    figure.stale = stale
    return text, _png(written.getvalue())


def _image(image, wanted):
    text = f"PIL image, {image.width}×{image.height} pixels, mode {image.mode}"
    if not wanted:
        return text, []
    copy = image.copy()
    copy.thumbnail((SIDE, SIDE))
    if copy.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        copy = copy.convert("RGBA" if "A" in copy.getbands() else "RGB")
    written = io.BytesIO()
    copy.save(written, format="PNG")
    return text, _png(written.getvalue())


def _png(content):
    if len(content) > BYTES:
        return []
    return [{"media_type": "image/png", "data": base64.b64encode(content).decode("ascii")}]
