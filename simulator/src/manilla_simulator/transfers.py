"""Transfers: accepted as processing, final after a delay, and possibly reversed later."""

import asyncio
import secrets

import msgspec

from manilla.kit.money import Money
from manilla_simulator import names
from manilla_simulator.banks import Bank
from manilla_simulator.provider import Provider
from manilla_simulator.state import NOTHING, TRANSFER_NEXT, Transfer, TransferStatus, now
from manilla_simulator.wire import Refused

# Account numbers that force an outcome. Every other number delivers, like 0000000000.
FAILS_LATER = "0000000001"
CANNOT_BE_RESOLVED = "0000000002"
STAYS_PENDING = "0000000003"
WALLET_TOO_LOW = "0000000004"

FAILED_REASON = "Beneficiary bank rejected the transfer"
REASONS = {
    TransferStatus.PROCESSING: "Transfer is being processed",
    TransferStatus.SUCCESS: "Transaction was successful",
    TransferStatus.FAILED: FAILED_REASON,
    TransferStatus.REVERSED: "Transfer was returned by the beneficiary bank",
}


class NotPossible(Exception):
    """A change that the provider would not make by itself."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    reference: str
    amount: Money
    bank_code: str
    account_number: str
    narration: str = ""
    callback_url: str | None = None


def resolve(provider: Provider, bank_code: str, account_number: str) -> tuple[Bank, str]:
    """The bank, and the account holder's name."""
    bank = provider.wire.banks.get(bank_code)
    if bank is None:
        raise Refused(provider.wire.denials.unknown_bank)
    if account_number == CANNOT_BE_RESOLVED:
        raise Refused(provider.wire.denials.unresolvable)
    return bank, names.holder_of(account_number)


def accept(provider: Provider, order: Order) -> Transfer:
    # A used reference is a duplicate whatever else is wrong with the request: the caller must learn
    # that the first transfer exists.
    refuse_duplicate(provider, order.reference)
    bank, holder = resolve(provider, order.bank_code, order.account_number)
    fee = provider.wire.fees.transfer
    lacking = provider.wallet.available < order.amount + fee
    if lacking or order.account_number == WALLET_TOO_LOW:
        raise Refused(provider.wire.denials.insufficient)
    transfer = Transfer(
        reference=order.reference,
        number=next(provider.numbers),
        trace_id=secrets.token_hex(12),
        amount=order.amount,
        fee=fee,
        bank_code=bank.code,
        bank_name=bank.name,
        account_number=order.account_number,
        account_name=holder,
        narration=order.narration,
        callback_url=order.callback_url,
        created_at=now(),
        reason=REASONS[TransferStatus.PROCESSING],
    )
    provider.adjust(NOTHING - transfer.debited, transfer.held)
    provider.transfers.put(transfer)
    _schedule_outcome(provider, transfer)
    return transfer


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
    insist: bool = False,
) -> None:
    """The only function that changes a transfer's status; it also updates the wallet and sends the
    webhook.
    """
    if not insist:
        check(transfer, status)
    stop_timer(transfer)
    debited, held = transfer.debited, transfer.held
    transfer.status = status
    transfer.reason = reason or REASONS[status]
    transfer.settled_at = None if status is TransferStatus.PROCESSING else now()
    provider.adjust(debited - transfer.debited, transfer.held - held)
    if status is TransferStatus.PROCESSING:
        return
    notice = provider.wire.transfer_notice(transfer)
    if notice is not None:
        provider.outbox.put(notice)


def check(transfer: Transfer, status: TransferStatus) -> None:
    if status not in TRANSFER_NEXT[transfer.status]:
        raise NotPossible(f"A transfer that is {transfer.status} does not become {status}.")


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


def _schedule_outcome(provider: Provider, transfer: Transfer) -> None:
    if transfer.account_number == STAYS_PENDING:
        return
    failing = transfer.account_number == FAILS_LATER
    status = TransferStatus.FAILED if failing else TransferStatus.SUCCESS
    settle_later(provider, transfer, status, "", provider.faults.settle_seconds)
