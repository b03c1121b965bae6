"""SQL queries for the request log."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from manilla.kit.db import Database, columns
from manilla.ledger.scope import Tenant

FORGET_BATCH = 10_000
AROUND = timedelta(minutes=2)


class RequestLogLine(msgspec.Struct, frozen=True):
    """A request to be stored."""

    merchant_id: int
    at: datetime
    request_id: str
    environment: str
    method: str
    path: str
    status: int
    error_code: str | None
    error: str | None
    errors: str | None  # JSON
    milliseconds: float
    address: str
    user_agent: str | None
    ref_trx: str | None
    trx_id: str | None


class EndpointUse(msgspec.Struct, frozen=True):
    merchant_id: int
    environment: str
    generation: int
    at: datetime


class Request(msgspec.Struct, frozen=True):
    """A request as shown to people."""

    merchant_id: int
    at: datetime
    request_id: str
    environment: str
    method: str
    path: str
    status: int
    error_code: str | None
    error: str | None  # the message, as in the response
    errors: dict[str, str]  # messages by invalid field or header
    milliseconds: float
    address: str
    user_agent: str | None
    ref_trx: str | None
    trx_id: str | None


REQUEST_COLUMNS = columns(Request)


def read(record: Any) -> Request:
    fields = dict(record)
    errors = fields["errors"]
    fields["errors"] = msgspec.json.decode(errors) if errors else {}
    return msgspec.convert(fields, Request)


async def insert(db: Database, lines: Sequence[RequestLogLine]) -> None:
    """Inserts the lines, skipping existing ones: an earlier attempt may have taken effect."""
    await db.execute(
        """
        INSERT INTO api_request (merchant_id, at, request_id, environment, method, path, status,
                                 error_code, error, errors, milliseconds, address, user_agent,
                                 ref_trx, trx_id)
        SELECT merchant_id, at, request_id, environment, method, path, status, error_code, error,
               errors::jsonb, milliseconds, address, user_agent, ref_trx, trx_id
          FROM unnest($1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::text[],
                      $6::text[], $7::smallint[], $8::text[], $9::text[], $10::text[],
                      $11::real[], $12::text[], $13::text[], $14::text[], $15::text[])
               AS l (merchant_id, at, request_id, environment, method, path, status, error_code,
                     error, errors, milliseconds, address, user_agent, ref_trx, trx_id)
            ON CONFLICT DO NOTHING""",
        *map(list, zip(*map(msgspec.structs.astuple, lines), strict=True)),
    )


async def set_last_used(db: Database, uses: Sequence[EndpointUse]) -> None:
    """Locks the rows in key order, as all callers do, so that they cannot deadlock."""
    await db.execute(
        """
        WITH used AS (
            SELECT merchant_id, environment, generation, u.at
              FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::timestamptz[])
                   AS u (merchant_id, environment, generation, at)
              JOIN credential USING (merchant_id, environment, generation)
             ORDER BY merchant_id, environment, generation
               FOR NO KEY UPDATE OF credential)
        UPDATE credential AS c SET last_used_at = greatest(c.last_used_at, used.at)
          FROM used
         WHERE c.merchant_id = used.merchant_id AND c.environment = used.environment
           AND c.generation = used.generation""",
        *map(list, zip(*map(msgspec.structs.astuple, uses), strict=True)),
    )


async def forget_before(db: Database, moment: datetime) -> None:
    """Deletes in batches, so that no statement takes long."""
    while await db.value(
        """
        WITH old AS (
            SELECT merchant_id, at, request_id FROM api_request WHERE at < $1 LIMIT $2),
        gone AS (
            DELETE FROM api_request r USING old
             WHERE r.merchant_id = old.merchant_id AND r.at = old.at
               AND r.request_id = old.request_id
            RETURNING true)
        SELECT count(*) = $2 FROM gone""",
        *(moment, FORGET_BATCH),
    ):
        pass


async def requests_about(
    db: Database, merchant_id: int, trx_id: str, ref_trx: str, moment: datetime
) -> list[Request]:
    """Returns the requests about a transaction from around the time it was created."""
    records = await db.records(
        f"SELECT {REQUEST_COLUMNS} FROM api_request"
        """
         WHERE merchant_id = $1 AND at BETWEEN $4 AND $5 AND (trx_id = $2 OR ref_trx = $3)
         ORDER BY at, request_id LIMIT 100""",
        *(merchant_id, trx_id, ref_trx, moment - AROUND, moment + AROUND),
    )
    return [read(record) for record in records]


async def has_succeeded(db: Database, tenant: Tenant) -> bool:
    """Whether the log has a successful request."""
    found: bool = await db.value(
        """
        SELECT EXISTS (SELECT FROM api_request
                        WHERE merchant_id = $1 AND environment = $2 AND status < 300)""",
        *(tenant.merchant_id, tenant.environment),
    )
    return found
