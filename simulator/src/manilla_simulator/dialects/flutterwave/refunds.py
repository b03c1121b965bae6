"""Simulates Flutterwave's refunds. Their status `completed` only means that they have started."""

from typing import Any

from manilla.kit import strict_json
from manilla_simulator import refunds as core
from manilla_simulator.dialects.flutterwave.common import ACCOUNT_ID, account_of, own_reference
from manilla_simulator.dialects.flutterwave.payments import by_number
from manilla_simulator.dialects.formats import iso_milliseconds
from manilla_simulator.provider import Provider
from manilla_simulator.state import Refund, RefundStatus
from manilla_simulator.wire import Answer, Ask

PAGE_SIZE = 10
STATUS_WORDS = {
    **dict.fromkeys(("completed", "processing", "pending-momo"), RefundStatus.PROCESSING),
    **dict.fromkeys(
        (
            *("completed-bank-transfer", "completed-mpgs", "completed-momo"),
            *("completed-offline", "completed-preauth"),
        ),
        RefundStatus.SUCCESS,
    ),
    "failed": RefundStatus.FAILED,
}
STARTED = "completed"
DISBURSED = {RefundStatus.SUCCESS: "successful", RefundStatus.FAILED: "failed"}


def start(provider: Provider, ask: Ask) -> Answer:
    # Flutterwave's Node library repeats the transaction's id in the body.
    fields = ask.fields.only("amount", "comments", "callbackurl", "id")
    charge = by_number(provider, ask.parameters["id"])
    left = charge.amount_paid - charge.refunded
    amount = fields.amount_of_any_type() if "amount" in fields else left
    number = next(provider.numbers)
    refund = core.accept(provider, str(number), charge, amount, number=number)
    refund.note = fields.optional_text("comments")
    core.settle_later(provider, refund)
    return Answer(_refund(provider, refund), "Transaction refund initiated")


def get(provider: Provider, ask: Ask) -> Answer:
    refund = core.find(provider, ask.parameters["id"])
    return Answer(_refund(provider, refund), "Transaction refund fetched")


def list_refunds(provider: Provider, ask: Ask) -> Answer:
    """Lists refunds, newest first. The parameter `id` selects the refunds of one transaction."""
    transaction = ask.query.get("id", "")
    found = [
        refund
        for refund in provider.refunds.select()
        if transaction in ("", str(refund.charge.number))
    ]
    number, size = ask.page("page_size", PAGE_SIZE)
    page = found[(number - 1) * size : number * size]
    pages = -(-len(found) // size)
    info = {"total": len(found), "current_page": number, "total_pages": pages}
    listed = [_refund(provider, refund) for refund in page]
    return Answer(listed, "Transaction refunds fetched", more={"meta": {"page_info": info}})


def _refund(provider: Provider, refund: Refund) -> dict[str, Any]:
    return {
        "id": refund.number,
        "account_id": ACCOUNT_ID,
        "tx_id": refund.charge.number,
        "flw_ref": own_reference(refund.charge),
        "wallet_id": ACCOUNT_ID,
        "amount_refunded": refund.amount.amount,
        "status": _word(provider, refund),
        "destination": "payment_source",
        "comments": refund.note,
        "meta": _meta(provider, refund),
        "created_at": iso_milliseconds(refund.created_at),
    }


def _word(provider: Provider, refund: Refund) -> str:
    if refund.provider_status:
        return refund.provider_status
    is_in_meta = account_of(provider).refund_result_is_in_meta
    if refund.status is RefundStatus.PROCESSING or is_in_meta:
        return STARTED
    if refund.status is RefundStatus.FAILED:
        return "failed"
    return "completed-bank-transfer" if refund.charge.accounts else "completed-mpgs"


def _meta(provider: Provider, refund: Refund) -> dict[str, str] | str:
    """Returns an object, or text that contains it if the result is in `disburse_status`."""
    meta = {"source": "availablebalance"}
    if not account_of(provider).refund_result_is_in_meta:
        return meta
    disbursed = DISBURSED.get(refund.status)
    return strict_json.encode(
        {**meta, **({"disburse_status": disbursed} if disbursed else {})}
    ).decode()
