"""A payout was moved to another rail, and the previous rail reports that it pays too."""

import pytest

from manilla.kit import jobs
from manilla.payouts import states
from manilla.payouts.batch_delivery import DeliveredPayouts
from manilla.payouts.initiate import SEND
from manilla.payouts.payout import PayoutStatus
from manilla.providers.inbox import WebhookInbox
from manilla.providers.port import TransferState, TransferStatus, WebhookEvent, WebhookSubject
from manilla.transfers.events import event_of
from tests.payouts.routing.routed import REFUSED, RoutedPayouts


@pytest.mark.parametrize("how", ["alone", "together"])
async def test_a_webhook_of_a_left_rail_opens_a_case_although_the_payout_is_being_completed(
    routed: RoutedPayouts, how: str
) -> None:
    """The webhook arrives after the worker has checked the left rail."""
    trx_id = await routed.pay_out()
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    payout, db = await routed.payer.payout(trx_id), routed.services.db
    assert payout.provider == "providerb"
    paid_too = WebhookEvent(WebhookSubject.TRANSFER, trx_id, None, TransferStatus.DELIVERED)
    await WebhookInbox(db).store("providera", paid_too, b"{}")
    event = event_of(TransferState(TransferStatus.DELIVERED, payout.amount))
    if how == "alone" or not await DeliveredPayouts(db).complete(payout, event):
        assert await states.apply_result(
            *(db, payout.merchant_id, trx_id, event), provider=payout.provider
        )
    assert (await routed.payer.payout(trx_id)).status is PayoutStatus.COMPLETED
    await routed.simulator.run_job_now(SEND, trx_id)
    assert await routed.payer.cases() == [("contradiction", trx_id)]
    assert await jobs.due_at(db, payout.merchant_id, SEND, trx_id) is None
