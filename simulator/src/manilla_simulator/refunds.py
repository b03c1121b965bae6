"""Refunds of paid charges, taken from the provider's wallet."""

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


def accept(provider: Provider, reference: str, charge: Charge, amount: Money) -> Refund:
    if provider.refunds.get(reference) is not None:
        raise Refused(provider.wire.denials.duplicate)
    if charge.status is not ChargeStatus.SUCCESS:
        raise Refused(NOT_PAID)
    if charge.refunded + amount > charge.amount_paid:
        raise Refused(TOO_MUCH)
    if provider.wallet.available < amount:
        raise Refused(provider.wire.denials.insufficient)
    refund = Refund(
        reference=reference,
        number=next(provider.numbers),
        trace_id=secrets.token_hex(12),
        charge=charge,
        amount=amount,
        created_at=now(),
    )
    charge.refunded += amount
    provider.adjust(NOTHING - amount)
    provider.refunds.put(refund)
    return refund


def settle_later(provider: Provider, refund: Refund) -> None:
    outcome = provider.faults.refunds
    if outcome is RefundOutcome.PENDING:
        return
    status = RefundStatus(outcome)
    loop = asyncio.get_running_loop()
    seconds = provider.faults.settle_seconds
    refund.timer = loop.call_later(seconds, settle, provider, refund, status)


def settle(provider: Provider, refund: Refund, status: RefundStatus, reason: str = "") -> None:
    if status not in REFUND_NEXT[refund.status]:
        raise NotPossible(f"A refund that is {refund.status} does not become {status}.")
    if refund.timer is not None:
        refund.timer.cancel()
        refund.timer = None
    debited = refund.debited
    refund.status = status
    refund.reason = reason
    returned = debited - refund.debited
    refund.charge.refunded -= returned
    provider.adjust(returned)
    notice = provider.wire.refund_notice(refund)
    if notice is not None:
        provider.outbox.put(notice)
