"""Completes delivered payouts in batches, with one SQL statement per batch.

Most payouts end this way. The stored function `payouts_undisputed` leaves out a payout that is
disputed or has changed. `states.apply_result` then processes that payout in a separate transaction.
"""

from collections.abc import Sequence

import msgspec

from manilla import metrics
from manilla.kit import crash, tracing
from manilla.kit.batch import RESULT_DELAY_SECONDS, Batcher
from manilla.kit.database.connections import Database
from manilla.ledger import outcomes
from manilla.ledger.outcomes import TransactionOutcome
from manilla.payouts import postings, states
from manilla.payouts.payout import REPORTED_COLUMNS, Payout, PayoutStatus
from manilla.transfers.events import TransferEvent, TransferResult

# The columns that the outcome depends on, and that another event may have changed.
_SEEN = ("status", "provider", "provider_fee_minor", *REPORTED_COLUMNS)


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
        """Completes the payout. Returns False if the payout needs `states.apply_result` instead."""
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
        items = [_outcome(each) for each in delivered]
        written = await outcomes.apply_undisputed(self._connection, items, "payouts_undisputed")
        metrics.payouts_decided.labels(TransferEvent.DELIVERED).inc(len(written))
        return [number in written for number in range(len(delivered))]


def _outcome(delivered: ReportedDelivery) -> TransactionOutcome:
    payout, event = delivered.payout, delivered.event
    after = states.after_event(payout, PayoutStatus.COMPLETED, event)
    seen = {name: getattr(payout, name) for name in _SEEN}
    return msgspec.structs.replace(
        states.outcome_of(payout, after, event, postings.delivery(after)),
        further={"amount": payout.amount.amount, "seen": seen},
    )
