"""Credits paid payments in batches, with one SQL statement per batch.

Most payments end this way. The stored function `payment_credit` skips a payment that is disputed or
unusual. `states.conclude` then processes that payment in a separate transaction.
"""

from collections.abc import Sequence

import msgspec

from manilla.kit import crash, tracing
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import BY_KEY, Database
from manilla.kit.database.rows import struct_of
from manilla.ledger.posting import Posting
from manilla.merchants import queries as merchants
from manilla.notify import outbox
from manilla.notify.events.kinds import EventType
from manilla.payments import postings, states, store
from manilla.payments.fields import EVENT, describe_notice
from manilla.payments.initiate import EXPIRE
from manilla.payments.payment import Charge, Payment, PaymentStatus
from manilla.payments.states import PaymentEvent
from manilla.providers.port import ChargeState, ReportedChargeStatus


class PaidCharge(msgspec.Struct, frozen=True):
    """A charge that the provider reports as paid."""

    charge: Charge
    state: ChargeState


# Each charge's payment, and the name of its merchant.
_FIND = f"""
    SELECT p.*, m.name
      FROM unnest($1::bigint[], $2::text[]) AS wanted (merchant, id)
     CROSS JOIN LATERAL (
           SELECT {store.PAYMENT_COLUMNS} FROM payment
            WHERE merchant_id = wanted.merchant AND trx_id = wanted.id
            LIMIT 1) AS p
     CROSS JOIN LATERAL ({merchants.name_of("wanted.merchant")}) AS m"""


class CreditedPayments:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._connection = db.keep_connection(BY_KEY, writes=True)
        self._batcher: Batcher[PaidCharge, bool] = Batcher(self._credit)

    async def credit(self, charge: Charge, state: ChargeState) -> bool:
        """Credits the payment. Returns False if the payment needs `states.conclude` instead."""
        if state.status is not ReportedChargeStatus.PAID or state.paid != charge.amount:
            return False
        if state.fee is not None and state.fee.currency != charge.currency:
            return False
        crash.point("before_payment_commit")
        with tracing.step("settle"):
            is_credited = await self._batcher.submit(PaidCharge(charge, state))
        if is_credited:
            crash.point("after_payment_commit")
        return is_credited

    async def _credit(self, paid: Sequence[PaidCharge]) -> list[bool]:
        payments = await self._payments_of(paid)
        items = [
            _item(number, each, *found)
            for number, (each, found) in enumerate(zip(paid, payments, strict=True))
            if _is_usual(found[0], each.charge)
        ]
        if not items:
            return [False] * len(paid)
        records = await self._connection.records(
            "SELECT item FROM payment_credit($1::jsonb)", msgspec.json.encode(items).decode()
        )
        credited = {record["item"] for record in records}
        return [number in credited for number in range(len(paid))]

    async def _payments_of(self, paid: Sequence[PaidCharge]) -> list[tuple[Payment, str]]:
        """Returns each charge's payment, and the name of its merchant."""
        records = await self._connection.records(
            _FIND,
            [each.charge.merchant_id for each in paid],
            [each.charge.trx_id for each in paid],
        )
        return [(struct_of(Payment, record[:-1]), record[-1]) for record in records]


def _is_usual(payment: Payment, charge: Charge) -> bool:
    """Whether `payment_credit` may credit the payment. That function repeats this check."""
    return (
        payment.status is PaymentStatus.PENDING
        and charge.is_undecided
        and not payment.is_sandbox
        and payment.link_id is None
        and payment.received_minor is None
        and payment.quote.customer_pays == charge.amount
    )


def _item(number: int, paid: PaidCharge, payment: Payment, merchant_name: str) -> dict[str, object]:
    charge, state = paid.charge, paid.state
    after = states.after_credit(payment, charge)
    notice = describe_notice(after, merchant_name)
    written = [
        *postings.credit_postings(after, charge.provider),
        *postings.provider_fee_postings(payment, charge, state.fee),
    ]
    return {
        "item": number,
        "merchant_id": payment.merchant_id,
        "trx_id": payment.trx_id,
        "currency": payment.currency,
        "amount_minor": payment.amount_minor,
        "charge": charge.reference,
        "provider": charge.provider,
        "paid": charge.amount.amount,
        "paid_minor": charge.amount_minor,
        "provider_reference": state.provider_reference,
        "merchant_name": merchant_name,
        "commission_trx_id": after.commission_trx_id,
        "postings": [_posting(*each) for each in enumerate(written)],
        "environment": payment.environment,
        "step": PaymentEvent.PAID,
        "status": after.status,
        "detail": states.paid_detail(charge),
        "expire_kind": EXPIRE,
        **outbox.outcome(
            *(payment.merchant_id, payment.ipn_url, notice, notice.event),
            *(EventType(f"{EVENT}.{after.status}"), notice.status),
        ),
    }


def _posting(place: int, posting: Posting) -> dict[str, object]:
    return {
        "place": place,
        "trx_id": posting.trx_id,
        "kind": posting.stored_kind,
        "wallet_minor": posting.wallet.minor,
        "lines": posting.lines,
    }
