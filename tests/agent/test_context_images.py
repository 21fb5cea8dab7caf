"""Pictures of a question: found, made small enough, and named where they cannot go."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from nbinline_agent.context.attachments import attached, shown_names
from nbinline_agent.context.budget import Limits
from nbinline_agent.context.build import Built, build
from nbinline_agent.context.choices import Choices
from nbinline_agent.context.serialising import IMAGE_CHARACTERS
from nbinline_agent.document.notebook import Cell, Snapshot
from nbinline_agent.errors import ContextTooLarge
from nbinline_agent.ids import CellId, FileId
from nbinline_agent.render.images import ImageLimits, NotAPicture, picture


def encoded(kind: str, size: tuple[int, int], mode: str = "RGB", **more: Any) -> bytes:
    noise = Pillow.effect_noise(size, 80).convert(mode)
    written = io.BytesIO()
    noise.save(written, kind, **more)
    return written.getvalue()


def opened(data: bytes) -> Pillow.Image:
    return Pillow.open(io.BytesIO(data))


def test_a_picture_that_fits_goes_as_it_is() -> None:
    data = encoded("PNG", (64, 48))
    sent = picture(data, ImageLimits())
    assert (sent.image.data, sent.image.media_type) == (data, "image/png")
    assert (sent.width, sent.height, sent.scaled) == (64, 48, False)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_large_one_is_scaled_to_the_side(kind: str) -> None:
    sent = picture(encoded(kind, (900, 300)), ImageLimits(side=300))
    assert (sent.width, sent.height, sent.scaled) == (300, 100, True)
    read = opened(sent.image.data)
    assert read.size == (300, 100)
    assert sent.image.media_type == f"image/{(read.format or '').lower()}"


def test_too_many_bytes_make_it_smaller_still() -> None:
    limits = ImageLimits(side=800, size=20_000)
    sent = picture(encoded("PNG", (800, 800)), limits)
    assert len(sent.image.data) <= limits.size
    assert sent.image.media_type == "image/jpeg"


def test_where_a_photo_was_taken_is_not_told() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    exif[0x010F] = "of my phone"
    data = encoded("JPEG", (60, 40), exif=exif)
    assert b"of my phone" in data
    sent = picture(data, ImageLimits())
    assert b"of my phone" not in sent.image.data
    assert (sent.width, sent.height) == (40, 60)


def test_of_an_animation_the_first_frame_goes() -> None:
    frames = [Pillow.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    written = io.BytesIO()
    frames[0].save(written, "GIF", save_all=True, append_images=frames[1:])
    sent = picture(written.getvalue(), ImageLimits())
    assert sent.image.media_type == "image/png"
    assert opened(sent.image.data).convert("RGB").getpixel((1, 1)) == (255, 0, 0)


def test_see_through_stays_so() -> None:
    sent = picture(encoded("PNG", (400, 400), "RGBA"), ImageLimits(side=100))
    assert opened(sent.image.data).mode == "RGBA"


@pytest.mark.parametrize(
    "data", [b"", b"not a picture", b"<svg/>", b"\x89PNG\r\n\x1a\n" + b"0" * 99]
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(NotAPicture):
        picture(data, ImageLimits())


def test_a_picture_that_unfolds_to_gigabytes_is_refused() -> None:
    written = io.BytesIO()
    Pillow.new("1", (12_000, 8_000)).save(written, "PNG")
    assert len(written.getvalue()) < 100_000
    with pytest.raises(NotAPicture):
        picture(written.getvalue(), ImageLimits())


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 400),
    st.integers(1, 400),
    st.sampled_from(["L", "RGB", "RGBA", "P", "1"]),
    st.integers(16, 300),
)
def test_it_is_never_over_the_side_and_always_the_same(
    width: int, height: int, mode: str, side: int
) -> None:
    data = encoded("PNG", (width, height), mode)
    limits = ImageLimits(side=side)
    sent = picture(data, limits)
    assert max(opened(sent.image.data).size) <= side
    assert picture(data, limits) == sent


def question(source: str, **attachments: Any) -> Cell:
    mark = {"nbinlineai": {"isPromptCell": True}}
    return Cell(CellId("q"), "markdown", source, mark, attachments=attachments)


def bundle(data: bytes, media_type: str = "image/png") -> dict[str, str]:
    return {media_type: base64.b64encode(data).decode()}


def ask(cell: Cell, limits: Limits | None = None, images: ImageLimits | None = None) -> Built:
    return build(
        Snapshot((cell,)),
        CellId("q"),
        asker="ada",
        choices=Choices("model", images=images),
        limits=limits or Limits(),
        secret=b"secret",
        file_id=FileId("file"),
    )


def test_names_as_markdown_and_html_show_them() -> None:
    source = (
        "![a](attachment:one.png) ![b](<attachment:two.png>) ![](attachment:a%20b.png 'title')\n"
        '<img width="3" src="attachment:three.png"> [no](attachment:no.png) '
        "![a](attachment:one.png)"
    )
    assert shown_names(source) == ["one.png", "two.png", "a b.png", "three.png"]


def test_the_questions_pictures_go_with_it_in_order() -> None:
    small, large = encoded("PNG", (10, 10)), encoded("PNG", (40, 20))
    cell = question(
        "![](attachment:b.png) then ![](attachment:a.png)",
        **{"a.png": bundle(small), "b.png": bundle(large), "unused.png": bundle(small)},
    )
    built = ask(cell, images=ImageLimits())
    asked = built.request.messages[-1]
    assert [each.data for each in asked.images] == [large, small]
    assert "![](attachment:b.png)" in asked.text
    assert [(each.name, each.width, each.problem) for each in built.report.images] == [
        ("b.png", 40, ""),
        ("a.png", 10, ""),
    ]
    assert not built.report.trimmed


def test_a_model_without_eyes_is_told_what_it_does_not_see_and_so_is_the_person() -> None:
    cell = question("What is ![](attachment:a.png)?", **{"a.png": bundle(encoded("PNG", (9, 9)))})
    built = ask(cell)
    asked = built.request.messages[-1]
    assert asked.images == ()
    assert asked.text.endswith("[not sent to you: the attached a.png]")
    [told] = built.report.images
    assert (told.name, told.problem) == ("a.png", "model-takes-no-images")
    assert built.report.trimmed


@pytest.mark.parametrize(
    ("attachment", "problem"),
    [
        (None, "missing"),
        ({}, "missing"),
        ({"text/plain": "x"}, "missing"),
        ({"image/png": 3}, "missing"),
        ({"image/png": "§§"}, "not-a-picture"),
        (bundle(b"<svg></svg>", "image/svg+xml"), "not-a-picture"),
    ],
)
def test_what_cannot_be_sent_is_named(attachment: Any, problem: str) -> None:
    given_ = {} if attachment is None else {"a.png": attachment}
    found = attached(question("![](attachment:a.png)", **given_), ImageLimits())
    assert found.images == ()
    assert [each.problem for each in found.told] == [problem]


def test_more_than_the_model_takes_stay_behind() -> None:
    data = encoded("PNG", (5, 5))
    names = [f"{number}.png" for number in range(4)]
    source = " ".join(f"![](attachment:{name})" for name in names)
    cell = question(source, **{name: bundle(data) for name in names})
    found = attached(cell, ImageLimits(count=3))
    assert len(found.images) == 3
    assert [each.problem for each in found.told] == ["", "", "", "too-many"]


def test_pictures_count_in_the_budget_and_in_the_hash() -> None:
    small, other = encoded("PNG", (5, 5)), encoded("PNG", (6, 6))
    cells = [question("![](attachment:a)", a=bundle(data)) for data in (small, other)]
    one, two = (ask(cell, images=ImageLimits()) for cell in cells)
    bare = ask(question("![](attachment:a)", a=bundle(small)))
    assert one.report.used > bare.report.used + IMAGE_CHARACTERS - 100
    assert one.report.request_sha256 != two.report.request_sha256
    with pytest.raises(ContextTooLarge, match="its pictures"):
        ask(cells[0], Limits(2_000), ImageLimits())
