"""Handwritten examples of Flutterwave's responses.

The fields in `DOCUMENTED` are from Flutterwave's documentation or SDK, with our own values. The
fields in `DERIVED` are implied by the documentation or reported by third parties.
"""

from typing import Any


def success(data: Any, message: str = "ok", **more: Any) -> dict[str, Any]:
    return {"status": "success", "message": message, "data": data, **more}


def error(message: str, data: Any = None) -> dict[str, Any]:
    return {"status": "error", "message": message, "data": data}


CHARGE: dict[str, Any] = {
    "id": 1163068,
    "tx_ref": "TXN0-1",
    "flw_ref": "FLW-M03K-02c21a8095c7e064b8b9714db834080b",
    "device_fingerprint": "N/A",
    "amount": 1015.5,
    "currency": "NGN",
    "charged_amount": 1015.5,
    "app_fee": 14.22,
    "merchant_fee": 0,
    "processor_response": "Approved",
    "auth_model": "noauth",
    "status": "successful",
    "payment_type": "card",
    "created_at": "2026-01-02T03:04:05.000Z",
    "account_id": 73362,
    "amount_settled": 1001.28,
}
AUTHORIZATION: dict[str, Any] = {
    "transfer_reference": "FLW-REF-1",
    "transfer_account": "0067100155",
    "transfer_bank": "Wema Bank",
    "account_expiration": 4102444800000,
    "transfer_note": "Please make a bank transfer to Obi Shoes FLW",
    "transfer_amount": "1015.50",
    "mode": "banktransfer",
}
TRANSFER: dict[str, Any] = {
    "id": 190626,
    "account_number": "0690000031",
    "bank_code": "044",
    "full_name": "ADA OBI",
    "created_at": "2026-01-02T03:04:05.000Z",
    "currency": "NGN",
    "debit_currency": "NGN",
    "amount": 5000.5,
    "fee": 10.75,
    "status": "NEW",
    "reference": "TXN1",
    "meta": None,
    "narration": "Salary",
    "complete_message": "",
    "requires_approval": 0,
    "is_approved": 1,
    "bank_name": "ACCESS BANK NIGERIA",
}
REFUND: dict[str, Any] = {
    "id": 75923,
    "account_id": 73362,
    "tx_id": 1163068,
    "flw_ref": "URF_1577867664541_3572735",
    "wallet_id": 74639,
    "amount_refunded": 1015.5,
    "status": "completed",
    "destination": "payment_source",
    "meta": {"source": "availablebalance"},
    "created_at": "2026-01-02T03:04:05.000Z",
}
PAGE_INFO = {"page_info": {"total": 1, "current_page": 1, "total_pages": 1}}

DOCUMENTED: dict[str, Any] = {
    "payment_link": success({"link": "https://checkout.flutterwave.com/v3/hosted/pay/1"}),
    "one_time_account": {
        "status": "success",
        "message": "Charge initiated",
        "meta": {"authorization": AUTHORIZATION},
    },
    "charge": success(CHARGE, "Transaction fetched successfully"),
    "refund": success(REFUND, "Transaction refund initiated"),
    "banks": success(
        [
            {"id": 1, "code": "044", "name": "Access Bank"},
            {"id": 2, "code": "090110", "name": "VFD"},
        ]
    ),
    "account": success({"account_number": "0690000031", "account_name": "ADA OBI"}),
    "balance": success({"currency": "NGN", "available_balance": 12.5, "ledger_balance": 13}),
    "transfer": success(TRANSFER, "Transfer Queued Successfully"),
    "transfers": success([TRANSFER], "Transfers fetched", meta=PAGE_INFO),
}
DERIVED: dict[str, Any] = {
    # In Flutterwave's sandbox, the mock account's expiry time equals its creation time.
    "mock_account": {**AUTHORIZATION, "account_expiration": 1689847855598},
    "no_transfers": success([], "Transfers fetched", meta={"page_info": {"total": 0}}),
    "balances": success(
        [
            {"currency": "USD", "available_balance": 1, "ledger_balance": 1},
            {"currency": "NGN", "available_balance": "12.509", "ledger_balance": 13},
        ]
    ),
    "unknown_charge": error("No transaction was found for this id"),
}
