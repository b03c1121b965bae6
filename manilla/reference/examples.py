"""Examples of requests, responses and notifications for the OpenAPI document. Tests verify them.

The bodies are JSON files. Amounts are parsed as decimals, so they stay exact.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from importlib import resources
from typing import Any

import msgspec

from manilla.kit import strict_json
from manilla.kit.errors import Refusal
from manilla.merchants import rights
from manilla.merchants.rights import Right
from manilla.payments.fields import PaymentNoticeData, VerifiedPayment
from manilla.payouts.fields import DeliveredPayout, PayoutNoticeData
from manilla.refunds.fields import VerifiedRefund

Examples = Mapping[str, Any]  # example bodies by name


def _read(name: str) -> Any:
    file = resources.files("manilla.reference") / "example_bodies" / f"{name}.json"
    return strict_json.decode(file.read_bytes())


TRX_ID = "TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ"
ENDPOINT_ID = "we_01M7EWKJ9J0000001WNNC2DWVAFGAZ"
ACCOUNT_ID = "ACC01M7EWKJ9J0000001WNNC2DWVAFGAZ"
WAY_ID = "WAY01M7EX0A6H0000001KQ4WBN8T2VZ5C"
DISPUTE_ID = "DSP01M7EX0A6H0000001KQ4WBN8T2VZ5C"
INVOICE_NUMBER = "MAN000042"
SPLIT_ID = DISPUTE_ID.replace("DSP", "SPL")
LINK_ID = "PL1M7EWKJ9J0000001WNNC2DWVAFGAZ"
REQUEST_ID = "4f1d0c2ab97e35c860d1f2a7"

# Examples by operation id.
REQUESTS: Mapping[str, Examples] = _read("requests")
_RESPONSES: Mapping[str, dict[str, Any]] = _read("responses")
CREATED_AT = "2026-11-15T05:58:35.479114Z"
CURSOR = "pZ2p0mOj3S0c7bLrmV0zgFsiVFhOMDFNN0VXSkZZUTAwMDAwMDEzV0hFNlJRR001M1pQIl0"


def _page(items: Iterable[Mapping[str, Any]]) -> Examples:
    """Returns an example of a list response, whose items are examples of verify responses."""
    data = [{"created_at": CREATED_AT, **each} for each in items]
    return {"page": {"data": data, "next_cursor": CURSOR}}


def _with_own(kind: type[msgspec.Struct], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds the examples that a struct's fields declare, in the order of the fields."""
    whole = dict(body)
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        declared = getattr(field.type, "extra_json_schema", None) or {}
        for example in declared.get("examples", ()):
            whole[field.name] = example
    return {name: whole[name] for name in kind.__struct_fields__ if name in whole}


_PAYMENTS, _PAYOUTS, _REFUNDS = (
    _RESPONSES[operation] for operation in ("verifyPayment", "verifyPayout", "verifyRefund")
)
_PAYMENTS["success"] = _with_own(VerifiedPayment, _PAYMENTS["success"])
_PAYOUTS["success"] = _with_own(DeliveredPayout, _PAYOUTS["success"])
_REFUNDS["success"] = _with_own(VerifiedRefund, _REFUNDS["success"])
_CUSTOMER = _RESPONSES["createCustomer"]["customer"]
_ACCOUNT = {
    "id": ACCOUNT_ID,
    "status": "active",
    "bank_name": "Wema Bank",
    "bank_code": "035",
    "account_number": "9930001234",
    "account_name": "ADA STORES / ADA OBI",
    "currency": "NGN",
    "method_code": "paystack_ngn_va",
    "customer_reference": "pupil-17",
    "created_at": CREATED_AT,
}
_WAY = _RESPONSES["createMandate"]["pending"]
_DISPUTE = _RESPONSES["getDispute"]["needsResponse"]
_SPLIT = _RESPONSES["createSplit"]["created"]
_ANSWERED = {"submitted": {**_DISPUTE, "status": "submitted"}}
ANSWERS: Mapping[str, Examples] = {
    **_RESPONSES,
    "listCustomers": {"page": {"data": [_CUSTOMER], "next_cursor": CURSOR}},
    **{
        f"{action}Customer": {"customer": {**_CUSTOMER, "status": status}}
        for action, status in {
            **dict.fromkeys(("get", "update", "enable"), "active"),
            "disable": "disabled",
        }.items()
    },
    "requestAccounts": {"accounts": {"data": [_ACCOUNT]}},
    "listAccounts": {"accounts": {"data": [_ACCOUNT]}},
    "closeAccount": {"account": _ACCOUNT},
    "testTransfer": {"payment": {"trx_id": TRX_ID}},
    "attachPayments": {"attached": {"attached": 1}},
    "listWays": {"ways": {"data": [_WAY]}},
    "revokeWay": {"revoked": {**_WAY, "status": "revoked"}},
    "listSplits": {"page": {"data": [_SPLIT], "next_cursor": CURSOR}},
    "getSplit": {"split": _SPLIT},
    "editSplit": {"edited": {**_SPLIT, "version": 2, "hold": "days", "hold_days": 7}},
    "disableSplit": {"disabled": {**_SPLIT, "version": 2, "status": "disabled"}},
    "listSubAccounts": {"list": {"data": [_RESPONSES["createSubAccount"]["created"]]}},
    "listDisputes": {"page": {"data": [_DISPUTE], "next_cursor": CURSOR}},
    "listInvoices": {
        "page": {"data": [_RESPONSES["getInvoice"]["invoice"]], "next_cursor": CURSOR}
    },
    "acceptDispute": _ANSWERED,
    "submitDispute": _ANSWERED,
    "setDisputeEvidence": {"evidence": _DISPUTE},
    "listPayments": _page(_PAYMENTS.values()),
    "listPayouts": _page(_PAYOUTS.values()),
    "listRefunds": _page(_REFUNDS.values()),
}

# Examples of completed transactions. The other examples change some of these fields.
_COMPLETED = _read("notices")
_PAYMENT, _PAYOUT = _COMPLETED["payment"], _COMPLETED["payout"]
_PAYMENT["data"] = _with_own(PaymentNoticeData, _PAYMENT["data"])
_PAYOUT["data"] = _with_own(PayoutNoticeData, _PAYOUT["data"])
_COMMISSION = _PAYMENT["data"]["commission"]
_UNPAID = {
    **_COMMISSION,
    "customer_paid": Decimal("0.00"),
    "merchant_received": Decimal("0.00"),
    "commission_trx_id": None,
}
_REFUND = {
    "refund_amount": Decimal("500.50"),
    "refund_trx_id": "TXN01M7EWNYTG0000001TZGV18ED9N4MM",
    "refund_ref_trx": "REFUND-1001",
}


def _unpaid(code: str, **changed: str) -> Any:
    data = {**_PAYMENT["data"], "commission": _UNPAID}
    return {**_PAYMENT, "data": data, **changed, "error_code": code}


def _undelivered(code: str, timestamp: int, **changed: str) -> Any:
    refunded = {"refunded_amount": Decimal("5050.00"), "error_code": code}
    fields = msgspec.structs.fields(PayoutNoticeData)
    always = {field.name: _PAYOUT["data"][field.name] for field in fields if field.required}
    data = {**always, **refunded}
    return {**_PAYOUT, "data": data, **changed, "timestamp": timestamp, **refunded}


NOTICES: Mapping[str, Examples] = {
    "payment": {
        "completed": _PAYMENT,
        "failed": _unpaid("PAYMENT_DECLINED", message="Payment Failed", status="failed"),
        "canceled": _unpaid("PAYMENT_CANCELED", message="Payment Canceled", status="canceled"),
    },
    "payout": {
        "completed": _PAYOUT,
        "failed": _undelivered(
            "gateway_payout_failed", 1794724969, message="Payout Failed", status="failed"
        ),
        "canceled": _undelivered(
            "payout_failed", 1794724969, message="Payout Canceled", status="canceled"
        ),
        "reversed": _undelivered(
            "gateway_payout_failed", 1794811369, message="Payout Reversed", status="failed"
        ),
    },
    "refund": {
        "completed": {
            **_PAYMENT,
            "event": "refund",
            "data": {**_PAYMENT["data"], **_REFUND},
            "message": "Payment Refunded",
            "timestamp": 1794722431,
        }
    },
    "legacyPayment": {
        "completed": _COMPLETED["legacyPayment"],
        "failed": {
            **_COMPLETED["legacyPayment"],
            "event": "payment.failed",
            "trx_id": "TXN01M7EWSGXD0000001T6Z1DK8QTFE5W",
            "status": "failed",
        },
    },
}

# Maps error codes to additional fields of their example bodies.
FURTHER: Mapping[str, Mapping[str, Any]] = {
    "INVALID_CREDENTIALS": {"errors": {"X-Signature": "The signature does not match."}},
    "DUPLICATE_REFERENCE": {"trx_id": TRX_ID, "status": "pending", "duplicate_of": "ref_trx"},
    "split_invalid": {"errors": {"receivers.0": "You have no such sub-account."}},
    "evidence_incomplete": {"errors": {"text": "Enter a text, or add a file."}},
}
DECIMALS = "The amount may have at most 2 decimals."
FAULT = {
    "error": f"Something went wrong on our side. Please quote request {REQUEST_ID}.",
    "error_code": "SERVER_ERROR",
}


def error(refusal: type[Refusal], body: Iterable[str] = (), query: Iterable[str] = ()) -> Any:
    """Returns the example body of an error, for an endpoint with these body and query fields."""
    answer = {"error": refusal.message, "error_code": str(refusal.code)}
    match refusal.code:
        case "VALIDATION_FAILED":
            fields = [*query, *(field for field in body if field == "ref_trx")]
            if not fields:
                return {**answer, "error": "The body is larger than 64 KiB."}
            return {**answer, "errors": dict.fromkeys(fields, "This field is required.")}
        case "INVALID_AMOUNT":
            amounts = [field for field in body if field.endswith("amount")]
            return {**answer, "errors": dict.fromkeys(amounts, DECIMALS)}
    return {**answer, **FURTHER.get(refusal.code, {})}


def missing_right(right: Right) -> Any:
    """Returns the example body of the error for an API key without the required permission."""
    refusal = rights.missing(right)
    return {"error": refusal.text, "error_code": refusal.code, **(refusal.details or {})}
