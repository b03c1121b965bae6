"""Schedules ledger checks and stores the result of the latest check."""

import dataclasses
import time
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import structlog

from manilla.customers.invariants import CUSTOMERS
from manilla.disputes.invariants import DISPUTES
from manilla.invoices.invariants import INVOICES
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.ledger import invariants
from manilla.ledger.invariants import LEDGER, Finding, Invariant
from manilla.margin.invariants import MARGIN
from manilla.payments.invariants import PAYMENTS
from manilla.payouts.invariants import PAYOUTS
from manilla.prices.invariants import PRICES
from manilla.proofs import verify
from manilla.proofs.checks import DESTINATIONS, EXCUSES
from manilla.saved_ways.invariants import SAVED_WAYS
from manilla.splits.invariants import SPLITS

log = structlog.get_logger(__name__)

ALL: tuple[Invariant, ...] = (
    *LEDGER,
    *PAYMENTS,
    *PAYOUTS,
    *DISPUTES,
    *PRICES,
    *INVOICES,
    *MARGIN,
    *CUSTOMERS,
    *SAVED_WAYS,
    *SPLITS,
    *DESTINATIONS,
    *EXCUSES,
)
EVERY = timedelta(hours=1)
# Checks run for at most one twentieth of the time: if a check takes ten minutes, every 200 minutes.
EVERY_DURATIONS = 20
RUNNING_LOCK = 0x70726F6F66  # the advisory lock that a session holds during a check
LONG = timedelta(minutes=30)  # after this time, a check that has not ended counts as aborted
TOO_LONG = "The database did not respond in time. The next attempt is within the hour."


class Proof(msgspec.Struct, frozen=True):
    asked_at: datetime | None
    began_at: datetime | None
    ended_at: datetime | None
    findings: list[Finding]
    problem: str | None
    is_coming: bool  # whether a check is requested or running

    @property
    def seconds(self) -> float | None:
        """The duration of the last check, or None while a check is running."""
        if self.began_at is None or self.ended_at is None or self.ended_at < self.began_at:
            return None
        return (self.ended_at - self.began_at).total_seconds()

    @property
    def broken(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.count]

    @property
    def is_sound(self) -> bool:
        return bool(self.findings) and not self.broken


async def check(db: Database) -> list[Finding]:
    """Checks the invariants of all packages now."""
    return await invariants.check(db, ALL)


async def check_with_archive(url: str, archive: Path) -> Finding:
    """Verifies the chain and all balances, with the postings of archived months."""
    verified = await verify.run(url, [], None, archive)
    return Finding(
        "archive_and_chain_are_unchanged",
        "Archived and current postings match the hash chain, and add up to all balances.",
        sum(verified.counts.values()),
        [dataclasses.asdict(each) for each in verified.findings[: invariants.EXAMPLES_MAX]],
    )


async def last(db: Database) -> Proof:
    record = await db.record(
        """
        SELECT asked_at, began_at, ended_at, findings, problem,
               coalesce(asked_at > coalesce(began_at, '-infinity'), false)
               OR coalesce(began_at > now() - $1::interval
                           AND began_at > coalesce(ended_at, '-infinity'), false) AS is_coming
          FROM proof""",
        LONG,
    )
    fields = dict(record)
    findings = msgspec.json.decode(fields["findings"], type=list[Finding])
    return Proof(**{**fields, "findings": findings})


async def ask(db: Database) -> None:
    """Requests a ledger check, which the next free worker starts."""
    await db.execute("UPDATE proof SET asked_at = now()")


async def is_mine(db: Database) -> bool:
    """Claims a due check, so that no other worker runs it.

    Returns False if no check is due, or if a check is running. A start in the future is from a time
    when the database's clock was ahead.
    """
    return await db.has_row(
        """
        UPDATE proof SET began_at = now()
         WHERE (began_at IS NULL OR asked_at > began_at OR began_at > now() + $1::interval
                OR began_at < now() - CASE WHEN problem IS NULL AND ended_at > began_at
                                           THEN greatest($1::interval, $2 * (ended_at - began_at))
                                           ELSE $1::interval END)
           AND NOT EXISTS (
               SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                WHERE d.datname = current_database() AND l.locktype = 'advisory'
                  AND (l.classid::bigint << 32 | l.objid::bigint) = $3 AND l.objsubid = 1)
        RETURNING true""",
        *(EVERY, EVERY_DURATIONS, RUNNING_LOCK),
    )


async def check_invariants(db: Database) -> None:
    """Checks all ledger invariants. The duration grows with the size of the ledger.

    The worker measures the duration, because it decides when the next check starts: if the
    database's clock jumped during a check, the next one could otherwise be years away.
    """
    start = time.monotonic()
    try:
        findings = await invariants.check(db, ALL, lock=RUNNING_LOCK)
    except Unavailable:
        await db.execute("UPDATE proof SET problem = $1, ended_at = now()", TOO_LONG)
        raise
    broken = [finding.name for finding in findings if finding.count]
    if broken:
        log.error("books_broken", invariants=broken)
    await db.execute(
        "UPDATE proof SET ended_at = began_at + $2::interval, problem = NULL, findings = $1::jsonb",
        *(msgspec.json.encode(findings).decode(), timedelta(seconds=time.monotonic() - start)),
    )
