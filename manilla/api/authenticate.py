"""Checks a request's environment, credentials, timestamp and signature, in this order."""

import hmac
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from manilla.api.refusals import InvalidEnvironment
from manilla.kit.environment import Environment
from manilla.merchants.api_keys import LiveKey
from manilla.merchants.credentials import InvalidCredentials, hash_api_key
from manilla.merchants.directory import Caller, Directory
from manilla.merchants.rights import ALL_RIGHTS, Right
from manilla.platform.settings import PlatformSettings

Headers = Mapping[bytes, bytes]

NO_GENERATION = 0  # the request used an additional API key

_ENVIRONMENTS = {environment.encode(): environment for environment in Environment}
_TIMESTAMP = re.compile(rb"[0-9]{1,12}")
_SIGNATURE = re.compile(rb"[0-9a-f]{64}")


def read_environment(headers: Headers) -> Environment:
    value = headers.get(b"x-environment")
    if value is None:
        return Environment.PRODUCTION
    environment = _ENVIRONMENTS.get(value)
    if environment is None:
        raise InvalidEnvironment
    return environment


async def authenticate(
    directory: Directory,
    settings: PlatformSettings,
    environment: Environment,
    address: str,
    headers: Headers,
    signed: "SignedRequest",
) -> "Identity":
    identity = await identify(directory, environment, address, headers)
    try:
        check_signed(identity, settings, headers, signed)
    except InvalidCredentials as error:
        error.merchant = identity.caller
        raise
    return identity


async def identify(
    directory: Directory, environment: Environment, address: str, headers: Headers
) -> "Identity":
    """Finds the request's merchant and API key. Does not check the signature."""
    caller = await _find(directory, environment, headers)
    try:
        return _match(caller, headers, address)
    except InvalidCredentials as error:
        error.merchant = caller
        raise


def check_signed(
    identity: "Identity",
    settings: PlatformSettings,
    headers: Headers,
    signed: "SignedRequest",
) -> None:
    """Checks the request's timestamp and signature."""
    if settings.signature_required:
        timestamp = _check_timestamp(headers, settings.timestamp_tolerance_seconds)
        _check_signature(identity.secrets(), headers, signed.string(timestamp))


async def by_bearer(directory: Directory, environment: Environment, headers: Headers) -> "Identity":
    """Authenticates a legacy API request by its bearer token, which is the main API key.

    Additional API keys are not accepted, because they require a signature.
    """
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not key.strip():
        raise InvalidCredentials
    api_key_hash = hash_api_key(key.strip())
    caller = await directory.find_by_api_key(environment, api_key_hash)
    identity = None if caller is None else _match_own(caller, api_key_hash)
    if identity is None:
        raise InvalidCredentials
    return identity


class Identity(NamedTuple):
    """The merchant that sent a request, and the API key that it used."""

    caller: Caller
    generation: int  # number of the main key, or 0 for an additional key
    key: LiveKey | None = None  # the additional API key, or None for the main key

    @property
    def rights(self) -> frozenset[Right]:
        return ALL_RIGHTS if self.key is None else self.key.rights

    @property
    def key_name(self) -> str | None:
        """The API key's name, as shown in the request log."""
        if self.key is not None:
            return self.key.name
        return f"Main key No. {self.generation}" if self.generation else None

    def secrets(self) -> list[bytes]:
        """Returns the secrets with which this request can be signed.

        While the main credentials are being rotated, the old and the new secret are valid.
        """
        if self.key is not None:
            return [self.key.secret]
        return [credential.secret for credential in self.caller.live_credentials()]


class SignedRequest:
    """The parts of a request that the signature covers, exactly as sent."""

    __slots__ = ("body", "method", "target")

    def __init__(self, method: str, target: bytes, body: bytes) -> None:
        self.method = method
        self.target = target
        self.body = body

    def string(self, timestamp: bytes) -> bytes:
        return b".".join((timestamp, self.method.upper().encode(), self.target, self.body))


def sign(secret: bytes, timestamp: int, method: str, target: str, body: bytes) -> str:
    """Returns the value of the X-Signature header for a request."""
    string = SignedRequest(method, target.encode(), body).string(str(timestamp).encode())
    return hmac.digest(secret, string, "sha256").hex()


async def _find(directory: Directory, environment: Environment, headers: Headers) -> Caller:
    merchant_key = headers.get(b"x-merchant-key", b"").decode("latin-1")
    caller = directory.remembered(environment, merchant_key)
    if caller is None and merchant_key:
        caller = await directory.find(environment, merchant_key)
    if caller is None:
        raise InvalidCredentials
    return caller


def _match(caller: Caller, headers: Headers, address: str) -> Identity:
    api_key_hash = hash_api_key(headers.get(b"x-api-key", b""))
    identity = _match_own(caller, api_key_hash) or _match_further(caller, api_key_hash, address)
    if identity is None:
        raise InvalidCredentials
    return identity


def _match_own(caller: Caller, api_key_hash: bytes) -> Identity | None:
    for credential in caller.live_credentials():
        if hmac.compare_digest(credential.api_key_hash, api_key_hash):
            return Identity(caller, credential.generation)
    return None


def _match_further(caller: Caller, api_key_hash: bytes, address: str) -> Identity | None:
    for key in caller.keys:
        if hmac.compare_digest(key.api_key_hash, api_key_hash):
            _check_usable(key, address)
            return Identity(caller, NO_GENERATION, key)
    return None


def _check_usable(key: LiveKey, address: str) -> None:
    """Rejects an expired API key, and a key that is used from a forbidden IP address.

    The error is the same as for an unknown key, so it does not reveal that the key exists.
    """
    if not key.is_live(datetime.now(UTC)):
        raise InvalidCredentials(logged=f"The API key {key.name} has expired.")
    if not key.allows(address):
        raise InvalidCredentials(logged=f"The API key {key.name} does not allow {address}.")


def _check_timestamp(headers: Headers, tolerance_seconds: int) -> bytes:
    text = headers.get(b"x-timestamp")
    if text is None:
        raise InvalidCredentials(errors={"X-Timestamp": "The header is missing."})
    if not _TIMESTAMP.fullmatch(text):
        raise InvalidCredentials(errors={"X-Timestamp": "The header is not a Unix timestamp."})
    if abs(int(time.time()) - int(text)) > tolerance_seconds:
        raise InvalidCredentials(errors={"X-Timestamp": "The timestamp is outside the tolerance."})
    return text


def _check_signature(secrets: Sequence[bytes], headers: Headers, string: bytes) -> None:
    text = headers.get(b"x-signature")
    if text is None:
        raise InvalidCredentials(errors={"X-Signature": "The header is missing."})
    given = text.lower().removeprefix(b"sha256=")
    for secret in secrets:
        if hmac.compare_digest(hmac.digest(secret, string, "sha256").hex().encode(), given):
            return
    if not _SIGNATURE.fullmatch(given):
        raise InvalidCredentials(errors={"X-Signature": "The header is not 64 hex digits."})
    raise InvalidCredentials(errors={"X-Signature": "The signature does not match."})
