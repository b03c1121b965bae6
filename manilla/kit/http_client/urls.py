"""Parses and encodes URLs exactly like yarl, the library that earlier releases used.

Merchants and providers have registered and signed URLs in yarl's encoding.
"""

import ipaddress
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from manilla.kit.http_client.errors import InvalidUrl

DEFAULT_PORTS = {"http": 80, "https": 443}
REFERENCE_LENGTH_MIN = 20  # shorter last segments are mostly names of endpoints
_REFERENCE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)

_UNRESERVED = r"\-A-Za-z0-9._~!$'()*,"
# Percent-encoded characters that match the first pattern are decoded.
# Bytes that match the second pattern are percent-encoded.
_PATH = (
    re.compile(rf"[{_UNRESERVED}@:&=;]", re.ASCII),
    re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{_UNRESERVED}@:&=;/+]".encode()),
)
_QUERY = (
    re.compile(rf"[{_UNRESERVED}?/:@]", re.ASCII),
    re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{_UNRESERVED}?/:@=+&;]".encode()),
)
# Matches a URL's host and port. Stray brackets could hide which host is called.
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]]*?)(:[0-9]*)?")
# IDNA removes these characters, so a different host than the one in the URL would be called.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u1806\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class Origin(NamedTuple):
    """The scheme, host and port that a connection is opened to."""

    is_tls: bool
    host: str
    port: int


class Target(NamedTuple):
    origin: Origin
    host: str  # as in the header `Host`
    path: str  # with the query
    authorization: str | None  # the header, built from the URL's user name and password


def parse(url: str) -> Target:
    """Parses a URL. Raises InvalidUrl if the URL is invalid.

    Parses only the part before the last slash if the rest is a plain reference, as in a status
    query: only that part is the same for many calls, and is cached.
    """
    folder, _, reference = url.rpartition("/")
    if len(reference) >= REFERENCE_LENGTH_MIN and _REFERENCE.fullmatch(reference):
        parent = _parent(folder)
        if parent is not None:
            return parent._replace(path=f"{parent.path}/{reference}")
    return _parse(url)


@lru_cache(maxsize=256)
def _parent(folder: str) -> Target | None:
    """Parses a URL without its last segment. Returns None if the whole URL must be parsed."""
    if any(odd in folder for odd in ("?", "#", "/.")):
        return None
    try:
        parent = _parse(folder)
    except InvalidUrl:
        return None  # for example, because the last segment is the host
    return None if parent.path == "/" else parent


@lru_cache(maxsize=4096)  # cached, because all notifications of a merchant have the same URL
def _parse(url: str) -> Target:
    try:
        split = urlsplit(url)
        host, port = _encode_host(split.hostname or ""), split.port
    except ValueError as error:
        raise InvalidUrl(url) from error
    default = DEFAULT_PORTS.get(split.scheme)
    authority = split.netloc.rpartition("@")[2]
    is_ambiguous = "\\" in split.netloc or not _HOST_AND_PORT.fullmatch(authority)
    if default is None or not host or is_ambiguous:
        raise InvalidUrl(url)
    name = host.rstrip(".")
    shown = f"[{name}]" if ":" in name else name
    return Target(
        Origin(split.scheme == "https", host, default if port is None else port),
        shown if port in (None, default) else f"{shown}:{port}",
        _path(split),
        _authorization(split),
    )


def with_query(url: str, query: Mapping[str, str] | None) -> str:
    if not query:
        return url
    pairs = urlencode(query, safe="?/:@!$'()*,")
    return f"{url}{'&' if '?' in url else '?'}{pairs}"


def _encode_host(host: str) -> str:
    if host and (host[-1].isdigit() or ":" in host):
        address, percent, zone = host.partition("%25" if "%25" in host else "%")
        try:
            return f"{ipaddress.ip_address(address).compressed}{percent}{zone}"
        except ValueError:
            pass  # a name such as "shop1"
    if host.isascii():
        return host.lower()
    if _IGNORABLE.search(host) or "%" in host:
        raise ValueError("a character that is removed, or that has another meaning in ASCII")
    import idna  # imported on first use, because idna's tables are large

    try:
        return idna.encode(host, uts46=True).decode()
    except UnicodeError:
        return host.encode("idna").decode()


def _path(split: SplitResult) -> str:
    path = _requote(split.path, *_PATH)
    if "." in path:
        path = _without_dots(path)
    query = _requote(split.query, *_QUERY, space=b"+")
    return f"{path or '/'}?{query}" if query else path or "/"


def _requote(
    text: str, decoded: re.Pattern[str], odd: re.Pattern[bytes], *, space: bytes = b"%20"
) -> str:
    """Percent-encodes characters that must be encoded, and decodes unnecessary escapes."""

    def replace(match: re.Match[bytes]) -> bytes:
        found = match.group()
        if found == b" ":
            return space
        if len(found) == 1:
            return b"%%%02X" % found[0]
        character = chr(int(found[1:], 16))
        return character.encode() if decoded.fullmatch(character) else found.upper()

    return odd.sub(replace, text.encode(errors="ignore")).decode()


def _without_dots(path: str) -> str:
    kept: list[str] = []
    segments = path[1:].split("/")
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _authorization(split: SplitResult) -> str | None:
    if not split.username and split.password is None:
        return None
    user = unquote(split.username or "")
    if ":" in user:
        raise ValueError('A ":" is not allowed in login (RFC 1945#section-11.1)')
    pair = f"{user}:{unquote(split.password or '')}"
    return f"Basic {b64encode(pair.encode('latin-1')).decode()}"
