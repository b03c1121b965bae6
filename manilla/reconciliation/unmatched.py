"""Items that are only on the provider statement, only in our ledger, or have different amounts."""

from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit.clock import start_of_day
from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import RowSource, columns
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.matching import OPEN_SIDES

LIST_MAX = 1_000
CASES_MAX = 200  # maximum number of cases that one comparison opens
DUE_AFTER = timedelta(days=1)
MATCHES_NOW = "The statement and our ledger match now."


class Unmatched(msgspec.Struct, frozen=True):
    """A transaction, or a line without a transaction, whose ledger and statement amounts differ."""

    provider: str
    currency: str
    reference: str  # our transaction's id, or the statement line's id if there is no transaction
    trx_id: str | None
    booked_at: datetime
    kind: str
    ledger_minor: int | None  # None if not in our ledger
    statement_minor: int | None  # None if not on the statement
    line_ids: list[str]
    description: str

    @property
    def ledger(self) -> Money | None:
        return None if self.ledger_minor is None else Money(self.currency, self.ledger_minor)

    @property
    def statement(self) -> Money | None:
        return None if self.statement_minor is None else Money(self.currency, self.statement_minor)

    @property
    def difference(self) -> Money:
        return Money(self.currency, (self.statement_minor or 0) - (self.ledger_minor or 0))

    @property
    def finding(self) -> str:
        if self.ledger_minor is None:
            return "only on the statement"
        return "only in our ledger" if self.statement_minor is None else "the amounts differ"


async def find_unmatched(
    db: RowSource,
    provider: str,
    *,
    currency: str | None = None,
    day: date | None = None,
    before: datetime | None = None,
    neighbors: int = 0,
    limit: int = LIST_MAX,
) -> list[Unmatched]:
    """Returns unmatched items, oldest first.

    An item that is only in our ledger counts if its day and the `neighbors` days before and after
    it were imported, because the provider may book it a few minutes earlier or later.
    """
    start = None if day is None else start_of_day(day)
    end = before if day is None else start_of_day(day + timedelta(days=1))
    return await db.rows(
        Unmatched,
        OPEN_SIDES
        + f""",
        summed AS (
            SELECT $1 AS provider, currency::text, reference, trx_id,
                   min(booked_at) AS booked_at, max(kind) AS kind,
                   sum(ours)::bigint AS ledger_minor, sum(theirs)::bigint AS statement_minor,
                   array_remove(array_agg(line_id ORDER BY line_id), NULL) AS line_ids,
                   max(description) AS description, array_agg(kind) AS kinds
              FROM sides GROUP BY currency, reference, trx_id)
        SELECT {columns(Unmatched)} FROM summed s
         WHERE ($2::text IS NULL OR currency = $2)
           AND ($3::timestamptz IS NULL OR booked_at >= $3)
           AND ($4::timestamptz IS NULL OR booked_at < $4)
           AND (statement_minor IS NOT NULL OR 2 * $5::int + 1 = (
                SELECT count(*) FROM statement_day d
                 WHERE d.provider = $1 AND d.currency::text = s.currency AND d.kinds && s.kinds
                   AND d.day - (s.booked_at AT TIME ZONE 'Africa/Lagos')::date
                       BETWEEN -$5::int AND $5::int))
         ORDER BY booked_at, reference LIMIT $6""",
        *(provider, currency, start, end, neighbors, limit),
    )


async def unknown_receipts(db: RowSource, provider: str) -> list[str]:
    """Returns the provider's references of received money that belongs to no transaction."""
    records = await db.records(
        """
        SELECT coalesce(provider_reference, reference) AS given FROM statement_line
         WHERE provider = $1 AND trx_id IS NULL AND kind = 'charge' AND amount_minor > 0
           AND coalesce(provider_reference, reference) IS NOT NULL
         ORDER BY booked_at DESC LIMIT $2""",
        *(provider, LIST_MAX),
    )
    return [record["given"] for record in records]


async def of_day(db: RowSource, day: ReconciledDay) -> list[Unmatched]:
    return await find_unmatched(db, day.provider, currency=day.currency, day=day.day)


async def report(connection: Connection, provider: str, now: datetime) -> None:
    """Opens cases for items unmatched for at least a day. Closes cases whose items now match."""
    due = await find_unmatched(
        connection, provider, before=now - DUE_AFTER, neighbors=1, limit=CASES_MAX
    )
    for each in due:
        if not await _is_withheld(connection, each):
            await _open(connection, each)
    for case in await _matching_now(connection, provider):
        await cases.close(
            connection,
            case["merchant_id"],
            CaseKind.STATEMENT_DIFFERS,
            case["reference"],
            MATCHES_NOW,
        )


async def _is_withheld(connection: Connection, found: Unmatched) -> bool:
    """Whether the provider took what open disputes withhold. Our ledger takes it when they end."""
    merchant_id = trx_ids.merchant_of(found.trx_id) if found.trx_id else None
    return merchant_id is not None and await connection.has_row(
        """
        SELECT true FROM dispute
         WHERE merchant_id = $1 AND payment_trx_id = $2
           AND status IN ('needs_response', 'submitted')
        HAVING sum(withheld_minor) = $3""",
        *(merchant_id, found.trx_id, -found.difference.minor),
    )


async def _open(connection: Connection, found: Unmatched) -> None:
    merchant_id = trx_ids.merchant_of(found.trx_id) if found.trx_id else None
    if merchant_id is not None and await connection.value(
        "SELECT lives_elsewhere($1)", merchant_id
    ):
        merchant_id = None  # the merchant's rows in this cell cannot change
    lines = f" (lines {', '.join(found.line_ids)})" if found.line_ids else ""
    await cases.open_case(
        connection,
        CaseKind.STATEMENT_DIFFERS,
        f"{found.provider}:{found.reference}",
        f"{found.finding.capitalize()}: our ledger has {found.ledger or 'nothing'}, the "
        f"provider's statement {found.statement or 'nothing'}{lines}.",
        merchant_id=merchant_id or 0,
        environment=Environment.PRODUCTION,
        trx_id=found.trx_id,
        amount=found.difference,
    )


async def _matching_now(connection: Connection, provider: str) -> list[Any]:
    """Returns the open cases whose items all match now."""
    return await connection.records(
        """
        SELECT c.merchant_id, c.reference FROM operator_case c
         WHERE c.kind = $2 AND c.status = 'open' AND starts_with(c.reference, $1 || ':')
           AND NOT EXISTS (SELECT FROM unmatched_transaction u
                            WHERE u.merchant_id = 0 AND u.provider = $1
                              AND u.trx_id = substr(c.reference, length($1) + 2))
           AND NOT EXISTS (SELECT FROM statement_line l
                            WHERE l.merchant_id = 0 AND l.provider = $1 AND l.trx_id IS NULL
                              AND l.line_id = substr(c.reference, length($1) + 2))""",
        *(provider, CaseKind.STATEMENT_DIFFERS),
    )
