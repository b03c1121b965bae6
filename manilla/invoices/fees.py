"""Reads a month's fees and taxes from the ledger. Months are those of Africa/Lagos."""

from datetime import UTC, date, datetime, timedelta

import msgspec

from manilla.invoices.invoice import InvoiceLine, InvoiceRefused
from manilla.kit.clock import next_month, start_of_day
from manilla.kit.database.connections import Connection, Database
from manilla.ledger.posting import INCOME, TAX
from manilla.ledger.provider_funds import NOBODY
from manilla.posting_kinds import kind_of

# The clock of a database that has taken over can be slow, so postings can still get the old month.
WAIT = timedelta(hours=1)
_INCOME = ", ".join(f"'{name}'" for name in INCOME)
IS_FEE = f"(e.account IN ({_INCOME}) OR starts_with(e.account, '{TAX}'))"
# The condition that a merchant's rows are not a copy. It calls the function once per statement.
LIVES_HERE = """{} <> ALL (ARRAY(
               SELECT merchant_id FROM merchant_fence WHERE lives_elsewhere(merchant_id)))"""
# `OFFSET 0` makes the planner look up the entries of each posting in the index.
ENTRIES = f"""
    posting p
    CROSS JOIN LATERAL (
          SELECT * FROM entry e
           WHERE e.merchant_id = p.merchant_id AND e.posting_id = p.id AND {IS_FEE}
          OFFSET 0) AS e"""


class MonthFees(msgspec.Struct, frozen=True):
    merchant_id: int
    currency: str
    lines: list[InvoiceLine]


class _Row(msgspec.Struct, frozen=True):
    merchant_id: int
    currency: str
    account: str
    kind: str
    count: int
    minor: int


def bounds(month: date) -> tuple[datetime, datetime]:
    return start_of_day(month), start_of_day(next_month(month))


async def check_ended(db: Database | Connection, month: date) -> None:
    """Raises if the month's postings can still change.

    A posting has the time at which its transaction started, so it can become visible after the end
    of its month.
    """
    since, until = bounds(month)
    if datetime.now(UTC) < until + WAIT:
        raise InvoiceRefused("An invoice is issued one hour after the end of its month.")
    if await db.value(
        """
        SELECT EXISTS (SELECT FROM pg_stat_activity
                        WHERE datname = current_database() AND xact_start < $1
                          AND backend_type = 'client backend')""",
        until,
    ):
        raise InvoiceRefused("A transaction of this month is still running. Try again later.")
    await check_not_archived(db, since)


async def check_not_archived(db: Database | Connection, since: datetime) -> None:
    """Raises if postings since this time are archived: only their sums are left."""
    if await db.value(
        """
        SELECT EXISTS (SELECT FROM archive_month
                        WHERE removed_at IS NOT NULL
                          AND (month + interval '1 month') AT TIME ZONE 'UTC' > $1)""",
        since,
    ):
        raise InvoiceRefused("The postings of this month are archived.")


async def of_month(
    db: Database | Connection, month: date, merchant_id: int | None = None
) -> list[MonthFees]:
    """Returns the fees and taxes of each merchant that lives here, or of one merchant."""
    one = "" if merchant_id is None else f"AND p.merchant_id = {merchant_id:d}"
    rows = await db.rows(
        _Row,
        f"""
        SELECT p.merchant_id, p.currency, e.account, {kind_of("p.kind")} AS kind, count(*) AS count,
               sum(e.amount_minor)::bigint AS minor
          FROM {ENTRIES}
         WHERE p.posted_at >= $1 AND p.posted_at < $2 AND p.environment = 'production'
           AND p.merchant_id <> {NOBODY} AND {LIVES_HERE.format("p.merchant_id")} {one}
         GROUP BY p.merchant_id, p.currency, e.account, {kind_of("p.kind")}
         ORDER BY p.merchant_id, p.currency, e.account, 4""",
        *bounds(month),
    )
    found: dict[tuple[int, str], list[InvoiceLine]] = {}
    for row in rows:
        line = InvoiceLine(row.account, row.kind, row.count, row.minor)
        found.setdefault((row.merchant_id, row.currency), []).append(line)
    return [MonthFees(*key, lines) for key, lines in found.items()]
