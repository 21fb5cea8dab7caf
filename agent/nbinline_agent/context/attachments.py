"""The pictures of a question: attachments that its text shows, made small enough for the model."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from nbinline_agent.document.notebook import Cell
from nbinline_agent.messages import Image
from nbinline_agent.render.images import ImageLimits, picture

_SHOWN = re.compile(
    r"!\[[^\]\n]*\]\(\s*<?attachment:(?P<link>[^)>\s]+)|<img\b[^>]*?\bsrc=[\"']attachment:(?P<tag>[^\"'>]+)",
    re.IGNORECASE,
)
LARGEST_ATTACHMENT = 40_000_000
"""Characters of base64 that are decoded at most."""


@dataclass(frozen=True, slots=True)
class AttachedImage:
    """What became of a picture of the question.

    Attributes:
        name: Of the attachment.
        media_type: As sent; as attached if it was not.
        width: Pixels as sent; 0 if it was not.
        height: Pixels as sent; 0 if it was not.
        scaled: Whether it was made smaller.
        problem: Why it was not sent: ``model-takes-no-images``, ``missing``, ``not-a-picture`` or
            ``too-many``; empty if it was.
    """

    name: str
    media_type: str = ""
    width: int = 0
    height: int = 0
    scaled: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Attachments:
    """The pictures that go with the question, and what is said about all of them."""

    images: tuple[Image, ...] = ()
    told: tuple[AttachedImage, ...] = ()

    @property
    def note(self) -> str:
        """A line for the model about pictures that it does not get; empty if there are none."""
        missing = [each.name for each in self.told if each.problem]
        if not missing:
            return ""
        return f"[not sent to you: the attached {', '.join(missing)}]"


def shown_names(source: str) -> list[str]:
    """Names of the attachments that Markdown text shows, each once, in order."""
    names = (unquote(match["link"] or match["tag"]) for match in _SHOWN.finditer(source))
    return list(dict.fromkeys(names))


def attached(cell: Cell, limits: ImageLimits | None) -> Attachments:
    """The pictures of a question.

    Args:
        cell: The question.
        limits: What the model takes; None if it takes no images.
    """
    if "attachment:" not in cell.source:
        return Attachments()
    images: list[Image] = []
    told: list[AttachedImage] = []
    for name in shown_names(cell.source):
        image, said = _one(name, cell.attachments.get(name), limits, len(images))
        told.append(said)
        if image is not None:
            images.append(image)
    return Attachments(tuple(images), tuple(told))


def _one(
    name: str, bundle: Any, limits: ImageLimits | None, before: int
) -> tuple[Image | None, AttachedImage]:
    found = _content(bundle)
    if found is None:
        return None, AttachedImage(name, problem="missing")
    media_type, encoded = found
    if limits is None:
        return None, AttachedImage(name, media_type, problem="model-takes-no-images")
    if before >= limits.count:
        return None, AttachedImage(name, media_type, problem="too-many")
    try:
        data = base64.b64decode("".join(encoded.split()), validate=True)
        sent = picture(data, limits)
    except ValueError:  # no base64, or no picture
        return None, AttachedImage(name, media_type, problem="not-a-picture")
    kind = sent.image.media_type
    return sent.image, AttachedImage(name, kind, sent.width, sent.height, sent.scaled)


def _content(bundle: Any) -> tuple[str, str] | None:
    """The first image of an attachment's bundle: its type and base64."""
    if not isinstance(bundle, Mapping):
        return None
    for media_type, content in bundle.items():
        if isinstance(content, list):
            content = "".join(part for part in content if isinstance(part, str))
        if (
            isinstance(media_type, str)
            and media_type.startswith("image/")
            and isinstance(content, str)
            and 0 < len(content) <= LARGEST_ATTACHMENT
        ):
            return media_type, content
    return None
