"""What merchants see of a saved way to pay."""

from typing import Annotated

import msgspec

from manilla.kit.clock import iso
from manilla.kit.fields import api_field
from manilla.payments.fields import PaymentWay
from manilla.saved_ways.way import SavedWay, WayKind, WayStatus


class WayInfo(msgspec.Struct, frozen=True):
    """A saved way to pay."""

    id: str
    kind: Annotated[str, api_field("The kind.", enum=[str(each) for each in WayKind])]
    status: Annotated[
        str,
        api_field("Only an `active` way can be charged.", enum=[str(each) for each in WayStatus]),
    ]
    label: Annotated[str, api_field("What the customer recognizes: brand or bank, last digits.")]
    expires: Annotated[str | None, api_field("The card's last month, as `2031-12`.")]
    currency: str
    consented_at: str | None
    created_at: str
    customer_action_url: Annotated[
        str | None, api_field("Where the customer must confirm a pending mandate.")
    ]


def describe(way: SavedWay) -> WayInfo:
    is_over = way.status is WayStatus.ACTIVE and way.is_expired
    return WayInfo(
        id=way.id,
        kind=way.kind,
        status=WayStatus.EXPIRED if is_over else way.status,
        label=way.label,
        expires=expires(way),
        currency=way.currency,
        consented_at=None if way.consented_at is None else iso(way.consented_at),
        created_at=iso(way.created_at),
        customer_action_url=way.action_url,
    )


def expires(way: SavedWay) -> str | None:
    return None if way.expires_on is None else f"{way.expires_on:%Y-%m}"


def of_payment(way: SavedWay) -> str:
    """Returns what a payment stores of the way that it saved or that it charges, as JSON."""
    return msgspec.json.encode(PaymentWay(way.id, way.kind, way.label, expires(way))).decode()
