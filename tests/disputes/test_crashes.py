"""A crash at any step of a dispute neither loses nor repeats a movement or an answer."""

import contextlib

import pytest

from manilla.disputes.dispute import AnswerState, DisputeStatus
from manilla.providers.kinds.providera import ProviderA
from tests.disputes.dispute_api import DisputeApi
from tests.disputes.steps import LOST, NEEDS_RESPONSE, WON, Disputes, money
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at

COMMITS = ("before_dispute_commit", "after_dispute_commit")


@pytest.mark.parametrize("point", COMMITS)
async def test_a_crash_while_a_dispute_is_opened_withholds_its_amount_once(
    disputes: Disputes, point: str
) -> None:
    paid = await disputes.pay()
    with dying_at(point), pytest.raises(Killed):
        await disputes.report(paid.reported(NEEDS_RESPONSE))
    await disputes.open(paid)
    assert len(await disputes.of(paid)) == 1
    assert await disputes.money() == money(withheld=1000)


@pytest.mark.parametrize("point", COMMITS)
async def test_a_crash_while_a_dispute_ends_moves_the_money_once(
    disputes: Disputes, point: str
) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.open(paid)
    for status in (WON, LOST):
        with dying_at(point), pytest.raises(Killed):
            await disputes.report(paid.reported(status))
        await disputes.report(paid.reported(status))
    assert await disputes.money() == money(owed=1000, taken=1000)


@pytest.mark.parametrize("point", ["before_dispute_answer", "after_dispute_answer"])
async def test_a_crash_while_an_answer_is_sent_sends_it_once(
    disputes: Disputes, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    api = DisputeApi()
    monkeypatch.setattr(ProviderA, "disputes", api)
    paid = await disputes.pay()
    api.show(paid.reported(NEEDS_RESPONSE))
    dispute = await disputes.open(paid)
    await disputes.service.accept(disputes.tenant, dispute.trx_id)
    with dying_at(point), contextlib.suppress(Killed):
        await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).answer is AnswerState.SENDING
    await disputes.db.execute(
        "UPDATE job SET lease = NULL, leased_until = NULL WHERE subject = $1", dispute.trx_id
    )
    for _ in range(2):
        await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).status is DisputeStatus.ACCEPTED
    assert len(api.answers) == 1
    assert await disputes.money() == money(taken=1000)
