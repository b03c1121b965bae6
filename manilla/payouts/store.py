"""Reads and writes payouts."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource, columns
from manilla.kit.jobs import Job, claims
from manilla.kit.money import Money
from manilla.ledger.outcomes import ChangedRow
from manilla.payouts.payout import REPORTED_COLUMNS, REPORTED_NAMES, Payout
from manilla.posting_kinds import PostingFlag, kinds_with
from manilla.providers.port import TransferState

# A new acceptance's reference is in `accepted_reference`, see migration 0082.
PROVIDER_REFERENCE = "coalesce(accepted_reference, provider_reference)"
DESTINATION = (
    "payout_destination(environment::text, currency, amount_minor, provider,"
    " rail_bank_code IS NOT NULL, beneficiary)"
)
PAYOUT_COLUMNS = columns(Payout, provider_reference=PROVIDER_REFERENCE, destination=DESTINATION)
_PAYOUT = f"SELECT {PAYOUT_COLUMNS} FROM payout"


def _each_reported(sql: str, first: int = 0) -> str:
    """Repeats the SQL for each provider-reported column. {0} is its name, {1} its number."""
    return ", ".join(sql.format(name, n) for n, name in enumerate(REPORTED_COLUMNS, first))


# Clears the reported values of a payout that moves to another provider.
NOTHING_REPORTED = (
    "accepted_at = NULL, accepted_reference = NULL, provider_fee_minor = NULL, "
    + _each_reported("{0} = NULL")
)


async def payout(
    db: Database | Connection, merchant_id: int, trx_id: str, *, lock: bool = False
) -> Payout | None:
    record = await db.record(
        _PAYOUT + " WHERE merchant_id = $1 AND trx_id = $2" + (" FOR UPDATE" if lock else ""),
        *(merchant_id, trx_id),
    )
    return None if record is None else read(record)


async def payouts_of(db: Database, jobs: Sequence[Job]) -> list[Payout | None]:
    """Returns each job's payout, in the order of the jobs."""
    records = await db.records_by_key(
        f"""
        SELECT found.*
          FROM unnest($1::bigint[], $2::text[]) AS j (merchant_id, subject)
         CROSS JOIN LATERAL ({_PAYOUT}
               WHERE payout.merchant_id = j.merchant_id AND payout.trx_id = j.subject
               LIMIT 1) AS found""",
        [job.merchant_id for job in jobs],
        [job.subject for job in jobs],
    )
    found = {(record["merchant_id"], record["trx_id"]): record for record in records}
    return [
        None if record is None else read(record)
        for record in (found.get((job.merchant_id, job.subject)) for job in jobs)
    ]


async def decided_lately(db: Database, provider: str, age: timedelta, limit: int) -> list[Payout]:
    """Returns recent completed or failed payouts, least recently queried first.

    Omits payouts for which an administrator has already decided who bears the loss of a transfer
    that was delivered after all.
    """
    records = await db.records(
        _PAYOUT
        + """
         WHERE provider = $1 AND environment = 'production' AND status IN ('completed', 'failed')
           AND created_at > now() - $2::interval AND began_at IS NOT NULL
           AND NOT lives_elsewhere(merchant_id)
           AND NOT EXISTS (SELECT FROM posting g
                            WHERE g.merchant_id = payout.merchant_id AND g.trx_id = payout.trx_id
                              AND g.kind = ANY ($4::text[]))
         ORDER BY asked_at NULLS FIRST, updated_at DESC LIMIT $3""",
        *(provider, age, limit, kinds_with(PostingFlag.LOSS)),
    )
    return [read(record) for record in records]


async def were_asked_about(db: Database, payouts_: Sequence[Payout]) -> None:
    """Records the time of the payouts' status query.

    Locks rows in sorted order, because two reconciliations may run at the same time.
    """
    await db.execute(
        """
        UPDATE payout AS p SET asked_at = now()
          FROM (SELECT merchant_id, trx_id FROM payout
                  JOIN unnest($1::bigint[], $2::text[]) AS a (merchant_id, trx_id)
                       USING (merchant_id, trx_id)
                 ORDER BY merchant_id, trx_id FOR UPDATE OF payout) AS asked
         WHERE p.merchant_id = asked.merchant_id AND p.trx_id = asked.trx_id""",
        [payout_.merchant_id for payout_ in payouts_],
        [payout_.trx_id for payout_ in payouts_],
    )


async def was_sent_within(db: RowSource, payout_: Payout, age: timedelta) -> bool:
    was_sent: bool | None = await db.value(
        """
        SELECT greatest(began_at, last_sent_at) > now() - $3::interval FROM payout
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(payout_.merchant_id, payout_.trx_id, age),
    )
    return bool(was_sent)


# The columns that an outcome writes.
_OUTCOME_COLUMNS = (
    *("status", "error_code", "guidance", "is_reversed", "provider_fee_minor"),
    *("bank_reference", *REPORTED_COLUMNS),
)


def changed_row(after: Payout) -> ChangedRow:
    columns = {name: getattr(after, name) for name in _OUTCOME_COLUMNS}
    return ChangedRow("payout", after.trx_id, columns)


_ADD_REPORTED = f"""
    UPDATE payout SET {_each_reported("{0} = coalesce({0}, ${1})", 3)}
     WHERE merchant_id = $1 AND trx_id = $2"""


async def add_reported(
    db: Database | Connection, payout_: Payout, state: TransferState | None
) -> None:
    """Saves references that the provider reports after the payout has ended."""
    reported = [getattr(state, name, None) for name in REPORTED_COLUMNS]
    known = [getattr(payout_, name) for name in REPORTED_COLUMNS]
    if any(now and not before for now, before in zip(reported, known, strict=True)):
        await db.execute(_ADD_REPORTED, payout_.merchant_id, payout_.trx_id, *reported)


async def save_late_fee(db: Database | Connection, payout_: Payout, fee: Money | None) -> None:
    """Saves the provider's fee for a failed payout whose transfer was delivered after all.

    The fee is posted when an administrator confirms the delivery. The fee of a reversed payout
    was posted at its delivery and does not change.
    """
    if fee is not None:
        await db.execute(
            """
            UPDATE payout SET provider_fee_minor = $3
             WHERE merchant_id = $1 AND trx_id = $2 AND status IN ('failed', 'canceled')
               AND NOT is_reversed""",
            *(payout_.merchant_id, payout_.trx_id, fee.minor),
        )


def read(record: Any) -> Payout:
    fields = dict(record)
    fields["beneficiary"] = msgspec.json.decode(fields["beneficiary"])
    return msgspec.convert(fields, Payout)


class Accepted(msgspec.Struct, frozen=True):
    job: Job
    state: TransferState
    query_seconds: float  # the time until the first status query


# The payouts are locked before the jobs, as when a payout ends: PostgreSQL runs a CTE that nothing
# refers to (`later`) after the main statement.
_ACCEPT = f"""
    WITH later AS ({claims.putting_off(first=4 + len(REPORTED_COLUMNS))})
    UPDATE payout AS p
       SET accepted_at = coalesce(p.accepted_at, now()),
           provider_fee_minor = coalesce(a.fee_minor, p.provider_fee_minor),
           accepted_reference = coalesce(a.provider_reference, p.accepted_reference),
           {", ".join(f"{name} = coalesce(a.{name}, p.{name})" for name in REPORTED_NAMES)}
      FROM unnest($1::bigint[], $2::text[], $3::bigint[], {_each_reported("${1}::text[]", 4)})
           AS a (merchant_id, trx_id, fee_minor, {_each_reported("{0}")})
     WHERE p.merchant_id = ANY (ARRAY[a.merchant_id]) AND p.trx_id = a.trx_id
       AND p.status = 'pending'"""


async def accept(db: Database, accepted: Sequence[Accepted]) -> list[None]:
    """Saves the references and fees that providers returned when they accepted payouts.

    Delays the payouts' jobs in the same transaction.
    """
    keys = claims.keys([each.job for each in accepted])
    await db.records_by_key(
        _ACCEPT,
        [each.job.merchant_id for each in accepted],
        [each.job.subject for each in accepted],
        [each.state.fee.minor if each.state.fee else None for each in accepted],
        *([getattr(each.state, name) for each in accepted] for name in REPORTED_COLUMNS),
        *keys,
        [timedelta(seconds=each.query_seconds) for each in accepted],
    )
    return [None] * len(accepted)


async def index_references(db: Database, payouts_: Sequence[Payout]) -> list[None]:
    """Makes open payouts searchable by the references that providers returned at acceptance."""
    await db.records_by_key(
        """
        UPDATE payout AS p
           SET provider_reference = p.accepted_reference, accepted_reference = NULL
          FROM unnest($1::bigint[], $2::text[]) AS a (merchant_id, trx_id)
         WHERE p.merchant_id = ANY (ARRAY[a.merchant_id]) AND p.trx_id = a.trx_id
           AND p.accepted_reference IS NOT NULL""",
        [payout_.merchant_id for payout_ in payouts_],
        [payout_.trx_id for payout_ in payouts_],
    )
    return [None] * len(payouts_)
