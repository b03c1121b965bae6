"""A dispute holds, takes or returns its amount, whatever is reported in whatever order."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.disputes import store
from manilla.disputes.dispute import DisputeStatus
from manilla.providers.port import ReportedDisputeStatus
from manilla.refunds import initiate
from manilla.refunds.postings import RefundRefused
from manilla.resolutions import resolutions
from tests.disputes.steps import (
    ACCEPTED,
    LOST,
    NEEDS_RESPONSE,
    SUBMITTED,
    WON,
    Disputes,
    money,
    naira,
)


async def test_an_opened_dispute_withholds_its_amount(disputes: Disputes) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    assert dispute.trx_id.startswith("DSP")
    assert dispute.status is DisputeStatus.NEEDS_RESPONSE
    assert dispute.withheld == naira("1000")
    assert await disputes.money() == money(wallet=0, withheld=1000, taken=0)
    assert await disputes.events(dispute) == ["opened"]


@pytest.mark.parametrize(
    ("status", "wallet", "taken"), [(WON, 1000, 0), (LOST, 0, 1000), (ACCEPTED, 0, 1000)]
)
async def test_an_ended_dispute_returns_or_takes_its_amount(
    disputes: Disputes, status: ReportedDisputeStatus, wallet: int, taken: int
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    after = disputes.one(await disputes.report(paid.reported(status)))
    assert after.status.value == status.value
    assert after.outcome_at is not None
    assert await disputes.money() == money(wallet=wallet, withheld=0, taken=taken)
    assert await disputes.events(after) == ["opened", status.value]


@pytest.mark.parametrize("order", [(WON, LOST), (LOST, WON), (ACCEPTED, WON), (LOST, WON, LOST)])
async def test_a_corrected_outcome_moves_the_money_again(
    disputes: Disputes, order: tuple[ReportedDisputeStatus, ...]
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    for status in order:
        after = disputes.one(await disputes.report(paid.reported(status)))
    is_won = order[-1] is WON
    assert after.status.value == order[-1].value
    wallet = 1000 if is_won else 0
    assert await disputes.money() == money(wallet=wallet, taken=1000 - wallet)


@pytest.mark.parametrize("status", [WON, LOST, ACCEPTED, SUBMITTED])
async def test_a_dispute_that_ended_before_it_was_found_is_opened_and_ended(
    disputes: Disputes, status: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    dispute = disputes.one(await disputes.report(paid.reported(status)))
    assert dispute.status.value == status.value
    assert await disputes.events(dispute) == ["opened", status.value]


@pytest.mark.parametrize("status", [WON, LOST, SUBMITTED])
async def test_a_reopened_dispute_withholds_again(
    disputes: Disputes, status: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await disputes.report(paid.reported(status))
    after = disputes.one(
        await disputes.report(paid.reported(NEEDS_RESPONSE, stage="pre-arbitration"))
    )
    assert (after.status, after.stage) == (DisputeStatus.NEEDS_RESPONSE, "pre-arbitration")
    assert (await disputes.money())["withheld"] == 1000
    assert (await disputes.events(after))[-1] == "reopened"


async def test_the_same_report_changes_nothing(disputes: Disputes) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    again = disputes.one(await disputes.report(paid.reported(NEEDS_RESPONSE)))
    assert again == await disputes.now(dispute)
    assert await disputes.events(dispute) == ["opened"]


async def test_an_older_report_that_arrives_late_changes_nothing(disputes: Disputes) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    asked_at = datetime.now(UTC)
    await disputes.report(paid.reported(WON))
    await disputes.report(paid.reported(NEEDS_RESPONSE), asked_at=asked_at)
    assert (await disputes.now(dispute)).status is DisputeStatus.WON


async def test_a_dispute_that_is_found_many_times_at_once_is_opened_once(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    state = paid.reported(NEEDS_RESPONSE)
    found = await asyncio.gather(*(disputes.report(state) for _ in range(8)))
    assert len({disputes.one(each).trx_id for each in found}) == 1
    assert len(await disputes.of(paid)) == 1
    assert (await disputes.money())["withheld"] == 1000


async def test_outcomes_that_are_reported_at_once_move_the_money_once(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await asyncio.gather(*(disputes.report(paid.reported(LOST)) for _ in range(8)))
    assert await disputes.money() == money(taken=1000)


async def test_a_changed_amount_changes_what_is_withheld(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "400")
    after = disputes.one(await disputes.report(paid.reported(NEEDS_RESPONSE, "700")))
    assert (after.amount, after.withheld) == (naira("700"), naira("700"))
    assert (await disputes.money())["wallet"] == 300
    assert await disputes.events(after) == ["opened", "updated"]


async def test_several_disputes_of_a_payment_take_at_most_what_was_paid(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    first = await disputes.open(paid, "700")
    second = await disputes.open(paid, "700", provider_reference="D-2")
    assert (first.withheld, second.withheld) == (naira("700"), naira("300"))
    assert await disputes.shop.cases() == [("unknown_dispute", "providera:D-2")]
    [case] = [each for each in await cases.cases(disputes.db) if each.reference == "providera:D-2"]
    [option] = await resolutions.options(disputes.db, case)
    assert option.name is CaseAction.NOTHING
    assert "manilla settle fee" in option.explanation
    await disputes.report(paid.reported(WON, "700"))
    after = disputes.one(
        await disputes.report(paid.reported(LOST, "700", provider_reference="D-2"))
    )
    assert after.taken == naira("700")


async def test_the_case_of_an_uncovered_dispute_closes_when_the_payment_covers_it(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "700")
    second = await disputes.open(paid, "700", provider_reference="D-covered")
    merchant_id = disputes.tenant.merchant_id

    async def is_open() -> bool:
        return any(each.merchant_id == merchant_id for each in await cases.cases(disputes.db))

    assert await is_open()
    await disputes.report(paid.reported(WON, "700"))
    assert (await disputes.now(second)).withheld == naira("700")
    assert not await is_open()


async def test_a_dispute_above_the_amount_paid_takes_what_was_paid_and_opens_a_case(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid, "5000")
    assert dispute.withheld == naira("1000")
    assert (await disputes.shop.cases())[0][0] == "unknown_dispute"


@pytest.mark.parametrize(
    "changed",
    [
        {"charge_reference": "TXN-unknown"},
        {"charge_reference": None},
        {"charge_reference": None, "charge_provider_reference": "unknown"},
        {"amount": None},
    ],
)
async def test_a_dispute_that_fits_no_payment_opens_a_case_and_moves_no_money(
    disputes: Disputes, changed: dict[str, None]
) -> None:
    paid = await disputes.pay()
    before = await disputes.money()
    state = msgspec.structs.replace(paid.reported(NEEDS_RESPONSE), **changed)
    reported = await disputes.report(state)
    assert reported.dispute is None
    assert await disputes.money() == before
    reference = f"providera:D-{paid.charge.reference}"
    assert await disputes.db.has_row(
        "SELECT true FROM operator_case WHERE kind = 'unknown_dispute' AND reference = $1",
        reference,
    )


async def test_a_dispute_in_another_currency_moves_no_money(disputes: Disputes) -> None:
    paid = await disputes.pay()
    reported = await disputes.report(paid.reported(NEEDS_RESPONSE, currency="USD"))
    assert reported.problem == "The dispute is in USD, and the payment in NGN."
    assert (await disputes.money())["wallet"] == 1000


async def test_a_dispute_from_another_account_moves_no_money(disputes: Disputes) -> None:
    paid = await disputes.pay()
    reported = await disputes.report(paid.reported(NEEDS_RESPONSE), provider="providerb")
    assert reported.dispute is None
    assert "providera" in reported.problem
    assert (await disputes.money())["wallet"] == 1000


async def test_a_dispute_of_an_unpaid_payment_is_opened_once_the_payment_is_credited(
    disputes: Disputes,
) -> None:
    shop = disputes.shop
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, "providera-ngn")
    paid_later = disputes.paid(started, charge)
    reported = await disputes.report(paid_later.reported(NEEDS_RESPONSE))
    assert reported.dispute is None
    assert (await shop.cases())[0][0] == "unknown_dispute"
    await shop.pay(charge)
    await shop.simulator.run_job_now("charge", charge.reference)
    await shop.until(started, "success")
    await disputes.open(paid_later)
    assert not await disputes.db.has_row(
        "SELECT true FROM operator_case WHERE kind = 'unknown_dispute' AND status = 'open'"
        " AND merchant_id = $1",
        charge.merchant_id,
    )


async def test_the_providers_reference_of_a_charge_finds_its_payment(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.db.execute(
        "UPDATE charge SET provider_reference = 'P-77' WHERE merchant_id = $1 AND reference = $2",
        *(paid.charge.merchant_id, paid.charge.reference),
    )
    state = paid.reported(NEEDS_RESPONSE, charge_reference=None, charge_provider_reference="P-77")
    dispute = disputes.one(await disputes.report(state))
    assert dispute.payment_trx_id == paid.started.trx_id


async def test_a_refunded_payment_has_nothing_left_to_dispute(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await initiate.start(disputes.db, paid.started.trx_id, None, "returned goods")
    dispute = await disputes.open(paid)
    assert dispute.withheld == naira("0")
    assert (await disputes.shop.cases())[0][0] == "unknown_dispute"
    await disputes.report(paid.reported(LOST))
    assert (await disputes.money())["owed"] == 0


async def test_a_partly_refunded_payment_is_disputed_for_the_rest(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await initiate.start(disputes.db, paid.started.trx_id, "400", "returned goods")
    dispute = await disputes.open(paid)
    assert dispute.withheld == naira("600")
    assert await disputes.money() == money(wallet=0, withheld=600, taken=0)


async def test_a_refund_fits_beside_an_open_dispute_or_is_rejected(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "700")
    with pytest.raises(RefundRefused, match=r"At most ₦300\.00 .* ₦700\.00 of it is disputed"):
        await initiate.start(disputes.db, paid.started.trx_id, "300.01", "returned goods")
    await initiate.start(disputes.db, paid.started.trx_id, "300", "returned goods")
    with pytest.raises(RefundRefused, match=r"Nothing .* can be refunded"):
        await initiate.start(disputes.db, paid.started.trx_id, None, "returned goods")
    await disputes.report(paid.reported(WON, "700"))
    await initiate.start(disputes.db, paid.started.trx_id, "700", "returned goods")


async def test_a_refund_and_a_dispute_at_once_return_at_most_what_was_paid(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await asyncio.gather(
        disputes.report(paid.reported(NEEDS_RESPONSE)),
        initiate.start(disputes.db, paid.started.trx_id, None, "returned goods"),
        return_exceptions=True,
    )
    in_flight = await disputes.shop.account("in_flight") // 100
    assert await disputes.money() == money(withheld=1000 - in_flight)


async def test_a_dispute_won_after_a_refund_returns_only_its_own_money(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await disputes.report(paid.reported(WON))
    await initiate.start(disputes.db, paid.started.trx_id, None, "returned goods")
    after = disputes.one(await disputes.report(paid.reported(LOST)))
    assert after.taken == naira("0")


async def test_a_later_deadline_forgets_the_missed_one(disputes: Disputes) -> None:
    paid = await disputes.pay()
    past = datetime.now(UTC) - timedelta(hours=1)
    dispute = await disputes.open(paid, respond_by=past)
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).is_missed
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE
    after = disputes.one(await disputes.report(paid.reported(NEEDS_RESPONSE)))
    assert not after.is_missed
    assert await disputes.events(after) == ["opened", "deadline_missed", "updated"]


async def test_a_known_disputes_amount_need_not_be_reported_again(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "400")
    state = msgspec.structs.replace(paid.reported(LOST), amount=None)
    after = disputes.one(await disputes.report(state))
    assert (after.status, after.taken) == (DisputeStatus.LOST, naira("400"))


@pytest.mark.parametrize("status", [NEEDS_RESPONSE, LOST])
async def test_a_refund_that_fails_later_gives_the_dispute_its_whole_amount(
    disputes: Disputes, status: ReportedDisputeStatus
) -> None:
    await disputes.shop.simulator.control("a/faults", {"refunds": "failed"})
    paid = await disputes.pay()
    refund = await initiate.start(disputes.db, paid.started.trx_id, "400", "returned goods")
    dispute = await disputes.open(paid)
    assert dispute.withheld == naira("600")
    [beside] = await store.refunds_beside(disputes.db, dispute)
    assert beside.trx_id == refund.trx_id
    await disputes.report(paid.reported(status))
    for _ in range(2):
        await disputes.shop.simulator.run_job_now("refund", refund.trx_id)
    assert (await disputes.now(dispute)).holding.total == 1000_00
    is_open = status is NEEDS_RESPONSE
    withheld = 1000 if is_open else 0
    assert await disputes.money() == money(withheld=withheld, taken=1000 - withheld)


@pytest.mark.parametrize("is_decided", [False, True])
async def test_a_dispute_gets_what_a_refund_of_the_whole_payment_returns(
    disputes: Disputes, is_decided: bool
) -> None:
    await disputes.shop.simulator.control("a/faults", {"refunds": "failed"})
    paid = await disputes.pay()
    refund = await initiate.start(disputes.db, paid.started.trx_id, None, "returned goods")
    dispute = await disputes.open(paid)
    if is_decided:
        await disputes.report(paid.reported(LOST))
    await disputes.shop.simulator.run_jobs()
    for _ in range(2):
        await disputes.shop.simulator.run_job_now("refund", refund.trx_id)
    await disputes.shop.simulator.run_jobs()
    assert (await disputes.now(dispute)).holding.total == 1000_00


@pytest.mark.parametrize("status", [NEEDS_RESPONSE, LOST])
async def test_a_dispute_gets_what_another_dispute_of_the_payment_returns(
    disputes: Disputes, status: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    other = f"{paid.charge.reference}-2"
    await disputes.open(paid, "1000")
    second = await disputes.open(paid, "500", provider_reference=other)
    await disputes.report(paid.reported(status, "500", provider_reference=other))
    await disputes.shop.simulator.run_jobs()
    assert (await disputes.now(second)).holding.total == 0
    await disputes.report(paid.reported(WON))
    await disputes.shop.simulator.run_jobs()
    assert (await disputes.now(second)).holding.total == 500_00


async def test_a_report_of_a_host_whose_clock_is_ahead_does_not_hide_later_reports(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await disputes.report(paid.reported(NEEDS_RESPONSE), asked_at=tomorrow)
    after = disputes.one(await disputes.report(paid.reported(LOST)))
    assert after.status is DisputeStatus.LOST


@pytest.mark.parametrize(
    ("first", "then"), [(ACCEPTED, LOST), (LOST, ACCEPTED), (ACCEPTED, SUBMITTED)]
)
async def test_a_stage_that_nobody_saw_does_not_hide_its_outcome(
    disputes: Disputes, first: ReportedDisputeStatus, then: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    await disputes.report(paid.reported(first, "300" if first is ACCEPTED else "1000"))
    amount = "300" if then is ACCEPTED else "1000"
    after = disputes.one(await disputes.report(paid.reported(then, amount)))
    assert after.status.value == then.value
    assert after.holding.total == naira(amount).minor
