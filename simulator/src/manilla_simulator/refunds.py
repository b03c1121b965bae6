"""Refunds of paid charges, which debit the provider's wallet."""

import asyncio
import secrets

from manilla.kit.money import Money
from manilla_simulator.faults import RefundOutcome
from manilla_simulator.provider import Provider
from manilla_simulator.state import (
    NOTHING,
    REFUND_NEXT,
    Charge,
    ChargeStatus,
    Refund,
    RefundStatus,
    now,
)
from manilla_simulator.transfers import NotPossible
from manilla_simulator.wire import Denial, Refused

NOT_PAID = Denial(400, "Only a successful payment can be refunded")
TOO_MUCH = Denial(400, "Refund amount exceeds the amount paid")


def accept(
    provider: Provider, reference: str, charge: Charge, amount: Money, *, number: int | None = None
) -> Refund:
    denials = provider.wire.denials
    refuse_duplicate(provider, reference)
    if charge.status is not ChargeStatus.SUCCESS:
        raise Refused(denials.refund_not_paid or NOT_PAID)
    if amount <= NOTHING or _is_too_much(charge, amount):
        raise Refused(denials.refund_too_much or TOO_MUCH)
    if provider.wallet.available < amount:
        raise Refused(denials.refund_insufficient or denials.insufficient)
    refund = Refund(
        reference=reference,
        number=number or next(provider.numbers),
        trace_id=secrets.token_hex(12),
        charge=charge,
        amount=amount,
        created_at=now(),
    )
    charge.refunded += amount
    provider.adjust(refund, NOTHING - amount)
    provider.refunds.put(refund)
    return refund


def _is_too_much(charge: Charge, amount: Money) -> bool:
    return charge.refunded + charge.disputed + amount > charge.amount_paid


def refuse_duplicate(provider: Provider, reference: str) -> None:
    denials = provider.wire.denials
    if provider.refunds.get(reference) is not None:
        raise Refused(denials.duplicate_refund or denials.duplicate)


def find(provider: Provider, reference: str) -> Refund:
    refund = provider.refunds.get(reference)
    if refund is None:
        raise Refused(provider.wire.denials.refund_not_found or provider.wire.denials.not_found)
    return refund


def settle_later(provider: Provider, refund: Refund) -> None:
    outcome = provider.faults.refunds
    if outcome is RefundOutcome.PENDING:
        return
    status = RefundStatus(outcome)
    loop = asyncio.get_running_loop()
    seconds = provider.faults.settle_seconds
    refund.timer = loop.call_later(seconds, settle, provider, refund, status)


def settle(
    provider: Provider,
    refund: Refund,
    status: RefundStatus,
    reason: str = "",
    *,
    provider_status: str = "",
) -> None:
    """Changes the refund's status.

    A refund that stays `processing` can get another status in the provider's terms.
    """
    is_word = status is refund.status is RefundStatus.PROCESSING and provider_status
    if status not in REFUND_NEXT[refund.status] and not is_word:
        raise NotPossible(f"A refund cannot change from {refund.status} to {status}.")
    if refund.timer is not None:
        refund.timer.cancel()
        refund.timer = None
    debited = refund.debited
    refund.status = status
    refund.provider_status = provider_status
    refund.reason = reason
    refund.settled_at = None if status is RefundStatus.PROCESSING else now()
    returned = debited - refund.debited
    refund.charge.refunded -= returned
    provider.adjust(refund, returned)
    provider.outbox.put_if_any(provider.wire.refund_notice(provider, refund))
