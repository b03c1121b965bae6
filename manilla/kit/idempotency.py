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


async def find_answer(
    db: Database, merchant_id: int, environment: str, repeat: RepeatKey
) -> Replayed | None:
    """What was answered before to the same request under this key."""
    answer: str | None = await db.value(
        """
        SELECT answer FROM idempotency
         WHERE merchant_id = $1 AND environment = $2 AND endpoint = $3 AND key = $4
           AND body_hash = $5""",
        *(merchant_id, environment, repeat.endpoint, repeat.key, repeat.body_hash),
    )
    return None if answer is None else Replayed(answer)


async def forget_old_answers(db: Database) -> None:
    await db.execute("DELETE FROM idempotency WHERE created_at < now() - interval '24 hours'")
