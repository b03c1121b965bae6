"""Decodes a logo that a merchant uploads, and encodes it again.

The result contains only pixels: no metadata, no additional frames, and no code that a browser could
run.
"""

from io import BytesIO

from manilla.kit.errors import Refusal
from manilla.kit.threads import LimitedThreads

FILE_BYTES_MAX = 1_000_000
SIDE_MAX = 4_000  # maximum width and height of the uploaded image, in pixels
SIDE_SHOWN = 512
FORMATS = ("PNG", "JPEG")

# A decoded image takes up to 64 MB of memory, so only one image is decoded at a time.
_threads = LimitedThreads("logos", at_once=1, waiting_max=4)


class BadLogo(Refusal):
    code = "BAD_LOGO"
    message = "The file is not a PNG or JPEG image that we can read."


async def encode(content: bytes) -> bytes:
    """Returns the image as a PNG of at most 512 by 512 pixels."""
    if len(content) > FILE_BYTES_MAX:
        raise BadLogo(f"The file is larger than {FILE_BYTES_MAX // 1_000_000} MB.")
    return await _threads.run(_encode, content)


def _encode(content: bytes) -> bytes:
    # Import the library only when a logo is uploaded, because few processes need it.
    from PIL import Image

    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:  # reads only the header
            if max(image.size) > SIDE_MAX:
                raise BadLogo(f"The image is wider or higher than {SIDE_MAX} pixels.")
            if image.format == "JPEG":
                image.draft("RGB", (SIDE_SHOWN, SIDE_SHOWN))  # decodes fewer pixels
            shown = image.convert("RGBA")
    except BadLogo:
        raise
    except Exception:  # the library raises many types of errors for damaged files
        raise BadLogo from None
    shown.thumbnail((SIDE_SHOWN, SIDE_SHOWN))
    # Copy the pixels to a new image without metadata.
    clean = Image.new("RGBA", shown.size)
    clean.paste(shown)
    out = BytesIO()
    clean.save(out, "PNG")
    return out.getvalue()
