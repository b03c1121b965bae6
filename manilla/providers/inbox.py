"""Stores webhooks from providers unchanged, and schedules jobs that process them."""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import BY_KEY, Database
from manilla.ledger import trx_ids
from manilla.providers.port import Claim, WebhookEvent, WebhookSubject

# The jobs that query a provider for a transaction's status.
JOBS = {
    WebhookSubject.CHARGE: JobKind.CHARGE,
    WebhookSubject.TRANSFER: JobKind.TRANSFER,
    WebhookSubject.REFUND: JobKind.REFUND,
    WebhookSubject.CHARGE_REFUNDS: JobKind.REFUND,
    WebhookSubject.DISPUTE: JobKind.DISPUTES,
    WebhookSubject.ACCOUNT: JobKind.ACCOUNT,
    WebhookSubject.ACCOUNT_TRANSFER: JobKind.ACCOUNT_TRANSFER,
    WebhookSubject.MANDATE: JobKind.SAVED_WAY,
}

# The minimum time between two status queries for a transaction, however many webhooks arrive.
QUERY_INTERVAL_SECONDS = 2.0

FORGET_BATCH = 1000

# SQL that returns the providers of the transaction in the webhook `g`.
_SUBJECTS = {
    WebhookSubject.CHARGE: (
        "SELECT c.provider FROM charge c"
        " WHERE c.merchant_id = g.merchant_id AND c.reference = g.reference"
    ),
    # A payout that was moved to another provider also belongs to the providers that rejected it.
    WebhookSubject.TRANSFER: (
        "SELECT p.provider FROM payout p"
        " WHERE p.merchant_id = g.merchant_id AND p.trx_id = g.reference"
        " UNION ALL"
        " SELECT a.provider FROM payout_attempt a"
        " WHERE a.merchant_id = g.merchant_id AND a.trx_id = g.reference"
    ),
    WebhookSubject.REFUND: (
        "SELECT r.provider FROM refund r"
        " WHERE r.merchant_id = g.merchant_id AND r.trx_id = g.reference"
    ),
    # The job asks the provider that sent the webhook, whether we know the dispute or not.
    WebhookSubject.DISPUTE: "SELECT g.provider",
    WebhookSubject.ACCOUNT: (
        "SELECT a.provider FROM customer_account a"
        " WHERE a.merchant_id = g.merchant_id AND a.id = g.reference"
    ),
    WebhookSubject.ACCOUNT_TRANSFER: "SELECT g.provider",
    # The job asks the provider of the mandate, whichever provider sent the webhook.
    WebhookSubject.MANDATE: "SELECT g.provider",
}
_SUBJECTS[WebhookSubject.CHARGE_REFUNDS] = _SUBJECTS[WebhookSubject.CHARGE]

# SQL that returns the transactions whose status is queried because of the stored webhook `s`.
# Some providers' refund webhooks do not identify the refund, so the charge's refunds are queried.
_QUERIED = {
    WebhookSubject.CHARGE_REFUNDS: (
        "SELECT r.trx_id FROM refund r"
        " WHERE r.merchant_id = s.merchant_id AND r.charge_reference = s.reference"
    ),
    WebhookSubject.DISPUTE: "SELECT s.provider || ':' || s.reference",
    WebhookSubject.ACCOUNT_TRANSFER: "SELECT s.provider || ':' || s.reference",
}


def _store_statement(kind: WebhookSubject) -> str:
    """Returns SQL that stores webhooks, and adds or advances the jobs for status queries."""
    return f"""
        WITH given AS (
            SELECT g.*, subject.is_known, subject.is_of_provider, latest.due_at
              FROM unnest($3::bigint[], $4::text[], $5::bytea[], $6::text[], $7::numeric[],
                          $8::text[], $9::bytea[], $10::text[])
                   AS g (merchant_id, provider, digest, reference, claimed_amount,
                         claimed_currency, body, claimed_status)
             CROSS JOIN LATERAL (
                   SELECT count(*) > 0 AS is_known,
                          coalesce(bool_or(of.provider = g.provider), false) AS is_of_provider
                     FROM ({_SUBJECTS[kind]}) AS of) AS subject
             CROSS JOIN LATERAL (
                   SELECT max(w.query_due_at) AS due_at FROM webhook w
                    -- Only the index by reference fits: `+ 0` and `|| ''` exclude the primary key.
                    WHERE w.merchant_id + 0 = g.merchant_id
                      AND w.provider || '' = g.provider
                      AND w.reference = g.reference) AS latest),
        stored AS (
            INSERT INTO webhook AS w
                   (merchant_id, provider, digest, kind, reference, claimed_amount,
                    claimed_currency, body, claimed_status, query_due_at)
            SELECT merchant_id, provider, digest, $1, reference, claimed_amount,
                   claimed_currency, body, claimed_status,
                   CASE WHEN is_known AND NOT is_of_provider THEN NULL
                        WHEN due_at > now() THEN due_at
                        ELSE greatest(now(), due_at + make_interval(secs => $11)) END
              FROM given ORDER BY merchant_id, provider, digest
                ON CONFLICT (merchant_id, provider, digest) DO UPDATE
               SET deliveries = w.deliveries + 1, last_received_at = now(),
                   query_due_at = excluded.query_due_at
            RETURNING merchant_id, provider, digest, reference, deliveries, query_due_at),
        raised AS (
            INSERT INTO job (merchant_id, kind, subject, due_at)
            SELECT s.merchant_id, $2, queried.subject, s.query_due_at
              FROM stored s CROSS JOIN LATERAL (
                   {_QUERIED.get(kind, "SELECT s.reference")}) AS queried (subject)
             WHERE s.query_due_at IS NOT NULL
             ORDER BY s.merchant_id, queried.subject
                ON CONFLICT (merchant_id, kind, subject) DO UPDATE
               SET due_at = CASE WHEN job.leased_until > now() THEN excluded.due_at
                                 ELSE least(job.due_at, excluded.due_at) END,
                   fence = job.fence + 1, parked_at = NULL, failures = 0)
        SELECT merchant_id, provider, digest, query_due_at IS NULL AS is_ignored, deliveries
          FROM stored"""


_STORE = {kind: _store_statement(kind) for kind in WebhookSubject}


class StoredWebhook(msgspec.Struct, frozen=True):
    is_ignored: bool  # whether the transaction belongs to another provider
    deliveries: int  # how many times this webhook has been delivered, including this delivery


class VerifiedWebhook(msgspec.Struct, frozen=True):
    provider: str
    event: WebhookEvent
    raw: bytes
    digest: bytes
    merchant_id: int  # 0 if the reference is not one of ours

    @property
    def key(self) -> tuple[int, str, bytes]:
        return self.merchant_id, self.provider, self.digest


class WebhookInbox:
    """Stores verified webhooks and schedules status queries. Concurrent webhooks share a statement.

    Every delivery schedules a query, even if the same bytes arrived before, because the
    transaction's status may have changed in the meantime. If the transaction belongs to another
    provider, the webhook schedules nothing. A webhook with an unknown reference also schedules a
    job, which opens a case.

    Queries about one transaction are at least `QUERY_INTERVAL_SECONDS` apart. A delivery within
    this time uses the next scheduled query, so no delivery is lost. A job that is already running
    may have queried the provider before this delivery. Its fence is therefore increased, and the
    job runs again.
    """

    def __init__(self, db: Database) -> None:
        self._connection = db.keep_connection(BY_KEY, writes=True)
        self._batcher = Batcher(self._store)

    async def store(self, provider: str, event: WebhookEvent, raw: bytes) -> StoredWebhook:
        merchant_id = merchant_of(event.reference)
        digest = hashlib.sha256(raw).digest()
        return await self._batcher.submit(
            VerifiedWebhook(provider, event, raw, digest, merchant_id)
        )

    async def _store(self, webhooks: Sequence[VerifiedWebhook]) -> list[StoredWebhook]:
        await self._save_session_ids([each for each in webhooks if each.event.session_id])
        results: dict[int, StoredWebhook] = {}
        left = dict(enumerate(webhooks))
        while left:
            places = _share_statement(left)
            stored = await self._store_together([left.pop(place) for place in places])
            results |= dict(zip(places, stored, strict=True))
        return [results[place] for place in range(len(webhooks))]

    async def _save_session_ids(self, webhooks: Sequence[VerifiedWebhook]) -> None:
        """Saves the session ids of transfers, which some providers report only in webhooks.

        Session ids are saved first, so that the payouts' notifications contain them. Saving them
        moves no money.
        """
        if webhooks:
            await self._connection.records(
                """
                UPDATE payout AS p SET session_id = g.session_id
                  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
                       AS g (merchant_id, trx_id, provider, session_id)
                 WHERE p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.trx_id
                   AND p.provider = g.provider AND p.session_id IS NULL""",
                [each.merchant_id for each in webhooks],
                [each.event.reference for each in webhooks],
                [each.provider for each in webhooks],
                [each.event.session_id for each in webhooks],
            )

    async def _store_together(self, webhooks: Sequence[VerifiedWebhook]) -> list[StoredWebhook]:
        """Stores webhooks of one kind, each about a different transaction, in one SQL statement."""
        kind = webhooks[0].event.kind
        claims = [each.event.claim or Claim() for each in webhooks]
        records = await self._connection.records(
            _STORE[kind],
            *(kind, JOBS[kind]),
            [each.merchant_id for each in webhooks],
            [each.provider for each in webhooks],
            [each.digest for each in webhooks],
            [each.event.reference for each in webhooks],
            [claim.amount for claim in claims],
            [claim.currency for claim in claims],
            [each.raw for each in webhooks],
            [each.event.claims_status for each in webhooks],
            QUERY_INTERVAL_SECONDS,
        )
        stored = {
            (each["merchant_id"], each["provider"], each["digest"]): StoredWebhook(
                each["is_ignored"], each["deliveries"]
            )
            for each in records
        }
        return [stored[each.key] for each in webhooks]


def _share_statement(webhooks: Mapping[int, VerifiedWebhook]) -> list[int]:
    """Returns the indexes of webhooks that one SQL statement can store.

    These webhooks are of one kind, and each is about a different transaction, because a statement
    can change a row only once.
    """
    kind = next(iter(webhooks.values())).event.kind
    places: dict[str, int] = {}
    for place, webhook in webhooks.items():
        if webhook.event.kind is kind:
            places.setdefault(webhook.event.reference, place)
    return list(places.values())


def merchant_of(reference: str) -> int:
    """Returns the merchant id in the reference, or 0 if the reference is not ours.

    A charge's reference consists of the payment's id and a number.
    """
    first = reference.partition("-")[0]
    owners = (trx_ids.merchant_of, trx_ids.ACCOUNT_IDS.owner_of, trx_ids.WAY_IDS.owner_of)
    return next((found for of in owners if (found := of(first))), 0)


async def delete_old(db: Database, days: int) -> None:
    """Deletes old webhooks in batches.

    Keeps webhooks about an open charge, payout or refund, whatever their age, because they are
    compared with the provider's responses. Also keeps webhooks that a job or an open case needs.
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
             ORDER BY received_at LIMIT $2),
        gone AS (
            DELETE FROM webhook w USING old
             WHERE w.merchant_id = old.merchant_id AND w.provider = old.provider
               AND w.digest = old.digest AND w.last_received_at < now() - make_interval(days => $1)
            RETURNING true)
        SELECT count(*) = $2 FROM gone""",
        *(days, FORGET_BATCH),
    ):
        pass
