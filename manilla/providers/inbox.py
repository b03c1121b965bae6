"""Incoming webhooks from providers: stored unchanged, then processed by a job."""

import hashlib

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.db import Database
from manilla.ledger import trx_ids
from manilla.providers.port import EventKind, WebhookEvent

# The jobs that query a provider for the status of a transaction.
JOBS = {
    EventKind.CHARGE: JobKind.CHARGE,
    EventKind.TRANSFER: JobKind.TRANSFER,
    EventKind.REFUND: JobKind.REFUND,
    EventKind.CHARGE_REFUNDS: JobKind.REFUND,
}

# At most one query per transaction in this time, however many webhooks about it arrive.
QUERY_INTERVAL_SECONDS = 2.0

FORGET_BATCH = 1000

# Which providers the transaction belongs to. $1 is the merchant, $5 the reference.
_SUBJECTS = {
    EventKind.CHARGE: "SELECT provider FROM charge WHERE merchant_id = $1 AND reference = $5",
    # A payout that was moved to another provider also belongs to those that rejected it.
    EventKind.TRANSFER: (
        "SELECT provider FROM payout WHERE merchant_id = $1 AND trx_id = $5"
        " UNION ALL"
        " SELECT provider FROM payout_attempt WHERE merchant_id = $1 AND trx_id = $5"
    ),
    EventKind.REFUND: "SELECT provider FROM refund WHERE merchant_id = $1 AND trx_id = $5",
    EventKind.CHARGE_REFUNDS: (
        "SELECT provider FROM charge WHERE merchant_id = $1 AND reference = $5"
    ),
}

# The transactions to query. Some providers report a refund without saying which one.
_QUERIED = {
    EventKind.CHARGE_REFUNDS: (
        "SELECT trx_id FROM refund WHERE merchant_id = $1 AND charge_reference = $5"
    )
}


class StoredWebhook(msgspec.Struct, frozen=True):
    is_ignored: bool  # the transaction belongs to another provider
    deliveries: int  # of the same bytes, including this one


async def store(db: Database, provider: str, event: WebhookEvent, raw: bytes) -> StoredWebhook:
    """Stores a verified webhook and schedules a status query, in one statement.

    Every delivery schedules a query, even if the same bytes arrived before, because the provider's
    answer may have changed in the meantime. A webhook counts only if the transaction belongs to its
    provider; otherwise it schedules nothing. A webhook about an unknown reference also schedules a
    job, which opens a case.

    Queries about one transaction are at least `QUERY_INTERVAL_SECONDS` apart. A delivery in between
    joins the next scheduled query, so none is lost. A job that is already running may have queried
    before this delivery, so its fence is raised and it runs again.
    """
    await _save_session_id(db, provider, event)
    claim = event.claim
    queried = _QUERIED.get(event.kind, "SELECT $5::text")
    stored = await db.row(
        StoredWebhook,
        f"""
        WITH subject AS MATERIALIZED ({_SUBJECTS[event.kind]}),
        latest AS (
            SELECT max(query_due_at) AS due_at FROM webhook
             WHERE merchant_id = $1 AND provider = $2 AND reference = $5),
        plan AS (
            SELECT CASE WHEN due_at > now() THEN due_at
                        ELSE greatest(now(), due_at + make_interval(secs => $11)) END AS due_at
              FROM latest
             WHERE NOT EXISTS (SELECT FROM subject)
                OR EXISTS (SELECT FROM subject WHERE provider = $2)),
        stored AS (
            INSERT INTO webhook AS w
                   (merchant_id, provider, digest, kind, reference, claimed_amount,
                    claimed_currency, body, claimed_status, query_due_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10, (SELECT due_at FROM plan))
                ON CONFLICT (merchant_id, provider, digest) DO UPDATE
               SET deliveries = w.deliveries + 1, last_received_at = now(),
                   query_due_at = excluded.query_due_at
            RETURNING deliveries, query_due_at),
        raised AS (
            INSERT INTO job (merchant_id, kind, subject, due_at)
            SELECT $1, $9, queried.subject, query_due_at
              FROM stored CROSS JOIN ({queried}) AS queried (subject)
             WHERE query_due_at IS NOT NULL
                ON CONFLICT (merchant_id, kind, subject) DO UPDATE
               SET due_at = CASE WHEN job.leased_until > now() THEN excluded.due_at
                                 ELSE least(job.due_at, excluded.due_at) END,
                   fence = job.fence + 1, parked_at = NULL, failures = 0)
        SELECT query_due_at IS NULL AS is_ignored, deliveries FROM stored""",
        *(_merchant_of(event.reference), provider, hashlib.sha256(raw).digest(), event.kind),
        *(event.reference, claim.amount if claim else None, claim.currency if claim else None),
        *(raw, JOBS[event.kind], event.claims_status, QUERY_INTERVAL_SECONDS),
    )
    assert stored is not None
    return stored


async def _save_session_id(db: Database, provider: str, event: WebhookEvent) -> None:
    """Saves the session id of a transfer, which some providers report only in webhooks.

    It moves no money. It is saved first, so that the notification of the payout contains it.
    """
    if event.session_id is not None:
        await db.execute(
            """
            UPDATE payout SET session_id = $4
             WHERE merchant_id = $1 AND trx_id = $2 AND provider = $3 AND session_id IS NULL""",
            *(_merchant_of(event.reference), event.reference, provider, event.session_id),
        )


def _merchant_of(reference: str) -> int:
    """Returns the merchant in the reference, or 0 if it is not one of ours.

    A charge's reference is the payment's id and a number.
    """
    return trx_ids.merchant_of(reference.partition("-")[0]) or 0


async def delete_old(db: Database, days: int) -> None:
    """Deletes old webhooks in batches.

    Keeps those about an open charge, payout or refund, however old they are, because their claims
    are compared with the provider's answers. Also keeps those that a job or an open case is about.
    """
    while await db.value(
        """
        WITH old AS (
            SELECT merchant_id, provider, digest FROM webhook w
             WHERE received_at < now() - make_interval(days => $1)
               AND last_received_at < now() - make_interval(days => $1)
               AND NOT EXISTS (SELECT FROM charge c
                                WHERE c.merchant_id = w.merchant_id AND c.reference = w.reference
                                  AND c.status IN ('opening', 'open'))
               AND NOT EXISTS (SELECT FROM payout p
                                WHERE p.merchant_id = w.merchant_id AND p.trx_id = w.reference
                                  AND p.status = 'pending')
               AND NOT EXISTS (SELECT FROM refund r
                                WHERE r.merchant_id = w.merchant_id AND r.trx_id = w.reference
                                  AND r.status = 'pending')
               AND NOT EXISTS (SELECT FROM job j
                                WHERE j.merchant_id = w.merchant_id AND j.subject = w.reference)
               AND NOT EXISTS (SELECT FROM operator_case o
                                WHERE o.merchant_id = w.merchant_id AND o.reference = w.reference
                                  AND o.status = 'open')
             LIMIT $2),
        gone AS (
            DELETE FROM webhook w USING old
             WHERE w.merchant_id = old.merchant_id AND w.provider = old.provider
               AND w.digest = old.digest AND w.last_received_at < now() - make_interval(days => $1)
            RETURNING true)
        SELECT count(*) = $2 FROM gone""",
        *(days, FORGET_BATCH),
    ):
        pass
