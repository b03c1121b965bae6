"""Draws QR codes of URLs, for pages and for files to download."""

import io
from functools import lru_cache

import segno

CODES_CACHED = 256
# The width of the empty border that scanners need, in squares (modules) of the QR code.
BORDER = 4
MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def data_uri(text: str) -> str:
    """Returns a small QR code as a data URI for an image in a page."""
    return _code(text).svg_data_uri(scale=4, border=2)


@lru_cache(CODES_CACHED)
def draw(text: str, kind: str) -> bytes:
    """Returns a QR code that is large enough to print. `kind` is the file type, SVG or PNG."""
    file = io.BytesIO()
    # An SVG without a fixed size can be scaled by the page.
    options = {"omitsize": True} if kind == "svg" else {}
    _code(text).save(file, kind=kind, scale=16, border=BORDER, light="#fff", **options)
    return file.getvalue()


def _code(text: str) -> segno.QRCode:
    return segno.make_qr(text, error="m")
