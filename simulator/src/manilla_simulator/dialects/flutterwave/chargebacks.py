"""Flutterwave's chargebacks. Their amounts are held from the balance when they are opened."""

from datetime import UTC, datetime
from typing import Any

from manilla_simulator import disputes as core
from manilla_simulator.dialects.flutterwave.common import account_of, own_reference
from manilla_simulator.dialects.formats import iso_milliseconds, random_code
from manilla_simulator.faults import DisputeLie
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Dispute, DisputeStatus, EvidenceFile
from manilla_simulator.wire import Answer, Ask, Denial, Refused, invalid

PAGE_SIZE = 20
WORDS = {
    DisputeStatus.OPEN: "initiated",
    DisputeStatus.CONTESTED: "declined",
    DisputeStatus.WON: "won",
    DisputeStatus.LOST: "lost",
    DisputeStatus.ACCEPTED: "accepted",
}
DEFAULT_STATUS = "lost"  # the status that Flutterwave's reference shows as the default
UNKNOWN_STATUS = "escalated"
NO_PROOF = Denial(400, "proof is required", field="proof")
NO_IMAGE = Denial(400, "image is required", field="image")


def list_chargebacks(provider: Provider, ask: Ask) -> Answer:
    wanted = ask.query.get("status", DEFAULT_STATUS)
    matching = [
        dispute
        for dispute in provider.disputes.select()
        if word_of(dispute) == wanted
        and ask.query.get("currency", CURRENCY) == CURRENCY
        and ask.query.get("flw_ref", "") in ("", own_reference(dispute.charge))
        and ask.query.get("id", "") in ("", str(dispute.charge.number))
        and _is_within(ask, dispute.created_at)
    ]
    number, total = max(1, ask.number("page", 1)), -(-len(matching) // PAGE_SIZE)
    shown = 1 if account_of(provider).repeats_chargeback_page else number
    page = matching[(shown - 1) * PAGE_SIZE : shown * PAGE_SIZE]
    info = {
        "total": len(matching),
        "current_page": shown,
        "total_pages": total,
        "page_size": PAGE_SIZE,
    }
    listed = [_chargeback(provider, dispute) for dispute in page]
    return Answer(listed, "Chargebacks fetched", more={"meta": {"page_info": info}})


def _is_within(ask: Ask, moment: datetime) -> bool:
    """Returns whether the time is on or between the days of the query."""
    day = f"{moment.astimezone(UTC):%Y-%m-%d}"
    first, last = ask.query.get("from", ""), ask.query.get("to", "")
    return (not first or first <= day) and (not last or day <= last)


def upload(provider: Provider, ask: Ask) -> Answer:
    if ask.file is None or ask.file.field != "image":
        raise Refused(NO_IMAGE)
    url = f"https://files.flutterwave.example/{random_code('', 24)}/{ask.file.name}"
    sent = ask.file
    provider.files.put(EvidenceFile(url, sent.name, sent.media_type, sent.size, sent.sha256))
    return Answer(url, "Image uploaded")


def answer(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("action", "comment", "proof")
    dispute = core.find_open(provider, ask.parameters["id"])
    action, proof = fields.text("action"), fields.optional_text("proof")
    if action not in ("accept", "decline"):
        raise invalid("action must be accept or decline", "action")
    dispute.message = fields.text("comment", most=1000)
    if action == "decline":
        file = provider.files.get(proof)
        if file is None:
            raise Refused(NO_PROOF)
        dispute.files = [*dispute.files, file]
    is_accepted = action == "accept"
    core.change(
        provider, dispute, DisputeStatus.ACCEPTED if is_accepted else DisputeStatus.CONTESTED
    )
    return Answer(_chargeback(provider, dispute), f"Chargeback {word_of(dispute)}")


def word_of(dispute: Dispute) -> str:
    return WORDS[dispute.status]


def _chargeback(provider: Provider, dispute: Dispute) -> dict[str, Any]:
    lie = provider.faults.disputes
    is_unknown = lie is DisputeLie.UNKNOWN_STATUS
    history = [
        {"action": word, "stage": dispute.stage, "date": iso_milliseconds(moment)}
        for word, moment in dispute.history
    ]
    return {
        "id": dispute.number,
        "amount": None if lie is DisputeLie.NO_AMOUNT else dispute.amount.amount,
        "flw_ref": own_reference(dispute.charge),
        "status": UNKNOWN_STATUS if is_unknown else word_of(dispute),
        "stage": dispute.stage,
        "comment": dispute.reason,
        "meta": {
            "uploaded_proof": dispute.files[-1].reference if dispute.files else None,
            "history": history,
        },
        "due_date": iso_milliseconds(dispute.due_at),
        "settlement_id": "N/A",
        "created_at": iso_milliseconds(dispute.created_at),
        "transaction_id": dispute.charge.number,
        "tx_ref": dispute.charge.reference,
    }
