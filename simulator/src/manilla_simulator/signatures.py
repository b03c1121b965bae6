"""The providers' webhook signatures. A signer returns the headers to send with the body."""

import hashlib
import hmac
from collections.abc import Callable

import msgspec

from manilla_simulator.settings import Account

# Takes the account, the key and the body.
Signer = Callable[[Account, str, bytes], dict[str, str]]


class _SignedData(msgspec.Struct):
    data: msgspec.Raw


def hmac_of_body(header: str, digest: str) -> Signer:
    def sign(_account: Account, key: str, raw: bytes) -> dict[str, str]:
        return {header: hex_hmac(key, raw, digest)}

    return sign


def hmac_of_data(header: str, digest: str) -> Signer:
    """Returns a signer that signs the exact bytes of the body's field `data`."""

    def sign(_account: Account, key: str, raw: bytes) -> dict[str, str]:
        return {header: hex_hmac(key, bytes_of_data(raw), digest)}

    return sign


def shared_secret(header: str) -> Signer:
    """Returns a signer that sends the secret itself, which does not protect the body."""

    def sign(_account: Account, key: str, _raw: bytes) -> dict[str, str]:
        return {header: key}

    return sign


def bytes_of_data(raw: bytes) -> bytes:
    """Returns the bytes of the field `data`, or the whole body if the body has no such field."""
    try:
        return bytes(msgspec.json.decode(raw, type=_SignedData).data)
    except msgspec.DecodeError:
        return raw


def hex_hmac(key: str, signed: bytes, digest: str) -> str:
    return hmac.new(key.encode(), signed, getattr(hashlib, digest)).hexdigest()
