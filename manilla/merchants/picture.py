"""Encodes an uploaded picture again. This runs in an isolated process."""

from io import BytesIO

from PIL import Image

from manilla.merchants.logo import BadLogo

SIDE_MAX = 4_000  # maximum width and height of the uploaded image, in pixels
SIDE_SHOWN = 512
FORMATS = ("PNG", "JPEG")
# A progressive JPEG file contains the whole picture several times, each time with more detail.
# Programs write about ten scans, but a small file can have thousands.
SCANS_MAX = 50
_SCAN = b"\xff\xda"  # the start of a scan, which the compressed data cannot contain


def encode(content: bytes) -> bytes:
    """Returns the image as a PNG of at most 512 by 512 pixels."""
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:  # reads only the header
            if max(image.size) > SIDE_MAX:
                raise BadLogo(f"The image is wider or higher than {SIDE_MAX} pixels.")
            if image.format != "PNG":  # JPEG, or MPO: a JPEG file that contains several pictures
                if content.count(_SCAN) > SCANS_MAX:
                    raise BadLogo("The image has too many scans. Save it without “progressive”.")
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
