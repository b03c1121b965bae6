"""Disputes of paid charges. The bank opens them, and the merchant accepts or contests them."""

import asyncio
from datetime import timedelta

import msgspec

from manilla.kit.money import Money
from manilla_simulator.provider import Provider
from manilla_simulator.state import (
    DISPUTE_NEXT,
    NOTHING,
    Charge,
    ChargeStatus,
    Dispute,
    DisputeStatus,
    now,
)
from manilla_simulator.transfers import NotPossible
from manilla_simulator.wire import Refused

CREATE, REMIND, RESOLVE = "create", "remind", "resolve"
ANSWER_SECONDS = 16 * 3600
SECOND_STAGE = "second"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What the customer's bank claims."""

    amount: Money | None = None  # If None, the bank claims the whole payment.
    category: str = "chargeback"
    reason: str = "Customer did not receive the goods"
    stage: str = "new"
    due_seconds: float = ANSWER_SECONDS


def open_dispute(
    provider: Provider, charge: Charge, claim: Claim, *, insist: bool = False
) -> Dispute:
    amount = claim.amount or charge.amount_paid
    left = charge.amount_paid - charge.refunded - charge.disputed
    is_possible = charge.status is ChargeStatus.SUCCESS and NOTHING < amount <= left
    if not is_possible and not insist:
        raise NotPossible("A bank disputes at most what is left of a successful payment.")
    moment, number = now(), next(provider.numbers)
    dispute = Dispute(
        reference=provider.wire.dispute_reference(number),
        number=number,
        charge=charge,
        amount=amount,
        category=claim.category,
        reason=claim.reason,
        stage=claim.stage,
        created_at=moment,
        updated_at=moment,
        due_at=moment + timedelta(seconds=claim.due_seconds),
        is_held=provider.wire.holds_disputes,
    )
    provider.disputes.put(dispute)
    provider.adjust(dispute, NOTHING - dispute.debited)
    _note(provider, dispute)
    _watch(provider, dispute)
    provider.outbox.put_if_any(provider.wire.dispute_notice(provider, dispute, CREATE))
    return dispute


def find(provider: Provider, reference: str) -> Dispute:
    dispute = provider.disputes.get(reference)
    if dispute is None:
        raise Refused(provider.wire.denials.dispute_not_found or provider.wire.denials.not_found)
    return dispute


def find_open(provider: Provider, reference: str) -> Dispute:
    """Finds a dispute that the merchant can answer now."""
    dispute = find(provider, reference)
    if dispute.status is not DisputeStatus.OPEN:
        assert provider.wire.denials.dispute_closed is not None
        raise Refused(provider.wire.denials.dispute_closed)
    return dispute


def remind(provider: Provider, dispute: Dispute) -> None:
    if dispute.status is not DisputeStatus.OPEN:
        raise NotPossible(f"A dispute with status {dispute.status} needs no answer.")
    provider.outbox.put_if_any(provider.wire.dispute_notice(provider, dispute, REMIND))


def change(
    provider: Provider,
    dispute: Dispute,
    status: DisputeStatus,
    *,
    accepted: Money | None = None,
    provider_status: str = "",
    insist: bool = False,
) -> None:
    """Changes a dispute's status, updates the wallet and sends the webhook."""
    if status not in DISPUTE_NEXT[dispute.status] and not insist:
        raise NotPossible(f"A dispute cannot change from {dispute.status} to {status}.")
    debited, taken = dispute.debited, dispute.taken
    dispute.status, dispute.provider_status = status, provider_status
    is_accepted = status is DisputeStatus.ACCEPTED
    dispute.accepted = (accepted or dispute.amount) if is_accepted else NOTHING
    is_decided = status not in (DisputeStatus.OPEN, DisputeStatus.CONTESTED)
    dispute.updated_at = now()
    dispute.decided_at = dispute.updated_at if is_decided else None
    dispute.charge.disputed += dispute.taken - taken
    provider.adjust(dispute, debited - dispute.debited)
    _note(provider, dispute)
    if status is not DisputeStatus.OPEN:
        _stop_timer(dispute)
    if is_decided:
        provider.outbox.put_if_any(provider.wire.dispute_notice(provider, dispute, RESOLVE))


def reopen(
    provider: Provider, dispute: Dispute, stage: str, due_seconds: float, *, insist: bool = False
) -> None:
    """Opens another stage: the bank does not accept the outcome or the evidence."""
    change(provider, dispute, DisputeStatus.OPEN, insist=insist)
    dispute.stage, dispute.is_missed = stage, False
    dispute.due_at = now() + timedelta(seconds=due_seconds)
    _watch(provider, dispute)
    provider.outbox.put_if_any(provider.wire.dispute_notice(provider, dispute, CREATE))


def _watch(provider: Provider, dispute: Dispute) -> None:
    """Decides against the merchant if nobody answers in time."""

    def miss() -> None:
        if dispute.status is DisputeStatus.OPEN:
            dispute.is_missed = True
            change(provider, dispute, DisputeStatus.LOST)

    _stop_timer(dispute)
    seconds = (dispute.due_at - now()).total_seconds()
    dispute.timer = asyncio.get_running_loop().call_later(max(seconds, 0), miss)


def _stop_timer(dispute: Dispute) -> None:
    if dispute.timer is not None:
        dispute.timer.cancel()
        dispute.timer = None


def _note(provider: Provider, dispute: Dispute) -> None:
    dispute.history.append((provider.wire.dispute_word(dispute), dispute.updated_at))
