"""Parses Flutterwave's refunds. The status `completed` only means that the refund has started."""

from typing import Any

from manilla.kit import strict_json
from manilla.providers import port, reading
from manilla.providers.port import RefusalCode, Refused
from manilla.providers.port import ReportedRefundStatus as Status
from manilla.providers.reading import Malformed

STATUSES = {
    **dict.fromkeys(("completed", "processing", "pending-momo"), Status.PENDING),
    **dict.fromkeys(
        (
            *("completed-bank-transfer", "completed-mpgs", "completed-momo"),
            *("completed-offline", "completed-preauth"),
        ),
        Status.PAID,
    ),
    "failed": Status.FAILED,
}
# The values of `meta.disburse_status` that are final.
DISBURSEMENTS = {"successful": Status.PAID, "succeeded": Status.PAID, "failed": Status.FAILED}

UNCLEAR = "Flutterwave reports the refund as {}. Check its result in Flutterwave's dashboard."
NOT_IDENTIFIED = Refused(
    RefusalCode.NOT_SUPPORTED,
    "Flutterwave's response to the refund was lost, so Manilla does not know the refund's id.",
)


def new_refund(data: Any, transaction: str, currency: str) -> port.RefundState:
    """Parses the response to a new refund, which is always pending.

    Only a status query settles the refund, after Flutterwave's id of the refund is stored.
    """
    found = _state(data, Status.PENDING, currency)
    if data.get("tx_id") is not None and reading.id_number(data, "tx_id") != transaction:
        raise Malformed("tx_id belongs to another transaction")
    return found


def state(data: Any, refund_id: str, currency: str) -> port.RefundState:
    found = _state(data, _status(data), currency)
    if found.provider_reference != refund_id:
        raise Malformed("id belongs to another refund")
    return found


def _state(data: Any, status: Status | None, currency: str) -> port.RefundState:
    word = reading.text(data, "status")
    is_clear = status is not None and word in STATUSES
    return port.RefundState(
        status=status or Status.PENDING,
        amount=reading.optional_money(data, "amount_refunded", currency),
        provider_reference=reading.id_number(data, "id"),
        needs_action="" if is_clear else UNCLEAR.format(word),
    )


def _status(data: Any) -> Status | None:
    """Returns the refund's status, or None if its two results contradict each other."""
    reported = STATUSES.get(reading.text(data, "status"), Status.PENDING)
    disbursed = DISBURSEMENTS.get(_disbursement(data), reported)
    if reported in (Status.PENDING, disbursed):
        return disbursed
    return None


def _disbursement(data: Any) -> str:
    """Returns `meta.disburse_status`. `meta` is an object, or a string that contains an object."""
    meta = data.get("meta")
    if isinstance(meta, str):
        try:
            meta = strict_json.decode(meta.encode())
        except strict_json.JsonError:
            return ""
    return reading.optional_text(meta, "disburse_status")
