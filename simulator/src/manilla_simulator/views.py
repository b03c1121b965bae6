"""Converts a provider's objects to JSON for the control API and the control page."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from manilla.kit import clock
from manilla.kit.money import Money
from manilla_simulator import accounts
from manilla_simulator.charges import refreshed
from manilla_simulator.provider import Provider, Received
from manilla_simulator.state import Charge, Dispute, Mandate, Refund, Transfer
from manilla_simulator.webhooks import Webhook

_BVN = re.compile(r'("bvn"\s*:\s*)"[^"]*"')


def naira(money: Money) -> str:
    return f"₦{money.amount:,f}"


def overview(provider: Provider) -> dict[str, Any]:
    return {
        "title": provider.wire.title,
        "base_url": provider.base_url,
        "webhook_url": provider.outbox.url,
        "account": msgspec.to_builtins(provider.account),
        "balance": {
            "available": provider.wallet.available.amount,
            "ledger": provider.wallet.ledger.amount,
        },
        "fees": {
            "transfer": provider.wire.fees.transfer.amount,
            "charge_percent": provider.wire.fees.charge_percent,
            "charge_most": provider.wire.fees.charge_most.amount,
        },
        "faults": msgspec.to_builtins(provider.faults),
        "refusals": [
            {"status": denial.status, "message": denial.message}
            for denial in provider.wire.denials.documented()
        ],
        "counts": {
            "transfers": len(provider.transfers),
            "charges": len(provider.charges),
            "refunds": len(provider.refunds),
            "disputes": len(provider.disputes),
            "held_webhooks": provider.outbox.held,
        },
    }


def transfer(item: Transfer) -> dict[str, Any]:
    return {
        "reference": item.reference,
        "id": item.number,
        "session_id": item.session_id,
        "status": item.status,
        "provider_status": item.provider_status or None,
        "amount": item.amount.amount,
        "fee": item.fee.amount,
        "bank_code": item.bank_code,
        "bank_name": item.bank_name,
        "account_number": item.account_number,
        "account_name": item.account_name,
        "narration": item.narration,
        "reason": item.reason,
        "duplicates": item.duplicates,
        "created_at": clock.iso(item.created_at),
        "settled_at": clock.iso(item.settled_at) if item.settled_at else None,
    }


def charge(item: Charge) -> dict[str, Any]:
    refreshed(item)
    return {
        "reference": item.reference,
        "id": item.number,
        "token": item.token,
        "status": item.status,
        "provider_status": item.provider_status or None,
        "amount": item.amount.amount,
        "amount_expected": item.expected.amount,
        "amount_paid": item.amount_paid.amount,
        "fee": item.fee.amount,
        "refunded": item.refunded.amount,
        "reason": item.reason or None,
        "title": item.title,
        "accounts": [msgspec.to_builtins(account) for account in item.accounts],
        "card": None if item.card is None else msgspec.to_builtins(item.card),
        "mandate": None if item.mandate is None else item.mandate.reference,
        # Who sent the transfer into a permanent account.
        "payer": None if item.permanent is None else item.payer.name,
        "redirect_url": item.redirect_url,
        "notification_url": item.notification_url,
        "created_at": clock.iso(item.created_at),
        "expires_at": clock.iso(item.expires_at),
    }


def mandate(item: Mandate) -> dict[str, Any]:
    return {
        "reference": item.reference,
        "id": item.number,
        "code": item.code,
        "token": item.token,
        "status": item.status,
        "amount": item.amount.amount,
        "account_number": item.account_number,
        "bank_code": item.bank_code,
        "customer_email": item.customer_email,
        "created_at": clock.iso(item.created_at),
    }


def refund(item: Refund) -> dict[str, Any]:
    return {
        "reference": item.reference,
        "id": item.number,
        "payment_reference": item.charge.reference,
        "status": item.status,
        "provider_status": item.provider_status or None,
        "amount": item.amount.amount,
        "reason": item.reason or None,
        "created_at": clock.iso(item.created_at),
    }


def dispute(item: Dispute) -> dict[str, Any]:
    return {
        "reference": item.reference,
        "id": item.number,
        "payment_reference": item.charge.reference,
        "status": item.status,
        "provider_status": item.provider_status or None,
        "stage": item.stage,
        "amount": item.amount.amount,
        "accepted": item.accepted.amount,
        "debited": item.debited.amount,
        "is_missed": item.is_missed,
        "message": item.message,
        "evidence": item.evidence,
        "files": [msgspec.to_builtins(file) for file in item.files],
        "created_at": clock.iso(item.created_at),
        "due_at": clock.iso(item.due_at),
    }


def request(item: Received) -> dict[str, Any]:
    return {
        "at": clock.iso(item.at),
        "call": item.call,
        "method": item.method,
        "path": item.path,
        "body": _readable(item.raw),
        "status": item.status or None,
        "answer": _readable(item.answer),
        "fault": item.fault,
    }


def webhook(item: Webhook) -> dict[str, Any]:
    return {
        "id": item.number,
        "event": item.event,
        "reference": item.reference,
        "url": item.url,
        "body": _readable(item.raw),
        "status": item.status,
        "forged": item.forged,
        "created_at": clock.iso(item.created_at),
        "attempts": [
            {"at": clock.iso(attempt.at), "status": attempt.status, "error": attempt.error}
            for attempt in item.attempts
        ],
    }


def _readable(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return _BVN.sub(r'\1"[hidden]"', text)


View = dict[str, Any]


def list_transfers(provider: Provider, reference: str | None) -> Iterator[View]:
    return map(transfer, provider.transfers.select(reference))


def list_charges(provider: Provider, reference: str | None) -> Iterator[View]:
    return map(charge, provider.charges.select(reference))


def list_mandates(provider: Provider, reference: str | None) -> Iterator[View]:
    return map(mandate, provider.mandates.select(reference))


def list_refunds(provider: Provider, reference: str | None) -> Iterator[View]:
    return map(refund, provider.refunds.select(reference))


def list_disputes(provider: Provider, reference: str | None) -> Iterator[View]:
    """Yields the disputes with this reference, or of the charge with this reference."""
    for item in provider.disputes.select():
        if reference in (None, item.reference, item.charge.reference):
            yield dispute(item)


def list_requests(provider: Provider, reference: str | None) -> Iterator[View]:
    """Yields the recorded requests that contain the reference, or all requests, newest first."""
    for item in reversed(provider.journal):
        if reference is None or reference in item.path or reference.encode() in item.raw:
            yield request(item)


def list_webhooks(provider: Provider, reference: str | None) -> Iterator[View]:
    for item in reversed(provider.outbox.journal):
        if reference in (None, item.reference):
            yield webhook(item)


def list_accounts(provider: Provider, reference: str | None) -> Iterator[View]:
    return map(accounts.view, provider.accounts.select(reference))


# Maps each list's name to the function that yields its objects, newest first.
LISTS: dict[str, Callable[[Provider, str | None], Iterator[View]]] = {
    "transfers": list_transfers,
    "charges": list_charges,
    "accounts": list_accounts,
    "refunds": list_refunds,
    "disputes": list_disputes,
    "mandates": list_mandates,
    "requests": list_requests,
    "webhooks": list_webhooks,
}
