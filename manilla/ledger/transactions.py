"""Errors and types that payments and payouts share."""

from enum import StrEnum
from typing import Any

from manilla.kit import ratelimit
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import trx_ids
from manilla.ledger.scope import Tenant

SANDBOX_REMARK = "SANDBOX_TRANSACTION"


class TransactionNotFound(Refusal):
    """The id is unknown, or the caller may not see the transaction. Both give the same error."""

    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such transaction."


class DuplicateReference(Refusal):
    code = "DUPLICATE_REFERENCE"
    message = "This ref_trx was used before."


class KeyUsedBefore(Refusal):
    code = "DUPLICATE_REFERENCE"
    message = "This Idempotency-Key was used before, with another body."


class CurrencyNotEnabled(Refusal):
    code = "INVALID_CURRENCY"
    message = "Currency is not enabled for this merchant."


class Scenario(StrEnum):
    """The outcome that the caller requested for a sandbox transaction."""

    SUCCESS = "success"
    FAILED = "failed"
    PENDING = "pending"


async def find_counted(
    db: Database, table: str, columns: str, tenant: Tenant, trx_id: str, ticket: RateTicket
) -> tuple[Any, ...]:
    """Reads columns of a transaction and counts the request toward the rate limit.

    One statement does both. `columns` must include the id.
    """
    if trx_ids.merchant_of(trx_id) != tenant.merchant_id:
        raise TransactionNotFound
    record = await db.record(
        f"""
        SELECT taken.used, taken.resets_in_seconds, {columns}
          FROM rate_take(ARRAY[$4], ARRAY[1::bigint], $5) AS taken
          -- This order forces a plan on the primary key, which does not read all of
          -- the merchant's rows.
          LEFT JOIN LATERAL (SELECT * FROM {table}
                WHERE merchant_id = $1 AND trx_id BETWEEN $3 AND $3
                ORDER BY trx_id LIMIT 1) AS found
            ON found.environment = $2""",
        *(tenant.merchant_id, tenant.environment, trx_id, ticket.bucket, ratelimit.WINDOW),
    )
    ticket.spend(record["used"], record["resets_in_seconds"])
    if record["trx_id"] is None:
        raise TransactionNotFound
    found: tuple[Any, ...] = record[2:]
    return found
