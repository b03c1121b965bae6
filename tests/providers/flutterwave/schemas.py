"""JSON Schemas of our requests, handwritten from Flutterwave's documentation.

The schemas allow no other fields, so a misspelled field fails the test.
"""

from typing import Any

import jsonschema_rs

from tests.providers.scripted import Recorded

TEXT = {"type": "string", "minLength": 1}
AMOUNT = {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01}
CURRENCY = {"const": "NGN"}


def _closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _short(length: int) -> dict[str, Any]:
    return {**TEXT, "maxLength": length}


BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/v3/payments"): _closed(
        {
            "tx_ref": TEXT,
            "amount": AMOUNT,
            "redirect_url": TEXT,
            "customer": _closed({"email": TEXT}, name=TEXT, phonenumber=TEXT),
        },
        currency=CURRENCY,
        customizations=_closed({}, title=TEXT, description=TEXT, logo=TEXT),
        payment_options=TEXT,
        meta={"type": "object"},
    ),
    ("POST", "/v3/charges?type=bank_transfer"): _closed(
        {"tx_ref": TEXT, "amount": AMOUNT, "currency": CURRENCY, "email": TEXT},
        is_permanent={"const": False},
        narration=_short(100),
        expires={"type": "integer", "minimum": 1, "maximum": 31_536_000},
        fullname=TEXT,
        phone_number=TEXT,
    ),
    ("POST", "/v3/transactions/{id}/refund"): _closed({"amount": AMOUNT}, comments=TEXT),
    ("PUT", "/v3/chargebacks/{id}"): _closed(
        {"action": {"enum": ["accept", "decline"]}, "comment": TEXT}, proof=TEXT
    ),
    ("POST", "/v3/accounts/resolve"): _closed({"account_number": _short(20), "account_bank": TEXT}),
    ("POST", "/v3/transfers"): _closed(
        {
            "account_bank": TEXT,
            "account_number": _short(20),
            "amount": AMOUNT,
            "currency": CURRENCY,
            "reference": _short(100),
        },
        narration=_short(100),
        callback_url=_short(100),
        debit_currency=CURRENCY,
        beneficiary_name=_short(100),
        meta={"type": "object"},
    ),
}


def check(request: Recorded) -> None:
    """Asserts that the request's body matches the documentation."""
    path = "/".join("{id}" if part.isdigit() else part for part in request.target.split("/"))
    jsonschema_rs.Draft202012Validator(BODIES[request.method, path]).validate(request.json)
