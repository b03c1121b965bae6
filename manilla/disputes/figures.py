"""Figures of disputes in production: rates by merchant and month, and deadlines that are near.

Card schemes fine operators whose merchants have too many disputes for their payments.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.disputes.dispute import DISPUTE_IDS, Dispute
from manilla.kit.clock import next_month, start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import RowSource
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.platform.settings import PlatformSettings

# A dispute with less time than this counts as ending.
ENDING = timedelta(hours=4)
# With fewer disputes in a month, a rate says nothing about the merchant.
DISPUTES_MIN = 5


class Responder(StrEnum):
    """Who must act before a dispute's deadline."""

    MERCHANT = "merchant"
    OPERATOR = "operator"  # an answer waits for a review, or to be sent manually


class DisputeRate(msgspec.Struct, frozen=True):
    """A merchant's disputes and successful payments of one month, by the time of creation."""

    month: date
    merchant_id: int
    disputes: int
    lost: int  # including accepted disputes
    payments: int

    @property
    def percent(self) -> float | None:
        return 100 * self.disputes / self.payments if self.payments else None

    def is_high(self, settings: PlatformSettings) -> bool:
        if self.disputes < DISPUTES_MIN:
            return False
        return self.payments * settings.dispute_rate_per_1000 < self.disputes * 1000


def seconds_left(dispute: Dispute) -> int:
    """Returns the time until the deadline, or 0 if it has passed."""
    return max(0, round((dispute.respond_by - datetime.now(UTC)).total_seconds()))


def months(newest: date, number: int) -> list[date]:
    """Returns the first days of this many months, newest first."""
    first = newest.replace(day=1)
    found = [first]
    while len(found) < number:
        found.append((found[-1] - timedelta(days=1)).replace(day=1))
    return found


async def rates(
    db: RowSource, wanted: Sequence[date], merchant_id: int | None = None
) -> list[DisputeRate]:
    """Returns the rates of merchants that have disputes, of the newest month and highest first."""
    found = await db.rows(
        DisputeRate,
        """
        SELECT m.month, d.merchant_id, d.disputes, d.lost,
               (SELECT count(*) FROM payment p
                 WHERE p.merchant_id = d.merchant_id AND p.environment = $6
                   AND p.status = 'success' AND p.trx_id >= m.low AND p.trx_id < m.high) AS payments
          FROM unnest($1::date[], $2::text[], $3::text[], $4::text[], $5::text[])
               AS m (month, low, high, dispute_low, dispute_high)
         CROSS JOIN LATERAL (
               SELECT merchant_id, count(*) AS disputes,
                      count(*) FILTER (WHERE status IN ('lost', 'accepted')) AS lost
                 FROM dispute
                WHERE environment = $6 AND ($7::bigint IS NULL OR merchant_id = $7)
                  AND trx_id COLLATE "C" >= m.dispute_low
                  AND trx_id COLLATE "C" < m.dispute_high
                GROUP BY merchant_id) AS d""",
        *(list(wanted), *_bounds(wanted), Environment.PRODUCTION, merchant_id),
    )
    return sorted(found, key=lambda each: (each.month, each.percent or 0), reverse=True)


def _bounds(wanted: Sequence[date]) -> list[list[str]]:
    """Returns the lowest and the next ids of payments, then of disputes, for each month."""
    moments = [(start_of_day(each), start_of_day(next_month(each))) for each in wanted]
    return [
        [floor(pair[end]) for pair in moments]
        for floor in (trx_ids.floor, DISPUTE_IDS.floor)
        for end in (0, 1)
    ]


async def count_high_rates(db: Database, settings: PlatformSettings, day: date) -> int:
    """Counts the merchants whose rate of this or the previous month is above the threshold.

    It reads only as many payments of a merchant as decide the question.
    """
    return await db.number(
        """
        SELECT count(DISTINCT d.merchant_id)
          FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
               AS m (low, high, dispute_low, dispute_high)
         CROSS JOIN LATERAL (
               SELECT merchant_id, count(*) * 1000 / $5::numeric AS payments_min FROM dispute
                WHERE environment = $6 AND NOT lives_elsewhere(merchant_id)
                  AND trx_id COLLATE "C" >= m.dispute_low
                  AND trx_id COLLATE "C" < m.dispute_high
                GROUP BY merchant_id HAVING count(*) >= $7) AS d
         WHERE (SELECT count(*)
                  FROM (SELECT FROM payment p
                         WHERE p.merchant_id = d.merchant_id AND p.environment = $6
                           AND p.status = 'success' AND p.trx_id >= m.low AND p.trx_id < m.high
                         LIMIT ceil(d.payments_min)::bigint) AS counted) < d.payments_min""",
        *(*_bounds(months(day, 2)), settings.dispute_rate_per_1000),
        *(Environment.PRODUCTION, DISPUTES_MIN),
    )


async def count_ending(db: Database) -> dict[Responder, int]:
    """Counts unanswered disputes whose deadline is near, by who has to act."""
    records = await db.records(
        """
        SELECT CASE status WHEN 'needs_response' THEN 'merchant' ELSE 'operator' END AS who,
               count(*) AS number
          FROM dispute
         WHERE environment = $1 AND NOT lives_elsewhere(merchant_id)
           AND (status = 'needs_response'
                OR status = 'submitted' AND answer IN ('review', 'manual'))
           AND missed_at IS NULL AND respond_by < now() + $2
         GROUP BY 1""",
        *(Environment.PRODUCTION, ENDING),
    )
    found = {each["who"]: each["number"] for each in records}
    return {each: found.get(each.value, 0) for each in Responder}


async def count_for_operator(db: RowSource, environment: Environment) -> int:
    """Counts the answers that an administrator must review, or send manually."""
    return int(
        await db.value(
            """
            SELECT count(*) FROM dispute
             WHERE environment = $1 AND status = 'submitted' AND answer IN ('review', 'manual')
               AND NOT lives_elsewhere(merchant_id)""",
            environment,
        )
    )
