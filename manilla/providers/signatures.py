"""Verifies the signatures of providers' webhooks. All comparisons take constant time."""

import base64
import hmac

from manilla.providers.port import Headers


def is_hex_hmac(
    headers: Headers, name: bytes, secret: bytes, signed: bytes, digest: str = "sha256"
) -> bool:
    """Whether the header is the hex HMAC of the signed bytes: the body or a part of it."""
    given = _given(headers, name)
    expected = hmac.digest(secret, signed, digest).hex().encode()
    return bool(secret) and given is not None and hmac.compare_digest(expected, given.lower())


def is_base64_hmac(
    headers: Headers, name: bytes, secret: bytes, signed: bytes, digest: str = "sha256"
) -> bool:
    given = _given(headers, name)
    expected = base64.b64encode(hmac.digest(secret, signed, digest))
    return bool(secret) and given is not None and hmac.compare_digest(expected, given)


def is_shared_secret(headers: Headers, name: bytes, secret: bytes) -> bool:
    """Whether the header equals the secret, which identifies the sender but signs no body."""
    given = _given(headers, name)
    return bool(secret) and given is not None and hmac.compare_digest(secret, given)


def _given(headers: Headers, name: bytes) -> bytes | None:
    """Returns the header, or None if it is missing or repeated."""
    given = headers.get(name, ())
    return given[0] if len(given) == 1 else None
