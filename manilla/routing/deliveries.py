"""Counts the results of payouts by rail and bank, and stores each rail's latest transfer fee.

Counts and fees are collected in memory and written every second. The transaction that settles a
payout does not write them, because all payouts of a rail would wait for the same row.
"""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby

import structlog

from manilla.banks.registry import BankRegistry
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.providers.port import RefusalCode
from manilla.routing import funds
from manilla.routing.outcomes import (
    BOUNDS_SECONDS,
    FAILING_WINDOW,
    FAILURES_MIN,
    MinuteOutcomes,
    Outcomes,
    RailBank,
    failing_since,
)

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 1.0
READ_SECONDS = 10.0
LOOK_BACK = timedelta(hours=6)  # how far back the start of a rail's failures is searched
KEEP = timedelta(days=7)
# Every rail would return these errors, so they do not count against any rail.
NOT_THE_RAIL = (RefusalCode.INVALID_BENEFICIARY,)


class Deliveries:
    def __init__(self, db: Database, registry: BankRegistry) -> None:
        self._db = db
        self._registry = registry
        self._counted: dict[RailBank, Outcomes] = {}
        self._fees: dict[tuple[str, str], int] = {}  # by rail and currency
        self._failing: Mapping[RailBank, datetime] = {}
        self._read_again_at = 0.0

    def record_delivery(self, rail_bank: RailBank, seconds: float) -> None:
        self._outcomes(rail_bank).add_delivery(seconds)

    def record_failure(self, rail_bank: RailBank, code: RefusalCode | None, error: str) -> None:
        if code not in NOT_THE_RAIL:
            error = error or "No reason was given."
            self._outcomes(rail_bank).add_failure(error, datetime.now(UTC))

    def record_fee(self, provider: str, currency: str, minor: int) -> None:
        self._fees[provider, currency] = minor

    def _outcomes(self, rail_bank: RailBank) -> Outcomes:
        return self._counted.setdefault(rail_bank, Outcomes())

    def bank_code(self, provider: str, code: str, is_routed: bool) -> str:
        """Returns the bank's code in the registry, or "" if the provider's code is unknown."""
        if is_routed:
            return code
        bank = self._registry.bank_at(provider, code)
        return "" if bank is None else bank.code

    async def run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except Unavailable as away:
                log.warning("rail_figures_not_written", **away.facts)

    async def flush(self) -> None:
        """Writes all collected counts and fees to the database."""
        for key, minor in list(self._fees.items()):
            await funds.set_transfer_fee(self._db, *key, minor)
            if self._fees[key] == minor:
                del self._fees[key]
        counted, self._counted = self._counted, {}
        while counted:
            (key, outcomes) = counted.popitem()
            try:
                await _add(self._db, key, outcomes)
            except Unavailable:
                for kept, earlier in ((key, outcomes), *counted.items()):
                    later = self._counted.get(kept, Outcomes())
                    earlier.add(later)
                    self._counted[kept] = earlier
                raise

    async def failing(self) -> Mapping[RailBank, datetime]:
        """Maps each rail and bank with failing transfers to the start of the failures."""
        if time.monotonic() >= self._read_again_at:
            self._read_again_at = time.monotonic() + READ_SECONDS
            self._failing = await read_failing(self._db)
        return self._failing


async def _add(db: Database, key: RailBank, outcomes: Outcomes) -> None:
    """Adds the payout results to the counts of the current minute."""
    await db.execute(
        """
        INSERT INTO rail_bank_minute AS m (provider, bank, minute, delivered, failed, durations,
                                           last_error, last_error_at)
        VALUES ($1, $2, date_trunc('minute', now()), $3, $4, $5, $6, $7)
            ON CONFLICT (provider, bank, minute)
            DO UPDATE SET delivered = m.delivered + excluded.delivered,
                          failed = m.failed + excluded.failed,
                          durations = (SELECT array_agg(a + b ORDER BY n)
                                         FROM unnest(m.durations, excluded.durations)
                                              WITH ORDINALITY AS slot (a, b, n)),
                          last_error = coalesce(excluded.last_error, m.last_error),
                          last_error_at = coalesce(excluded.last_error_at, m.last_error_at)""",
        *(*key, outcomes.delivered, outcomes.failed, outcomes.durations),
        *(outcomes.last_error, outcomes.last_error_at),
    )


async def read_failing(db: Database) -> dict[RailBank, datetime]:
    """Maps each rail and bank with failing transfers to the start of the failures."""
    found = await _read_failing(db, "provider, bank")
    return {(provider, bank): since for (provider, bank), since in found.items()}


async def read_failing_rails(db: Database) -> dict[str, datetime]:
    """Maps each rail whose transfers fail, across all banks, to the start of the failures."""
    return {provider: since for (provider,), since in (await _read_failing(db, "provider")).items()}


async def _read_failing(db: Database, key: str) -> dict[tuple[str, ...], datetime]:
    records = await db.records(
        f"""
        SELECT {key}, minute, sum(delivered)::bigint AS delivered, sum(failed)::bigint AS failed
          FROM rail_bank_minute
         WHERE minute > now() - $1::interval
           AND ({key}) IN (
               SELECT {key} FROM rail_bank_minute
                WHERE minute > now() - $2::interval
                GROUP BY {key} HAVING sum(failed) >= $3)
         GROUP BY {key}, minute ORDER BY {key}""",
        *(LOOK_BACK, FAILING_WINDOW, FAILURES_MIN),
    )
    now, found = datetime.now(UTC), {}
    names = key.split(", ")
    for values, minutes in groupby(records, key=lambda each: tuple(each[name] for name in names)):
        counts = [MinuteOutcomes(m["minute"], m["delivered"], m["failed"]) for m in minutes]
        since = failing_since(counts, now)
        if since is not None:
            found[values] = since
    return found


_SLOTS = ", ".join(f"sum(durations[{n + 1}])::bigint" for n in range(len(BOUNDS_SECONDS)))


async def outcomes_since(db: Database, age: timedelta) -> dict[RailBank, Outcomes]:
    """Returns how many payouts were delivered and failed since then, for each rail and bank."""
    records = await db.records(
        f"""
        SELECT provider, bank, sum(delivered)::bigint AS delivered, sum(failed)::bigint AS failed,
               ARRAY[{_SLOTS}] AS durations, max(last_error_at) AS last_error_at,
               (array_agg(last_error ORDER BY last_error_at DESC NULLS LAST))[1] AS last_error
          FROM rail_bank_minute WHERE minute > now() - $1::interval
         GROUP BY provider, bank""",
        age,
    )
    names = Outcomes.__struct_fields__
    return {
        (each["provider"], each["bank"]): Outcomes(**{name: each[name] for name in names})
        for each in records
    }


async def failed_shares(db: Database) -> dict[str, float]:
    """Returns the share of failed payouts for each rail with at least three recent failures."""
    totals: dict[str, Outcomes] = {}
    for (provider, _), outcomes in (await outcomes_since(db, FAILING_WINDOW)).items():
        totals.setdefault(provider, Outcomes()).add(outcomes)
    return {
        provider: total.failed / (total.failed + total.delivered)
        for provider, total in totals.items()
        if total.failed >= FAILURES_MIN
    }


async def delete_old(db: Database) -> None:
    await db.execute("DELETE FROM rail_bank_minute WHERE minute < now() - $1::interval", KEEP)
