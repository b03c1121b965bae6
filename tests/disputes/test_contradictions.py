"""Late and contradicting reports neither release money that was lost nor take it twice."""

from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from manilla.disputes import manual
from manilla.disputes.dispute import AnswerState, Dispute, DisputeStatus
from manilla.disputes.manual import NothingToRelease
from manilla.disputes.service import BadAcceptedAmount
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.payment import SANDBOX
from manilla.providers.kinds.providera import ProviderA
from manilla.providers.port import Answer, DisputeAnswer, DisputeState, ReportedDisputeStatus
from manilla.refunds import initiate
from manilla.refunds.postings import RefundRefused
from tests.disputes.dispute_api import DisputeApi, rejected
from tests.disputes.steps import (
    ACCEPTED,
    LOST,
    NEEDS_RESPONSE,
    SUBMITTED,
    WON,
    Disputes,
    Paid,
    money,
    naira,
)


class DecidingApi(DisputeApi):
    """A provider that decides a dispute while it is being answered, and rejects the answer."""

    def __init__(self, disputes: Disputes, paid: Paid, status: ReportedDisputeStatus) -> None:
        super().__init__()
        self.disputes, self.paid, self.status = disputes, paid, status

    async def answer(self, _answer: DisputeAnswer) -> Answer[DisputeState]:
        await self.disputes.report(self.paid.reported(self.status))
        return rejected("The dispute has ended.")


async def _accept(disputes: Disputes, dispute: Dispute, answer: AnswerState) -> None:
    """Accepts a quarter of the dispute."""
    await disputes.service.accept(disputes.tenant, dispute.trx_id, Decimal(250))
    await disputes.db.execute(
        "UPDATE dispute SET answer = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(dispute.merchant_id, dispute.trx_id, answer),
    )


@pytest.mark.parametrize("status", [NEEDS_RESPONSE, LOST])
async def test_what_one_dispute_releases_covers_the_payments_other_dispute(
    disputes: Disputes, status: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "700")
    second = paid.reported(status, "700", provider_reference=f"D-2-{paid.charge.reference}")
    other = disputes.one(await disputes.report(second))
    assert other.holding.total == 300_00
    await disputes.report(paid.reported(WON, "700"))
    assert (await disputes.now(other)).holding.total == 700_00
    taken = 700 if status is LOST else 0
    assert await disputes.money() == money(wallet=300, withheld=700 - taken, taken=taken)


async def test_a_report_about_another_charge_changes_no_dispute(disputes: Disputes) -> None:
    first, second = await disputes.pay(), await disputes.pay()
    dispute = await disputes.open(first)
    state = second.reported(WON, provider_reference=dispute.provider_reference)
    reported = await disputes.report(state)
    assert reported.problem == "The dispute was opened for another charge. Nothing was changed."
    assert await disputes.money() == money(wallet=1000, withheld=1000)
    assert [each[0] for each in await disputes.shop.cases()] == ["unknown_dispute"]


async def test_a_dispute_of_the_sandbox_is_not_about_a_production_payment(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    state = paid.reported(NEEDS_RESPONSE, charge_reference=paid.started.trx_id)
    reported = await disputes.report(state, provider=SANDBOX)
    assert reported.problem == "A dispute at sandbox cannot be about a production payment."
    assert await disputes.money() == money(wallet=1000)


async def test_a_partly_accepted_dispute_that_is_lost_later_takes_all(disputes: Disputes) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    await _accept(disputes, dispute, AnswerState.SENT)
    await disputes.report(paid.reported(ACCEPTED))
    assert await disputes.money() == money(wallet=750, taken=250)
    await disputes.report(paid.reported(LOST))
    assert await disputes.money() == money(taken=1000)


@pytest.mark.parametrize("answer", [AnswerState.WAITING, AnswerState.REVIEW])
async def test_an_acceptance_that_was_not_sent_does_not_limit_what_is_taken(
    disputes: Disputes, answer: AnswerState
) -> None:
    paid = await disputes.pay()
    await _accept(disputes, await disputes.open(paid), answer)
    await disputes.report(paid.reported(ACCEPTED))
    assert await disputes.money() == money(taken=1000)


async def test_an_acceptance_that_an_administrator_sent_limits_what_is_taken(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await _accept(disputes, await disputes.open(paid), AnswerState.MANUAL)
    await disputes.report(paid.reported(ACCEPTED))
    assert await disputes.money() == money(wallet=750, taken=250)


@pytest.mark.parametrize("status", [WON, LOST])
async def test_an_answer_that_was_not_sent_ends_with_its_dispute(
    disputes: Disputes, status: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    await _accept(disputes, await disputes.open(paid), AnswerState.REVIEW)
    ended = disputes.one(await disputes.report(paid.reported(status)))
    with pytest.raises(NothingToRelease):
        await manual.return_to_merchant(disputes.db, disputes.settings, ended, "Add the receipt.")
    after = disputes.one(await disputes.report(paid.reported(SUBMITTED)))
    assert (after.answer, after.accepted_minor) == (None, None)


@pytest.mark.parametrize("status", [WON, LOST])
async def test_a_rejected_answer_does_not_reopen_a_dispute_that_has_ended(
    disputes: Disputes, monkeypatch: pytest.MonkeyPatch, status: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    api = DecidingApi(disputes, paid, status)
    monkeypatch.setattr(ProviderA, "disputes", api)
    dispute = await disputes.open(paid)
    await disputes.service.accept(disputes.tenant, dispute.trx_id)
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).status.value == status.value
    assert await disputes.events(dispute) == ["opened", "submitted", status.value]


async def test_a_report_that_changes_nothing_still_makes_earlier_requests_old(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    await disputes.report(paid.reported(LOST))
    asked_at = datetime.now(UTC)
    await disputes.report(paid.reported(LOST))
    await disputes.report(paid.reported(WON), asked_at=asked_at)
    assert (await disputes.now(dispute)).status is DisputeStatus.LOST


async def test_a_request_from_before_an_administrator_answered_reopens_nothing(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, "It was delivered.")
    submitted = await disputes.service.submit(disputes.tenant, dispute.trx_id)
    asked_at = datetime.now(UTC)
    rails = disputes.shop.services.rails
    await manual.release(disputes.db, rails, disputes.settings, submitted, "sent")
    await disputes.report(paid.reported(NEEDS_RESPONSE), asked_at=asked_at)
    assert (await disputes.now(dispute)).answer is AnswerState.SENT


async def test_what_was_refunded_is_not_accepted_too(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await initiate.start(disputes.db, paid.started.trx_id, "400", "returned goods")
    dispute = await disputes.open(paid)
    with pytest.raises(BadAcceptedAmount):
        await disputes.service.accept(disputes.tenant, dispute.trx_id, Decimal("600.01"))
    accepted = await disputes.service.accept(disputes.tenant, dispute.trx_id)
    assert accepted.accepted == naira("600")


async def test_a_dispute_of_a_refunded_payment_is_not_accepted(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await initiate.start(disputes.db, paid.started.trx_id, None, "returned goods")
    dispute = await disputes.open(paid)
    with pytest.raises(BadAcceptedAmount):
        await disputes.service.accept(disputes.tenant, dispute.trx_id)


async def test_an_amount_that_the_provider_lowers_lowers_what_is_accepted(
    disputes: Disputes, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = DisputeApi()
    monkeypatch.setattr(ProviderA, "disputes", api)
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    await disputes.service.accept(disputes.tenant, dispute.trx_id)
    lowered = paid.reported(NEEDS_RESPONSE, "400")
    api.show(lowered)
    await disputes.report(lowered)
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert [each.amount for each in api.answers] == [naira("400")]
    assert await disputes.money() == money(wallet=600, taken=400)


async def test_the_commission_is_refunded_only_without_a_dispute(disputes: Disputes) -> None:
    await disputes.shop.set_commission("2", CommissionBearer.CUSTOMER)
    paid = await disputes.pay()
    await disputes.open(paid, "500")
    start = disputes.db, paid.started.trx_id, None, "returned goods"
    with pytest.raises(RefundRefused, match="while a part of the payment is disputed"):
        await initiate.start(*start, on_behalf=True, with_commission=True)
    await initiate.start(*start)
    await disputes.report(paid.reported(WON, "500"))
    await initiate.start(*start, on_behalf=True, with_commission=True)
    assert await disputes.shop.account("commission") == 0
    assert await disputes.shop.account("in_flight") == 1020_00


async def test_a_lost_dispute_that_was_refunded_meanwhile_opens_a_case(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await disputes.report(paid.reported(WON))
    await initiate.start(disputes.db, paid.started.trx_id, None, "returned goods")
    await disputes.report(paid.reported(LOST))
    assert [each[0] for each in await disputes.shop.cases()] == ["unknown_dispute"]


async def test_an_amount_that_grows_above_what_was_paid_opens_a_case(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    grown = msgspec.structs.replace(paid.reported(LOST), amount=naira("5000"))
    await disputes.report(grown)
    assert [each[0] for each in await disputes.shop.cases()] == ["unknown_dispute"]
