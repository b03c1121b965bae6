"""Creates payments' first charges in batches, with one SQL statement per batch.

Most payments have one charge. If another request has created a charge in the meantime, or the
payment is no longer pending, the statement skips it, and `ChargeService` decides under a lock.
"""

from collections.abc import Mapping

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.batch import SharedWrite
from manilla.kit.database.connections import Database
from manilla.ledger import timeline
from manilla.payments.payment import Charge, PaymentStatus

CHECK = JobKind.CHARGE
FIRST_CHECK_SECONDS = 10
GATEWAY_CHOSEN = "gateway_chosen"

_CHECK = jobs.put_from(
    f"SELECT merchant_id, '{CHECK}', reference, now() + interval '{FIRST_CHECK_SECONDS} seconds'"
    " FROM added"
)
_EXPLAIN = timeline.add_from("chosen", GATEWAY_CHOSEN, PaymentStatus.PENDING)
# A charge, the job that queries its status, and the reason for the gateway are written together.
# Payments are locked in sorted order, so that statements cannot deadlock.
# The key of `charge` prevents a second first charge, also within one batch.
_ADD = f"""
    WITH given AS (
        SELECT *
          FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                      $7::text[], $8::bigint[], $9::text[], $10::text[], $11::jsonb[])
               AS new (place, merchant_id, trx_id, reference, method_code, provider, currency,
                       amount_minor, channel, detail, facts)
         ORDER BY merchant_id, trx_id),
    pending AS (
        SELECT given.*
          FROM given
         CROSS JOIN LATERAL (
               SELECT FROM payment p
                WHERE p.merchant_id = given.merchant_id AND p.trx_id = given.trx_id
                  AND p.status = 'pending' AND p.received_minor IS NULL
                  FOR UPDATE) AS locked),
    added AS (
        INSERT INTO charge (merchant_id, reference, trx_id, number, method_code, provider, currency,
                            amount_minor, status, channel)
        SELECT merchant_id, reference, trx_id, 1, method_code, provider, currency, amount_minor,
               'opening', channel
          FROM pending
            ON CONFLICT DO NOTHING
        RETURNING merchant_id, reference, trx_id),
    checked AS ({_CHECK}),
    first AS (
        SELECT DISTINCT ON (merchant_id, reference) pending.*
          FROM pending JOIN added USING (merchant_id, reference, trx_id)
         ORDER BY merchant_id, reference, place),
    chosen AS (SELECT * FROM first WHERE detail IS NOT NULL),
    explained AS ({_EXPLAIN})
    SELECT place FROM first"""


class FirstCharges:
    def __init__(self, db: Database) -> None:
        self._add = SharedWrite(db, _ADD)

    async def add(self, new: Charge, why: tuple[str, Mapping[str, str]] | None) -> bool:
        """Saves the charge with its job. Returns False if the payment needs a lock first.

        `why` explains to administrators and merchants why this gateway was chosen.
        """
        detail, facts = why or (None, {})
        records = await self._add.records(
            *(new.merchant_id, new.trx_id, new.reference, new.method_code, new.provider),
            *(new.currency, new.amount_minor, new.channel, detail),
            msgspec.json.encode(dict(facts)).decode(),
        )
        return bool(records)
