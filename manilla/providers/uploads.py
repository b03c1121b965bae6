"""Uploads evidence of a dispute to a provider, in a form or to a signed URL.

A signed URL comes from a provider's response, so it could name any host. It is called only with TLS
and only at a public address, except on the host of the account's own API URL, which an
administrator has chosen. Our credentials are never sent there, and redirects are not followed.
"""

import asyncio
import re
import secrets

from manilla.kit import outbound, time_limits
from manilla.kit.http import is_web_address
from manilla.kit.http_client import urls
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.errors import HttpError
from manilla.providers.port import EvidenceFile, Unknown
from manilla.providers.wire import Content, ProviderApi

URL_LENGTH_MAX = 4096
ANSWER_BYTES_MAX = 64 * 1024
FILE_BYTES_MAX = 10 * 1024 * 1024
NAME_LENGTH_MAX = 80

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")
_FORBIDDEN_URL = Unknown("the URL for the upload is not a public https URL", needs_lookup=True)
_TOO_LARGE = Unknown("the file is too large to be uploaded", never_sent=True, can_pass=False)


def safe_name(file: EvidenceFile) -> str:
    """Returns the file's name with plain characters only, because it is part of URLs and headers.

    Keeps the end of a long name, because it has the file's type.
    """
    return _NOT_IN_NAMES.sub("-", file.name)[-NAME_LENGTH_MAX:].strip("-.") or "evidence"


def problem_of(file: EvidenceFile) -> Unknown | None:
    """Returns why the file is not sent at all, or None."""
    if len(file.content) > FILE_BYTES_MAX:
        return _TOO_LARGE
    if not _MEDIA_TYPE.fullmatch(file.media_type):
        return Unknown("the file's type is not valid", never_sent=True, can_pass=False)
    return None


def form(field: str, file: EvidenceFile) -> Content:
    """Encodes the file as the only field of a form."""
    while (boundary := secrets.token_hex(16)).encode() in file.content:
        pass
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="{field}"; filename="{safe_name(file)}"\r\n'
        f"Content-Type: {file.media_type}\r\n\r\n"
    )
    end = f"\r\n--{boundary}--\r\n"
    media_type = f"multipart/form-data; boundary={boundary}"
    return Content(media_type, head.encode() + file.content + end.encode())


async def put(api: ProviderApi, url: str, file: EvidenceFile) -> Unknown | None:
    """Sends the file to a signed URL. Returns None if the server has stored the file."""
    is_own = _is_at_own_host(url, api.base_url)
    if not is_own and not _is_public(url):
        return _FORBIDDEN_URL
    limits = time_limits.current
    client = HttpClient(
        connections=1,
        keepalive_seconds=0,
        connect_seconds=limits.provider_connect_seconds,
        is_public_only=not is_own,
        headers={"User-Agent": "Manilla"},
    )
    try:
        async with asyncio.timeout(limits.provider_upload_seconds), api.calls, client:
            reply = await client.request(
                "PUT",
                url,
                headers={"Content-Type": file.media_type},
                body=file.content,
                body_max=ANSWER_BYTES_MAX,
            )
    except (HttpError, OSError) as error:
        is_late = isinstance(error, TimeoutError)
        reason = "no answer in time" if is_late else outbound.describe(error)
        return Unknown(f"the file was not uploaded: {reason}")
    assert reply.status is not None
    if 200 <= reply.status < 300:
        return None
    return Unknown(f"the file was not uploaded: HTTP {reply.status}")


def _is_at_own_host(url: str, own_url: str) -> bool:
    """Returns True if the URL's scheme, host and port are those of the account's API URL."""
    target = _parsed(url)
    own = _parsed(own_url)
    return target is not None and own is not None and target.origin == own.origin


def _is_public(url: str) -> bool:
    target = _parsed(url)
    return target is not None and target.origin.is_tls and not outbound.has_private_host(url)


def _parsed(url: str) -> urls.Target | None:
    """Parses the URL. Returns None if it is invalid or has a user name, which no signed URL has."""
    if len(url) > URL_LENGTH_MAX or not url.isascii() or not is_web_address(url):
        return None
    try:
        target = urls.parse(url)
    except (HttpError, ValueError):
        return None
    return target if target.authorization is None else None
