"""Simulates Flutterwave's calls for banks, name lookup, balance, fee and transfers."""

import re
from typing import Any

from manilla_simulator import transfers
from manilla_simulator.dialects.flutterwave.common import (
    DENIALS,
    account_of,
    is_test,
    rounded,
    transfer_fee,
)
from manilla_simulator.dialects.formats import iso_milliseconds
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Transfer, TransferStatus
from manilla_simulator.transfers import FAILS_LATER, TransferOutcome
from manilla_simulator.wire import Answer, Ask, Fields, Notice, Refused, invalid

PAGE_SIZE = 10
STATUS_WORDS = {
    "NEW": TransferStatus.PROCESSING,
    "PENDING": TransferStatus.PROCESSING,
    "SUCCESSFUL": TransferStatus.SUCCESS,
    "FAILED": TransferStatus.FAILED,
    "REVERSED": TransferStatus.REVERSED,
}
# Flutterwave documents no status for a returned transfer, so the simulator reports `FAILED`.
DEFAULT_WORD = {
    TransferStatus.AWAITING_APPROVAL: "NEW",
    TransferStatus.PROCESSING: "PENDING",
    TransferStatus.SUCCESS: "SUCCESSFUL",
    TransferStatus.FAILED: "FAILED",
    TransferStatus.REVERSED: "FAILED",
}
FAILED_MESSAGE = "DISBURSE FAILED: Insufficient funds/ wallet balance"
# The end of a sandbox transfer's reference sets the outcome and the delay in minutes.
_TEST_SUFFIX = re.compile(r"_PMCK(?P<failed>_ST_F)?(?:DU_(?P<minutes>\d{1,4}))?$")
_COPY_MARK = "~"  # separates the reference from the number that distinguishes duplicates


def list_banks(provider: Provider, _ask: Ask) -> Answer:
    listed = [
        {"id": number, "code": bank.code, "name": bank.name}
        for number, bank in enumerate(provider.wire.banks.values(), start=101)
    ]
    return Answer(listed, "Banks fetched successfully")


def resolve(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("account_number", "account_bank")
    account_number = fields.digits("account_number", 10)
    _, holder = transfers.resolve(provider, fields.text("account_bank"), account_number)
    data = {"account_number": account_number, "account_name": holder}
    return Answer(data, "Account details fetched")


def balance(provider: Provider, _ask: Ask) -> Answer:
    return Answer(_balance(provider), "Wallet balance fetched")


def list_balances(provider: Provider, _ask: Ask) -> Answer:
    return Answer([_balance(provider)], "Wallets fetched")


def _balance(provider: Provider) -> dict[str, Any]:
    return {
        "currency": CURRENCY,
        "available_balance": provider.wallet.available.amount,
        "ledger_balance": provider.wallet.ledger.amount,
    }


def fee(_provider: Provider, ask: Ask) -> Answer:
    if ask.query_text("currency") != CURRENCY:
        raise invalid("currency is not supported", "currency")
    amount = Fields({"amount": ask.query_text("amount")}).amount_text()
    quoted = {"currency": CURRENCY, "fee_type": "value", "fee": transfer_fee(amount)}
    return Answer([quoted], "Transfer fee fetched")


def transfer(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("account_bank", "account_number", "amount", "currency", "narration", "reference"),
        *("callback_url", "debit_currency", "beneficiary_name", "beneficiary", "meta"),
        *("destination_branch_code", "debit_subaccount"),
    )
    fields.currency()
    if "debit_currency" in fields:
        fields.currency("debit_currency")
    fields.optional_text("callback_url", most=100)
    amount = fields.amount_of_any_type()
    order = transfers.Order(
        reference=_new_reference(provider, fields.reference()),
        amount=amount,
        bank_code=fields.text("account_bank"),
        account_number=fields.text("account_number", most=20),
        narration=fields.optional_text("narration", most=100),
        callback_url=fields.address("callback_url"),
        fee=rounded(transfer_fee(amount)),
        awaits_approval=account_of(provider).transfers_need_approval,
        outcome=_outcome(provider, fields),
    )
    accepted = transfers.accept(provider, order)
    return Answer({**_transfer(accepted), "status": "NEW"}, "Transfer Queued Successfully")


def _new_reference(provider: Provider, reference: str) -> str:
    """Returns the new transfer's reference. A duplicate is either rejected or gets a suffix."""
    if account_of(provider).references_are_unique:
        transfers.refuse_duplicate(provider, reference)
        return reference
    copies = [item for item in provider.transfers.select() if reference_of(item) == reference]
    return f"{reference}{_COPY_MARK}{len(copies) + 1}" if copies else reference


def reference_of(item: Transfer) -> str:
    return item.reference.partition(_COPY_MARK)[0]


def _outcome(provider: Provider, fields: Fields) -> TransferOutcome | None:
    if not is_test(provider):
        failing = fields.text("account_number") == FAILS_LATER
        return TransferOutcome(TransferStatus.FAILED, reason=FAILED_MESSAGE) if failing else None
    suffix = _TEST_SUFFIX.search(fields.text("reference"))
    if suffix is None:
        return TransferOutcome(TransferStatus.PROCESSING)
    minutes = suffix["minutes"]
    seconds = None if minutes is None else int(minutes) * account_of(provider).minute_seconds
    if suffix["failed"]:
        return TransferOutcome(TransferStatus.FAILED, seconds or None, FAILED_MESSAGE)
    return TransferOutcome(TransferStatus.SUCCESS, seconds or None)


def _transfer(item: Transfer) -> dict[str, Any]:
    awaiting = item.status is TransferStatus.AWAITING_APPROVAL
    return {
        "id": item.number,
        "account_number": item.account_number,
        "bank_code": item.bank_code,
        "full_name": item.account_name,
        "created_at": iso_milliseconds(item.created_at),
        "currency": CURRENCY,
        "debit_currency": CURRENCY,
        "amount": item.amount.amount,
        "fee": transfer_fee(item.amount),
        "status": word_for(item),
        "reference": reference_of(item),
        "meta": None,
        "narration": item.narration,
        "approver": None,
        "complete_message": "" if item.is_open else item.reason,
        "requires_approval": 1 if awaiting else 0,
        "is_approved": 0 if awaiting else 1,
        "bank_name": item.bank_name.upper(),
    }


def word_for(item: Transfer) -> str:
    return item.provider_status or DEFAULT_WORD[item.status]


def list_transfers(provider: Provider, ask: Ask) -> Answer:
    wanted, status = ask.query.get("reference", ""), ask.query.get("status", "").upper()
    if account_of(provider).ignores_reference_filter:
        wanted = ""
    matching = [
        item
        for item in provider.transfers.select()
        if wanted in ("", reference_of(item)) and status in ("", word_for(item))
    ]
    number = max(1, ask.number("page", 1))
    page = matching[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    info = {
        "total": len(matching),
        "current_page": number,
        "total_pages": -(-len(matching) // PAGE_SIZE),
    }
    listed = [_transfer(item) for item in page]
    return Answer(listed, "Transfers fetched", more={"meta": {"page_info": info}})


def get_transfer(provider: Provider, ask: Ask) -> Answer:
    return Answer(_transfer(_by_number(provider, ask)), "Transfer fetched")


def retry(provider: Provider, ask: Ask) -> Answer:
    """Creates a second transfer for a failed one, with a reference that Flutterwave generates."""
    failed = _by_number(provider, ask)
    if failed.status is not TransferStatus.FAILED:
        raise invalid("Only a failed transfer can be retried")
    order = transfers.Order(
        reference=f"{reference_of(failed)}_RETRY_{next(provider.numbers)}",
        amount=failed.amount,
        bank_code=failed.bank_code,
        account_number=failed.account_number,
        narration=failed.narration,
        fee=failed.fee,
    )
    accepted = transfers.accept(provider, order)
    return Answer({**_transfer(accepted), "status": "NEW"}, "Transfer retry attempt queued.")


def _by_number(provider: Provider, ask: Ask) -> Transfer:
    number = ask.parameters["id"]
    for item in provider.transfers.select():
        if str(item.number) == number:
            return item
    raise Refused(DENIALS.not_found)


def transfer_notice(_provider: Provider, item: Transfer) -> Notice:
    """Returns the webhook about a transfer. Failed transfers also cause a webhook."""
    data = _transfer(item)
    data["fullname"] = data.pop("full_name")
    body = {"event": "transfer.completed", "event.type": "Transfer", "data": data}
    return Notice("transfer.completed", item.reference, body, item.callback_url)
