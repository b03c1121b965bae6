"""Checks the content of uploaded documents: PDF, PNG and JPEG files of at most 5 MB."""

from enum import StrEnum

from manilla.kit.errors import Refusal

BYTES_MAX = 5 * 1024 * 1024
NAME_LENGTH_MAX = 100
PDF_TAIL_BYTES = 1024


class MediaType(StrEnum):
    PDF = "application/pdf"
    PNG = "image/png"
    JPEG = "image/jpeg"


EXTENSIONS = {MediaType.PDF: "pdf", MediaType.PNG: "png", MediaType.JPEG: "jpg"}


class BadDocument(Refusal):
    status, code = 400, "BAD_DOCUMENT"
    message = "Upload a PDF, PNG or JPEG file of at most 5 MB."


def media_type_of(content: bytes) -> MediaType:
    """Detects the type from the content, because the file's name and declared type can be wrong."""
    if not content:
        raise BadDocument("The file is empty.")
    if len(content) > BYTES_MAX:
        raise BadDocument("The file is larger than 5 MB.")
    for media_type, is_type in _CHECKS:
        if is_type(content):
            return media_type
    raise BadDocument(
        "This is not a complete PDF, PNG or JPEG file. The file's content counts, not its name."
    )


def _is_pdf(content: bytes) -> bool:
    tail = content[-PDF_TAIL_BYTES:]
    has_end = b"startxref" in tail and b"%%EOF" in tail
    return content.startswith(b"%PDF-") and has_end and b" obj" in content


def _is_png(content: bytes) -> bool:
    head, end = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", b"\0\0\0\0IEND\xaeB`\x82"
    return content.startswith(head) and content.endswith(end)


def _is_jpeg(content: bytes) -> bool:
    return content.startswith(b"\xff\xd8\xff") and content.rstrip(b"\0").endswith(b"\xff\xd9")


_CHECKS = ((MediaType.PDF, _is_pdf), (MediaType.PNG, _is_png), (MediaType.JPEG, _is_jpeg))


def plain_name(name: str) -> str:
    """Returns the file's name without folders and unprintable characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(each for each in last if each.isprintable()).strip(" .")
    return kept[-NAME_LENGTH_MAX:] or "document"
