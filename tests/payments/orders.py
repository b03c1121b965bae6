"""Builds a minimal valid payment request."""

import itertools
import time
from typing import Any

INITIATE, LEGACY = "/api/v1/initiate-payment", "/api/initiate-payment"
VERIFY = "/api/v1/verify-payment/"

_numbers = itertools.count(time.time_ns())


def new_reference() -> str:
    return f"ORDER-{next(_numbers)}"


def order(**changed: Any) -> dict[str, Any]:
    """Returns a valid payment request with a new reference. A field set to None is omitted."""
    fields = {
        "payment_amount": 1000,
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "success_redirect": "https://shop.example/thanks?order=7",
        "cancel_redirect": "https://shop.example/cart",
        "ipn_url": "https://shop.example/ipn",
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not None}
