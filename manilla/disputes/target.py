"""Finds the payment that a reported dispute is about, and checks that the dispute fits it."""

from collections.abc import Sequence

import msgspec

from manilla.disputes import store
from manilla.kit.database.connections import Connection, Database
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.payments import store as payments
from manilla.payments.payment import SANDBOX, Charge, ChargeStatus, Payment, PaymentStatus
from manilla.providers.port import DisputeState


class DisputeTarget(msgspec.Struct, frozen=True):
    """The payment and the charge that a dispute names. None if we have no such row."""

    provider: str
    merchant_id: int = 0
    payment_trx_id: str = ""
    charge: Charge | None = None
    is_known: bool = False  # whether the dispute was opened before
    is_of_other_charge: bool = False  # whether it was opened before, for another charge

    @property
    def charge_reference(self) -> str | None:
        return None if self.charge is None else self.charge.reference

    async def lock(self, connection: Connection) -> Payment | None:
        if not self.payment_trx_id:
            return None
        key = self.merchant_id, self.payment_trx_id
        return await payments.payment(connection, *key, lock=True)

    def problem(self, payment: Payment | None, state: DisputeState) -> str | None:
        """Returns why the dispute does not fit its payment, or None if it fits."""
        charge, amount = self.charge, state.amount
        if payment is None or (charge is None) != (self.provider == SANDBOX):
            return "The dispute names no charge of ours."
        return self._problem_of_payment(payment, amount) or self._problem_of_charge(payment)

    def _problem_of_payment(self, payment: Payment, amount: Money | None) -> str | None:
        if not self.is_known and (amount is None or amount.minor <= 0):
            return "The provider reports no disputed amount."
        if amount is not None and amount.currency != payment.currency:
            return f"The dispute is in {amount.currency}, and the payment in {payment.currency}."
        if payment.status is not PaymentStatus.SUCCESS:
            return f"The disputed payment is {payment.status}, so the merchant has no money of it."
        return None

    def _problem_of_charge(self, payment: Payment) -> str | None:
        charge = self.charge
        if payment.is_sandbox != (self.provider == SANDBOX):
            return f"A dispute at {self.provider} cannot be about a {payment.environment} payment."
        if charge is None:
            return None
        if self.is_of_other_charge:
            return "The dispute was opened for another charge. Nothing was changed."
        if charge.provider != self.provider:
            return f"The disputed charge was made at {charge.provider}, not at {self.provider}."
        if charge.status not in (ChargeStatus.PAID, ChargeStatus.PART):
            return f"The disputed charge is {charge.status}, so the merchant has no money of it."
        return None


async def find_target(
    db: Database | Connection, provider: str, state: DisputeState
) -> DisputeTarget:
    if provider == SANDBOX:
        merchant_id = trx_ids.merchant_of(state.charge_reference or "") or 0
        return DisputeTarget(provider, merchant_id, state.charge_reference or "")
    known = await store.charges_of_dispute(db, provider, state.provider_reference)
    charge = await _charge(db, provider, state, known)
    if charge is None:
        return DisputeTarget(provider)
    is_known = (charge.merchant_id, charge.reference) in known
    is_of_other = bool(known) and not is_known
    return DisputeTarget(provider, charge.merchant_id, charge.trx_id, charge, is_known, is_of_other)


async def _charge(
    db: Database | Connection, provider: str, state: DisputeState, known: Sequence[tuple[int, str]]
) -> Charge | None:
    """Returns the disputed charge, or None if no charge, or more than one, can be meant."""
    ours, theirs = state.charge_reference, state.charge_provider_reference
    merchant_id = trx_ids.merchant_of((ours or "").partition("-")[0])
    if ours is not None and merchant_id is not None:
        return await payments.charge(db, merchant_id, ours)
    # A provider names a transfer into a customer's account with a reference of its own.
    if not known and theirs is not None:
        known = await store.charges_of_provider(db, provider, theirs)
    if len(known) != 1:
        return None
    [(merchant_id, reference)] = known
    return await payments.charge(db, merchant_id, reference)
