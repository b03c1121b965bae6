"""Parses the body of a submitted form. Files stay in memory and are never written to disk."""

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
    """Returns the fields and files of a form, or an empty list if the request has no form."""
    media_type, options = parse_options_header(http.headers.get("content-type", ""))
    try:
        if media_type == "multipart/form-data":
            return await _multipart(http, options.get("boundary", ""))
        if media_type == "application/x-www-form-urlencoded":
            # The size limit for forms without files is low, even if the route accepts large files.
            http.body_bytes_max = min(http.body_bytes_max, BODY_BYTES_MAX)
            return parse_pairs(await http.body())
        return []
    except UnicodeDecodeError:
        raise BadForm("The form contains text that is not valid UTF-8.") from None
    except MultipartError:
        raise BadForm("The form is incomplete or malformed.") from None


async def _multipart(http: WebRequest, boundary: str) -> list[Part]:
    """Parses a form with files.

    Files stay in memory, because documents are confidential and must be encrypted before they are
    stored. The route's maximum body size limits the memory.
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
