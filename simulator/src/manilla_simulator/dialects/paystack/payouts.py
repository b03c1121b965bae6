"""Simulates Paystack's calls for banks, name lookup, transfer recipients and transfers."""

import re
from typing import Any

from manilla_simulator import transfers
from manilla_simulator.dialects.formats import derived_code, iso_milliseconds, optional_iso
from manilla_simulator.dialects.paystack.common import (
    DENIALS,
    INTEGRATION,
    INVALID_RECIPIENT,
    INVALID_TRANSFER_AMOUNT,
    INVALID_TRANSFER_REFERENCE,
    account_of,
    domain,
    is_test,
    kobo,
    page_of,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Recipient, Transfer, TransferStatus, now
from manilla_simulator.transfers import FORCED, TransferOutcome
from manilla_simulator.wire import Answer, Ask, Denial, Notice, Refused

STATUS_WORDS = {
    "otp": TransferStatus.AWAITING_APPROVAL,
    "pending": TransferStatus.PROCESSING,
    "received": TransferStatus.PROCESSING,
    "success": TransferStatus.SUCCESS,
    "failed": TransferStatus.FAILED,
    "abandoned": TransferStatus.FAILED,
    "blocked": TransferStatus.FAILED,
    "rejected": TransferStatus.FAILED,
    "reversed": TransferStatus.REVERSED,
}
DEFAULT_WORD = {
    TransferStatus.AWAITING_APPROVAL: "otp",
    TransferStatus.PROCESSING: "pending",
    TransferStatus.SUCCESS: "success",
    TransferStatus.FAILED: "failed",
    TransferStatus.REVERSED: "reversed",
}
WRONG_OTP = Denial(400, "Invalid OTP or expired", "invalid_otp")
NO_OTP_NEEDED = Denial(400, "Transfer is not currently awaiting OTP", "invalid_transfer_state")
INVALID_CODE = Denial(400, "Transfer ID/code specified is invalid.", "invalid_transfer_code")
OTP = "123456"
BANK_ADDED_AT = "2020-12-07T16:19:09.000Z"
_REFERENCE = re.compile(r"[a-z0-9_-]{16,50}")
_CODE = re.compile(r"TRF_sim([0-9]{1,15})")


def list_banks(provider: Provider, ask: Ask) -> Answer:
    if ask.query.get("currency", CURRENCY) != CURRENCY:
        return Answer([], "Banks retrieved")
    with_sort_code = ask.query.get("include_nip_sort_code") == "true"
    page, meta = page_of(ask, list(enumerate(provider.wire.banks.values(), start=1)))
    listed = [
        {
            "id": bank_id,
            "name": bank.name,
            "slug": bank.slug,
            "code": bank.code,
            "longcode": f"{bank.code}150000",
            "gateway": None,
            "pay_with_bank": False,
            "supports_transfer": True,
            "active": True,
            "country": "Nigeria",
            "currency": CURRENCY,
            "type": "nuban",
            "is_deleted": False,
            "createdAt": BANK_ADDED_AT,
            "updatedAt": BANK_ADDED_AT,
            **({"nip_sort_code": bank.institution_code} if with_sort_code else {}),
        }
        for bank_id, bank in page
    ]
    return Answer(listed, "Banks retrieved", more={"meta": meta})


def resolve(provider: Provider, ask: Ask) -> Answer:
    account_number, bank_code = ask.query_text("account_number"), ask.query_text("bank_code")
    if not account_number.isascii() or not account_number.isdigit():
        raise Refused(Denial(400, "Account number should be numeric", "invalid_params"))
    if len(account_number) != 10:
        raise Refused(DENIALS.unresolvable)
    bank, holder = transfers.resolve(provider, bank_code, account_number)
    bank_id = list(provider.wire.banks).index(bank.code) + 1
    data = {"account_number": account_number, "account_name": holder, "bank_id": bank_id}
    return Answer(data, "Account number resolved")


def create_recipient(provider: Provider, ask: Ask) -> Answer:
    """Creates a recipient, or returns the existing recipient for the same account."""
    fields = ask.fields.only(
        *("type", "name", "account_number", "bank_code", "currency", "description", "email"),
        *("metadata",),
    )
    if fields.text("type") != "nuban":
        raise Refused(Denial(400, "Type is invalid", "invalid_params", "type"))
    if "currency" in fields:
        fields.currency()
    name, account_number = fields.text("name"), fields.digits("account_number", 10)
    bank_code = fields.text("bank_code")
    bank, holder = transfers.resolve(provider, bank_code, account_number)
    code = derived_code("RCP_", bank.code, account_number)
    recipient = provider.recipients.get(code) or Recipient(
        reference=code,
        number=next(provider.numbers),
        name=name,
        bank_code=bank.code,
        bank_name=bank.name,
        account_number=account_number,
        account_name=holder,
        created_at=now(),
    )
    provider.recipients.put(recipient)
    answer = _recipient(provider, recipient)
    return Answer(answer, "Transfer recipient created successfully", status=201)


def _recipient(provider: Provider, recipient: Recipient) -> dict[str, Any]:
    created_at = iso_milliseconds(recipient.created_at)
    return {
        "active": True,
        "createdAt": created_at,
        "currency": CURRENCY,
        "description": None,
        "domain": domain(provider),
        "email": None,
        "id": recipient.number,
        "integration": INTEGRATION,
        "metadata": None,
        "name": recipient.name,
        "recipient_code": recipient.reference,
        "type": "nuban",
        "updatedAt": created_at,
        "is_deleted": False,
        "isDeleted": False,
        "details": {
            "authorization_code": None,
            "account_number": recipient.account_number,
            "account_name": recipient.account_name,
            "bank_code": recipient.bank_code,
            "bank_name": recipient.bank_name,
        },
    }


def transfer(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("source", "amount", "recipient", "reference", "reason", "currency")
    if fields.text("source") != "balance":
        raise Refused(Denial(400, "Source is invalid", "invalid_params", "source"))
    if "currency" in fields:
        fields.currency()
    reference = fields.text("reference")
    if not _REFERENCE.fullmatch(reference):
        raise Refused(INVALID_TRANSFER_REFERENCE)
    amount = kobo(fields, INVALID_TRANSFER_AMOUNT)
    transfers.refuse_duplicate(provider, reference)
    recipient = _find_recipient(provider, fields.text("recipient"))
    at_once = is_test(provider) and recipient.account_number not in FORCED
    order = transfers.Order(
        reference=reference,
        amount=amount,
        bank_code=recipient.bank_code,
        account_number=recipient.account_number,
        narration=fields.optional_text("reason"),
        recipient=recipient,
        awaits_approval=account_of(provider).transfers_need_otp,
        outcome=TransferOutcome(TransferStatus.SUCCESS, 0) if at_once else None,
    )
    accepted = transfers.accept(provider, order)
    data = {
        "transfersessionid": [],
        "transfertrials": [],
        **_transfer(provider, accepted),
        "recipient": recipient.number,
    }
    if accepted.status is TransferStatus.AWAITING_APPROVAL:
        return Answer(data, "Transfer requires OTP to continue")
    return Answer(data, "Transfer has been queued")


def _find_recipient(provider: Provider, code: str) -> Recipient:
    recipient = provider.recipients.get(code)
    if recipient is None:
        raise Refused(INVALID_RECIPIENT)
    return recipient


def _transfer(provider: Provider, item: Transfer) -> dict[str, Any]:
    updated_at = item.settled_at or item.created_at
    return {
        "domain": domain(provider),
        "amount": item.amount.minor,
        "currency": CURRENCY,
        "reference": item.reference,
        "source": "balance",
        "source_details": None,
        "reason": item.narration,
        "status": word_for(item),
        "failures": None,
        "transfer_code": f"TRF_sim{item.number}",
        "titan_code": None,
        "transferred_at": optional_iso(item.settled_at) if item.was_delivered else None,
        "id": item.number,
        "integration": INTEGRATION,
        "request": item.number + 200_000_000,
        "createdAt": iso_milliseconds(item.created_at),
        "updatedAt": iso_milliseconds(updated_at),
    }


def word_for(item: Transfer) -> str:
    return item.provider_status or DEFAULT_WORD[item.status]


def verify_transfer(provider: Provider, ask: Ask) -> Answer:
    found = transfers.find(provider, ask.parameters["reference"])
    return Answer(_full_transfer(provider, found), "Transfer retrieved")


def _full_transfer(provider: Provider, item: Transfer) -> dict[str, Any]:
    assert item.recipient is not None
    failed = item.status in (TransferStatus.FAILED, TransferStatus.REVERSED)
    return {
        **_transfer(provider, item),
        "recipient": _recipient(provider, item.recipient),
        "session": _session(provider, item),
        "fee_charged": item.fee.minor if item.was_delivered else 0,
        "fees_breakdown": None,
        "gateway_response": item.reason if failed else None,
    }


def _session(provider: Provider, item: Transfer) -> dict[str, str | None]:
    """Returns the transfer's NIP session id. Test transfers have no session id."""
    if is_test(provider) or item.is_open:
        return {"provider": None, "id": None}
    return {"provider": "nip", "id": item.session_id}


def finalize_transfer(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("transfer_code", "otp")
    code, otp = _CODE.fullmatch(fields.text("transfer_code")), fields.text("otp")
    number = int(code[1]) if code else 0
    found = next((each for each in provider.transfers.select() if each.number == number), None)
    if found is None:
        raise Refused(INVALID_CODE)
    if found.status is not TransferStatus.AWAITING_APPROVAL:
        raise Refused(NO_OTP_NEEDED)
    if otp != OTP:
        raise Refused(WRONG_OTP)
    transfers.approve(provider, found)
    assert found.recipient is not None
    data = {**_transfer(provider, found), "recipient": found.recipient.number}
    return Answer(data, "Transfer has been queued")


def transfer_notice(provider: Provider, item: Transfer) -> Notice | None:
    """Returns the webhook if the transfer succeeded, failed or was reversed, otherwise None."""
    event = f"transfer.{word_for(item)}"
    if event not in ("transfer.success", "transfer.failed", "transfer.reversed"):
        return None
    data = _full_transfer(provider, item)
    created_at, updated_at = data.pop("createdAt"), data.pop("updatedAt")
    live = not is_test(provider)
    data |= {
        "integration": {"id": INTEGRATION, "is_live": live, "business_name": "Simulated business"},
        "created_at": created_at,
        "updated_at": updated_at,
    }
    return Notice(event, item.reference, {"event": event, "data": data})
