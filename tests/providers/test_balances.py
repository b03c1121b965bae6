"""A balance that a provider reports is saved for the day whose end is nearest to the report."""

import secrets
from datetime import date, datetime, timedelta

from manilla.kit.clock import start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.providers import balances

DAY = date(2026, 1, 31)
END = start_of_day(DAY + timedelta(days=1))


async def _saved(db: Database, provider: str) -> tuple[int, datetime] | None:
    found = await db.record(
        "SELECT balance_minor, reported_at FROM reported_balance WHERE provider = $1 AND day = $2",
        *(provider, DAY),
    )
    return None if found is None else (found["balance_minor"], found["reported_at"])


async def test_the_first_balance_after_a_day_replaces_the_last_one_on_it(db: Database) -> None:
    provider = f"account{secrets.token_hex(6)}"

    async def report(minor: int, at: datetime) -> None:
        await balances.save(db, provider, Money("NGN", minor), Money("NGN", 0), at)

    early, late = END - timedelta(hours=9), END - timedelta(hours=1)
    await report(1, early)
    assert await _saved(db, provider) == (1, early)
    await report(2, late)
    assert await _saved(db, provider) == (2, late)
    await report(3, END)
    assert await _saved(db, provider) == (3, END)
    await report(4, END + timedelta(hours=1))
    assert await _saved(db, provider) == (3, END)


async def test_a_balance_says_nothing_about_the_day_before_yesterday(db: Database) -> None:
    provider = f"account{secrets.token_hex(6)}"
    amount = Money("NGN", 5)
    await balances.save(db, provider, amount, amount, END + timedelta(days=1))
    assert await _saved(db, provider) is None
