"""Paystack's disputes: lists, evidence, answers and webhooks."""

import secrets
from typing import Any

from manilla.kit.money import Money
from manilla_simulator import disputes as core
from manilla_simulator.dialects.formats import iso_milliseconds, optional_iso, random_code
from manilla_simulator.dialects.paystack.common import (
    account_of,
    customer,
    domain,
    page_of,
)
from manilla_simulator.dialects.paystack.payments import charge_data
from manilla_simulator.dialects.paystack.statement import is_within
from manilla_simulator.faults import DisputeLie
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Dispute, DisputeStatus, EvidenceFile
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Notice, Refused

STATUS_WORDS = {
    "pending": DisputeStatus.OPEN,
    "awaiting-merchant-feedback": DisputeStatus.OPEN,
    "awaiting-bank-feedback": DisputeStatus.CONTESTED,
    "archived": DisputeStatus.LOST,
}
WORDS = {
    DisputeStatus.OPEN: "awaiting-merchant-feedback",
    DisputeStatus.CONTESTED: "awaiting-bank-feedback",
}
AUTO_ACCEPTED = "auto-accepted"
# Paystack does not document the resolution if the bank decides against the merchant.
RESOLUTIONS = {
    DisputeStatus.WON: "declined",
    DisputeStatus.LOST: AUTO_ACCEPTED,
    DisputeStatus.ACCEPTED: "merchant-accepted",
}
MERCHANT = "merchant@example.com"
UNKNOWN_STATUS = "under-review"
TOO_MUCH = Denial(400, "Refund amount cannot be greater than initial amount", "invalid_params")
NO_FILE = Denial(400, "uploaded_filename is required", "invalid_params", "uploaded_filename")
UNKNOWN_FILE = Denial(400, "Invalid uploaded_filename", "invalid_params", "uploaded_filename")
WRONG_RESOLUTION = Denial(
    400, "resolution must be merchant-accepted or declined", "invalid_params", "resolution"
)
WRONG_AMOUNT = Denial(400, "refund_amount is required", "invalid_params", "refund_amount")
NO_EVIDENCE = Denial(400, "evidence is required for fraud disputes", "invalid_params", "evidence")
WRONG_EVIDENCE = Denial(400, "evidence is invalid", "invalid_params", "evidence")
FRAUD = "fraud"
KOBO_MAX = 10**17


def list_disputes(provider: Provider, ask: Ask) -> Answer:
    wanted, charge = ask.query.get("status", ""), ask.query.get("transaction", "")
    matching = [
        dispute
        for dispute in provider.disputes.select()
        if is_within(ask, dispute.created_at)
        and wanted in ("", word_of(dispute))
        and charge in ("", str(dispute.charge.number))
    ]
    page, meta = page_of(ask, matching, provider.faults.statement_overlap)
    listed = [_dispute(provider, dispute) for dispute in page]
    return Answer(listed, "Disputes retrieved", more={"meta": meta})


def fetch(provider: Provider, ask: Ask) -> Answer:
    dispute = core.find(provider, ask.parameters["id"])
    return Answer(_dispute(provider, dispute), "Dispute retrieved")


def fetch_by_charge(provider: Provider, ask: Ask) -> Answer:
    number = ask.parameters["id"]
    found = [each for each in provider.disputes.select() if str(each.charge.number) == number]
    if not found:
        assert provider.wire.denials.dispute_not_found is not None
        raise Refused(provider.wire.denials.dispute_not_found)
    return Answer(_dispute(provider, found[0]), "Dispute retrieved successfully")


def upload_url(provider: Provider, ask: Ask) -> Answer:
    """Returns a URL that takes a file without credentials, and the file's name at Paystack."""
    dispute = core.find_open(provider, ask.parameters["id"])
    ending = ask.query_text("upload_filename").rpartition(".")[2][:10]
    name = random_code("", 24) + f".{ending}"
    url = f"{provider.base_url}/uploads/{name}?dispute={dispute.number}&signature="
    return Answer(
        {"signedUrl": url + secrets.token_hex(16), "fileName": name}, "Upload url generated"
    )


def store(provider: Provider, ask: Ask) -> Answer:
    """Stores a file. The file store is another system, with its own errors."""
    dispute = core.find(provider, ask.query_text("dispute"))
    ask.query_text("signature")
    assert ask.file is not None
    name = ask.parameters["name"]
    stored = EvidenceFile(name, name, ask.file.media_type, ask.file.size, ask.file.sha256)
    provider.files.put(stored)
    dispute.files = [*dispute.files, stored]
    return Answer(None, "")


def add_evidence(provider: Provider, ask: Ask) -> Answer:
    dispute = core.find_open(provider, ask.parameters["id"])
    required = ("customer_email", "customer_name", "customer_phone", "service_details")
    optional = ("delivery_address", "delivery_date")
    fields = ask.fields.only(*required, *optional)
    fields.email("customer_email")
    given = {name: fields.text(name, most=2000) for name in required}
    given |= {name: text for name in optional if (text := fields.optional_text(name, most=2000))}
    dispute.evidence, dispute.evidence_number = given, next(provider.numbers)
    data = {**given, "dispute": dispute.number, "id": dispute.evidence_number}
    moment = iso_milliseconds(dispute.updated_at)
    return Answer({**data, "createdAt": moment, "updatedAt": moment}, "Evidence created")


def update(provider: Provider, ask: Ask) -> Answer:
    """Changes the amount to refund, before the dispute is answered. Returns a list."""
    dispute = core.find_open(provider, ask.parameters["id"])
    fields = ask.fields.only("refund_amount", "uploaded_filename")
    amount = _amount(fields)
    if amount > dispute.amount:
        raise Refused(TOO_MUCH)
    dispute.accepted = amount
    return Answer([_dispute(provider, dispute)], "Dispute updated successfully")


def resolve(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        "resolution", "message", "refund_amount", "uploaded_filename", "evidence"
    )
    dispute = core.find_open(provider, ask.parameters["id"])
    resolution, message = fields.text("resolution"), fields.text("message", most=2000)
    if resolution not in ("merchant-accepted", "declined"):
        raise Refused(WRONG_RESOLUTION)
    is_accepted = resolution == "merchant-accepted"
    amount = _amount(fields)
    if amount > dispute.amount:
        raise Refused(TOO_MUCH)
    _check_file(provider, fields, is_needed=not is_accepted or _needs_file(provider))
    if not is_accepted and FRAUD in dispute.category:
        _check_evidence(fields, dispute)
    dispute.message = message
    status = _status_after(provider, is_accepted=is_accepted)
    core.change(provider, dispute, status, accepted=amount if is_accepted else None)
    data = {
        **_dispute(provider, dispute),
        "message": {"dispute": dispute.number, "sender": MERCHANT, "body": message},
    }
    return Answer(data, "Dispute successfully resolved")


def _status_after(provider: Provider, *, is_accepted: bool) -> DisputeStatus:
    if is_accepted:
        return DisputeStatus.ACCEPTED
    waits = account_of(provider).contested_disputes_wait
    return DisputeStatus.CONTESTED if waits else DisputeStatus.WON


def _needs_file(provider: Provider) -> bool:
    return account_of(provider).accepting_needs_file


def _check_file(provider: Provider, fields: Fields, *, is_needed: bool) -> None:
    name = fields.optional_text("uploaded_filename")
    if not name and is_needed:
        raise Refused(NO_FILE)
    if name and provider.files.get(name) is None:
        raise Refused(UNKNOWN_FILE)


def _check_evidence(fields: Fields, dispute: Dispute) -> None:
    if "evidence" not in fields:
        raise Refused(NO_EVIDENCE)
    if fields.whole_number("evidence", most=KOBO_MAX) != dispute.evidence_number:
        raise Refused(WRONG_EVIDENCE)


def _amount(fields: Fields) -> Money:
    """Parses an amount in kobo, which can be 0 if the dispute is contested."""
    if "refund_amount" not in fields:
        raise Refused(WRONG_AMOUNT)
    return fields.kobo("refund_amount") or Money(CURRENCY, 0)


def word_of(dispute: Dispute) -> str:
    return dispute.provider_status or WORDS.get(dispute.status, "resolved")


def _dispute(provider: Provider, dispute: Dispute) -> dict[str, Any]:
    has_evidence = dispute.evidence_number is not None
    is_unknown = provider.faults.disputes is DisputeLie.UNKNOWN_STATUS
    has_amount = provider.faults.disputes is not DisputeLie.NO_AMOUNT
    charge = charge_data(provider, dispute.charge)
    return {
        "id": dispute.number,
        "refund_amount": _refund_amount(dispute) if has_amount else None,
        "currency": CURRENCY,
        "status": UNKNOWN_STATUS if is_unknown else word_of(dispute),
        "resolution": RESOLUTIONS.get(dispute.status),
        "domain": domain(provider),
        "transaction": charge if has_amount else {**charge, "amount": None},
        "transaction_reference": None,
        "category": dispute.category or None,
        "customer": customer(dispute.charge),
        "bin": None,
        "last4": None,
        "dueAt": iso_milliseconds(dispute.due_at),
        "resolvedAt": optional_iso(dispute.decided_at),
        "evidence": {"id": dispute.evidence_number} if has_evidence else None,
        "attachments": "[]",
        "note": None,
        "history": [
            {"status": word, "by": MERCHANT, "createdAt": iso_milliseconds(moment)}
            for word, moment in dispute.history
        ],
        "messages": [
            {
                "sender": dispute.charge.customer_email,
                "body": dispute.reason,
                "createdAt": iso_milliseconds(dispute.created_at),
            }
        ],
        "created_at": iso_milliseconds(dispute.created_at),
        "updated_at": iso_milliseconds(dispute.updated_at),
    }


def _refund_amount(dispute: Dispute) -> int:
    """Returns the disputed amount, or the part that the merchant accepts."""
    if dispute.status is DisputeStatus.ACCEPTED:
        return dispute.accepted.minor
    is_contested = dispute.status in (DisputeStatus.CONTESTED, DisputeStatus.WON)
    return 0 if is_contested and dispute.message else dispute.amount.minor


def dispute_notice(provider: Provider, dispute: Dispute, happened: str) -> Notice:
    data = _dispute(provider, dispute)
    if provider.faults.disputes is DisputeLie.WEBHOOK_AMOUNT:
        data["refund_amount"] = data["refund_amount"] * 2 + 1
    if provider.faults.disputes is DisputeLie.WEBHOOK_STATUS:
        is_won = dispute.status is DisputeStatus.WON
        data |= {"status": "resolved", "resolution": AUTO_ACCEPTED if is_won else "declined"}
    event = f"charge.dispute.{happened}"
    return Notice(event, dispute.reference, {"event": event, "data": data})
