"""How payments went: by day, and what needs attention."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

import msgspec

from manilla.kit import ids
from manilla.kit.clock import last_days, start_of_day
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.ledger.scope import Scope, within

DAYS = 30


class PaymentDay(msgspec.Struct, frozen=True):
    """Payments that were made on a day in Lagos, and what had become of them by now."""

    day: date
    currency: str
    count: int
    succeeded: int
    failed: int
    volume_minor: int  # of those that succeeded

    @property
    def volume(self) -> Money:
        return Money(self.currency, self.volume_minor)

    @property
    def success_rate(self) -> float | None:
        """Of those that are decided; None: none is."""
        decided = self.succeeded + self.failed
        return self.succeeded / decided if decided else None


async def daily(
    db: Database, scope: Scope, currency: str, days: Sequence[date] | None = None
) -> list[PaymentDay]:
    """Each of the days, oldest first; the last 30 where none are named."""
    days = last_days(DAYS) if days is None else days
    conditions = within(scope).add("currency = {}", currency)
    values = [
        conditions.value(column)
        for column in (
            list(days),
            [ids.trx_id_floor(start_of_day(day)) for day in days],
            [ids.trx_id_floor(start_of_day(day + timedelta(days=1))) for day in days],
        )
    ]
    return await db.rows(
        PaymentDay,
        f"""
        SELECT d.day, {conditions.value(currency)}::text AS currency, made.*
          FROM unnest({values[0]}::date[], {values[1]}::text[], {values[2]}::text[])
               AS d (day, low, high)
         CROSS JOIN LATERAL (
               SELECT count(*) AS count,
                      count(*) FILTER (WHERE status = 'success') AS succeeded,
                      count(*) FILTER (WHERE status = 'failed') AS failed,
                      coalesce(sum(amount_minor) FILTER (WHERE status = 'success'), 0)::bigint
                      AS volume_minor
                 FROM payment
                WHERE {conditions.sql} AND trx_id >= d.low AND trx_id < d.high) AS made
         ORDER BY d.day""",
        *conditions.values,
    )


async def count_rejected_refunds(db: Database, scope: Scope, since: datetime) -> int:
    """Refunds asked for since then that were refused: the customer has no money back."""
    conditions = within(scope).add("trx_id >= {}", ids.trx_id_floor(since))
    count: int = await db.value(
        f"SELECT count(*) FROM refund WHERE status = 'failed' AND {conditions.sql}",
        *conditions.values,
    )
    return count


async def has_any(db: Database, scope: Scope) -> bool:
    conditions = within(scope)
    found: bool = await db.value(
        f"SELECT EXISTS (SELECT FROM payment WHERE {conditions.sql})", *conditions.values
    )
    return found
