"""Notifications to merchants about the final status of a payout."""

import time
from typing import Any

from manilla.kit.db import Connection
from manilla.notify import outbox
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.verify import EVENT

MESSAGES = {
    PayoutStatus.COMPLETED: "Payout Completed",
    PayoutStatus.FAILED: "Payout Failed",
    PayoutStatus.CANCELED: "Payout Canceled",
}
REVERSED = "Payout Reversed"


async def tell_of_payout(connection: Connection, payout: Payout) -> None:
    """Queues the notification in the transaction that changes the status, if ipn_url is set."""
    if not payout.ipn_url:
        return
    payload = {
        "event": EVENT,
        "data": _data(payout),
        "message": REVERSED if payout.is_reversed else MESSAGES[payout.status],
        "status": payout.status,
        "timestamp": int(time.time()),
    }
    if payout.status is not PayoutStatus.COMPLETED:
        payload |= _failure(payout)
    await outbox.enqueue(
        connection,
        merchant_id=payout.merchant_id,
        environment=payout.environment,
        trx_id=payout.trx_id,
        url=payout.ipn_url,
        payload=payload,
        event=EVENT,
        status=payout.status,
    )


def _data(payout: Payout) -> dict[str, Any]:
    data = {
        "ref_trx": payout.ref_trx,
        "trx_id": payout.trx_id,
        "ipn_url": payout.ipn_url,
        "environment": payout.environment,
        "is_sandbox": payout.is_sandbox,
        "api_merchant_payout": payout.is_by_api,
        "payout_amount": payout.amount.amount,
        "currency_code": payout.currency,
        "withdraw_method_id": payout.method_id,
        "withdraw_method": payout.method_name,
    }
    return data if payout.status is PayoutStatus.COMPLETED else data | _failure(payout)


def _failure(payout: Payout) -> dict[str, Any]:
    """Added both to `data` and beside it, so that receivers find it in either place."""
    return {"refunded_amount": payout.payable.amount, "error_code": payout.error_code}
