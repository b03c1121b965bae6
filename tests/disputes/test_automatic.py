"""Small disputes are accepted automatically where the merchant chose it."""

from datetime import UTC, datetime

import pytest

from manilla.disputes.dispute import AnswerState, DisputeStatus
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.merchants.wallets import BadDisputeLimit
from manilla.platform.settings import PlatformSettings
from manilla.providers.kinds.providera import ProviderA
from tests.disputes.dispute_api import DisputeApi
from tests.disputes.steps import ACCEPTED, LOST, NEEDS_RESPONSE, Disputes, money, naira


async def _accept_below(
    disputes: Disputes, limit: str, environment: Environment = Environment.PRODUCTION
) -> None:
    await wallets.accept_disputes_below(
        disputes.db, disputes.tenant.merchant_id, environment, naira(limit)
    )


async def _details(disputes: Disputes, event: str) -> list[str]:
    records = await disputes.db.records(
        "SELECT detail FROM timeline WHERE merchant_id = $1 AND event = $2",
        *(disputes.tenant.merchant_id, f"dispute_{event}"),
    )
    return [record["detail"] for record in records]


async def test_a_dispute_below_the_merchants_limit_is_accepted_at_the_provider(
    disputes: Disputes, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = DisputeApi()
    monkeypatch.setattr(ProviderA, "disputes", api)
    await _accept_below(disputes, "1000.01")
    paid = await disputes.pay()
    api.show(paid.reported(NEEDS_RESPONSE))
    dispute = await disputes.open(paid)
    assert (dispute.status, dispute.answer) == (DisputeStatus.SUBMITTED, AnswerState.WAITING)
    assert dispute.accepted == naira("1000")
    assert await disputes.events(dispute) == ["opened", "submitted"]
    [detail] = await _details(disputes, "submitted")
    assert "accepted automatically" in detail
    assert await disputes.money() == money(withheld=1000)
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    [sent] = api.answers
    assert (sent.is_accepted, sent.amount) == (True, naira("1000"))
    after = disputes.one(await disputes.report(paid.reported(ACCEPTED)))
    assert after.status is DisputeStatus.ACCEPTED
    assert await disputes.money() == money(taken=1000)


@pytest.mark.parametrize("limit", ["0", "1000"])
async def test_a_dispute_that_is_not_below_the_limit_waits_for_the_merchant(
    disputes: Disputes, limit: str
) -> None:
    await _accept_below(disputes, limit)
    dispute = await disputes.open(await disputes.pay())
    assert (dispute.status, dispute.answer) == (DisputeStatus.NEEDS_RESPONSE, None)


async def test_the_limit_holds_only_in_its_environment(disputes: Disputes) -> None:
    await _accept_below(disputes, "5000", Environment.SANDBOX)
    dispute = await disputes.open(await disputes.pay())
    assert dispute.status is DisputeStatus.NEEDS_RESPONSE


async def test_only_a_new_dispute_is_accepted_automatically(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await _accept_below(disputes, "5000")
    for status in (NEEDS_RESPONSE, LOST, NEEDS_RESPONSE):
        after = disputes.one(await disputes.report(paid.reported(status)))
    assert (after.status, after.answer) == (DisputeStatus.NEEDS_RESPONSE, None)


async def test_a_dispute_that_has_ended_or_is_late_is_not_accepted_automatically(
    disputes: Disputes,
) -> None:
    await _accept_below(disputes, "5000")
    ended = disputes.one(await disputes.report((await disputes.pay()).reported(LOST)))
    assert (ended.status, ended.accepted) == (DisputeStatus.LOST, None)
    past = datetime(2026, 1, 1, tzinfo=UTC)
    late = await disputes.open(await disputes.pay(), respond_by=past)
    assert (late.status, late.accepted) == (DisputeStatus.NEEDS_RESPONSE, None)


async def test_an_administrator_sends_the_acceptance_if_the_provider_has_no_api(
    disputes: Disputes,
) -> None:
    await _accept_below(disputes, "5000")
    dispute = await disputes.open(await disputes.pay())
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).answer is AnswerState.MANUAL


async def test_an_administrator_reviews_an_automatic_acceptance_if_the_platform_wants(
    disputes: Disputes,
) -> None:
    await _accept_below(disputes, "5000")
    disputes.settings = PlatformSettings(dispute_review=True)
    dispute = await disputes.open(await disputes.pay())
    assert dispute.answer is AnswerState.REVIEW


async def test_a_change_of_the_limit_is_in_the_audit_log(disputes: Disputes) -> None:
    for limit in ("500", "500", "0"):
        await _accept_below(disputes, limit)
    records = await disputes.db.records(
        "SELECT detail FROM audit WHERE action = 'wallet.accept_disputes_below'"
        " AND merchant_id = $1 ORDER BY id",
        disputes.tenant.merchant_id,
    )
    assert len(records) == 2


async def test_a_negative_limit_is_rejected(disputes: Disputes) -> None:
    with pytest.raises(BadDisputeLimit):
        await wallets.accept_disputes_below(
            *(disputes.db, disputes.tenant.merchant_id, Environment.PRODUCTION),
            Money("NGN", -1),
        )
