"""Draws QR codes of URLs, as images in pages and as files."""

import io
from functools import lru_cache

import segno

CODES_CACHED = 256
BORDER = 4  # the width of the empty border that scanners need, in modules (the squares of the code)
MEDIA_TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def data_uri(text: str) -> str:
    """Returns a small QR code as a data URI for an image in a page."""
    return _code(text).svg_data_uri(scale=4, border=2)


@lru_cache(CODES_CACHED)
def draw(text: str, kind: str) -> bytes:
    """Returns an SVG or PNG file (`kind`) that is large enough to print."""
    file = io.BytesIO()
    # Omit the size of an SVG, so that pages can scale it.
    options = {"omitsize": True} if kind == "svg" else {}
    _code(text).save(file, kind=kind, scale=16, border=BORDER, light="#fff", **options)
    return file.getvalue()


def _code(text: str) -> segno.QRCode:
    return segno.make_qr(text, error="m")
