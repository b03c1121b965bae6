"""Reconciliation compares our ledger with the providers' balances and transfer statuses."""

from contextlib import nullcontext
from decimal import Decimal

import pytest

from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction, CaseRefused
from manilla.kit import prometheus
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import BadSettlement, SettlementKind
from manilla.people.roles import ConsoleRole
from manilla.reconciliation import balances
from manilla.reconciliation.balance_tasks import BalanceTasks
from manilla.reconciliation.balances import Reconciled
from manilla.refunds import initiate
from manilla.resolutions import resolutions
from manilla.services import Services
from tests.mail.outbox_reader import letters_to
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import (
    RAILS,
    PayoutMerchant,
    clear_credentials,
    method,
    set_credentials,
    setting,
)
from tests.people.accounts import Accounts
from tests.support.changed_rows import changed
from tests.support.rows import first_short

FEES = {"a": "10.00", "b": "15.00", "c": "10.75"}


def naira(amount: str) -> Money:
    return Money.of(amount, "NGN")


@pytest.fixture(autouse=True)
async def _balances_match(payer: PayoutMerchant, db: Database, owner: Database) -> None:
    """Makes the balances match, and postpones the checks of payouts from earlier tests."""
    await db.execute("UPDATE payout SET created_at = created_at - interval '8 days'")
    await db.execute("UPDATE payout_attempt SET dead_at = dead_at - interval '8 days'")
    await db.execute("UPDATE payout SET began_at = NULL WHERE status = 'pending'")
    await db.execute("UPDATE charge SET created_at = created_at - interval '1 day'")
    await db.execute("UPDATE refund SET sent_at = NULL WHERE status = 'pending'")
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE kind IN ('charge', 'refund')")
    await owner.execute("DELETE FROM operator_case WHERE kind = 'clearing_differs'")
    await db.execute("UPDATE clearing_difference SET minor = 0, since = now()")
    for report in await balances.compare_all(db, payer.services.rails):
        lacking = 100_000_000_00 - report.ledger.minor
        kind = SettlementKind.TOP_UP if lacking > 0 else SettlementKind.SETTLEMENT
        if lacking:
            await provider_funds.settle(
                db, kind, report.provider, Money("NGN", abs(lacking)), "level"
            )
    await owner.execute("DELETE FROM operator_case WHERE kind = 'clearing_differs'")
    await db.execute("UPDATE clearing_difference SET minor = 0, since = now()")


async def reports(services: Services) -> dict[str, Reconciled]:
    found = await balances.compare_all(services.db, services.rails)
    return {report.provider[-1]: report for report in found}


async def minutes_pass(services: Services) -> None:
    await services.db.execute("UPDATE clearing_difference SET since = since - interval '5 minutes'")


async def confirmed(services: Services) -> dict[str, Reconciled]:
    """Confirms a difference by comparing the balances twice, minutes apart."""
    await reports(services)
    await minutes_pass(services)
    return await reports(services)


async def differences(services: Services) -> list[Case]:
    found = await cases.cases(services.db)
    return [case for case in found if case.kind == "clearing_differs"]


async def test_matching_balances_are_reported_as_such(services: Services) -> None:
    for report in (await reports(services)).values():
        held = naira("100000000")
        assert (report.ledger, report.under_way, report.balance) == (held, naira("0"), held)
        assert report.difference == naira("0")
        assert (report.currency, report.transfers_asked, report.transfers_differ) == ("NGN", 0, [])
    assert await differences(services) == []


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_delivered_payouts_keep_balances_matching(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    """Provider B does not report its transfer fee, so an operator posts the fee."""
    async with method(services, rail, fee_fixed="50"):
        for amount in (1000, 1234.56):
            trx_id = await payer.pay_out(rail, payout_amount=amount)
            await payer.check_until(trx_id, "completed")
    if rail == "b":
        for _ in range(2):
            await provider_funds.settle(
                services.db, SettlementKind.FEE, "providerb", naira(FEES["b"]), "statement of May"
            )
    report = (await reports(services))[rail]
    spent = naira("2234.56") + naira(FEES[rail]) + naira(FEES[rail])
    assert report.ledger == report.balance == naira("100000000") - spent
    assert report.difference == naira("0")
    assert (report.transfers_asked, report.transfers_differ) == (2, [])
    assert await differences(services) == []


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_failed_payout_keeps_balances_matching(payer: PayoutMerchant, rail: str) -> None:
    await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.settle(rail, trx_id, "failed")
    await payer.check_until(trx_id, "failed")
    report = (await reports(payer.services))[rail]
    assert report.ledger == report.balance == naira("100000000")


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_reversed_payout_keeps_balances_matching_with_its_fee(
    payer: PayoutMerchant, rail: str
) -> None:
    """If a payout is reversed, the provider also refunds its transfer fee.

    Provider B reports neither the fee nor its refund, so an operator posts both.
    """
    db = payer.services.db
    await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.settle(rail, trx_id, "success")
    await payer.check_until(trx_id, "completed")
    if rail == "b":
        await provider_funds.settle(
            db, SettlementKind.FEE, "providerb", naira(FEES["b"]), "statement"
        )
    await payer.settle(rail, trx_id, "reversed")
    found = (await confirmed(payer.services))[rail]
    assert (await payer.payout(trx_id)).status == "failed"
    if rail == "b":
        assert found.difference == naira(FEES["b"])
        await provider_funds.settle(
            db, SettlementKind.FEE_RETURNED, "providerb", naira(FEES["b"]), "statement"
        )
        await resolutions.resolve(
            db, (await differences(payer.services))[0].id, "booked", CaseAction.NOTHING
        )
    report = (await reports(payer.services))[rail]
    assert report.ledger == report.balance == naira("100000000")
    assert await payer.account(f"provider_fee:provider{rail}") == 0
    assert await differences(payer.services) == []


@pytest.mark.parametrize("rail", ["a", "c"])
async def test_a_pending_transfer_explains_money_that_has_already_left(
    payer: PayoutMerchant, rail: str
) -> None:
    """The explained difference includes the fee if the provider has reported it."""
    await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})
    await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    report = (await reports(payer.services))[rail]
    left = naira("1000") + naira(FEES[rail])
    assert report.under_way == left
    assert report.balance == naira("100000000") - left
    assert report.difference == naira("0")
    assert await differences(payer.services) == []


async def test_a_pending_payment_may_already_be_in_the_providers_balance(
    payer: PayoutMerchant,
) -> None:
    shop = Shop(payer.services, payer.simulator, payer.merchant)
    await payer.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    charge = await shop.choose(await shop.start(), "providera-ngn")
    for is_paid in (False, True):
        if is_paid:
            await shop.pay(charge)
        report = (await reports(payer.services))["a"]
        assert (report.ledger, report.coming_in) == (naira("100000000"), naira("1000"))
        assert report.balance is not None
        assert (report.balance > report.ledger) is is_paid
        assert report.difference == naira("0")
    await payer.simulator.run_job_now("charge", charge.reference)
    report = (await reports(payer.services))["a"]
    assert (report.coming_in, report.ledger) == (naira("0"), report.balance)


async def test_a_pending_refund_may_already_have_left_the_providers_balance(
    payer: PayoutMerchant,
) -> None:
    shop = Shop(payer.services, payer.simulator, payer.merchant)
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    await payer.simulator.control("a/faults", {"refunds": "pending"})
    refund = await initiate.start(payer.services.db, started.trx_id, "400", "Returned goods")
    assert (await reports(payer.services))["a"].under_way == naira("0")
    await payer.simulator.run_job_now("refund", refund.trx_id)
    report = (await reports(payer.services))["a"]
    assert report.under_way == naira("400")
    assert report.balance == report.ledger - naira("400")
    assert report.difference == naira("0")


async def test_an_unsent_payout_is_not_counted_as_pending(payer: PayoutMerchant) -> None:
    await payer.pay_out()
    report = (await reports(payer.services))["a"]
    assert (report.under_way, report.difference) == (naira("0"), naira("0"))


@pytest.mark.parametrize(
    ("available", "difference"), [("99999999.99", "-0.01"), ("100000000.01", "0.01"), ("0", None)]
)
async def test_a_difference_is_reported_exactly_and_opens_a_case(
    payer: PayoutMerchant, services: Services, available: str, difference: str | None
) -> None:
    await payer.simulator.control("c/balance", {"available": float(Decimal(available))})
    found = await confirmed(services)
    assert found["c"].difference == naira(difference or "-100000000")
    assert [found[rail].difference for rail in "ab"] == [naira("0")] * 2
    [case] = await differences(services)
    assert (case.reference, case.amount) == ("providerc:NGN", found["c"].difference)
    assert (case.merchant_id, case.status) == (0, "open")
    assert available.split(".")[0] in case.detail.replace(",", "")


async def test_a_pending_transfer_explains_no_more_than_its_amount(payer: PayoutMerchant) -> None:
    await payer.simulator.control("a/faults", {"settle_seconds": 3600})
    await payer.pay_out()
    await payer.simulator.run_jobs()
    for available, difference in (
        (99_998_990, "0"),
        (99_998_989.99, "-0.01"),
        (100_000_000, "0"),
        (100_000_000.01, "0.01"),
    ):
        await payer.simulator.control("a/balance", {"available": available})
        assert (await reports(payer.services))["a"].difference == naira(difference)


async def test_a_persistent_difference_opens_one_case(
    payer: PayoutMerchant, services: Services
) -> None:
    await payer.simulator.control("a/balance", {"available": 1})
    for _ in range(3):
        await confirmed(services)
    assert len(await differences(services)) == 1


async def test_a_new_difference_after_a_resolution_opens_another_case(
    payer: PayoutMerchant, services: Services
) -> None:
    await payer.simulator.control("a/balance", {"available": 1})
    await confirmed(services)
    [case] = await differences(services)
    await resolutions.resolve(services.db, case.id, "booked by mistake", CaseAction.NOTHING)
    await payer.simulator.control("a/balance", {"available": 2})
    report = (await reports(services))["a"]
    [again] = await differences(services)
    assert (again.status, again.amount) == ("open", report.difference)


async def test_a_difference_seen_only_once_opens_no_case(
    payer: PayoutMerchant, services: Services
) -> None:
    await payer.simulator.control("a/balance", {"available": 1})
    assert (await reports(services))["a"].result == "differs, seen once"
    assert (await reports(services))["a"].result == "differs, seen once"
    assert await differences(services) == []
    await payer.simulator.control("a/balance", {"available": 100_000_000})
    assert (await reports(services))["a"].result == "agrees"
    await minutes_pass(services)
    await payer.simulator.control("a/balance", {"available": 1})
    assert (await reports(services))["a"].result == "differs, seen once"
    await minutes_pass(services)
    assert (await reports(services))["a"].result == "differs"
    assert len(await differences(services)) == 1


async def test_a_case_whose_difference_is_gone_says_so_and_closes_in_one_step(
    payer: PayoutMerchant, services: Services
) -> None:
    await payer.simulator.control("a/balance", {"available": 1})
    await confirmed(services)
    [case] = await differences(services)
    with pytest.raises(CaseRefused, match="still exists"):
        await resolutions.close_vanished(services.db, case.id)
    await payer.simulator.control("a/balance", {"available": 100_000_000})
    for _ in range(2):
        await reports(services)
    [vanished] = await differences(services)
    assert vanished.vanished_at is not None
    closed = await resolutions.close_vanished(services.db, case.id)
    assert closed.status == "resolved"
    events = [each.event for each in await cases.history(services.db, closed)]
    assert events == ["opened", "vanished", "resolved"]


async def test_a_returning_difference_is_noted_in_its_case(
    payer: PayoutMerchant, services: Services
) -> None:
    for available in (1, 100_000_000, 2):
        await payer.simulator.control("a/balance", {"available": available})
        await confirmed(services)
    [case] = await differences(services)
    assert case.vanished_at is None
    events = [each.event for each in await cases.history(services.db, case)]
    assert events == ["opened", "vanished", "returned"]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_pending_transfer_with_an_unknown_fee_is_not_compared_yet(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    """The transfer's fee is unknown, because the provider's response was lost."""
    lost = {"call": "transfer", "fault": "5xx_after_accept"}
    await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600, "next": [lost]})
    await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    found = (await confirmed(services))[rail]
    assert found.balance == naira("100000000") - naira("1000") - naira(FEES[rail])
    assert (found.difference, found.result) == (None, "not comparable yet")
    assert await differences(services) == []
    # The missing fee cannot explain such a large difference.
    await payer.simulator.control(f"{rail}/balance", {"available": 99_990_000})
    assert (await confirmed(services))[rail].difference == naira("-9000")
    assert len(await differences(services)) == 1


async def test_a_provider_that_does_not_respond_is_reported_without_a_difference(
    payer: PayoutMerchant, services: Services
) -> None:
    await payer.simulator.control("b/faults", {"outage": True})
    report = (await reports(services))["b"]
    assert (report.balance, report.difference) == (None, None)
    assert report.ledger == naira("100000000")
    assert await differences(services) == []


async def test_a_provider_without_credentials_is_skipped(services: Services) -> None:
    await clear_credentials(services, "b")
    assert list(await reports(services)) == ["a", "c"]


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize(
    ("was", "status", "says"), [("success", "completed", "failed"), ("failed", "failed", "success")]
)
async def test_a_transfer_that_contradicts_our_status_is_reported_and_moves_nothing(
    payer: PayoutMerchant, rail: str, was: str, status: str, says: str
) -> None:
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await payer.simulator.control(f"{rail}/faults", quiet)
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.settle(rail, trx_id, was)
    await payer.check_until(trx_id, status)
    before, balance = await payer.payout(trx_id), await payer.balance()
    await payer.settle(rail, trx_id, says, insist=True)
    for _ in range(2):
        report = (await reports(payer.services))[rail]
        assert (report.transfers_asked, report.transfers_differ) == (1, [trx_id])
    assert await payer.payout(trx_id) == before
    assert await payer.balance() == balance
    assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_reversal_without_a_webhook_is_found_and_refunded_once(
    payer: PayoutMerchant, rail: str
) -> None:
    """Provider B sends no webhooks about transfers.

    Without reconciliation, the merchant would lose the money of the reversed payout.
    """
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await payer.simulator.control(f"{rail}/faults", quiet)
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.settle(rail, trx_id, "success")
    await payer.check_until(trx_id, "completed")
    await payer.settle(rail, trx_id, "reversed")
    for _ in range(2):
        await reports(payer.services)
        await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "failed"
    assert await payer.balance() == 1_000_000
    messages = [notified["message"] for notified in await payer.notifications(trx_id)]
    assert messages == ["Payout Completed", "Payout Reversed"]
    assert await payer.cases() == []


async def test_a_reversal_with_a_wrong_amount_opens_a_case_and_refunds_nothing(
    payer: PayoutMerchant, owner: Database
) -> None:
    await payer.simulator.control(
        "a/faults", {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.settle("a", trx_id, "success")
    await payer.check_until(trx_id, "completed")
    await payer.settle("a", trx_id, "reversed")
    async with changed(owner, "payout", "amount_minor = amount_minor + 1", trx_id):
        report = (await reports(payer.services))["a"]
    assert report.transfers_differ == [trx_id]
    assert (await payer.payout(trx_id)).status == "completed"
    assert await payer.cases() == [("wrong_amount", trx_id)]


async def test_reversals_are_checked_for_a_week(payer: PayoutMerchant, db: Database) -> None:
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await payer.simulator.control("b/faults", quiet)
    early, late = await payer.pay_out("b"), await payer.pay_out("b")
    await payer.simulator.run_jobs()
    for trx_id, age in ((early, "8 days"), (late, "6 days")):
        await payer.settle("b", trx_id, "success")
        await payer.check_until(trx_id, "completed")
        await payer.settle("b", trx_id, "reversed")
        old = f"UPDATE payout SET created_at = created_at - interval '{age}' WHERE trx_id = $1"
        await db.execute(old, trx_id)
    report = (await reports(payer.services))["b"]
    assert (report.transfers_asked, report.transfers_differ) == (1, [late])


async def test_transfers_queried_longest_ago_are_queried_first(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balances, "PAYOUTS_MAX", 1)
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await payer.simulator.control("a/faults", quiet)
    made = [await payer.pay_out() for _ in range(3)]
    await payer.simulator.run_jobs()
    for trx_id in made:
        await payer.settle("a", trx_id, "success")
        await payer.check_until(trx_id, "completed")
        await payer.settle("a", trx_id, "failed", insist=True)
    found = [(await reports(payer.services))["a"].transfers_differ for _ in range(4)]
    assert sorted(each for [each] in found[:3]) == sorted(made)
    assert found[3] == found[0]


def _tasks(payer: PayoutMerchant) -> BalanceTasks:
    services = payer.services
    return BalanceTasks(
        services.db, services.platform, services.rails, lambda: nullcontext(services.db)
    )


async def test_operations_users_get_an_email_about_a_low_balance_of_a_provider(
    payer: PayoutMerchant,
) -> None:
    db, services = payer.services.db, payer.services
    accounts = Accounts(db, services.keyring)
    _, operations = await accounts.administrator(ConsoleRole.OPERATIONS)
    _, support = await accounts.administrator(ConsoleRole.SUPPORT)
    tasks = _tasks(payer)
    for limit in ("NGN:100000000", "NGN:100000001", ""):  # the balance is 100,000,000
        async with setting(services, "low_balances", limit):
            await tasks.compare(Job(0, "reconcile", "providera", 1, 0, 1))
    [letter] = await letters_to(db, services.letters, operations)
    assert letter.subject == "Balance at providera is low"
    assert ("₦100,000,000.00" in letter.text, "₦100,000,001.00" in letter.text) == (True, True)
    assert letter.link.endswith("/console/providers")
    assert await letters_to(db, services.letters, support) == []


async def test_a_worker_reconciles_every_hour(payer: PayoutMerchant, db: Database) -> None:
    tasks = _tasks(payer)
    for rail in "ac":
        await set_credentials(payer.services, rail, sandbox="false")
    await payer.simulator.control("a/balance", {"available": 1})
    for _ in range(2):
        await tasks.schedule()
    assert await _scheduled(db) == ["providera", "providerc"]
    expected = prometheus.render().decode()
    assert 'manilla_reconciliation_expected{provider="providera"} 1.0' in expected
    assert 'manilla_reconciliation_expected{provider="providerb"} 0.0' in expected
    await payer.simulator.run_job_now("reconcile", "providera")
    assert await differences(payer.services) == []
    due = "SELECT extract(epoch FROM due_at - now())::float FROM job WHERE subject = 'providera'"
    assert 200 < await db.value(due) <= 300
    await minutes_pass(payer.services)
    await payer.simulator.run_job_now("reconcile", "providera")
    [case] = await differences(payer.services)
    assert case.reference == "providera:NGN"
    assert await _scheduled(db) == ["providera", "providerc"]
    assert 3000 < await db.value(due) < 4000
    assert 'manilla_reconciled_at_seconds{provider="providera"}' in prometheus.render().decode()
    await tasks.schedule()
    assert _measured_difference() != 0
    # Another worker compares the balance, and finds no difference.
    await db.execute("UPDATE clearing_difference SET minor = 0 WHERE provider = 'providera'")
    await tasks.schedule()
    assert _measured_difference() == 0
    await clear_credentials(payer.services, "a")
    await payer.simulator.run_job_now("reconcile", "providera")
    assert await _scheduled(db) == ["providerc"]
    await db.execute("DELETE FROM job WHERE kind = 'reconcile'")


def _measured_difference() -> float:
    name = 'manilla_clearing_difference{currency="NGN",provider="providera"} '
    [line] = [each for each in prometheus.render().decode().splitlines() if each.startswith(name)]
    return float(line.removeprefix(name))


async def _scheduled(db: Database) -> list[str]:
    records = await db.records("SELECT subject FROM job WHERE kind = 'reconcile' ORDER BY subject")
    return [record["subject"] for record in records]


async def test_a_transfer_that_cannot_be_queried_is_not_a_difference(
    payer: PayoutMerchant,
) -> None:
    trx_id = await payer.pay_out()
    await payer.check_until(trx_id, "completed")
    unwell = {"call": "transfer_status", "fault": "5xx_before", "times": None}
    await payer.simulator.control("a/faults", {"next": [unwell]})
    report = (await reports(payer.services))["a"]
    assert (report.transfers_asked, report.transfers_differ) == (1, [])
    assert await payer.cases() == []


@pytest.mark.parametrize("kind", first_short(SettlementKind))
async def test_a_settlement_posts_the_given_amount(
    services: Services, kind: SettlementKind
) -> None:
    before = (await reports(services))["a"].ledger
    settled = await provider_funds.settle(
        services.db, kind, "providera", naira("12.34"), "manually"
    )
    assert (settled.kind, settled.amount) == (kind, naira("12.34"))
    moved = (await reports(services))["a"].ledger.minor - before.minor
    assert moved == (
        1_234 if kind in (SettlementKind.TOP_UP, SettlementKind.FEE_RETURNED) else -1_234
    )


@pytest.mark.parametrize("amount", ["0", "-0.01"])
async def test_a_settlement_of_zero_is_rejected(db: Database, amount: str) -> None:
    with pytest.raises(BadSettlement, match="above zero"):
        await provider_funds.settle(db, SettlementKind.TOP_UP, "providera", naira(amount), "x")


@pytest.mark.parametrize("note", first_short(["", " ", "x" * 201, "a\nb"]))
async def test_a_settlement_requires_a_reason(db: Database, note: str) -> None:
    with pytest.raises(BadSettlement, match="1 to 200 printable"):
        await provider_funds.settle(db, SettlementKind.TOP_UP, "providera", naira("1"), note)
