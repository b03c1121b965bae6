"""How providers sign their webhooks. A signer returns the headers to send with the body."""

import hashlib
import hmac
from collections.abc import Callable

import msgspec

from manilla_simulator.settings import Account

Signer = Callable[[Account, str, bytes], dict[str, str]]  # arguments: account, key, body


class _SignedData(msgspec.Struct):
    data: msgspec.Raw


def hmac_of_body(header: str, digest: str) -> Signer:
    def sign(_account: Account, key: str, raw: bytes) -> dict[str, str]:
        return {header: hex_hmac(key, raw, digest)}

    return sign


def hmac_of_data(header: str, digest: str) -> Signer:
    """Signs only the bytes of the field `data`, exactly as they are in the body."""

    def sign(_account: Account, key: str, raw: bytes) -> dict[str, str]:
        return {header: hex_hmac(key, bytes_of_data(raw), digest)}

    return sign


def shared_secret(header: str) -> Signer:
    """Sends the secret itself, which authenticates the sender but does not protect the body."""

    def sign(_account: Account, key: str, _raw: bytes) -> dict[str, str]:
        return {header: key}

    return sign


def bytes_of_data(raw: bytes) -> bytes:
    """Returns the bytes of the field `data`, or the whole body if it has no such field."""
    try:
        return bytes(msgspec.json.decode(raw, type=_SignedData).data)
    except msgspec.DecodeError:
        return raw


def hex_hmac(key: str, signed: bytes, digest: str) -> str:
    return hmac.new(key.encode(), signed, getattr(hashlib, digest)).hexdigest()
