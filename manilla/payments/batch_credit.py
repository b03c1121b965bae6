"""Credits paid payments in batches, with one SQL statement per batch.

Most payments end this way. The stored function `payments_undisputed` leaves out a payment that is
disputed or has changed. `states.conclude` then processes that payment in a separate transaction.
"""

from collections.abc import Sequence

import msgspec

from manilla.kit import crash, tracing
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import BY_KEY, Database
from manilla.kit.database.rows import struct_of
from manilla.kit.money import Money
from manilla.ledger import outcomes
from manilla.ledger.outcomes import TransactionOutcome
from manilla.merchants import queries as merchants
from manilla.payments import postings, states, store
from manilla.payments.payment import Charge, Payment, PaymentStatus
from manilla.providers.port import ChargeState, ReportedChargeStatus

# The columns that the outcome depends on, and that another event may have changed.
_SEEN = ("status", "error_code", "amount_minor", "received_minor", "refunded_minor", "link_id")
_CHARGE_SEEN = ("status", "amount_minor", "credit_minor")


class PaidCharge(msgspec.Struct, frozen=True):
    """A charge that the provider reports as paid."""

    charge: Charge
    state: ChargeState


# Each charge's payment, and its merchant's name and setting for receipts.
_FIND = f"""
    SELECT p.*, m.name, m.sends_receipts
      FROM unnest($1::bigint[], $2::text[]) AS wanted (merchant, id)
     CROSS JOIN LATERAL (
           SELECT {store.PAYMENT_COLUMNS} FROM payment
            WHERE merchant_id = wanted.merchant AND trx_id = wanted.id
            LIMIT 1) AS p
     CROSS JOIN LATERAL ({merchants.receipt_terms_of("wanted.merchant")}) AS m"""


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
        usual = {
            number: _outcome(each, payment, merchant_name)
            for number, (each, (payment, merchant_name, sends_receipts)) in enumerate(
                zip(paid, payments, strict=True)
            )
            if _is_usual(payment, each.charge, sends_receipts=sends_receipts)
        }
        if not usual:
            return [False] * len(paid)
        written = await outcomes.apply_undisputed(
            self._connection, list(usual.values()), "payments_undisputed"
        )
        credited = {number for place, number in enumerate(usual) if place in written}
        return [number in credited for number in range(len(paid))]

    async def _payments_of(self, paid: Sequence[PaidCharge]) -> list[tuple[Payment, str, bool]]:
        """Returns each charge's payment, its merchant's name, and whether receipts are sent."""
        records = await self._connection.records(
            _FIND,
            [each.charge.merchant_id for each in paid],
            [each.charge.trx_id for each in paid],
        )
        return [(struct_of(Payment, record[:-2]), *record[-2:]) for record in records]


def _is_usual(payment: Payment, charge: Charge, *, sends_receipts: bool) -> bool:
    """Whether the payment's outcome consists of the credit alone."""
    return (
        payment.status is PaymentStatus.PENDING
        and charge.is_undecided
        and not payment.is_sandbox
        and payment.link_id is None
        and payment.received_minor is None
        and payment.quote.customer_pays == charge.amount
        and not (sends_receipts and payment.customer_email is not None)
    )


def _outcome(paid: PaidCharge, payment: Payment, merchant_name: str) -> TransactionOutcome:
    charge, state = paid.charge, paid.state
    outcome = states.credit_outcome(
        payment,
        states.after_credit(payment, charge),
        charge.provider,
        states.paid_charge(charge, charge.amount, Money(charge.currency, 0)),
        merchant_name,
        postings.provider_fee_postings(payment, charge, state.fee),
    )
    return msgspec.structs.replace(
        outcome,
        further={
            "charge_provider_reference": state.provider_reference,
            "amount": charge.amount.amount,
            "seen": {name: getattr(payment, name) for name in _SEEN},
            "charge_seen": {name: getattr(charge, name) for name in _CHARGE_SEEN},
        },
    )
