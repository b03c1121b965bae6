"""Saves the balances that providers report, with our ledger's balance at the same time."""

from datetime import UTC, datetime, timedelta

from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection, Database
from manilla.kit.money import Money
from manilla.ledger import clearing, posting
from manilla.providers.port import Adapter, Done


async def ask(db: Database, adapter: Adapter, currency: str) -> None:
    """Queries the provider's balance and saves it. Saves nothing if the query fails."""
    answer = await adapter.balance(currency)
    if isinstance(answer, Done):
        ours = await in_ledger(db, adapter.provider, currency)
        await save(db, adapter.provider, answer.value, ours)


async def in_ledger(db: Database | Connection, provider: str, currency: str) -> Money:
    """Returns our balance at the provider, according to our ledger."""
    totals = await clearing.totals(db, posting.clearing(provider))
    return Money(currency, -totals.get(currency, 0))


async def save(
    db: Database, provider: str, balance: Money, ledger: Money, now: datetime | None = None
) -> None:
    """Saves the balance for today. The first balance of a day is also saved for the day before.

    A report about a day therefore uses the balance nearest to the end of that day.
    """
    now = now or datetime.now(UTC)
    today = now.astimezone(LAGOS).date()
    await db.execute(
        """
        INSERT INTO reported_balance AS known
               (provider, currency, day, balance_minor, ledger_minor, reported_at)
        SELECT $1, $2, day, $4, $5, $6 FROM unnest($3::date[]) AS day
            ON CONFLICT (provider, currency, day) DO UPDATE
           SET balance_minor = excluded.balance_minor, ledger_minor = excluded.ledger_minor,
               reported_at = excluded.reported_at
         WHERE known.reported_at < (known.day + 1)::timestamp AT TIME ZONE 'Africa/Lagos'""",
        *(provider, balance.currency, [today - timedelta(days=1), today]),
        *(balance.minor, ledger.minor, now),
    )
