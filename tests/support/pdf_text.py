"""Extracts the text from a PDF file that fpdf2 has written with embedded fonts."""

import re
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL)
_STREAM = re.compile(rb"stream\n(.*)\nendstream", re.DOTALL)
_FONT = re.compile(rb"/(F\d+) (\d+) 0 R")
_TO_UNICODE = re.compile(rb"/ToUnicode (\d+) 0 R")
_CHARACTER = re.compile(rb"<([0-9A-Fa-f]{4})> <([0-9A-Fa-f]+)>")
# The pattern matches a font change or a text in parentheses.
_SHOWN = re.compile(rb"/(F\d+) [\d.]+ Tf|\(((?:\\.|[^\\()])*)\) ?Tj", re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def read(raw: bytes) -> str:
    """Returns the visible texts of the PDF file, one text per line."""
    objects = {int(number): body for number, body in _OBJECT.findall(raw)}
    fonts = {name: _alphabet(objects, int(number)) for name, number in set(_FONT.findall(raw))}
    texts: list[str] = []
    for body in objects.values():
        content = _content(body)
        if b" Tf" in content:
            texts += _shown(content, fonts)
    return "\n".join(texts)


def _content(body: bytes) -> bytes:
    found = _STREAM.search(body)
    if found is None:
        return b""
    return zlib.decompress(found.group(1)) if b"/FlateDecode" in body else found.group(1)


def _alphabet(objects: dict[int, bytes], number: int) -> dict[int, str]:
    """Maps each glyph of a font to its character."""
    found = _TO_UNICODE.search(objects[number])
    assert found, "the font has no character map"
    pairs = _CHARACTER.findall(_content(objects[int(found.group(1))]))
    return {
        int(glyph, 16): bytes.fromhex(text.decode()).decode("utf-16-be") for glyph, text in pairs
    }


def _shown(content: bytes, fonts: dict[bytes, dict[int, str]]) -> list[str]:
    texts: list[str] = []
    alphabet: dict[int, str] = {}
    for font, text in _SHOWN.findall(content):
        if font:
            alphabet = fonts[font]
        else:
            plain = _ESCAPED.sub(lambda found: _ESCAPES.get(found.group(1), found.group(1)), text)
            glyphs = zip(plain[::2], plain[1::2], strict=True)
            texts.append("".join(alphabet[256 * high + low] for high, low in glyphs))
    return texts
