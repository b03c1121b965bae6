"""Notifications and emails to merchants about payouts.

Emails are sent only about the production environment.
"""

from typing import Any

import msgspec

from manilla.kit.database.connections import Connection
from manilla.kit.display import money
from manilla.mail import outbox as mail
from manilla.mail.kinds import MailKind
from manilla.merchants.directory import Caller
from manilla.notify import outbox
from manilla.notify.events.kinds import event_type_of
from manilla.payouts.fields import EVENT, describe_notice
from manilla.payouts.payout import NewPayout, Payout, PayoutStatus


def notice(payout: Payout) -> dict[str, str]:
    """Returns the notification about the payout's status, as fields of its outcome."""
    event_type = event_type_of(EVENT, "reversed" if payout.is_reversed else payout.status)
    return outbox.notice(
        *(payout.merchant_id, payout.ipn_url, describe_notice(payout), EVENT),
        *(event_type, payout.status),
    )


def pending(caller: Caller, new: NewPayout) -> dict[str, str]:
    """Returns the event for a new payout, or an empty dict if no endpoint is subscribed to it."""
    if EVENT not in caller.pending_events:
        return {}
    rest: dict[str, Any] = dict.fromkeys(Payout.__struct_fields__)
    rest |= {**msgspec.structs.asdict(new), "status": PayoutStatus.PENDING, "is_reversed": False}
    payout = Payout(**rest)
    return outbox.pending(caller.merchant_id, EVENT, describe_notice(payout))


async def report_failure(connection: Connection, payout: Payout) -> None:
    """Emails the merchant that the payout's amount and fee are back in the wallet."""
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
