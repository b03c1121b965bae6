"""JSON Schemas of the requests to Monnify, keyed by method and path.

The schemas are handwritten from the field lists of Monnify's SDK (MIT) and API reference. They
allow no other fields, so a misspelled field fails the test.
"""

from typing import Any

TEXT = {"type": "string", "minLength": 1}
NAIRA = {"type": "number", "minimum": 20, "multipleOf": 0.01}
METHODS = {"enum": ["CARD", "ACCOUNT_TRANSFER", "USSD", "PHONE_NUMBER"]}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


BODIES = {
    "/api/v1/merchant/transactions/init-transaction": _object(
        {
            "amount": NAIRA,
            "customerEmail": {"type": "string", "format": "email"},
            "paymentReference": TEXT,
            "paymentDescription": {"type": "string", "minLength": 3},
            "currencyCode": {"const": "NGN"},
            "contractCode": TEXT,
        },
        {
            "customerName": TEXT,
            "redirectUrl": {"type": "string", "format": "uri"},
            "paymentMethods": {"type": "array", "items": METHODS, "minItems": 1},
        },
    ),
    "/api/v1/merchant/bank-transfer/init-payment": _object(
        {"transactionReference": TEXT}, {"bankCode": TEXT}
    ),
    "/api/v1/refunds/initiate-refund": _object(
        {
            "transactionReference": TEXT,
            "refundAmount": NAIRA,
            "refundReference": TEXT,
            "refundReason": TEXT,
            "customerNote": TEXT,
        },
        {"destinationAccountNumber": TEXT, "destinationAccountBankCode": TEXT},
    ),
    "/api/v2/disbursements/single": _object(
        {
            "amount": NAIRA,
            "reference": TEXT,
            "narration": {"type": "string", "minLength": 3, "maxLength": 100},
            "destinationBankCode": TEXT,
            "destinationAccountNumber": {"type": "string", "pattern": "^[0-9]{10}$"},
            "destinationAccountName": TEXT,
            "currency": {"const": "NGN"},
            "sourceAccountNumber": TEXT,
        },
        {"async": {"type": "boolean"}, "senderInfo": {"type": "object"}},
    ),
}
QUERIES = {
    "/api/v2/merchant/transactions/query": {"paymentReference"},
    "/api/v1/refunds/{reference}": set[str](),
    "/api/v1/banks": set[str](),
    "/api/v1/disbursements/account/validate": {"accountNumber", "bankCode"},
    "/api/v2/disbursements/wallet-balance": {"accountNumber"},
    "/api/v2/disbursements/single/summary": {"reference"},
    "/api/v2/disbursements/search-transactions": {
        *("sourceAccountNumber", "startDate", "endDate", "pageNo", "pageSize"),
    },
}
