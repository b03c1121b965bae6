"""Simulates Kora's calls for banks, name lookup and transfers."""

from typing import Any

import msgspec

from manilla_simulator import transfers
from manilla_simulator.dialects.kora.common import (
    DENIALS,
    INVALID_ACCOUNT,
    account_of,
    check_metadata,
    is_test,
    listing,
    plain_time,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Transfer, TransferStatus
from manilla_simulator.transfers import TransferOutcome
from manilla_simulator.wire import Answer, Ask, Fields, Notice, Refused, invalid

STATUS_WORDS = {
    "processing": TransferStatus.PROCESSING,
    "pending": TransferStatus.PROCESSING,
    "success": TransferStatus.SUCCESS,
    "failed": TransferStatus.FAILED,
    "reversed": TransferStatus.REVERSED,
}
# Kora documents no status for a returned payout, so the simulator reports `failed`.
DEFAULT_WORD = {
    TransferStatus.PROCESSING: "processing",
    TransferStatus.SUCCESS: "success",
    TransferStatus.FAILED: "failed",
    TransferStatus.REVERSED: "failed",
}
# Maps each test bank and account number in Kora's sandbox to the transfer's outcome.
SANDBOX_OUTCOMES = {
    ("033", "0000000000"): TransferOutcome(TransferStatus.SUCCESS),
    ("035", "0000000000"): TransferOutcome(TransferStatus.FAILED, reason="Payout failed"),
}
SANDBOX_INVALID = ("011", "9999999999")


def list_banks(provider: Provider, ask: Ask) -> Answer:
    if ask.query_text("countryCode") != "NG":
        raise invalid("countryCode is not supported", "countryCode")
    listed = [
        {
            "name": bank.name,
            "slug": bank.slug,
            "code": bank.code,
            "nibss_bank_code": bank.institution_code,
            "country": "NG",
        }
        for bank in provider.wire.banks.values()
    ]
    return Answer(listed, "Successful")


def resolve(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("bank", "account", "currency")
    fields.currency()
    account_number, bank_code = fields.digits("account", 10), fields.text("bank")
    if is_test(provider) and (bank_code, account_number) == SANDBOX_INVALID:
        raise Refused(INVALID_ACCOUNT)
    bank, holder = transfers.resolve(provider, bank_code, account_number)
    data = {
        "bank_name": bank.name,
        "bank_code": bank.code,
        "account_number": account_number,
        "account_name": holder,
    }
    return Answer(data, "Request completed")


def disburse(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("reference", "destination", "metadata", "notification_url")
    check_metadata(fields)
    order = _order(provider, fields)
    try:
        accepted = transfers.accept(provider, order)
    except Refused as refused:
        if refused.denial.status != 400:
            raise
        status = account_of(provider).payout_refusal_status
        raise Refused(msgspec.structs.replace(refused.denial, status=status)) from None
    return Answer(_payout(accepted), "Transfer initiated successfully")


def _order(provider: Provider, fields: Fields) -> transfers.Order:
    destination = fields.group("destination").only(
        "type", "amount", "currency", "narration", "bank_account", "customer"
    )
    if destination.text("type") != "bank_account":
        raise invalid("destination.type must be bank_account", "destination.type")
    destination.currency()
    customer = destination.group("customer").only("email", "name", "phone")
    customer.email("email")
    account = destination.group("bank_account").only("bank", "account")
    order = transfers.Order(
        reference=fields.reference(least=5),
        amount=destination.amount(),
        narration=destination.optional_text("narration"),
        bank_code=account.text("bank"),
        account_number=account.digits("account", 10),
        callback_url=fields.address("notification_url"),
    )
    transfers.refuse_duplicate(provider, order.reference)
    if not is_test(provider):
        return order
    named = (order.bank_code, order.account_number)
    if named == SANDBOX_INVALID:
        raise Refused(INVALID_ACCOUNT)
    return msgspec.structs.replace(order, outcome=SANDBOX_OUTCOMES.get(named))


def query(provider: Provider, ask: Ask) -> Answer:
    found = provider.transfers.get(ask.parameters["reference"])
    if found is None:
        raise Refused(DENIALS.not_found)
    data = {**_payout(found), "trace_id": None if found.is_open else found.session_id}
    return Answer(data, "Transaction retrieved successfully")


def _payout(item: Transfer) -> dict[str, Any]:
    return {
        "amount": str(item.amount.amount),
        "fee": str(item.fee.amount),
        "currency": CURRENCY,
        "status": word_for(item),
        "reference": item.reference,
        "narration": item.narration,
        "message": item.reason,
        "customer": {"name": item.account_name, "email": None, "phone": None},
    }


def word_for(item: Transfer) -> str:
    return item.provider_status or DEFAULT_WORD[item.status]


def list_payouts(provider: Provider, ask: Ask) -> Answer:
    def show(item: Transfer) -> dict[str, Any]:
        return {
            **_payout(item),
            "trace_id": None if item.is_open else item.session_id,
            "date_created": plain_time(item.created_at),
            "date_completed": plain_time(item.settled_at),
        }

    return listing(
        ask,
        list(provider.transfers.select()),
        lambda item: item.number,
        lambda item: item.created_at,
        show,
        "Payouts retrieved successfully",
    )


def transfer_notice(_provider: Provider, item: Transfer) -> Notice:
    word = word_for(item)
    data = {
        "fee": item.fee.amount,
        "amount": item.amount.amount,
        "status": word,
        "currency": CURRENCY,
        "reference": item.reference,
        "message": item.reason,
    }
    event = f"transfer.{word}"
    return Notice(event, item.reference, {"event": event, "data": data}, item.callback_url)
