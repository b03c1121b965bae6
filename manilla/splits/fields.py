"""A split as the API and the events describe it."""

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

import msgspec

from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.kit.fields import api_field
from manilla.kit.money import amount_of
from manilla.notify import outbox
from manilla.notify.events.kinds import event_type_of
from manilla.splits.rule import OWNER
from manilla.splits.share import Division, Share, ShareEvent, ShareStatus

EVENT = "split"


class SplitShare(msgspec.Struct, frozen=True):
    """A part of a payment."""

    receiver: Annotated[str, api_field("`owner`, a merchant's number, or the id of a sub-account.")]
    amount: Annotated[Decimal, api_field("Its share, after the commission.")]


class SplitInfo(msgspec.Struct, frozen=True):
    """How a payment is divided. The shares, the commission and the taxes are what is paid."""

    id: Annotated[str | None, api_field("The rule's id, or null if you sent the rule itself.")]
    version: Annotated[int | None, api_field("The rule's version, or null.")]
    shares: Annotated[list[SplitShare], api_field("The owner's and each receiver's share.")]


class ShareInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One receiver's share of a payment, for the receiver and for the owner."""

    trx_id: Annotated[str, api_field("The share's id in the receiver's statement.")]
    payment_trx_id: Annotated[str, api_field("The payment's id.")]
    merchant_id: Annotated[int, api_field("The receiver's merchant number.")]
    amount: Annotated[Decimal, api_field("The share.")]
    currency: Annotated[str, api_field("The currency.")]
    status: Annotated[str, api_field("The share's status.", enum=list(ShareStatus))]
    withheld: Annotated[Decimal, api_field("What is held until it is released.")]
    returned: Annotated[Decimal, api_field("What refunds and disputes took back.")]
    short: Annotated[Decimal, api_field("What of that the receiver's wallet did not cover.")]
    hold_until: Annotated[
        str | None,
        api_field("When it is released, or null: when the owner does it.", format="date-time"),
    ]
    created_at: Annotated[str, api_field("When the payment was credited.", format="date-time")]
    environment: Annotated[str, api_field("The environment.", enum=list(Environment))]


class ShareNotice(msgspec.Struct, frozen=True):
    event: str
    data: ShareInfo
    message: str
    status: str
    timestamp: int


def describe_division(division: Division, currency: str) -> SplitInfo:
    shares = [(OWNER, division.owner_minor)]
    shares += ((each.receiver, each.minor) for each in division.shares)
    described = [SplitShare(name, amount_of(currency, minor)) for name, minor in shares]
    return SplitInfo(division.id, division.version, described)


def describe(share: Share) -> ShareInfo:
    return ShareInfo(
        trx_id=share.trx_id,
        payment_trx_id=share.payment_trx_id,
        merchant_id=share.merchant_id,
        amount=share.amount.amount,
        currency=share.currency,
        status=share.status,
        withheld=share.withheld.amount,
        returned=share.returned.amount,
        short=share.short.amount,
        hold_until=None if share.hold_until is None else iso(share.hold_until),
        created_at=iso(share.created_at),
        environment=share.environment,
    )


def notice(merchant_id: int, share: Share, event: ShareEvent) -> Mapping[str, str]:
    """Returns the event for the receiver or the owner, as fields of an outcome."""
    message = f"Share {event.title()}"
    body = ShareNotice(EVENT, describe(share), message, share.status, int(time.time()))
    event_type = event_type_of(EVENT, event)
    return outbox.notice(merchant_id, "", body, EVENT, event_type, share.status)
