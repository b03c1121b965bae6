"""How providers sign their webhooks. A signer returns the headers to send with the body."""

import hashlib
import hmac
from collections.abc import Callable

import msgspec

from manilla_simulator.settings import Account

Signer = Callable[[Account, str, bytes], dict[str, str]]  # takes the account, the key and the body


class _SignedData(msgspec.Struct):
    data: msgspec.Raw


def hmac_of_body(header: str, digest: str) -> Signer:
    def sign(_account: Account, key: str, raw: bytes) -> dict[str, str]:
        return {header: hex_hmac(key, raw, digest)}

    return sign


def hmac_of_data(header: str, digest: str) -> Signer:
    """Signs only the bytes of the field `data`, as they are in the body."""

    def sign(_account: Account, key: str, raw: bytes) -> dict[str, str]:
        return {header: hex_hmac(key, bytes_of_data(raw), digest)}

    return sign


def shared_secret(header: str) -> Signer:
    """Sends the secret itself. It proves the sender, not the body."""

    def sign(_account: Account, key: str, _raw: bytes) -> dict[str, str]:
        return {header: key}

    return sign


def bytes_of_data(raw: bytes) -> bytes:
    """The whole body if it has no field `data`."""
    try:
        return bytes(msgspec.json.decode(raw, type=_SignedData).data)
    except msgspec.DecodeError:
        return raw


def hex_hmac(key: str, signed: bytes, digest: str) -> str:
    return hmac.new(key.encode(), signed, getattr(hashlib, digest)).hexdigest()
