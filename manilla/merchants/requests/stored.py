"""Reads requests from the log for display, and computes their hourly statistics."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from manilla.kit.database.rows import Reads, columns
from manilla.ledger.scope import Tenant

HOURS = 24
AROUND = timedelta(minutes=2)


class Request(msgspec.Struct, frozen=True):
    """A request from the log, as shown to users."""

    merchant_id: int
    at: datetime
    request_id: str
    environment: str
    method: str
    path: str
    status: int
    error_code: str | None
    error: str | None  # the error message, as in the response
    errors: dict[str, str]  # maps each invalid field or header to its error message
    milliseconds: float
    address: str
    user_agent: str | None
    ref_trx: str | None
    trx_id: str | None
    api_key: str | None  # name of the API key, or None if no valid key was sent


REQUEST_COLUMNS = columns(Request)


def read(record: Any) -> Request:
    fields = dict(record)
    errors = fields["errors"]
    fields["errors"] = msgspec.json.decode(errors) if errors else {}
    return msgspec.convert(fields, Request)


async def requests_about(
    db: Reads, merchant_id: int, trx_id: str, ref_trx: str, moment: datetime
) -> list[Request]:
    """Returns the requests about a transaction from around the time of its creation."""
    records = await db.records(
        f"SELECT {REQUEST_COLUMNS} FROM api_request"
        """
         WHERE merchant_id = $1 AND at BETWEEN $4 AND $5 AND (trx_id = $2 OR ref_trx = $3)
         ORDER BY at, request_id LIMIT 100""",
        *(merchant_id, trx_id, ref_trx, moment - AROUND, moment + AROUND),
    )
    return [read(record) for record in records]


async def has_succeeded(db: Reads, tenant: Tenant) -> bool:
    """Whether the merchant's log contains a successful request in this environment."""
    return await db.has_row(
        """
        SELECT true FROM api_request
         WHERE merchant_id = $1 AND environment = $2 AND status < 300 LIMIT 1""",
        *(tenant.merchant_id, tenant.environment),
    )


class RequestHour(msgspec.Struct, frozen=True):
    hour: datetime  # start of the hour
    count: int
    failed: int  # number of server errors (status 500 and above)
    median_milliseconds: float | None
    slow_milliseconds: float | None  # 95th percentile of the response time

    @property
    def success_percent(self) -> float | None:
        return None if not self.count else 100 * (self.count - self.failed) / self.count


async def hourly(db: Reads) -> list[RequestHour]:
    """Returns statistics for the last 24 hours including the current hour, oldest first."""
    return await db.rows(
        RequestHour,
        """
        SELECT h.hour, coalesce(made.count, 0) AS count, coalesce(made.failed, 0) AS failed,
               made.shares[1]::float8 AS median_milliseconds,
               made.shares[2]::float8 AS slow_milliseconds
          FROM generate_series(date_trunc('hour', now()) - make_interval(hours => $1 - 1),
                               date_trunc('hour', now()), interval '1 hour') AS h (hour)
          LEFT JOIN (
               SELECT date_trunc('hour', at) AS hour, count(*) AS count,
                      count(*) FILTER (WHERE status >= 500) AS failed,
                      percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY milliseconds)
                      AS shares
                 FROM api_request
                WHERE at >= date_trunc('hour', now()) - make_interval(hours => $1 - 1)
                GROUP BY 1) AS made USING (hour)
         ORDER BY h.hour""",
        HOURS,
    )
