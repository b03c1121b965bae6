"""Completes delivered payouts in batches, with one SQL statement per batch.

Most payouts end this way. The stored function `payout_deliver` skips a payout that is disputed or
has changed. `states.settle` then processes that payout in a separate transaction.
"""

from collections.abc import Sequence

import msgspec

from manilla import metrics
from manilla.kit import crash, tracing
from manilla.kit.batch import RESULT_DELAY_SECONDS, Batcher
from manilla.kit.database.connections import Database
from manilla.notify import outbox
from manilla.notify.events.kinds import EventType
from manilla.payouts import states
from manilla.payouts.fields import EVENT, describe_notice
from manilla.payouts.payout import REPORTED_COLUMNS, Payout, PayoutStatus
from manilla.transfers.events import TransferEvent, TransferResult


class ReportedDelivery(msgspec.Struct, frozen=True):
    """A payout, as loaded before the provider's response, and the provider's report."""

    payout: Payout
    event: TransferResult


class DeliveredPayouts:
    def __init__(self, db: Database) -> None:
        self._connection = db.keep_connection(writes=True)
        self._batcher: Batcher[ReportedDelivery, bool] = Batcher(
            self._complete, delay_seconds=RESULT_DELAY_SECONDS
        )

    async def complete(self, payout: Payout, event: TransferResult) -> bool:
        """Completes the payout. Returns False if the payout needs `states.settle` instead."""
        if event.event is not TransferEvent.DELIVERED or not payout.is_open or payout.is_sandbox:
            return False
        # A crash during the SQL statement leaves nothing, like a crash before it.
        crash.point("between_status_and_refund")
        crash.point("before_payout_commit")
        with tracing.step("settle"):
            is_completed = await self._batcher.submit(ReportedDelivery(payout, event))
        if is_completed:
            crash.point("after_payout_commit")
        return is_completed

    async def _complete(self, delivered: Sequence[ReportedDelivery]) -> list[bool]:
        items = msgspec.json.encode([_item(*each) for each in enumerate(delivered)]).decode()
        records = await self._connection.records(
            "SELECT item FROM payout_deliver($1::jsonb)", items
        )
        metrics.payouts_decided.labels(TransferEvent.DELIVERED).inc(len(records))
        completed = {record["item"] for record in records}
        return [number in completed for number in range(len(delivered))]


def _item(number: int, delivered: ReportedDelivery) -> dict[str, object]:
    payout, event = delivered.payout, delivered.event
    fee = event.provider_fee
    after = msgspec.structs.replace(
        payout, status=PayoutStatus.COMPLETED, **states.references_after(payout, event)
    )
    return {
        "item": number,
        "merchant_id": payout.merchant_id,
        "trx_id": payout.trx_id,
        "environment": payout.environment,
        "provider": payout.provider,
        "amount": payout.amount.amount,
        "known": {name: getattr(payout, name) for name in REPORTED_COLUMNS},
        **{name: getattr(after, name) for name in REPORTED_COLUMNS},
        "provider_fee_minor": None if fee is None else fee.minor,
        "step": event.event,
        "status": after.status,
        "detail": states.detail_of(event),
        **outbox.outcome(
            *(payout.merchant_id, payout.ipn_url, describe_notice(after), EVENT),
            *(EventType.PAYOUT_COMPLETED, after.status),
        ),
    }
