"""Idempotency keys: a repeated request gets the response to the first request."""

import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.expiry import delete_older
from manilla.kit.ids import ALPHABET
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import KeyUsedBefore
from manilla.ledger.trx_ids import TRX_IDS

KEPT = timedelta(hours=24)
_TRX_ID = re.compile(f"TXN[{ALPHABET}]{{{TRX_IDS.length - 3}}}")


# Stores the response to a request in the transaction that makes the change, once per key.
Remember: TypeAlias = Callable[[Connection, Any], Awaitable[None]]


async def without_key(_connection: Connection, _made: Any) -> None:
    """Stores no response, because the change has no idempotency key."""


class RepeatKey(msgspec.Struct, frozen=True):
    """An Idempotency-Key, with the endpoint and the body hash of its request."""

    endpoint: str
    key: str
    body_hash: str

    @classmethod
    def of(cls, endpoint: str, key: str, body: bytes) -> "RepeatKey":
        return cls(endpoint, key, hashlib.sha256(body).hexdigest())


class Replayed(msgspec.Struct, frozen=True):
    """The stored response to the first request with this idempotency key."""

    body: str

    @property
    def trx_id(self) -> str | None:
        """The id of the transaction that the first request created.

        This is the first id in the stored response, in `trx_id` or in the path of `payment_url`.
        Values from the request, which may look like ids, come later in the response.
        """
        found = _TRX_ID.search(self.body)
        return found.group() if found else None


async def find_answer(db: Database, tenant: Tenant, repeat: RepeatKey) -> Replayed | None:
    """Returns the stored response if this idempotency key was used before with the same body."""
    answer: str | None = await db.value(
        """
        SELECT answer FROM idempotency
         WHERE merchant_id = $1 AND environment = $2 AND endpoint = $3 AND key = $4
           AND body_hash = $5""",
        *(tenant.merchant_id, tenant.environment, repeat.endpoint, repeat.key, repeat.body_hash),
    )
    return None if answer is None else Replayed(answer)


async def is_used(connection: Connection, tenant: Tenant, repeat: RepeatKey) -> bool:
    """Returns True if this idempotency key was used before, with any body."""
    return await connection.has_row(
        """
        SELECT true FROM idempotency
         WHERE merchant_id = $1 AND environment = $2 AND endpoint = $3 AND key = $4""",
        *(tenant.merchant_id, tenant.environment, repeat.endpoint, repeat.key),
    )


async def store_answer(
    connection: Connection, tenant: Tenant, repeat: RepeatKey, answer: str
) -> None:
    """Stores the response under its idempotency key. Rejects a key that was used before.

    A concurrent request with the same key waits here until the first transaction has ended.
    """
    is_first = await connection.has_row(
        """
        INSERT INTO idempotency (merchant_id, environment, endpoint, key, body_hash, answer)
        VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT DO NOTHING RETURNING true""",
        *(tenant.merchant_id, tenant.environment, repeat.endpoint, repeat.key),
        *(repeat.body_hash, answer),
    )
    if not is_first:
        raise KeyUsedBefore


async def delete_old_answers(db: Database) -> None:
    await delete_older(db, "idempotency", "created_at", KEPT)
