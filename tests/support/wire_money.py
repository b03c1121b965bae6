"""Checks that each amount in a JSON document has exactly its currency's number of decimals."""

import json
from collections.abc import Iterator
from typing import Any

from manilla.kit.money import DECIMALS

FIELDS = frozenset(
    [
        "amount",
        "base_amount",
        "fee",
        "net_amount",
        "commission_fee",
        "api_commission_fee",
        "customer_pays",
        "merchant_receives",
        "customer_paid",
        "merchant_received",
        "payout_amount",
        "payable_amount",
        "refunded_amount",
        "refund_amount",
        "min_withdraw",
        "max_withdraw",
        "available",
        "in_flight",
        "balance_after",
        "balance",
    ]
)


class Number(str):
    """A JSON number that keeps its digits as written in the document."""

    __slots__ = ()


def amounts(body: bytes) -> list[tuple[str, str]]:
    """Returns every money field in the document, with its digits as written."""
    document = json.loads(body, parse_int=Number, parse_float=Number)
    return list(_amounts(document))


def _amounts(value: Any) -> Iterator[tuple[str, str]]:
    items = value.items() if isinstance(value, dict) else ()
    for name, item in items:
        if name in FIELDS and item is not None:
            assert isinstance(item, Number), f"{name} is {item!r}"
            yield name, str(item)
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _amounts(item)


def assert_decimals(body: bytes, currency: str) -> set[str]:
    """Checks the decimals of every amount, and returns the names of the money fields."""
    found = amounts(body)
    for name, text in found:
        _, _, decimals = text.partition(".")
        assert len(decimals) == DECIMALS[currency], f"{name} is {text}"
        assert "e" not in text.lower()
    return {name for name, _ in found}
