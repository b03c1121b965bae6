"""Bank transfers of a wrong amount are credited, kept until the rest arrives, returned or held."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction, CaseRefused
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.money import Money
from manilla.ledger import invariants
from manilla.merchants import outgoing, wallets
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.merchants.wallets import WalletStatus
from manilla.payments import states
from manilla.payments.invariants import PAYMENTS
from manilla.payments.payment import Charge, PaymentErrorCode
from manilla.payments.states import PaymentEvent
from manilla.platform import settings as platform
from manilla.providers.port import ChargeState, ReportedChargeStatus
from manilla.refunds import decisions, initiate, returns
from manilla.refunds import store as refunds
from manilla.refunds.postings import RefundRefused
from manilla.refunds.refund import Refund, RefundStatus
from manilla.refunds.returns import NothingToReturn
from manilla.resolutions import resolutions
from manilla.resolutions.resolutions import AmountChanged
from manilla.sql.runner import FOLDER
from tests.payments import webhooks
from tests.payments.shop import HOLD, Shop, Started
from tests.refunds.test_on_hold import DISABLE, OFF, _sent

A, CARD = "providera_ngn_va", "providerc-ngn"
SETTLE = MerchantUpdate(overpaid=OverpaidRule.SETTLE)
ASK = MerchantUpdate(underpaid=UnderpaidRule.ASK)
ASK_AND_SETTLE = MerchantUpdate(overpaid=OverpaidRule.SETTLE, underpaid=UnderpaidRule.ASK)


async def _start(shop: Shop, rules: MerchantUpdate) -> Started:
    await shop.change(rules)
    return await shop.start(payment_amount=1000)


async def _overpaid(shop: Shop, amount: float = 1250) -> tuple[Started, Charge]:
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, A)
    await shop.pay(charge, amount=amount)
    await shop.until(started, "success")
    return started, charge


async def _part(shop: Shop, started: Started, amount: float = 700) -> Charge:
    charge = await shop.choose(started, A)
    await shop.pay(charge, amount=amount)
    await shop.until_charge(charge, "part")
    return charge


async def _refunds(shop: Shop, started: Started) -> list[Refund]:
    return await refunds.refunds_of(shop.services.db, shop.merchant.new.id, started.trx_id)


async def _until_returned(
    shop: Shop, started: Started, status: RefundStatus = RefundStatus.COMPLETED
) -> Refund:
    async def is_so() -> bool:
        found = await _refunds(shop, started)
        return bool(found) and all(each.status is status for each in found)

    await shop.simulator.until(is_so)
    return (await _refunds(shop, started))[0]


async def _expire(shop: Shop, started: Started) -> None:
    await shop.simulator.run_job_now("payment.expire", started.trx_id)
    await shop.until(started, "failed")


@pytest.fixture(autouse=True)
async def _the_ledger_is_right(shop: Shop) -> AsyncIterator[None]:
    yield
    for each in (*invariants.LEDGER, *PAYMENTS):
        assert await shop.services.db.records(each.violations) == [], each.name


@pytest.mark.parametrize("amount", [999.99, 1000.01])
async def test_a_merchant_can_hold_every_wrong_amount(shop: Shop, amount: float) -> None:
    await shop.change(HOLD)
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, A)
    await shop.pay(charge, amount=amount)
    await shop.until_charge(charge, "suspense")
    assert (await shop.status(started), await shop.balance()) == ("pending", 0)
    assert await shop.cases() == [("wrong_amount", charge.reference)]
    assert "amount_received" not in (await shop.verify(started)).json


async def test_an_overpayment_settles_and_its_surplus_is_refunded(shop: Shop) -> None:
    started, charge = await _overpaid(shop)
    assert await shop.balance() == 100_000
    verified = (await shop.verify(started)).json
    assert (verified["amount"], verified["commission"]["customer_paid"]) == (1000, 1000)
    assert verified["amount_received"] == 1250
    refund = await _until_returned(shop, started)
    assert (refund.amount_minor, refund.charge_reference) == (25_000, charge.reference)
    assert await shop.balance() == 100_000
    assert [await shop.account(each) for each in ("customer_credit", "in_flight")] == [0, 0]
    assert await shop.cases() == []
    completed, returned = await shop.notifications(started)
    assert completed["data"]["amount_received"] == 1250
    assert returned["data"]["refund_amount"] == 250
    assert returned["data"]["refund_source"] == "customer_credit"
    reply = await shop.merchant.get(f"/api/v1/verify-refund/{refund.trx_id}")
    assert (reply.json["amount"], reply.json["source"]) == (250, "customer_credit")


async def test_a_surplus_has_its_own_account_until_it_is_returned(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"refunds": "pending"})
    started, charge = await _overpaid(shop)
    assert await shop.account("customer_credit") + await shop.account("in_flight") == 25_000
    assert (await shop.payment(started)).refundable.minor == 100_000
    assert (await shop.charge(charge)).paid_minor == 125_000


async def test_the_amount_itself_is_still_refundable_but_not_more(shop: Shop) -> None:
    started, _ = await _overpaid(shop)
    await _until_returned(shop, started)
    with pytest.raises(RefundRefused, match="At most"):
        await initiate.start(shop.services.db, started.trx_id, "1000.01", "Returned goods")
    await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await _until_returned(shop, started)
    assert await shop.balance() == 0


@pytest.mark.parametrize("why", OFF)
async def test_no_surplus_is_returned_for_a_merchant_that_may_not_refund(
    shop: Shop, why: str
) -> None:
    off, on = OFF[why]
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, A)
    await shop.change(off)
    await shop.pay(charge, amount=1250)
    await shop.until(started, "success")
    await shop.simulator.run_jobs()
    assert await _refunds(shop, started) == []
    assert await shop.account("customer_credit") == 25_000
    await shop.change(on)
    await _until_returned(shop, started)


async def test_an_administrator_returns_a_surplus_on_a_disabled_merchants_behalf(
    shop: Shop,
) -> None:
    db = shop.services.db
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, A)
    await shop.change(DISABLE)
    await shop.pay(charge, amount=1250)
    await shop.until(started, "success")
    [refund] = await returns.start_on_behalf(db, started.trx_id)
    await _until_returned(shop, started)
    assert await _sent(shop) == [refund.trx_id]
    with pytest.raises(NothingToReturn):
        await returns.start_on_behalf(db, started.trx_id)


async def test_a_part_is_not_returned_while_the_customer_can_pay_the_rest(shop: Shop) -> None:
    started = await _start(shop, ASK)
    await _part(shop, started)
    with pytest.raises(NothingToReturn):
        await returns.start_on_behalf(shop.services.db, started.trx_id)
    assert await shop.account("customer_credit") == 70_000


async def test_no_surplus_is_returned_from_an_inactive_wallet(shop: Shop) -> None:
    wallet = shop.services.db, shop.merchant.new.id, shop.merchant.environment, "NGN"
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, A)
    await wallets.set_status(*wallet, WalletStatus.INACTIVE)
    await shop.pay(charge, amount=1250)
    await shop.until(started, "success")
    await shop.simulator.run_jobs()
    assert await _refunds(shop, started) == []
    await wallets.set_status(*wallet, WalletStatus.ACTIVE)
    await shop.simulator.run_job_now("charge.return", charge.reference)
    await _until_returned(shop, started)


async def test_a_return_without_a_refund_call_is_left_to_an_administrator(shop: Shop) -> None:
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, "providerb_ngn_va")
    reported = ChargeState(ReportedChargeStatus.PAID, paid=Money.of(1250, "NGN"))
    await states.conclude(shop.services.db, charge, reported)

    async def is_left() -> bool:
        return any(each.by_operator for each in await _refunds(shop, started))

    await shop.simulator.until(is_left)
    [refund] = await _refunds(shop, started)
    assert refund.status is RefundStatus.PENDING
    assert await shop.account("in_flight") == 25_000
    await decisions.confirm(shop.services.db, shop.services.rails, refund.trx_id, "Transferred")
    assert (await shop.account("in_flight"), await shop.balance()) == (0, 100_000)


async def test_a_started_return_waits_while_payouts_are_held(shop: Shop) -> None:
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, A)
    await outgoing.hold_all(shop.services.db)
    try:
        await shop.pay(charge, amount=1250)
        await shop.until(started, "success")
        await shop.simulator.run_jobs()
        [refund] = await _refunds(shop, started)
        await shop.simulator.run_job_now("refund", refund.trx_id)
        assert await _sent(shop) == []
    finally:
        await platform.change(shop.services.db, "payouts_held", "false")
    await shop.simulator.run_job_now("refund", refund.trx_id)
    await _until_returned(shop, started)
    assert await _sent(shop) == [refund.trx_id]


async def test_a_surplus_is_returned_once_however_often_its_job_runs(shop: Shop) -> None:
    started, charge = await _overpaid(shop)
    await _until_returned(shop, started)
    await jobs.put(shop.services.db, charge.merchant_id, JobKind.RETURN, charge.reference)
    await shop.simulator.run_jobs()
    assert len(await _refunds(shop, started)) == 1


async def test_a_return_that_the_provider_rejects_is_left_to_an_administrator(shop: Shop) -> None:
    refusal = {"call": "refund", "fault": "refuse", "status": 400, "message": "Too small"}
    await shop.simulator.control("a/faults", {"next": [refusal]})
    started, charge = await _overpaid(shop)
    await _until_returned(shop, started, RefundStatus.FAILED)
    assert await shop.account("suspense") == 25_000
    assert await shop.balance() == 100_000
    [case] = [each for each in await cases.cases(shop.services.db) if each.trx_id == started.trx_id]
    assert (case.kind, case.reference) == ("not_returned", charge.reference)
    await resolutions.resolve(shop.services.db, case.id, "Paid manually.", CaseAction.RETURN)
    assert await shop.account("suspense") == 0


async def test_an_administrator_who_rejects_a_return_does_not_credit_the_merchant(
    shop: Shop,
) -> None:
    db, rails = shop.services.db, shop.services.rails
    await outgoing.hold_all(db)
    try:
        started, _ = await _overpaid(shop)
        await shop.simulator.run_jobs()
        [refund] = await _refunds(shop, started)
        await shop.change(DISABLE)
    finally:
        await platform.change(db, "payouts_held", "false")
    decided = await decisions.reject(db, rails, refund.trx_id, "Fraud")
    assert decided.status is RefundStatus.FAILED
    assert (await shop.balance(), await shop.account("suspense")) == (100_000, 25_000)


async def test_a_wrong_amount_on_a_card_is_held_whatever_the_rules(shop: Shop) -> None:
    started = await _start(shop, ASK_AND_SETTLE)
    charge = await shop.choose(started, CARD)
    await shop.pay(charge, amount=1250)
    await shop.until_charge(charge, "suspense")
    assert (await shop.status(started), await shop.balance()) == ("pending", 0)


async def test_a_webhook_that_disagrees_about_a_surplus_is_held(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    started = await _start(shop, SETTLE)
    charge = await shop.choose(started, A)
    await shop.pay(charge, amount=1250)
    message = webhooks.paid("providera", charge.reference, "5000", "NGN")
    assert (await webhooks.send(shop.merchant.site, "providera", message)).status == 200
    await shop.until_charge(charge, "suspense")
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]
    assert await shop.balance() == 0


async def test_the_rest_completes_an_underpayment(shop: Shop) -> None:
    started = await _start(shop, ASK)
    first = await _part(shop, started)
    assert (await shop.status(started), await shop.balance()) == ("pending", 0)
    assert await shop.account("customer_credit") == 70_000
    assert (await shop.verify(started)).json["amount_received"] == 700
    rest = await shop.choose(started, CARD)
    assert rest.amount_minor == 30_000
    await shop.pay(rest)
    await shop.until(started, "success")
    assert await shop.balance() == 100_000
    assert await shop.account("customer_credit") == 0
    fees = {each: await shop.account(f"provider_fee:{each}") for each in ("providera", "providerc")}
    assert await shop.account("clearing:providera") + fees["providera"] == -70_000
    assert await shop.account("clearing:providerc") + fees["providerc"] == -30_000
    assert (await shop.verify(started)).json["amount_received"] == 1000
    assert (await shop.charge(first)).credit_minor == 0
    assert await shop.cases() == []


async def test_a_commission_is_charged_once_for_a_payment_in_parts(shop: Shop) -> None:
    await shop.set_commission("10", CommissionBearer.CUSTOMER)
    started = await _start(shop, ASK)
    await _part(shop, started, 1050)
    await shop.pay(await shop.choose(started, A))
    await shop.until(started, "success")
    assert (await shop.balance(), await shop.account("commission")) == (100_000, 10_000)


async def test_a_part_is_returned_when_the_link_expires(shop: Shop) -> None:
    started = await _start(shop, ASK)
    charge = await _part(shop, started)
    await _expire(shop, started)
    refund = await _until_returned(shop, started)
    assert (refund.amount_minor, refund.charge_reference) == (70_000, charge.reference)
    assert (await shop.balance(), await shop.account("customer_credit")) == (0, 0)
    verified = (await shop.verify(started)).json
    assert (verified["error_code"], verified["amount_received"]) == ("EXPIRED_SESSION", 700)


async def test_a_part_is_returned_when_the_customer_cancels(shop: Shop) -> None:
    started = await _start(shop, ASK)
    await _part(shop, started)
    await shop.services.checkout.cancel(started.trx_id)
    assert (await _until_returned(shop, started)).amount_minor == 70_000


async def test_a_part_that_arrives_too_late_is_returned_at_once(shop: Shop) -> None:
    started = await _start(shop, ASK)
    charge = await shop.choose(started, A)
    await _expire(shop, started)
    await shop.pay(charge, amount=700)
    await shop.until_charge(charge, "part")
    assert (await _until_returned(shop, started)).amount_minor == 70_000
    assert await shop.status(started) == "failed"


async def test_the_rest_alone_does_not_complete_a_payment_whose_part_was_returned(
    shop: Shop,
) -> None:
    started = await _start(shop, ASK)
    await _part(shop, started)
    rest = await shop.choose(started, A)
    await _expire(shop, started)
    await shop.pay(rest)
    await shop.until_charge(rest, "part")
    await _until_returned(shop, started)
    assert sorted(each.amount_minor for each in await _refunds(shop, started)) == [30_000, 70_000]
    assert (await shop.status(started), await shop.balance()) == ("failed", 0)


async def test_the_whole_amount_beside_a_part_returns_the_part(shop: Shop) -> None:
    """A customer with two open pages pays the full amount on the older page."""
    started = await _start(shop, ASK)
    card = await shop.choose(started, CARD)
    await _part(shop, started)
    await shop.pay(card)
    await shop.until(started, "success")
    assert (await _until_returned(shop, started)).amount_minor == 70_000
    assert await shop.balance() == 100_000


async def _paid_after_a_returned_part(shop: Shop) -> Started:
    """A customer with two open pages sends a part, cancels, and pays in full on the other page."""
    started = await _start(shop, ASK_AND_SETTLE)
    card = await shop.choose(started, CARD)
    await _part(shop, started, 400)
    await shop.services.checkout.cancel(started.trx_id)
    await _until_returned(shop, started)
    await shop.pay(card)
    await shop.until(started, "success")
    return started


async def test_a_full_amount_after_a_returned_part_counts_as_received(shop: Shop) -> None:
    started = await _paid_after_a_returned_part(shop)
    assert await shop.balance() == 100_000
    assert (await shop.verify(started)).json["amount_received"] == 1400
    completed = (await shop.notifications(started))[-1]
    assert completed["message"] == "Payment Completed"
    assert completed["data"]["amount_received"] == 1400
    page = await shop.services.checkout.view(started.trx_id)
    assert page.returned == Money.of(400, "NGN")
    assert [each.amount_minor for each in await _refunds(shop, started)] == [40_000]


async def test_an_upgrade_corrects_received_amounts_without_the_full_amount(shop: Shop) -> None:
    started = await _paid_after_a_returned_part(shop)
    about = shop.merchant.new.id, started.trx_id
    [rule] = [each for each in PAYMENTS if each.name.startswith("received_amounts")]
    await shop.services.db.execute(
        "UPDATE payment SET received_minor = 40000 WHERE merchant_id = $1 AND trx_id = $2", *about
    )
    violations = await shop.services.db.records(rule.violations)
    assert started.trx_id in [each["trx_id"] for each in violations]
    await shop.services.db.execute((FOLDER / "0091_amounts_received.sql").read_text())
    assert (await shop.verify(started)).json["amount_received"] == 1400


async def test_the_payment_expires_while_its_rest_arrives_and_no_money_is_lost(shop: Shop) -> None:
    started = await _start(shop, ASK)
    await _part(shop, started)
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    rest = await shop.choose(started, A)
    await shop.pay(rest)
    give_up = states.give_up(
        *(shop.services.db, rest.merchant_id, started.trx_id),
        *(PaymentEvent.EXPIRED, PaymentErrorCode.EXPIRED_SESSION),
    )
    await asyncio.gather(give_up, shop.simulator.run_job_now("charge", rest.reference))
    if await shop.status(started) == "success":
        assert await shop.balance() == 100_000
        return
    await shop.until_charge(rest, "part")
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "normal"}})
    for refund in await _refunds(shop, started):  # their webhooks are lost
        await shop.simulator.run_job_now("refund", refund.trx_id)
    await _until_returned(shop, started)
    assert sum(each.amount_minor for each in await _refunds(shop, started)) == 100_000


async def _pay_again(shop: Shop, charge: Charge, total: float, held_minor: int) -> None:
    """The customer sends more to the same virtual account, whose total the provider reports."""
    await shop.pay(charge, amount=total, insist=True)

    async def is_held() -> bool:
        return await shop.account("suspense") == held_minor

    await shop.simulator.until(is_held)


async def _case(shop: Shop, reference: str) -> Case:
    found = await cases.cases(shop.services.db)
    [case] = [each for each in found if each.reference == reference]
    return case


@pytest.mark.parametrize(
    ("rules", "first", "total", "wallet_minor"),
    [(ASK, 400, 1000, 0), (ASK, 1000, 1250, 100_000), (HOLD, 400, 1000, 0)],
    ids=["part", "paid", "held"],
)
async def test_more_money_for_a_charge_goes_to_suspense_with_a_case(
    shop: Shop, rules: MerchantUpdate, first: int, total: int, wallet_minor: int
) -> None:
    started = await _start(shop, rules)
    charge = await shop.choose(started, A)
    await shop.pay(charge, amount=first)
    await shop.until_charge(
        charge, {400: "part", 1000: "paid"}[first] if rules is ASK else "suspense"
    )
    held = total if rules is HOLD else total - first
    await _pay_again(shop, charge, total, held * 100)
    await _pay_again(shop, charge, total, held * 100)
    case = await _case(shop, charge.reference)
    assert (case.kind, case.amount) == ("wrong_amount", Money.of(held, "NGN"))
    assert f"The provider now says ₦{total:,}.00" in case.detail
    options = await resolutions.options(shop.services.db, case)
    assert [each.name for each in options] == ["credit", "return", "keep"]
    assert await shop.balance() == wallet_minor
    await resolutions.resolve(shop.services.db, case.id, "Accepted.", CaseAction.CREDIT)
    assert await shop.balance() == wallet_minor + held * 100
    assert await shop.account("suspense") == 0


async def test_money_that_arrives_after_a_decision_reopens_the_case(shop: Shop) -> None:
    db, started = shop.services.db, await _start(shop, ASK)
    charge = await _part(shop, started, 400)
    await _pay_again(shop, charge, 700, 30_000)
    case = await _case(shop, charge.reference)
    await resolutions.resolve(db, case.id, "Sent back.", CaseAction.RETURN)
    await _pay_again(shop, charge, 900, 20_000)
    assert (await _case(shop, charge.reference)).amount == Money.of(200, "NGN")
    await resolutions.resolve(db, case.id, "Nobody asked.", CaseAction.KEEP)
    assert await shop.account("suspense") == 0
    assert await shop.account("clearing:providera") + await shop.account(
        "provider_fee:providera"
    ) == -(40_000 + 20_000)
    with pytest.raises(CaseRefused):
        await resolutions.resolve(db, case.id, "Again.", CaseAction.CREDIT)


async def test_a_decision_about_an_amount_that_has_grown_moves_nothing(shop: Shop) -> None:
    db, started = shop.services.db, await _start(shop, HOLD)
    charge = await shop.choose(started, A)
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "suspense")
    case = await _case(shop, charge.reference)
    seen = await resolutions.amount(db, case)
    await _pay_again(shop, charge, 1000, 100_000)
    with pytest.raises(AmountChanged):
        await resolutions.resolve(db, case.id, "Approved.", CaseAction.CREDIT, seen=seen)
    assert (await shop.balance(), await shop.account("suspense")) == (0, 100_000)


async def test_a_rejected_return_joins_money_that_is_already_in_suspense(shop: Shop) -> None:
    refusal = {"call": "refund", "fault": "refuse", "status": 400, "message": "Too small"}
    await shop.simulator.control("a/faults", {"next": [refusal]})
    started = await _start(shop, ASK)
    charge = await _part(shop, started, 400)
    await _pay_again(shop, charge, 700, 30_000)
    await _expire(shop, started)
    await _until_returned(shop, started, RefundStatus.FAILED)
    assert await shop.account("suspense") == 70_000
    first, second = await shop.cases()
    assert (first, second) == (
        ("wrong_amount", charge.reference),
        ("not_returned", charge.reference),
    )


@pytest.mark.parametrize("now", [Money.of(400, "NGN"), Money.of(1000, "USD")], ids=str)
async def test_a_smaller_amount_or_another_currency_later_moves_nothing(
    shop: Shop, now: Money
) -> None:
    started = await _start(shop, ASK)
    charge = await _part(shop, started)
    await states.conclude(
        shop.services.db, charge, ChargeState(ReportedChargeStatus.PAID, paid=now)
    )
    case = await _case(shop, charge.reference)
    assert "Nothing was moved." in case.detail
    options = await resolutions.options(shop.services.db, case)
    assert [each.name for each in options] == ["nothing"]
    assert await shop.account("customer_credit") == 70_000


async def test_the_same_report_again_opens_no_case(shop: Shop) -> None:
    started, charge = await _overpaid(shop)
    await _until_returned(shop, started)
    message = webhooks.paid("providera", charge.reference, "1250", "NGN")
    assert (await webhooks.send(shop.merchant.site, "providera", message)).status == 200
    await shop.simulator.run_job_now("charge", charge.reference)
    assert await shop.cases() == []


async def test_a_refund_that_no_part_covers_is_left_to_an_administrator(shop: Shop) -> None:
    started = await _start(shop, ASK)
    first = await _part(shop, started)
    await shop.pay(await shop.choose(started, A))
    await shop.until(started, "success")
    small = await initiate.start(shop.services.db, started.trx_id, "600", "Returned goods")
    assert (small.charge_reference, small.by_operator) == (first.reference, False)
    large = await initiate.start(shop.services.db, started.trx_id, "400", "Returned goods")
    assert large.by_operator
    await shop.simulator.run_jobs()
    assert large.trx_id not in await _sent(shop)
    paid = await decisions.confirm(shop.services.db, shop.services.rails, large.trx_id, "Paid")
    assert paid.status is RefundStatus.COMPLETED
