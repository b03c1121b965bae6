"""Reads the body of a submitted form. Files stay in memory, and never reach the disk."""

from typing import Any

from litestar import Request
from litestar.enums import RequestEncodingType
from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
)

from manilla.web.forms import BadForm, Form, UploadedFile

PARTS_MAX = 1000

Part = tuple[str, str | UploadedFile]


async def read_form(http: Request[Any, Any, Any]) -> Form:
    try:
        kind, options = http.content_type
        if kind == RequestEncodingType.MULTI_PART:
            return Form(await _parts(http, options.get("boundary", "")))
        return Form(list((await http.form()).multi_items()))
    except UnicodeDecodeError:  # bytes in a text field, or in a file without a name
        raise BadForm("The form contains bytes that are not text.") from None
    except MultipartError:
        raise BadForm("The form is incomplete or malformed.") from None


async def _parts(http: Request[Any, Any, Any], boundary: str) -> list[Part]:
    """Reads the parts of a form with files.

    Litestar's own reader writes files of more than 1 MB to the disk. Documents are secret, and are
    encrypted before they are stored. The route's maximum size limits the memory.
    """
    parts: list[Part] = []
    segment, content = None, bytearray()
    with PushMultipartParser(boundary, max_segment_count=PARTS_MAX) as parser:
        async for chunk in http.stream():
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
