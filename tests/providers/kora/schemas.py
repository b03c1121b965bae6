"""JSON Schemas of the requests that Kora documents, with their field names and limits.

The schemas allow no other fields, so a misspelled optional field fails the test.
"""

from typing import Any

AMOUNT = {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01}
CURRENCY = {"const": "NGN"}
URL = {"type": "string", "pattern": "^https?://"}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _text(minimum: int = 1, maximum: int = 200) -> dict[str, Any]:
    return {"type": "string", "minLength": minimum, "maxLength": maximum}


CUSTOMER = _object({"email": {"type": "string", "pattern": "@"}}, {"name": _text()})
METADATA = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 5,
    "propertyNames": {"pattern": "^[A-Za-z0-9-]{1,20}$"},
}
CHARGE = {
    "reference": _text(8),
    "amount": AMOUNT,
    "currency": CURRENCY,
    "customer": CUSTOMER,
}
CHARGE_OPTIONAL = {
    "notification_url": URL,
    "narration": _text(),
    "merchant_bears_cost": {"type": "boolean"},
    "metadata": METADATA,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "POST /merchant/api/v1/charges/initialize": _object(
        CHARGE,
        {
            **CHARGE_OPTIONAL,
            "redirect_url": URL,
            "channels": {"type": "array", "items": _text()},
            "default_channel": _text(),
        },
    ),
    "POST /merchant/api/v1/charges/bank-transfer": _object(
        CHARGE,
        {**CHARGE_OPTIONAL, "account_name": _text(), "auto_complete": {"type": "boolean"}},
    ),
    "POST /merchant/api/v1/misc/banks/resolve": _object(
        {"bank": _text(), "account": _text(), "currency": CURRENCY}
    ),
    "POST /merchant/api/v1/transactions/disburse": _object(
        {
            "reference": _text(5),
            "destination": _object(
                {
                    "type": {"const": "bank_account"},
                    "amount": AMOUNT,
                    "currency": CURRENCY,
                    "bank_account": _object({"bank": _text(), "account": _text()}),
                    "customer": CUSTOMER,
                },
                {"narration": _text()},
            ),
        },
        {"metadata": METADATA, "notification_url": URL},
    ),
    "POST /merchant/api/v1/refunds/initiate": _object(
        {"reference": _text(1, 50), "payment_reference": _text()},
        {"amount": {**AMOUNT, "minimum": 100}, "reason": _text(), "webhook_url": URL},
    ),
}

# These are the documented query parameters of the balance history.
TIME = {"type": "string", "pattern": "^[0-9]{4}(-[0-9]{2}){5}$"}
HISTORY = _object(
    {},
    {
        "currency": CURRENCY,
        "date_from": TIME,
        "date_to": TIME,
        "limit": {"type": "string", "pattern": "^[1-9][0-9]*$"},
        "starting_after": _text(),
    },
)
