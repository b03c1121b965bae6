"""Reads the body of a submitted form. Files stay in memory, and never reach the disk."""

from collections.abc import Sequence

from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)

from manilla.web.forms import BadForm, Form, UploadedFile
from manilla.web.serving.request import BODY_BYTES_MAX, WebRequest, parse_pairs

PARTS_MAX = 1000

Part = tuple[str, str | UploadedFile]


async def read_form(http: WebRequest) -> Form:
    return Form(list(await read_parts(http)))


async def read_parts(http: WebRequest) -> Sequence[Part]:
    """Returns the fields and files of a form. A body of another type is not read."""
    media_type, options = parse_options_header(http.headers.get("content-type", ""))
    try:
        if media_type == "multipart/form-data":
            return await _multipart(http, options.get("boundary", ""))
        if media_type == "application/x-www-form-urlencoded":
            # A form without files is short, even if the route permits files.
            http.body_bytes_max = min(http.body_bytes_max, BODY_BYTES_MAX)
            return parse_pairs(await http.body())
        return []
    except UnicodeDecodeError:  # bytes in a text field, or in a file without a name
        raise BadForm("The form contains bytes that are not text.") from None
    except MultipartError:
        raise BadForm("The form is incomplete or malformed.") from None


async def _multipart(http: WebRequest, boundary: str) -> list[Part]:
    """Reads the parts of a form with files.

    They stay in memory, because documents are secret, and are encrypted before they are stored.
    The route's maximum size limits the memory.
    """
    parts: list[Part] = []
    segment, content = None, bytearray()
    with PushMultipartParser(boundary, max_segment_count=PARTS_MAX) as parser:
        async for chunk in http.chunks():
            for found in parser.parse(chunk):
                if isinstance(found, MultipartSegment):
                    segment, content = found, bytearray()
                elif found is not None:
                    content += found
                elif segment is not None:
                    parts.append((segment.name, _value(segment, bytes(content))))
    return parts


def _value(segment: MultipartSegment, content: bytes) -> str | UploadedFile:
    return UploadedFile(segment.filename, content) if segment.filename else content.decode()
