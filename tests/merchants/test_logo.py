"""Uploaded logos: only the pixels of a PNG or JPEG are stored. Large images are rejected."""

import struct
import zlib
from io import BytesIO

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from manilla.merchants import logo
from manilla.merchants.logo import BadLogo
from tests.support.limits import limited

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def picture(kind: str, size: tuple[int, int] = (900, 300), mode: str = "RGB") -> bytes:
    out = BytesIO()
    Image.new(mode, size, "red").save(out, kind)
    return out.getvalue()


def bomb(side: int) -> bytes:
    """Returns a small PNG file whose header declares many pixels."""
    header = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1_000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize(("size", "shown"), [((900, 300), (512, 171)), ((40, 20), (40, 20))])
async def test_a_logo_becomes_a_small_png(
    kind: str, size: tuple[int, int], shown: tuple[int, int]
) -> None:
    with Image.open(BytesIO(await logo.encode(picture(kind, size)))) as encoded:
        assert (encoded.format, encoded.mode, encoded.size) == ("PNG", "RGBA", shown)


def scans(number: int) -> bytes:
    """Returns a progressive JPEG file that repeats its last scan until it has this many scans."""
    out = BytesIO()
    Image.effect_noise((64, 64), 50).save(out, "JPEG", progressive=True)
    content = out.getvalue().removesuffix(b"\xff\xd9")
    last = content[content.rindex(b"\xff\xda") :]
    return content + last * (number - content.count(b"\xff\xda")) + b"\xff\xd9"


async def test_a_progressive_jpeg_has_few_scans() -> None:
    assert await logo.encode(scans(12))
    with pytest.raises(BadLogo, match="too many scans"):
        await logo.encode(scans(51))


async def test_a_file_of_several_pictures_has_few_scans() -> None:
    """Pillow reads a JPEG file with an index of pictures in another format, MPO."""
    out, small = BytesIO(), Image.new("RGB", (8, 8))
    small.save(out, "MPO", save_all=True, append_images=[small])
    content = scans(51)
    start = out.getvalue().index(b"\xff\xe2")  # the index
    length = struct.unpack_from(">H", out.getvalue(), start + 2)[0]
    index = out.getvalue()[start : start + 2 + length]
    several = content[:2] + index + content[2:]
    with Image.open(BytesIO(several)) as image:
        assert image.format == "MPO"
    with pytest.raises(BadLogo, match="too many scans"):
        await logo.encode(several)


async def test_an_image_that_takes_too_long_is_refused() -> None:
    with limited(isolated_call_seconds=0), pytest.raises(BadLogo, match="takes too long"):
        await logo.encode(picture("JPEG", (4_000, 4_000)))


async def test_metadata_and_trailing_bytes_do_not_survive() -> None:
    notes, out = PngInfo(), BytesIO()
    notes.add_text("Comment", "<script>secret</script>")
    Image.new("RGB", (20, 20), "blue").save(out, "PNG", pnginfo=notes)
    encoded = await logo.encode(out.getvalue() + b"<?php secret ?>")
    assert b"secret" not in encoded


@pytest.mark.parametrize(
    "content",
    [
        b"",
        SVG,
        b"\x89PNG\r\n\x1a\n",
        picture("PNG")[:-40],
        picture("GIF"),
        picture("BMP", (10, 10)),
        bomb(4_001),
        bomb(60_000),
        bomb(2_000),  # The image has fewer pixels than its header declares.
        bytes(logo.FILE_BYTES_MAX + 1),
    ],
    ids=["empty", "svg", "header", "cut", "gif", "bmp", "large", "bomb", "short", "bytes"],
)
async def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(BadLogo):
        await logo.encode(content)
