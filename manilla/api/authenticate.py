"""Checks a request's environment, credentials, timestamp and signature, in this order."""

import hmac
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from manilla.api.refusals import InvalidCredentials, InvalidEnvironment
from manilla.kit.environment import Environment
from manilla.merchants.credentials import LiveCredential, hash_api_key
from manilla.merchants.directory import Caller, Directory
from manilla.merchants.rights import ALL_RIGHTS, Right
from manilla.platform.settings import PlatformSettings

Headers = Mapping[bytes, bytes]

_TIMESTAMP = re.compile(rb"[0-9]{1,12}")
_SIGNATURE = re.compile(rb"(?:sha256=)?([0-9a-f]{64})")


def read_environment(headers: Headers) -> Environment:
    value = headers.get(b"x-environment")
    if value is None:
        return Environment.PRODUCTION
    try:
        return Environment(value.decode("latin-1"))
    except ValueError:
        raise InvalidEnvironment from None


async def authenticate(
    directory: Directory,
    settings: PlatformSettings,
    environment: Environment,
    headers: Headers,
    signed: "SignedRequest",
) -> "Identity":
    identity, live = await _identify(directory, environment, headers)
    check_signed(live, settings, headers, signed)
    return identity


def check_signed(
    live: Sequence[LiveCredential],
    settings: PlatformSettings,
    headers: Headers,
    signed: "SignedRequest",
) -> None:
    """Checks the timestamp, and that one of the merchant's valid secrets signed the request."""
    if settings.signature_required:
        timestamp = _check_timestamp(headers, settings.timestamp_tolerance_seconds)
        _check_signature(live, headers, signed.string(timestamp))


async def by_bearer(directory: Directory, environment: Environment, headers: Headers) -> "Identity":
    """Authenticates a legacy API request, which has only the API key, as a bearer token."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not key.strip():
        raise InvalidCredentials
    api_key_hash = hash_api_key(key.strip())
    caller = await directory.find_by_api_key(environment, api_key_hash)
    used = None if caller is None else _matching(caller.live_credentials(), api_key_hash)
    if caller is None or used is None:
        raise InvalidCredentials
    return Identity(caller, used.generation)


class Identity(NamedTuple):
    caller: Caller
    generation: int  # generation of the credentials that the API key belongs to
    rights: frozenset[Right] = ALL_RIGHTS


class SignedRequest:
    """The parts of a request that its signature covers, byte for byte."""

    __slots__ = ("body", "method", "target")

    def __init__(self, method: str, target: bytes, body: bytes) -> None:
        self.method = method
        self.target = target
        self.body = body

    def string(self, timestamp: bytes) -> bytes:
        return b".".join((timestamp, self.method.upper().encode(), self.target, self.body))


def sign(secret: bytes, timestamp: int, method: str, target: str, body: bytes) -> str:
    """Computes the X-Signature header that a merchant sends."""
    string = SignedRequest(method, target.encode(), body).string(str(timestamp).encode())
    return hmac.digest(secret, string, "sha256").hex()


async def _identify(
    directory: Directory, environment: Environment, headers: Headers
) -> tuple[Identity, Sequence[LiveCredential]]:
    merchant_key = headers.get(b"x-merchant-key", b"").decode("latin-1")
    api_key_hash = hash_api_key(headers.get(b"x-api-key", b""))
    caller = await directory.find(environment, merchant_key) if merchant_key else None
    live = [] if caller is None else caller.live_credentials()
    used = _matching(live, api_key_hash)
    if caller is None or used is None:
        raise InvalidCredentials
    return Identity(caller, used.generation), live


def _matching(live: Sequence[LiveCredential], api_key_hash: bytes) -> LiveCredential | None:
    for credential in live:
        if hmac.compare_digest(credential.api_key_hash, api_key_hash):
            return credential
    return None


def _check_timestamp(headers: Headers, tolerance_seconds: int) -> bytes:
    text = headers.get(b"x-timestamp")
    if text is None:
        raise InvalidCredentials(errors={"X-Timestamp": "The header is missing."})
    if not _TIMESTAMP.fullmatch(text):
        raise InvalidCredentials(errors={"X-Timestamp": "The header is not a Unix timestamp."})
    if abs(int(time.time()) - int(text)) > tolerance_seconds:
        raise InvalidCredentials(errors={"X-Timestamp": "The timestamp is outside the tolerance."})
    return text


def _check_signature(
    credentials: Sequence[LiveCredential], headers: Headers, string: bytes
) -> None:
    text = headers.get(b"x-signature")
    if text is None:
        raise InvalidCredentials(errors={"X-Signature": "The header is missing."})
    match = _SIGNATURE.fullmatch(text.lower())
    if match is None:
        raise InvalidCredentials(errors={"X-Signature": "The header is not 64 hex digits."})
    given = bytes.fromhex(match[1].decode())
    if not any(
        hmac.compare_digest(hmac.digest(credential.secret, string, "sha256"), given)
        for credential in credentials
    ):
        raise InvalidCredentials(errors={"X-Signature": "The signature does not match."})
