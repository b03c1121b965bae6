"""Imports a provider statement from the provider or a file, and compares it with our ledger."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec

from manilla.audit import audit
from manilla.kit.clock import start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.threads import LimitedThreads
from manilla.providers import balances, statements
from manilla.providers.port import EVERY_MOVEMENT, Adapter, LineKind, StatementLine
from manilla.reconciliation import figures, files, lines, matching, movements, unmatched
from manilla.reconciliation.lines import NOTHING, ImportResult, day_of

# The first lines of a provider statement may belong to transactions up to this much older.
EARLIER = timedelta(days=1)
# PostgreSQL's `work_mem` for joining, sorting and hashing a million rows.
WORK_MEMORY = "64MB"

_threads = LimitedThreads("statements", at_once=1, waiting_max=4)


async def import_file(
    db: Database, provider: str, raw: bytes, adapter: Adapter | None = None
) -> ImportResult:
    """Imports all lines of a file, or no line if the file is invalid."""
    read = await _threads.run(files.read, raw)
    result = await store(db, provider, read)
    moments = [line.booked_at for line in read]
    await _ask_balance(db, adapter, day_of(max(moments)))
    await compare(db, provider, min(moments), EVERY_MOVEMENT)
    return result


async def store(db: Database, provider: str, read: Sequence[StatementLine]) -> ImportResult:
    """Stores the lines of a file. The file covers the days from its first to its last line."""
    async with db.transaction() as connection:
        result = await lines.store(connection, provider, read)
        for currency in {line.amount.currency for line in read}:
            moments = [line.booked_at for line in read if line.amount.currency == currency]
            listed = _days(day_of(min(moments)), day_of(max(moments)))
            await lines.store_days(connection, provider, currency, listed, EVERY_MOVEMENT)
        counts = msgspec.structs.asdict(result)
        await audit.record(connection, "statement.import", f"provider:{provider}", **counts)
    return result


async def import_from_provider(
    db: Database,
    adapter: Adapter,
    kinds: frozenset[LineKind],
    first: date,
    last: date,
    currency: str = files.DEFAULT_CURRENCY,
) -> ImportResult:
    """Imports the provider's statement for these days, if every page can be read."""
    since, until = start_of_day(first), start_of_day(last + timedelta(days=1))
    result, provider = NOTHING, adapter.provider
    async for page in statements.read(adapter, since, until, currency):
        async with db.transaction() as connection:
            result += await lines.store(connection, provider, page)
    async with db.transaction() as connection:
        await lines.store_days(connection, provider, currency, _days(first, last), kinds)
    await _ask_balance(db, adapter, last, currency)
    await compare(db, provider, since, kinds)
    return result


async def _ask_balance(
    db: Database, adapter: Adapter | None, last: date, currency: str = files.DEFAULT_CURRENCY
) -> None:
    """Saves the provider's current balance for the reports about today and yesterday."""
    yesterday = day_of(datetime.now(UTC)) - timedelta(days=1)
    if adapter is not None and last >= yesterday:
        await balances.ask(db, adapter, currency)


async def compare(db: Database, provider: str, since: datetime, kinds: frozenset[LineKind]) -> None:
    """Compares imported lines with our ledger, saves the totals, and opens cases."""
    async with db.transaction() as connection:
        await lines.lock(connection, provider)
        await connection.execute(f"SET LOCAL work_mem = '{WORK_MEMORY}'")
        await movements.copy(connection, provider, since - EARLIER, kinds)
        await matching.match(connection, provider)
        await figures.store(connection, provider)
        await unmatched.report(connection, provider, datetime.now(UTC))


def _days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=ahead) for ahead in range((last - first).days + 1)]
