"""Reads uploaded files, from a form or from a request to a signed URL."""

import hashlib
from email import message_from_bytes
from email.policy import HTTP

import msgspec

FILE_BYTES_MAX = 12 * 1024 * 1024


class SentFile(msgspec.Struct, frozen=True):
    field: str  # the name of the form's field, or an empty string
    name: str
    media_type: str
    size: int
    sha256: str


def from_body(raw: bytes, media_type: str) -> SentFile:
    return SentFile("", "", media_type, len(raw), hashlib.sha256(raw).hexdigest())


def from_form(raw: bytes, media_type: str) -> SentFile | None:
    """Returns the form's only file. Returns None if the form has another content."""
    head = f"Content-Type: {media_type}\r\n\r\n".encode()
    form = message_from_bytes(head + raw, policy=HTTP)
    parts = list(form.iter_parts()) if form.is_multipart() else []
    if len(parts) != 1 or not parts[0].get_filename():
        return None
    content = parts[0].get_payload(decode=True)
    assert isinstance(content, bytes)
    return SentFile(
        field=str(parts[0].get_param("name", "", "content-disposition")),
        name=str(parts[0].get_filename()),
        media_type=parts[0].get_content_type(),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
