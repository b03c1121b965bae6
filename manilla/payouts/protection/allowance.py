"""Limits how much one person may pay out in 24 hours without a second person's approval.

A person's payouts, files and settlements are added up. Otherwise the person could stay below the
threshold with many small payouts.
"""

from datetime import timedelta

from manilla.kit.database.connections import Connection, Database
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant

PERIOD = timedelta(hours=24)


async def is_exceeded(
    db: Database | Connection, tenant: Tenant, cost: Money, person: str, subject: str = ""
) -> bool:
    """Whether a payout order with this cost, including its fee, needs a second person.

    `subject` is the payout's reference or the file's id, so that a repeated order counts once.
    """
    exceeded: bool | None = await db.value(
        """
        SELECT $6 + coalesce(sum(a.cost_minor), 0) > t.amount_minor
          FROM payout_threshold t
          LEFT JOIN payout_alone a
               ON a.merchant_id = t.merchant_id AND a.environment = $2
              AND a.currency = t.currency AND a.person = $4 AND a.subject <> $5
              AND a.ordered_at > now() - $7::interval
         WHERE t.merchant_id = $1 AND t.currency = $3 AND t.amount_minor IS NOT NULL
         GROUP BY t.amount_minor""",
        *(tenant.merchant_id, tenant.environment, cost.currency, person, subject),
        *(cost.minor, PERIOD),
    )
    return bool(exceeded)


async def take(
    connection: Connection, tenant: Tenant, cost: Money, person: str, subject: str
) -> bool:
    """Counts the order toward the person's limit, or returns False if it exceeds the limit.

    An order that is rejected later still counts, so that nobody can pay out more by repeating a
    rejected order at the same time.
    """
    scope = tenant.merchant_id, tenant.environment, cost.currency
    # The lock serializes concurrent orders, so that each order takes earlier ones into account.
    has_threshold = await connection.has_row(
        """
        SELECT true FROM payout_threshold
         WHERE merchant_id = $1 AND currency = $2 AND amount_minor IS NOT NULL FOR UPDATE""",
        *(tenant.merchant_id, cost.currency),
    )
    if not has_threshold:
        return True
    if await is_exceeded(connection, tenant, cost, person, subject):
        return False
    await connection.execute(
        """
        DELETE FROM payout_alone
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3 AND person = $4
           AND ordered_at <= now() - $5::interval""",
        *(*scope, person, PERIOD),
    )
    await connection.execute(
        """
        INSERT INTO payout_alone (merchant_id, environment, currency, person, subject, cost_minor)
        VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (merchant_id, environment, currency, person, subject) DO UPDATE
           SET cost_minor = greatest(payout_alone.cost_minor, excluded.cost_minor),
               ordered_at = now()""",
        *(*scope, person, subject, cost.minor),
    )
    return True
