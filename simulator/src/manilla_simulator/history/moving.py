"""Moves the timestamps of the history's rows into the past. No other code does so.

The history is created within minutes, with a clock that is set step by step. `ClockStep` stores for
each subject, such as a payment, the `real` time from which its clock was behind by an amount. Each
timestamp moves back by the amount of its step, which keeps the order of a subject's timestamps. The
ledger is append-only, so the tables' owner must disable the trigger within the transaction; nobody
else ever sees the ledger without it. A second call changes nothing, because moved timestamps are
older than any step.

The audit log keeps the real times, because its hashes cover them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import asyncpg
import structlog

from manilla.kit import time_limits
from manilla.kit.database.connections import Database, session
from manilla.ledger import trx_ids
from manilla_simulator.history.clock import ClockStep

log = structlog.get_logger(__name__)

TRIES = 20
# PostgreSQL aborts a deadlocked transaction after 1 s.
# With a shorter lock timeout, this transaction fails first, and other transactions continue.
LOCK_SECONDS = 0.5
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
APPEND_ONLY = ("posting", "timeline", "case_event", "posting_chain")
# The chain's hashes cover the times of postings, so the chain starts again after a move.
_RESTART_CHAIN = """
    UPDATE posting_chain_head
       SET number = 0, last_id = 0, hash = decode(repeat('00', 32), 'hex');
    DELETE FROM posting_chain"""

_OF_TRANSACTION = "moved m", "t.merchant_id = m.merchant_id AND t.trx_id = m.subject"
# Maps each table `t` to its timestamp columns and to its join with the moved subjects `m`.
_TABLES: dict[str, tuple[str, tuple[str, str]]] = {
    "payment": ("created_at updated_at expires_at opened_at", _OF_TRANSACTION),
    "charge": ("created_at updated_at account_expires_at", _OF_TRANSACTION),
    "payout": (
        "created_at updated_at began_at accepted_at last_sent_at asked_at",
        _OF_TRANSACTION,
    ),
    "payout_attempt": ("created_at dead_at", _OF_TRANSACTION),
    "refund": ("created_at updated_at sent_at first_sent_at", _OF_TRANSACTION),
    "timeline": ("at", _OF_TRANSACTION),
    "notification": ("created_at decided_at", _OF_TRANSACTION),
    "operator_case": ("opened_at resolved_at vanished_at", _OF_TRANSACTION),
    # Postings to the suspense account have the charge's reference as their transaction id.
    "posting": (
        "posted_at",
        (
            "moved m CROSS JOIN (VALUES (''), ('-1'), ('-2'), ('-3')) AS charge (suffix)",
            "t.merchant_id = m.merchant_id AND t.trx_id = m.subject || charge.suffix",
        ),
    ),
    "webhook": (
        "received_at last_received_at",
        (
            "moved m",
            "t.merchant_id = m.merchant_id AND split_part(t.reference, '-', 1) = m.subject",
        ),
    ),
    "settlement": ("created_at ended_at", _OF_TRANSACTION),
    "payout_batch": ("created_at confirmed_at ended_at", ("moved m", "t.id = m.subject")),
    "delivery_attempt": (
        "at",
        (
            "moved m JOIN notification n ON n.merchant_id = m.merchant_id AND n.trx_id = m.subject",
            "t.merchant_id = n.merchant_id AND t.notification_id = n.id",
        ),
    ),
    "case_event": (
        "at",
        (
            "moved m JOIN operator_case c ON c.merchant_id = m.merchant_id"
            " AND c.trx_id = m.subject",
            "t.merchant_id = c.merchant_id AND t.case_id = c.id",
        ),
    ),
}
_STEPS = """
    CREATE TEMP TABLE clock_step (subject text, merchant_id bigint, since timestamptz,
                                  until timestamptz, back interval) ON COMMIT DROP;
    CREATE INDEX ON clock_step (subject)"""
_INSERT_STEPS = """
    INSERT INTO clock_step
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::timestamptz[],
                         $5::interval[])"""
_SUBJECTS = """
    CREATE TEMP TABLE moved ON COMMIT DROP AS
    SELECT subject, merchant_id, min(since) AS since FROM clock_step GROUP BY 1, 2;
    ANALYZE clock_step, moved"""


async def move(owner_url: str, steps: Mapping[str, Sequence[ClockStep]]) -> None:
    """Moves the timestamps of these subjects' rows. Retries if other transactions hold locks."""
    if not steps:
        return
    for left in reversed(range(TRIES)):
        try:
            async with session(owner_url, statement_seconds=60) as raw, raw.transaction():
                await raw.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                await _move(raw, steps)
            return
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if not left:
                raise
            await asyncio.sleep(LOCK_SECONDS)


async def _move(raw: Any, steps: Mapping[str, Sequence[ClockStep]]) -> None:
    rows = [
        (subject, trx_ids.merchant_of(subject) or 0, step.real, until, step.back)
        for subject, each in steps.items()
        for step, until in _with_ends(each)
    ]
    await raw.execute(_STEPS)
    await raw.execute(_INSERT_STEPS, *map(list, zip(*rows, strict=True)))
    await raw.execute(_SUBJECTS)
    await _switch_triggers(raw, "DISABLE")
    await raw.execute(_RESTART_CHAIN)
    for table, (columns, (source, condition)) in _TABLES.items():
        await raw.execute(_statement(table, columns.split(), source, condition))
    await _switch_triggers(raw, "ENABLE")


def _with_ends(steps: Sequence[ClockStep]) -> list[tuple[ClockStep, datetime]]:
    ends = [(step, later.real) for step, later in pairwise(steps)]
    return [*ends, (steps[-1], NEVER)]


async def _switch_triggers(raw: Any, switch: str) -> None:
    for table in APPEND_ONLY:
        await raw.execute(f"ALTER TABLE {table} {switch} TRIGGER append_only")


def _statement(table: str, columns: Sequence[str], source: str, condition: str) -> str:
    changes = ", ".join(
        f"""{column} = coalesce((SELECT t.{column} - s.back FROM clock_step s
             WHERE s.subject = m.subject AND t.{column} >= s.since AND t.{column} < s.until),
             t.{column})"""
        for column in columns
    )
    is_unmoved = " OR ".join(f"t.{column} >= m.since" for column in columns)
    return f"UPDATE {table} t SET {changes} FROM {source} WHERE {condition} AND ({is_unmoved})"


async def unmoved(
    db: Database, merchant_ids: Sequence[int], until: datetime
) -> dict[str, list[ClockStep]]:
    """Returns a clock step for each transaction whose rows an interrupted process has not moved.

    The timestamps of such rows are newer than the history. Later events of a transaction that was
    already moved, such as a refund, move to the day after the transaction's creation.
    """
    records = await db.records(
        """
        SELECT split_part(trx_id, '-', 1) AS trx_id, min(at), bool_or(is_new)
          FROM (SELECT trx_id, posted_at AS at, true AS is_new
                  FROM posting WHERE kind = 'funding' AND merchant_id = ANY ($1)
                UNION ALL
                SELECT trx_id, created_at, true FROM payment WHERE merchant_id = ANY ($1)
                UNION ALL
                SELECT trx_id, created_at, true FROM payout WHERE merchant_id = ANY ($1)
                UNION ALL
                SELECT trx_id, created_at, true FROM refund WHERE merchant_id = ANY ($1)
                UNION ALL
                SELECT trx_id, updated_at, false FROM refund WHERE merchant_id = ANY ($1)
                UNION ALL
                SELECT trx_id, at, false FROM timeline WHERE merchant_id = ANY ($1)) AS row
         WHERE at >= $2 GROUP BY 1""",
        *(list(merchant_ids), until),
    )
    steps = {}
    for trx_id, at, is_new in records:
        moment = trx_ids.moment_of(trx_id)
        assert moment is not None
        if moment < until:
            later = min(moment + timedelta(days=1), until - timedelta(hours=1))
            steps[trx_id] = [ClockStep(at, moment if is_new else later)]
    return steps


async def move_merchant(owner_url: str, merchant_id: int, moment: datetime) -> None:
    """Sets the creation time of a merchant, its keys and its wallets."""
    seconds = time_limits.current.start_statement_seconds
    async with session(owner_url, statement_seconds=seconds) as raw, raw.transaction():
        keys = {"merchant": "id", "credential": "merchant_id", "wallet": "merchant_id"}
        for table, key in keys.items():
            await raw.execute(
                f"UPDATE {table} SET created_at = $2 WHERE {key} = $1 AND created_at > $2",
                *(merchant_id, moment),
            )
