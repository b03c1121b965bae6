"""Requests that say of themselves that they may be a repetition."""

import hashlib

import msgspec

from manilla.kit.db import Database


class RepeatKey(msgspec.Struct, frozen=True):
    """What a caller sent as Idempotency-Key, and what it sent it with."""

    endpoint: str
    key: str
    body_hash: str

    @classmethod
    def of(cls, endpoint: str, key: str, body: bytes) -> "RepeatKey":
        return cls(endpoint, key, hashlib.sha256(body).hexdigest())


class Replayed(msgspec.Struct, frozen=True):
    """The answer that was given to the first request of a key."""

    body: str


async def forget_old_answers(db: Database) -> None:
    await db.execute("DELETE FROM idempotency WHERE created_at < now() - interval '24 hours'")
