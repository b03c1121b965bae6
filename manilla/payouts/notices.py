"""Notifications and emails to merchants about payouts.

Emails are sent only about the production environment.
"""

import time
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from manilla.kit.db import Connection
from manilla.kit.display import money
from manilla.mail import outbox as mail
from manilla.mail.kinds import MailKind
from manilla.merchants.directory import Caller
from manilla.notify import outbox
from manilla.notify.events.kinds import EventType
from manilla.payouts.payout import NewPayout, Payout, PayoutStatus
from manilla.payouts.verify import EVENT

MESSAGES = {
    PayoutStatus.PENDING: "Payout Pending",
    PayoutStatus.COMPLETED: "Payout Completed",
    PayoutStatus.FAILED: "Payout Failed",
    PayoutStatus.CANCELED: "Payout Canceled",
}
REVERSED = "Payout Reversed"


class PayoutNoticeData(msgspec.Struct, frozen=True, omit_defaults=True):
    ref_trx: str
    trx_id: str
    ipn_url: str
    environment: str
    is_sandbox: bool
    api_merchant_payout: bool
    payout_amount: Decimal
    currency_code: str
    withdraw_method_id: int
    withdraw_method: str
    session_id: str | UnsetType | None = UNSET  # only if the payout was delivered
    refunded_amount: Decimal | None = None
    error_code: str | None = None


class PayoutNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """For a payout that was not delivered, the last two fields are also in `data`.

    Receivers find them in either place.
    """

    event: str
    data: PayoutNoticeData
    message: str
    status: str
    timestamp: int
    refunded_amount: Decimal | None = None
    error_code: str | None = None


async def enqueue(connection: Connection, payout: Payout) -> None:
    """Queues the notification in the transaction that changes the status.

    Without `ipn_url` it is only an event.
    """
    event_type = EventType(f"{EVENT}.{payout.status}")
    await outbox.enqueue(
        connection,
        merchant_id=payout.merchant_id,
        environment=payout.environment,
        trx_id=payout.trx_id,
        url=payout.ipn_url,
        payload=notice_of(payout),
        event=EVENT,
        type=EventType.PAYOUT_REVERSED if payout.is_reversed else event_type,
        status=payout.status,
    )


def pending(caller: Caller, new: NewPayout) -> dict[str, str]:
    """Returns the event of a new payout; nothing if no endpoint receives it."""
    if EVENT not in caller.pending_events:
        return {}
    rest: dict[str, Any] = dict.fromkeys(Payout.__struct_fields__)
    rest |= {**msgspec.structs.asdict(new), "status": PayoutStatus.PENDING, "is_reversed": False}
    payout = Payout(**rest)
    return outbox.pending(caller.merchant_id, EVENT, notice_of(payout))


def notice_of(payout: Payout) -> PayoutNotice:
    is_completed = payout.status is PayoutStatus.COMPLETED
    has_ended = payout.status in (PayoutStatus.FAILED, PayoutStatus.CANCELED)
    refunded_amount = payout.payable.amount if has_ended else None
    error_code = payout.error_code if has_ended else None
    return PayoutNotice(
        event=EVENT,
        data=PayoutNoticeData(
            ref_trx=payout.ref_trx,
            trx_id=payout.trx_id,
            ipn_url=payout.ipn_url,
            environment=payout.environment,
            is_sandbox=payout.is_sandbox,
            api_merchant_payout=payout.is_by_api,
            payout_amount=payout.amount.amount,
            currency_code=payout.currency,
            withdraw_method_id=payout.method_id,
            withdraw_method=payout.method_name,
            session_id=payout.session_id if is_completed else UNSET,
            refunded_amount=refunded_amount,
            error_code=error_code,
        ),
        message=REVERSED if payout.is_reversed else MESSAGES[payout.status],
        status=payout.status,
        timestamp=int(time.time()),
        refunded_amount=refunded_amount,
        error_code=error_code,
    )


async def report_failure(connection: Connection, payout: Payout) -> None:
    """Emails that the payout's money is back in the wallet."""
    if payout.is_sandbox:
        return
    is_canceled = payout.status is PayoutStatus.CANCELED
    what = "was returned" if payout.is_reversed else "was canceled" if is_canceled else "failed"
    facts = {**_facts(payout), "what": what, "reason": payout.guidance or ""}
    await _mail(connection, MailKind.PAYOUT_FAILED, payout, facts)


async def report_large(connection: Connection, payout: Payout) -> None:
    by = "with the API" if payout.ordered_by is None else f"by {payout.ordered_by}"
    await _mail(connection, MailKind.LARGE_PAYOUT, payout, {**_facts(payout), "by": by})


async def _mail(
    connection: Connection, kind: MailKind, payout: Payout, facts: dict[str, str]
) -> None:
    path = f"/dashboard/{payout.environment}/payouts/{payout.trx_id}"
    await mail.put(connection, kind, facts, path=path, merchant_id=payout.merchant_id)


def _facts(payout: Payout) -> dict[str, str]:
    ending = f"account ending in {payout.account_number[-4:]}"
    return {
        "amount": money(payout.amount),
        "beneficiary": ", ".join(filter(None, (payout.account_name, ending))),
        "reference": payout.ref_trx,
        "trx_id": payout.trx_id,
    }
