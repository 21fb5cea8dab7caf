"""Pictures made small enough for a model. All of this blocks: use worker threads."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

from PIL import Image as Pillow
from PIL import ImageOps

from nbinline_agent.messages import Image

MOST_PIXELS = 60_000_000
"""A picture with more pixels than this is not opened: a small file may unfold to gigabytes."""

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]

_TYPES: dict[str, MediaType] = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
}
_SMALLEST_SIDE = 64


class NotAPicture(ValueError):
    """The bytes are no raster picture that can be read, or one that is too large to unfold."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What a model takes.

    Attributes:
        count: Pictures of one message.
        side: Longest side in pixels; services scale larger pictures down themselves.
        size: Bytes of one picture, before base64.
    """

    count: int = 8
    side: int = 1_568
    size: int = 3_700_000


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as it is sent.

    Attributes:
        image: What is sent.
        width: Its pixels.
        height: Its pixels.
        scaled: Whether it was made smaller.
    """

    image: Image
    width: int
    height: int
    scaled: bool


def picture(data: bytes, limits: ImageLimits) -> Picture:
    """The picture within the limits; the same bytes always give the same picture.

    One that fits goes as it is, unless it carries EXIF data, which may say where it was taken. Of
    an animation the first frame goes.

    Raises:
        NotAPicture: It cannot be read.
    """
    try:
        with Pillow.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise NotAPicture("too many pixels")
            opened.load()  # a cut file shows here
            if _as_it_is(opened) and max(opened.size) <= limits.side and len(data) <= limits.size:
                image = Image(_TYPES[opened.format or ""], data)
                return Picture(image, opened.width, opened.height, scaled=False)
            return _smaller(opened, limits)
    except NotAPicture:
        raise
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise NotAPicture("not a picture that can be read") from error
    except Pillow.DecompressionBombWarning:
        raise NotAPicture("too many pixels") from None


def fit(image: Image) -> Image | None:
    """A picture that a tool gave, at a size that does not fill the request; None if unreadable."""
    try:
        return picture(image.data, ImageLimits(size=1_000_000)).image
    except NotAPicture:
        return None


def _as_it_is(opened: Pillow.Image) -> bool:
    frames = int(getattr(opened, "n_frames", 1))
    return opened.format in _TYPES and frames == 1 and not opened.getexif()


def _smaller(opened: Pillow.Image, limits: ImageLimits) -> Picture:
    """Turned upright, scaled to the side, then down until its bytes fit as well."""
    photo = opened.format == "JPEG"
    upright = ImageOps.exif_transpose(opened)
    see_through = "A" in upright.getbands() or "transparency" in upright.info
    full = upright.convert("RGBA" if see_through else "RGB")
    side = min(limits.side, max(full.size))
    while True:
        small = _scaled(full, side)
        for kind in ("JPEG",) if photo else ("PNG", "JPEG"):
            image = _encoded(small, kind)
            if len(image.data) <= limits.size or (side <= _SMALLEST_SIDE and kind == "JPEG"):
                return Picture(image, small.width, small.height, small.size != full.size)
        side = side * 3 // 4


def _scaled(full: Pillow.Image, side: int) -> Pillow.Image:
    longest = max(full.size)
    if side >= longest:
        return full
    width, height = (max(1, round(each * side / longest)) for each in full.size)
    return full.resize((width, height), Pillow.Resampling.LANCZOS)


def _encoded(small: Pillow.Image, kind: str) -> Image:
    written = io.BytesIO()
    if kind == "PNG":
        small.save(written, "PNG")
        return Image("image/png", written.getvalue())
    if small.mode == "RGBA":
        paper = Pillow.new("RGB", small.size, "white")
        paper.paste(small, mask=small.getchannel("A"))
        small = paper
    small.save(written, "JPEG", quality=85)
    return Image("image/jpeg", written.getvalue())
