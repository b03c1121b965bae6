"""Encrypts secrets with AES-GCM. Each value has its own data key, wrapped by the master key.

The master key is stored outside the database. An encrypted value is bound to its row (its context),
so a value copied to another row cannot be decrypted. Rotating the master key rewraps only the small
data keys. The encrypted contents do not change.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from manilla.kit.database.connections import Connection, Database

KEY_BYTES = 32
_VERSION = b"\x01"
_NONCE_BYTES, _TAG_BYTES, _KEY_ID_BYTES = 12, 16, 8
_WRAPPED_BYTES = _NONCE_BYTES + KEY_BYTES + _TAG_BYTES
HEAD_BYTES = 1 + _KEY_ID_BYTES + _WRAPPED_BYTES  # the header before the encrypted content


class SealError(Exception):
    """The value cannot be decrypted: wrong master key, wrong row, or altered bytes."""


class _SealedParts(NamedTuple):
    key_id: bytes
    wrapped: bytes
    content: bytes


class Keyring:
    """The current master key, and older master keys that may still be needed to decrypt values."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        assert keys
        assert all(len(key) == KEY_BYTES for key in keys)
        self._current = _key_id(keys[0])
        self._keys = {_key_id(key): key for key in keys}

    def seal(self, secret: bytes, context: str) -> bytes:
        inner = AESGCM.generate_key(KEY_BYTES * 8)
        return self._join(self._wrap(inner, context), _encrypt(inner, secret, context))

    def open(self, sealed: bytes, context: str) -> bytes:
        parts = _split(sealed)
        return _decrypt(self._unwrap(parts, context), parts.content, context)

    def rewrap(self, sealed: bytes, context: str) -> bytes:
        """Returns the encrypted secret with its data key wrapped by the current master key."""
        return self.rewrap_head(sealed[:HEAD_BYTES], context) + sealed[HEAD_BYTES:]

    def rewrap_head(self, head: bytes, context: str) -> bytes:
        """Returns the new header of an encrypted value. The encrypted content is not needed."""
        return self._join(self._wrap(self._unwrap(_split(head), context), context), b"")

    def is_current(self, sealed: bytes) -> bool:
        return _split(sealed).key_id == self._current

    def derive(self, purpose: str) -> bytes:
        """Derives a key for one purpose from the current master key."""
        return hmac.digest(self._keys[self._current], purpose.encode(), "sha256")

    def derive_all(self, purpose: str) -> list[bytes]:
        """Derives a key for one purpose from every master key, the current one first."""
        return [hmac.digest(key, purpose.encode(), "sha256") for key in self._keys.values()]

    def _join(self, wrapped: bytes, content: bytes) -> bytes:
        return _VERSION + self._current + wrapped + content

    def _wrap(self, inner: bytes, context: str) -> bytes:
        return _encrypt(self._keys[self._current], inner, "wrap:" + context)

    def _unwrap(self, parts: _SealedParts, context: str) -> bytes:
        key = self._keys.get(parts.key_id)
        if key is None:
            raise SealError("The value was encrypted with a master key that is not configured.")
        return _decrypt(key, parts.wrapped, "wrap:" + context)


def decode_key(text: str) -> bytes:
    """Decodes a master key from the environment or a file: 32 bytes in base64."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError("A master key is 32 random bytes in base64 (openssl rand -base64 32).")
    return key


def generate_key() -> str:
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"manilla master key id" + key).digest()[:_KEY_ID_BYTES]


def _split(sealed: bytes) -> _SealedParts:
    if sealed[:1] != _VERSION or len(sealed) < HEAD_BYTES:
        raise SealError("The value is not sealed.")
    head = 1 + _KEY_ID_BYTES
    return _SealedParts(sealed[1:head], sealed[head:HEAD_BYTES], sealed[HEAD_BYTES:])


def _encrypt(key: bytes, data: bytes, context: str) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, context.encode())


def _decrypt(key: bytes, data: bytes, context: str) -> bytes:
    if len(data) < _NONCE_BYTES + _TAG_BYTES:
        raise SealError("The value is not sealed.")
    try:
        return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], context.encode())
    except InvalidTag:
        raise SealError(
            "The value cannot be decrypted: wrong key, wrong row, or altered bytes."
        ) from None


# Permits the transaction to change the merchant's rows.
Permit = Callable[[Connection, int], Awaitable[None]]


class SealedColumn(msgspec.Struct, frozen=True):
    """A column of encrypted values, with the function that derives a row's encryption context."""

    table: str
    column: str
    key: tuple[str, ...]
    context: Callable[[Any], str]


async def rewrap_column(db: Database, keyring: Keyring, place: SealedColumn, permit: Permit) -> int:
    """Rewraps a column's values with the current master key, and returns how many were rewrapped.

    `permit` is called in each transaction that changes a value of a merchant.

    Only the header of each value is read, because an encrypted document can be several megabytes
    long.
    """
    names, head = ", ".join(place.key), f"substring({place.column} FROM 1 FOR {HEAD_BYTES})"
    rest = f"substring({place.column} FROM {HEAD_BYTES + 1})"
    rows = await db.records(
        f"SELECT {names}, {head} AS head FROM {place.table} WHERE {place.column} IS NOT NULL"
    )
    stale = [row for row in rows if not keyring.is_current(row["head"])]
    match = " AND ".join(f"{name} = ${n}" for n, name in enumerate(place.key, start=3))
    owner = "id" if place.table == "merchant" else "merchant_id"
    for row in stale:
        async with db.transaction() as connection:
            if owner in place.key:
                await permit(connection, row[owner])
            # Update only an unchanged value, so that a concurrent change is not overwritten.
            await connection.execute(
                f"UPDATE {place.table} SET {place.column} = $1::bytea || {rest}"
                f" WHERE {head} = $2 AND {match}",
                keyring.rewrap_head(row["head"], place.context(row)),
                row["head"],
                *(row[name] for name in place.key),
            )
    return len(stale)
