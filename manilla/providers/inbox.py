"""What providers tell us by themselves: stored as it came, then looked into by a job."""

import hashlib

from manilla.kit import ids
from manilla.kit.db import Database
from manilla.providers.port import EventKind, Provider, WebhookEvent

# The jobs that ask a provider what has become of something.
JOBS = {EventKind.CHARGE: "charge", EventKind.TRANSFER: "transfer", EventKind.REFUND: "refund"}


async def store(db: Database, provider: Provider, event: WebhookEvent, raw: bytes) -> None:
    """Stored with its job in one statement. What was stored before changes nothing.

    The job of a reference that is being looked into already is due at once, and raised above
    whoever holds it: what that one has asked may be older than this message.
    """
    claims = event.claims_paid
    await db.execute(
        """
        WITH stored AS (
            INSERT INTO webhook (merchant_id, provider, digest, kind, reference, claimed_amount,
                                 claimed_currency, body, claimed_status)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10)
                ON CONFLICT DO NOTHING
            RETURNING merchant_id, reference)
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT merchant_id, $9, reference, now() FROM stored
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
               parked_at = NULL, failures = 0""",
        *(_merchant_of(event.reference), provider, hashlib.sha256(raw).digest(), event.kind),
        *(event.reference, claims.amount if claims else None, claims.currency if claims else None),
        *(raw, JOBS[event.kind], event.claims_status),
    )


def _merchant_of(reference: str) -> int:
    """Charges are numbered after the payment's id; 0 where it is no id of ours."""
    return ids.merchant_of(reference.partition("-")[0]) or 0
