"""Decodes a logo that a merchant uploads, and encodes it again.

The result contains only pixels: no metadata, no additional frames, and no code that a browser could
run.
"""

from manilla.kit.errors import Refusal
from manilla.kit.isolation.calls import IsolatedCalls

FILE_BYTES_MAX = 1_000_000


class BadLogo(Refusal):
    code = "BAD_LOGO"
    message = "The file is not a PNG or JPEG image that we can read."


# A decoded image takes up to 64 MB of memory, so only one image is decoded at a time.
_encode = IsolatedCalls(
    "manilla.merchants.picture:encode",
    bytes,
    refusal=BadLogo,
    too_long="The image takes too long to read. Save it again as a PNG.",
)


async def encode(content: bytes) -> bytes:
    """Returns the image as a PNG of at most 512 by 512 pixels."""
    if len(content) > FILE_BYTES_MAX:
        raise BadLogo(f"The file is larger than {FILE_BYTES_MAX // 1_000_000} MB.")
    return await _encode.run(content)
