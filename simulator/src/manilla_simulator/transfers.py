"""Simulates transfers. A transfer is accepted, settles after a delay, and may be reversed later."""

import asyncio
import secrets

import msgspec

from manilla.kit.money import Money
from manilla_simulator import names
from manilla_simulator.banks import Bank
from manilla_simulator.provider import Provider
from manilla_simulator.state import (
    NOTHING,
    TRANSFER_NEXT,
    Recipient,
    Transfer,
    TransferStatus,
    now,
)
from manilla_simulator.wire import Refused

# Transfers to these account numbers have a fixed outcome. All other transfers are delivered.
FAILS_LATER = "0000000001"
CANNOT_BE_RESOLVED = "0000000002"
STAYS_PENDING = "0000000003"
WALLET_TOO_LOW = "0000000004"

FAILED_REASON = "Beneficiary bank rejected the transfer"
REASONS = {
    TransferStatus.AWAITING_APPROVAL: "Transfer waits for approval",
    TransferStatus.PROCESSING: "Transfer is being processed",
    TransferStatus.SUCCESS: "Transaction was successful",
    TransferStatus.FAILED: FAILED_REASON,
    TransferStatus.REVERSED: "Transfer was returned by the beneficiary bank",
}


class NotPossible(Exception):
    """A real provider would not make this status change."""


class TransferOutcome(msgspec.Struct, frozen=True):
    """The outcome of an accepted transfer, unless a control command changes it."""

    status: TransferStatus  # With the status PROCESSING, the transfer stays open.
    # The transfer settles after this delay (None: `settle_seconds`, 0: before the response).
    seconds: float | None = None
    reason: str = ""


FORCED = {
    STAYS_PENDING: TransferOutcome(TransferStatus.PROCESSING),
    FAILS_LATER: TransferOutcome(TransferStatus.FAILED),
}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    amount: Money
    bank_code: str
    account_number: str
    narration: str = ""
    callback_url: str | None = None
    recipient: Recipient | None = None
    fee: Money | None = None  # If None, the provider's flat fee applies.
    awaits_approval: bool = False
    outcome: TransferOutcome | None = None  # If None, the account number determines the outcome.


def resolve(provider: Provider, bank_code: str, account_number: str) -> tuple[Bank, str]:
    """Returns the bank and the account holder's name."""
    bank = provider.wire.banks.get(bank_code)
    if bank is None:
        raise Refused(provider.wire.denials.unknown_bank)
    if account_number == CANNOT_BE_RESOLVED:
        raise Refused(provider.wire.denials.unresolvable)
    return bank, names.holder_of(account_number)


def accept(provider: Provider, order: Order) -> Transfer:
    # Check for a duplicate first, because the caller must learn that the first transfer exists.
    refuse_duplicate(provider, order.reference)
    bank, holder = resolve(provider, order.bank_code, order.account_number)
    fee = order.fee or provider.wire.fees.transfer
    lacking = provider.wallet.available < order.amount + fee
    if lacking or order.account_number == WALLET_TOO_LOW:
        raise Refused(provider.wire.denials.insufficient)
    awaiting, processing = TransferStatus.AWAITING_APPROVAL, TransferStatus.PROCESSING
    status = awaiting if order.awaits_approval else processing
    transfer = Transfer(
        reference=order.reference,
        number=next(provider.numbers),
        trace_id=secrets.token_hex(12),
        session_id=new_session_id(bank),
        amount=order.amount,
        fee=fee,
        bank_code=bank.code,
        bank_name=bank.name,
        account_number=order.account_number,
        account_name=holder,
        narration=order.narration,
        callback_url=order.callback_url,
        recipient=order.recipient,
        created_at=now(),
        status=status,
        reason=REASONS[status],
    )
    provider.adjust(transfer, NOTHING - transfer.debited, transfer.held)
    provider.transfers.put(transfer)
    if not order.awaits_approval:
        _schedule(provider, transfer, order.outcome or _outcome_of(transfer))
    return transfer


def approve(provider: Provider, transfer: Transfer) -> None:
    """Approves a transfer, as a person would in the provider's dashboard, and sends it."""
    if transfer.status is not TransferStatus.AWAITING_APPROVAL:
        raise NotPossible(f"A transfer with status {transfer.status} needs no approval.")
    settle(provider, transfer, TransferStatus.PROCESSING)
    _schedule(provider, transfer, _outcome_of(transfer))


def new_session_id(bank: Bank) -> str:
    """Returns 30 digits like a NIP session id: institution code, time and unique number."""
    institution = bank.institution_code or "000000"
    return f"{institution}{now():%y%m%d%H%M%S}{secrets.randbelow(10**12):012d}"


def refuse_duplicate(provider: Provider, reference: str) -> None:
    earlier = provider.transfers.get(reference)
    if earlier is not None:
        earlier.duplicates += 1
        raise Refused(provider.wire.denials.duplicate)


def find(provider: Provider, reference: str) -> Transfer:
    transfer = provider.transfers.get(reference)
    if transfer is None:
        raise Refused(provider.wire.denials.not_found)
    return transfer


def settle(
    provider: Provider,
    transfer: Transfer,
    status: TransferStatus,
    reason: str = "",
    *,
    provider_status: str = "",
    insist: bool = False,
) -> None:
    """Changes a transfer's status, updates the wallet and sends the webhook.

    All other functions change a transfer's status through this function.
    """
    if not insist:
        check(provider, transfer, status)
    stop_timer(transfer)
    debited, held = transfer.debited, transfer.held
    transfer.status = status
    transfer.provider_status = provider_status
    transfer.was_delivered |= status is TransferStatus.SUCCESS
    transfer.reason = reason or REASONS[status]
    transfer.settled_at = None if transfer.is_open else now()
    provider.adjust(transfer, debited - transfer.debited, transfer.held - held)
    if not transfer.is_open:
        provider.outbox.put_if_any(provider.wire.transfer_notice(provider, transfer))


def check(provider: Provider, transfer: Transfer, status: TransferStatus) -> None:
    further = (transfer.status, status) in provider.wire.transfer_changes
    if status not in TRANSFER_NEXT[transfer.status] and not further:
        raise NotPossible(f"A transfer cannot change from {transfer.status} to {status}.")


def settle_later(
    provider: Provider, transfer: Transfer, status: TransferStatus, reason: str, seconds: float
) -> None:
    stop_timer(transfer)
    loop = asyncio.get_running_loop()
    transfer.timer = loop.call_later(seconds, settle, provider, transfer, status, reason)


def stop_timer(transfer: Transfer) -> None:
    if transfer.timer is not None:
        transfer.timer.cancel()
        transfer.timer = None


def _outcome_of(transfer: Transfer) -> TransferOutcome:
    return FORCED.get(transfer.account_number, TransferOutcome(TransferStatus.SUCCESS))


def _schedule(provider: Provider, transfer: Transfer, outcome: TransferOutcome) -> None:
    if outcome.status is TransferStatus.PROCESSING:
        return
    if outcome.seconds == 0:
        settle(provider, transfer, outcome.status, outcome.reason)
        return
    seconds = provider.faults.settle_seconds if outcome.seconds is None else outcome.seconds
    settle_later(provider, transfer, outcome.status, outcome.reason, seconds)
