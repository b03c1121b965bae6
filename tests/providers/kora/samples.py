"""Requests and responses in Kora's format, with our own values."""

from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.port import RefundOrder
from tests.providers import samples

TRX_ID = "TXN" + "0" * 30
assert trx_ids.merchant_of(TRX_ID) == 0
REFERENCE = f"{TRX_ID}-1"
KORA_REFERENCE = "KPY-PAY-u3WuJ7aBcDeF"

CHARGE = msgspec.structs.replace(samples.CHARGE, reference=REFERENCE)
TRANSFER = msgspec.structs.replace(samples.TRANSFER, reference=TRX_ID)
REFUND = RefundOrder(TRX_ID, REFERENCE, Money("NGN", 101550), "Returned")

# These fields and types are in Kora's documentation.
DOCUMENTED: dict[str, dict[str, Any]] = {
    "checkout": {
        "reference": REFERENCE,
        "checkout_url": "https://checkout.korapay.com/u3WuJ7aBcDeF/pay",
    },
    "virtual_account": {
        "currency": "NGN",
        "amount": 1015.5,
        "amount_expected": 1015.5,
        "fee": 15.23,
        "vat": 1.14,
        "reference": REFERENCE,
        "payment_reference": REFERENCE,
        "status": "processing",
        "narration": "Shoes",
        "merchant_bears_cost": True,
        "bank_account": {
            "account_name": "Obi Shoes",
            "account_number": "8850001234",
            "bank_name": "wema",
            "bank_code": "035",
            "expiry_date_in_utc": "2026-11-15T15:35:23.000Z",
        },
        "customer": {"name": "Ada Obi", "email": "ada@example.com"},
    },
    "charge": {
        "reference": REFERENCE,
        "status": "success",
        "amount": "1015.50",
        "amount_paid": "1015.50",
        "fee": "16.37",
        "currency": "NGN",
        "description": "Shoes",
        "payment_method": "bank_transfer",
    },
    "resolved": {
        "bank_name": "Access Bank",
        "bank_code": "044",
        "account_number": "0690000031",
        "account_name": "ADA OBI",
    },
    "sent": {
        "amount": "5000.50",
        "fee": "53.75",
        "currency": "NGN",
        "status": "processing",
        "reference": TRX_ID,
        "narration": "Salary",
        "message": "Payout initiated",
        "customer": {"name": "ADA OBI", "email": "ada@example.com", "phone": None},
    },
    "new_refund": {
        "refund_reference": TRX_ID,
        "refund_date": "2026-11-15T08:27:22.646Z",
        "status": "processing",
        "payment_reference": REFERENCE,
        "reason": "Returned",
        "amount_returned": 1015.5,
        "currency": "NGN",
    },
    "refund": {
        "amount": "1015.50",
        "status": "success",
        "currency": "NGN",
        "destination": "customer",
        "reference": TRX_ID,
        "reason": "Returned",
        "payment_reference": REFERENCE,
        "transaction_amount": "1015.50",
        "payment_method": "card",
        "created_at": "2026-11-15 09:27:22",
        "completed_at": None,
    },
}
# These fields are inferred from third-party code.
DERIVED: dict[str, dict[str, Any]] = {
    "transfer": {
        "reference": TRX_ID,
        "status": "success",
        "amount": "5000.50",
        "fee": "53.75",
        "currency": "NGN",
        "narration": "Salary",
        "message": "Payout successful",
        "trace_id": "000014261115083012345678901234",
    },
}


def ok(data: Any) -> dict[str, Any]:
    return {"status": True, "message": "success", "data": data}


def error(message: str, data: Any = None) -> dict[str, Any]:
    return {"status": False, "message": message, "data": data}
