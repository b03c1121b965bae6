"""The days whose statement was imported, with their totals in our ledger and on the statement."""

from datetime import date, datetime

import msgspec

from manilla.kit.db import Connection, Database, columns
from manilla.kit.money import Money
from manilla.ledger import posting
from manilla.reconciliation.matching import OPEN_SIDES

DAYS_MAX = 400


class ReconciledDay(msgspec.Struct, frozen=True):
    """One account, currency and day, as of the last comparison."""

    provider: str
    currency: str
    day: date
    kinds: list[str]
    imported_at: datetime
    lines: int
    lines_minor: int
    open_lines: int
    movements: int
    movements_minor: int
    open_movements: int
    ledger_minor: int | None
    balance_minor: int | None

    def _money(self, minor: int | None) -> Money | None:
        return None if minor is None else Money(self.currency, minor)

    @property
    def ledger(self) -> Money:
        """What our ledger moved on this day."""
        return Money(self.currency, self.movements_minor)

    @property
    def statement(self) -> Money:
        return Money(self.currency, self.lines_minor)

    @property
    def difference(self) -> Money:
        return self.statement - self.ledger

    @property
    def ledger_balance(self) -> Money | None:
        return self._money(self.ledger_minor)

    @property
    def provider_balance(self) -> Money | None:
        return self._money(self.balance_minor)

    @property
    def unmatched(self) -> int:
        return self.open_lines + self.open_movements

    @property
    def result(self) -> str:
        return "matched" if self.unmatched == 0 else f"{self.unmatched} unmatched"


DAY = f"SELECT {columns(ReconciledDay)} FROM statement_day"


async def days(
    db: Database, provider: str | None = None, day: date | None = None, limit: int = DAYS_MAX
) -> list[ReconciledDay]:
    """Returns the days, newest first."""
    return await db.rows(
        ReconciledDay,
        DAY
        + """
         WHERE ($1::text IS NULL OR provider = $1) AND ($2::date IS NULL OR day = $2)
         ORDER BY day DESC, provider, currency LIMIT $3""",
        *(provider, day, limit),
    )


async def find(db: Database, provider: str, currency: str, day: date) -> ReconciledDay | None:
    return await db.row(
        ReconciledDay,
        DAY + " WHERE provider = $1 AND currency::text = $2 AND day = $3",
        *(provider, currency, day),
    )


async def store_figures(connection: Connection, provider: str) -> None:
    """Saves the totals of the days that were imported lately or have something unmatched.

    Our balance at the end of a day is the current one without what was posted later.
    """
    await connection.execute(
        OPEN_SIDES
        + """,
        wanted AS (
            SELECT currency, day, kinds, day::timestamp AT TIME ZONE 'Africa/Lagos' AS start,
                   (day + 1)::timestamp AT TIME ZONE 'Africa/Lagos' AS end
              FROM statement_day
             WHERE provider = $1
               AND (imported_at > now() - interval '1 day' OR open_lines + open_movements > 0)),
        current AS (
            SELECT currency, -sum(amount_minor) AS minor FROM entry
             WHERE account = $2 AND environment = 'production' GROUP BY currency),
        posted AS (
            SELECT e.currency, (p.posted_at AT TIME ZONE 'Africa/Lagos')::date AS day,
                   -sum(e.amount_minor) AS minor
              FROM posting p
              JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
               AND e.account = $2
             WHERE p.posted_at >= (SELECT min("end") FROM wanted) AND p.environment = 'production'
             GROUP BY 1, 2),
        unmatched AS (
            SELECT currency, (booked_at AT TIME ZONE 'Africa/Lagos')::date AS day, kind,
                   count(theirs) AS lines, count(ours) AS movements
              FROM sides GROUP BY 1, 2, 3),
        counted AS (
            SELECT d.currency, d.day, l.*, m.*, o.*, b.balance_minor,
                   coalesce(c.minor, 0) - (
                       SELECT coalesce(sum(minor), 0) FROM posted
                        WHERE posted.currency = d.currency AND posted.day > d.day) AS ledger_minor
              FROM wanted d
              LEFT JOIN current c ON c.currency = d.currency
             CROSS JOIN LATERAL (
                   SELECT count(*) AS lines, coalesce(sum(amount_minor), 0) AS lines_minor
                     FROM statement_line WHERE provider = $1 AND currency = d.currency
                      AND booked_at >= d.start AND booked_at < d.end) AS l
             CROSS JOIN LATERAL (
                   SELECT count(*) AS movements, coalesce(sum(amount_minor), 0) AS movements_minor
                     FROM clearing_movement WHERE provider = $1 AND currency = d.currency
                      AND booked_at >= d.start AND booked_at < d.end AND kind = ANY (d.kinds)) AS m
             CROSS JOIN LATERAL (
                   SELECT coalesce(sum(lines), 0) AS open_lines,
                          coalesce(sum(movements) FILTER (WHERE kind = ANY (d.kinds)), 0)
                              AS open_movements
                     FROM unmatched WHERE currency = d.currency AND day = d.day) AS o
              LEFT JOIN LATERAL (
                   SELECT balance_after_minor AS balance_minor
                     FROM statement_line WHERE provider = $1 AND currency = d.currency
                      AND booked_at >= d.start AND booked_at < d.end
                    ORDER BY booked_at DESC, length(line_id) DESC, line_id DESC LIMIT 1) AS b
                   ON true)
        UPDATE statement_day d
           SET lines = c.lines, lines_minor = c.lines_minor, open_lines = c.open_lines,
               movements = c.movements, movements_minor = c.movements_minor,
               open_movements = c.open_movements, ledger_minor = c.ledger_minor,
               balance_minor = c.balance_minor
          FROM counted c
         WHERE d.provider = $1 AND d.currency = c.currency AND d.day = c.day""",
        *(provider, posting.clearing(provider)),
    )
