"""The console's queues: a permitted user decides on each item once, and the decision is audited."""

import asyncio
from html import unescape

import pytest
from playwright.async_api import Browser, Page, expect

from manilla.approvals import approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import CaseResolution, WalletFunding
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction, CaseKind, CaseRefused
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.listing import in_pages
from manilla.kit.money import Money
from manilla.ledger.scope import Everyone
from manilla.merchants.merchants import CommissionBearer, MerchantStatus, MerchantUpdate
from manilla.merchants.wallets import FundingResult
from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.ipn import IpnDestination
from manilla.payouts import queue
from manilla.people.roles import ConsoleRole
from manilla.platform import settings
from manilla.refunds import decisions, initiate
from manilla.services import Services
from manilla.settings import Settings
from tests.cases.same_number import add_case, two_cases
from tests.checkout.page_checks import accessibility_violations, opened
from tests.console.sample_data import create_failed_job
from tests.dashboard.merchant_dashboard import unchunked
from tests.notify.deliveries import Deliveries
from tests.notify.receiver import answer, receiving
from tests.payments.shop import HOLD, Shop
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant, new_reference
from tests.payouts.test_reject_lost import pass_time, stuck
from tests.support.changed_rows import changed
from tests.support.client import Reply, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.web.signed_in_user import PASSWORD, SignedInUser, administrator


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    await simulated_providers.reset()
    for provider in "abc":
        await simulated_providers.control(f"{provider}/balance", {"available": 100_000_000})
    return simulated_providers


@pytest.fixture
async def shop(services: Services, site: Site, simulator: ProviderSimulator) -> Shop:
    """A shop without cases, whose wallet is empty."""
    merchant = await new_merchant(
        site.from_new_ip(), services.db, services.keyring, environment=Environment.PRODUCTION
    )
    shop = Shop(services, simulator, merchant)
    await shop.change(HOLD)
    return shop


@pytest.fixture
async def payer(services: Services, site: Site, simulator: ProviderSimulator) -> PayoutMerchant:
    """A production merchant with 10,000.00 in its wallet."""
    merchant = await new_merchant(
        site.from_new_ip(), services.db, services.keyring, environment=Environment.PRODUCTION
    )
    payer = PayoutMerchant(services, simulator, merchant)
    await payer.fund("10000")
    return payer


@pytest.fixture
async def operations(services: Services, people: dict[ConsoleRole, SignedInUser]) -> SignedInUser:
    visitor = people[ConsoleRole.OPERATIONS]
    await visitor.step_up(services)
    return visitor


@pytest.fixture(scope="module")
def support(people: dict[ConsoleRole, SignedInUser]) -> SignedInUser:
    return people[ConsoleRole.SUPPORT]


async def audited(services: Services, subject: str) -> list[tuple[str, str]]:
    records = await services.db.records(
        "SELECT action, actor_name FROM audit WHERE subject = $1 ORDER BY id", subject
    )
    return [(record["action"], record["actor_name"]) for record in records]


async def main_of(page: Page) -> str:
    return await page.inner_text("main")


async def confirm(page: Page) -> None:
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Confirm").click()


def text(reply: Reply) -> str:
    return reply.body.decode()


async def test_of_two_administrators_deciding_a_manual_payout_the_second_sees_who_and_how(
    services: Services, payer: PayoutMerchant, operations: SignedInUser, second: SignedInUser
) -> None:
    trx_id = await payer.pay_out(MANUAL)
    await second.step_up(services)
    assert "Amount to pay" in text(await operations.get(f"/payouts/{trx_id}"))
    replies = await asyncio.gather(
        operations.post(f"/payouts/{trx_id}/complete", {"bank_reference": "FT-2026-77"}),
        second.post(f"/payouts/{trx_id}/reject", {"reason": "The account is closed"}),
    )
    said = [
        await visitor.follow(reply) if reply.status == 303 else text(reply)
        for visitor, reply in zip((operations, second), replies, strict=True)
    ]
    paid = f"completed already. {operations.email} paid the payout, bank reference FT-2026-77."
    rejected = f"canceled already. {second.email} rejected the payout: The account is closed"
    if (await payer.payout(trx_id)).status == "completed":
        assert "Marked as paid. The merchant is notified." in said[0]
        assert paid in said[1]
        decision = ("payout.complete", operations.email)
    else:
        assert "Rejected. The money was returned to the wallet" in said[1]
        assert rejected in said[0]
        decision = ("payout.reject", second.email)
    assert await audited(services, f"payout:{trx_id}") == [decision]
    assert len(await payer.notifications(trx_id)) == 1


async def test_suspense_is_credited_once(
    services: Services, shop: Shop, operations: SignedInUser
) -> None:
    charge = await shop.choose(await shop.start(), "providera_ngn_va")
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "suspense")
    query = "SELECT id FROM operator_case WHERE reference = $1"
    case = f"/cases/{await services.db.value(query, charge.reference)}"
    page = text(await operations.get(case))
    for evidence in ("₦1,000.00", "Provider A sent a signed webhook", "₦400.00 was paid"):
        assert evidence in page
    assert "400.00 NGN" not in page
    asked = unescape(text(await operations.post(f"{case}/ask", {})))
    assert "The provider's response just now: <strong>Paid</strong>, ₦400.00" in asked
    resolution = {"action": "credit", "note": "The customer agrees to pay the rest"}
    reply = await operations.post(f"{case}/resolve", resolution)
    assert "Resolved: credit the merchant." in await operations.follow(reply)
    assert await shop.balance() == 40_000
    listed = text(await operations.get(f"/cases?status=resolved&q={charge.reference}"))
    assert f"Credit the merchant: {resolution['note']}" in listed
    again = await operations.post(f"{case}/resolve", {"action": "keep", "note": "mine"})
    assert (again.status, await shop.balance()) == (422, 40_000)
    assert "is resolved already: credit: The customer agrees" in text(again)


@pytest.mark.long
async def test_suspense_is_shown_from_both_sides_and_resolved_once(
    services: Services, shop: Shop, browser: Browser, operations: SignedInUser
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera_ngn_va")
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "suspense")
    number, payer = await ask_to_credit(services, shop)
    assert await shop.balance() == 0
    await services.db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1", operations.person_id
    )
    base = f"{services.base_url}/console"
    async with opened(browser, f"{base}/sign-in", width=1280) as page:
        await operations.enter(page.context)
        await page.goto(f"{base}/cases?merchant={shop.merchant.new.id}")
        await page.get_by_role("link", name="Wrong amount received").click()
        await expect(page.locator(".sides > section")).to_have_count(2)
        ours, theirs = await page.locator(".sides > section").all_inner_texts()
        assert "₦1,000.00" in ours
        assert "Provider A sent a signed webhook" in theirs
        assert "₦400.00" in theirs
        await page.get_by_role("button", name="Query provider").click()
        await page.get_by_text("The provider's response just now: Paid, ₦400.00").wait_for()
        await page.get_by_label("Credit the merchant").check()
        await page.get_by_label("Note").fill("The customer agrees to pay the rest")
        await page.get_by_role("button", name="Resolve").click()
        await confirm(page)
        await page.get_by_text("Resolved: credit the merchant.").wait_for()
        assert not await accessibility_violations(page)
        assert "credit: The customer agrees to pay the rest" in await main_of(page)
        case = page.url.rsplit("/", 1)[1].partition("?")[0]
    assert await shop.balance() == 40_000
    assert await audited(services, f"case:{case}") == [("case.resolve", operations.email)]
    again = await operations.post(f"/cases/{case}/resolve", {"action": "keep", "note": "mine"})
    assert (again.status, await shop.balance()) == (422, 40_000)
    assert "is resolved already: credit: The customer agrees" in text(again)
    with (
        acting(Actor(ActorKind.COMMAND, None, "another")),
        pytest.raises(CaseRefused, match="resolved already"),
    ):
        await approvals.approve(payer, number)
    assert await shop.balance() == 40_000


async def test_a_resolution_that_moves_money_counts_against_the_adjustment_limit(
    services: Services, shop: Shop
) -> None:
    charge = await shop.choose(await shop.start(), "providera_ngn_va")
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "suspense")
    merchant_id, payer = shop.merchant.new.id, production_office(services)
    query = "SELECT id FROM operator_case WHERE merchant_id = $1 AND status = 'open'"
    case_id, before = await services.db.value(query, merchant_id), await shop.balance()
    resolve = CaseResolution(case_id, CaseAction.CREDIT, "Ours", merchant_id, None)
    fund = WalletFunding(merchant_id, Environment.PRODUCTION, Money.of("101", "NGN"), "first")
    await settings.change(services.db, "adjustment_limits", "NGN:500")
    try:
        with acting(Actor(ActorKind.PERSON, 901, "Gbenga", "console")):
            assert isinstance(await apply_or_ask(payer, fund), FundingResult)
            assert isinstance(await apply_or_ask(payer, resolve), ApprovalRequested)
        with acting(Actor(ActorKind.PERSON, 902, "Halima", "console")):
            assert isinstance(await apply_or_ask(payer, resolve), Case)
            assert isinstance(await apply_or_ask(payer, fund), ApprovalRequested)
    finally:
        await settings.change(services.db, "adjustment_limits", "NGN:10000000")
    assert await shop.balance() == before + 50_100


def production_office(services: Services) -> approvals.Approvals:
    return approvals.Approvals(services.db, services.keyring, is_production_mode=True)


async def test_a_difference_at_a_provider_is_shown_from_both_sides(
    services: Services, operations: SignedInUser
) -> None:
    said = "Our books say 5.00 NGN; the provider says 7.00 NGN."
    await cases.open_case(
        services.db, CaseKind.CLEARING_DIFFERS, "providera:XTS", said, merchant_id=0
    )
    query = "SELECT id FROM operator_case WHERE reference = 'providera:XTS'"
    page = text(await operations.get(f"/cases/{await services.db.value(query)}"))
    assert "<p>Our books say ₦5.00.</p>" in page
    assert "<p>The provider says ₦7.00.</p>" in page
    assert 'href="/console/providers/providera">Provider A</a>' in page


async def test_the_pages_tell_two_cases_with_the_same_number_apart(
    services: Services, operations: SignedInUser
) -> None:
    number, merchants = await two_cases(services.db, services.keyring)
    case, resolution = f"/cases/{number}", {"action": "nothing", "note": "Seen"}
    for reply in (await operations.get(case), await operations.post(f"{case}/resolve", resolution)):
        assert reply.status == 409
        assert f"The merchants {merchants[0]} and {merchants[1]} have a case" in text(reply)
    for merchant_id in merchants:
        page = text(await operations.get(f"{case}?merchant={merchant_id}"))
        assert f"REF-{merchant_id}" in page
        assert f'name="merchant" value="{merchant_id}"' in page
    assert (await operations.get(f"{case}?merchant=0")).status == 404
    given = {**resolution, "merchant": str(merchants[1])}
    reply = await operations.post(f"{case}/resolve", given)
    assert "Resolved: move no money." in await operations.follow(reply)
    found = [await cases.find(services.db, number, merchant_id=each) for each in merchants]
    assert [case.status for case in found] == ["open", "resolved"]
    listed = text(await operations.get(f"/cases?q={number}"))
    assert all(f"/console{each.path}" in listed for each in found)


async def test_an_approval_resolves_the_case_of_its_own_merchant(
    services: Services, shop: Shop, operations: SignedInUser
) -> None:
    charge = await shop.choose(await shop.start(), "providera_ngn_va")
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "suspense")
    approval_id, payer = await ask_to_credit(services, shop)
    asked = await approvals.find(services.db, approval_id)
    case = await cases.find(services.db, asked.detail["case"])
    other = await add_case(services.db, services.keyring, case.id)
    notice = "A resolution of this case awaits"
    assert notice in unescape(text(await operations.get(case.path)))
    assert notice not in unescape(text(await operations.get(cases.path(other, case.id))))
    with acting(Actor(ActorKind.COMMAND, None, "another")):
        await approvals.approve(payer, approval_id)
    assert await shop.balance() == 40_000
    assert (await cases.find(services.db, case.id, merchant_id=other)).status == "open"


async def ask_to_credit(services: Services, shop: Shop) -> tuple[int, approvals.Approvals]:
    """Requests a credit as an operations user in production mode, where a credit needs approval."""
    merchant_id = shop.merchant.new.id
    query = "SELECT id FROM operator_case WHERE merchant_id = $1"
    case_id = await services.db.value(query, merchant_id)
    payer = production_office(services)
    change = CaseResolution(
        case_id, CaseAction.CREDIT, "Mine", merchant_id, None, needs_second=True
    )
    asked = await apply_or_ask(payer, change)
    assert isinstance(asked, ApprovalRequested)
    return asked.approval_id, payer


async def test_a_failed_notification_is_resent_and_delivered(
    services: Services, settings: Settings, site: Site, support: SignedInUser
) -> None:
    merchant = await new_merchant(site.from_new_ip(), services.db, services.keyring)
    async with (
        receiving() as receiver,
        delivery.open_client(is_public_only=False, connections=4) as client,
    ):
        carrier = NotificationDelivery(IpnDestination(services.db, services.directory), client)
        deliveries = Deliveries(services, merchant, receiver, carrier, settings.migration_url)
        receiver.answers = [answer(500, b"<b>broken</b>")] * 6
        trx_ids = [await deliveries.finish_payment() for _ in range(2)]
        for _ in range(3):
            await deliveries.deliver()
            await deliveries.skip_to_next_attempt()
        assert [await deliveries.state(trx_id) for trx_id in trx_ids] == ["failed"] * 2
        [first] = await deliveries.notifications(trx_ids[0])
        listed = text(await support.get(f"/notifications?merchant={merchant.new.id}"))
        assert all(trx_id in listed for trx_id in trx_ids)
        path = f"/notifications/{first.id}"
        assert "Attempt 3: HTTP 500" in text(await support.get(path))
        reply = await support.post(f"{path}/redeliver", {})
        assert "is being sent again" in await support.follow(reply)
        await deliveries.deliver()
        assert "Attempt 4: HTTP 200" in text(await support.get(path))
        # This is the merchant's second failed notification.
        failed = {"merchant": str(merchant.new.id), "since": "2026-01-01T00:00"}
        reply = await support.post("/notifications/redeliver-failed", failed)
        assert "Resending 1 notification." in await support.follow(reply)
        await deliveries.deliver()
        assert [await deliveries.state(trx_id) for trx_id in trx_ids] == ["delivered"] * 2
    done = await audited(services, f"notification:{first.id}")
    assert done == [("notification.redeliver", support.email)]
    for since in ("", "yesterday", "2026-02-31T10:00"):
        reply = await support.post("/notifications/redeliver-failed", {"since": since})
        assert (reply.status, reply.headers["location"]) == (303, "/console/notifications")


async def test_a_decision_is_checked_before_the_password_is_asked(
    services: Services, payer: PayoutMerchant, shop: Shop, site: Site
) -> None:
    trx_id, refund = await payer.pay_out(MANUAL), await _refund(shop)
    user = await administrator(services, site, "decides@console.example", ConsoleRole.OPERATIONS)
    for path, field in (
        (f"/payouts/{trx_id}/complete", "bank_reference"),
        (f"/payouts/{trx_id}/reject", "reason"),
        (f"/refunds/{refund}/confirm", "note"),
        (f"/refunds/{refund}/reject", "reason"),
    ):
        wrong = text(await user.post(path, {field: ""}))
        assert "must have 1 to" in wrong, path
        assert "Your password" not in wrong, path
        assert "Your password" in text(await user.post(path, {field: "As agreed"})), path
    assert (await payer.payout(trx_id)).status == "pending"
    assert (await decisions.find(services.db, refund)).status == "pending"


async def test_support_sees_the_queues_and_can_decide_nothing(
    services: Services, payer: PayoutMerchant, shop: Shop, support: SignedInUser
) -> None:
    await support.step_up(services)
    trx_id = await payer.pay_out(MANUAL)
    case, refund = await _case(services, shop), await _refund(shop)
    for path, fields in (
        (f"/payouts/{trx_id}/complete", {"bank_reference": "FT-1"}),
        (f"/payouts/{trx_id}/reject", {"reason": "no"}),
        (f"/refunds/{refund}/confirm", {"note": "paid"}),
        (f"/refunds/{refund}/reject", {"reason": "no"}),
        (f"/cases/{case}/resolve", {"action": "nothing", "note": "seen"}),
        (f"/cases/{case}/ask", {}),
    ):
        page = await support.get(path.rsplit("/", 1)[0])
        assert page.status == 200
        assert f'action="/console{path}"' not in text(page)
        assert (await support.post(path, fields)).status == 403, path
    assert (await payer.payout(trx_id)).status == "pending"
    assert (await decisions.find(services.db, refund)).status == "pending"
    assert "With your role, you can view this page but not change anything." in text(
        await support.get(f"/payouts/{trx_id}")
    )


async def _case(services: Services, shop: Shop) -> int:
    """Creates a case about a charge that was paid with a wrong amount."""
    started = await shop.start()
    charge = await shop.choose(started, "providera_ngn_va")
    await shop.pay(charge, amount=5000)
    await shop.until_charge(charge, "suspense")
    case: int = await services.db.value(
        "SELECT id FROM operator_case WHERE reference = $1", charge.reference
    )
    return case


async def _refund(shop: Shop) -> str:
    """Creates a refund of a payment through provider B, which has no refund API."""
    started = await shop.start()
    charge = await shop.choose(started, "providerb-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    refund = await initiate.start(shop.services.db, started.trx_id, None, "The shoes were small")
    await shop.simulator.run_jobs()
    return refund.trx_id


async def test_a_refund_that_may_be_paid_is_confirmed_only_as_already_paid(
    shop: Shop, operations: SignedInUser
) -> None:
    """The provider's response was lost, and the provider has no status query for refunds."""
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providerc-ngn"))
    await shop.until(started, "success")
    lost = {"call": "refund", "fault": "5xx_after_accept"}
    await shop.simulator.control("c/faults", {"next": [lost]})
    refund = await initiate.start(shop.services.db, started.trx_id, None, "The shoes were small")
    await shop.simulator.run_jobs()
    await shop.simulator.run_job_now("refund", refund.trx_id)
    path = f"/refunds/{refund.trx_id}"
    page = text(await operations.get(path))
    assert "Already paid to the customer" in page
    assert "Checked at the provider" in page
    reply = await operations.post(f"{path}/confirm", {"note": "FT-1"})
    assert "no status query" in text(reply)
    assert (await decisions.find(shop.services.db, refund.trx_id)).is_open
    reply = await operations.post(f"{path}/confirm", {"note": "FT-1", "already_paid": "on"})
    assert "Confirmed." in await operations.follow(reply)


async def test_a_manual_refund_is_confirmed_once_and_shows_by_whom(
    services: Services, shop: Shop, operations: SignedInUser
) -> None:
    refund = await _refund(shop)
    path = f"/refunds/{refund}"
    assert refund in text(await operations.get("/refunds"))
    for note in ("", "x" * 201, "two\nlines"):
        refused = await operations.post(f"{path}/confirm", {"note": note})
        assert refused.status == 422, note
        assert "1 to 200 printable characters" in text(refused)
    assert (await operations.post(f"{path}/confirm", {"note": "FT-88"})).status == 303
    again = await operations.post(f"{path}/reject", {"reason": "no"})
    message = f"The refund is completed already. {operations.email} paid the refund: FT-88"
    assert (again.status, message in text(again)) == (422, True)
    lines = await audited(services, f"refund:{refund}")
    assert lines[-1] == ("refund.confirm", operations.email)
    assert "Needs manual payment" not in text(await operations.get(f"/refunds?q={refund}"))


async def test_a_stuck_payout_is_requeued_and_rejected_only_when_allowed(
    services: Services, payer: PayoutMerchant, operations: SignedInUser
) -> None:
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await payer.simulator.control("a/faults", quiet)
    trx_id = await stuck(payer)
    fresh = await payer.pay_out()
    early = await operations.post(f"/payouts/{fresh}/reject", {"reason": "no"})
    assert (early.status, b"The provider decides the outcome" in early.body) == (422, True)
    path = f"/payouts/{trx_id}"
    listed = text(await operations.get(f"/payouts?show=stuck&merchant={payer.merchant.new.id}"))
    assert (trx_id in listed, fresh in listed) == (True, False)
    rows = unchunked(await operations.get(f"/payouts?show=stuck&q={trx_id}&format=csv"))
    assert rows.decode().splitlines()[1].startswith(trx_id)
    assert (await operations.post(f"{path}/requeue", {})).status == 303
    early = await operations.post(f"{path}/reject", {"reason": "lost"})
    assert (early.status, b"within the last 10 minutes" in early.body) == (422, True)
    await pass_time(services.db, trx_id, "11 min")
    assert (await operations.post(f"{path}/reject", {"reason": "lost"})).status == 303
    assert (await payer.payout(trx_id)).status == "failed"
    late = await operations.post(f"{path}/requeue", {})
    assert "The payout is failed already." in text(late)
    assert await audited(services, f"payout:{trx_id}") == [
        ("payout.requeue", operations.email),
        ("payout.reject", operations.email),
    ]


async def test_manual_payouts_wait_in_order_production_first(
    services: Services, payer: PayoutMerchant, site: Site, operations: SignedInUser
) -> None:
    merchant_id = payer.merchant.new.id
    trx_ids = [await payer.pay_out(MANUAL, payout_amount=500 + n) for n in range(3)]
    sandbox = PayoutMerchant(
        services, payer.simulator, await new_merchant(site, services.db, services.keyring)
    )
    pending = await sandbox.pay_out(MANUAL)
    first = await queue.manual(services.db, Everyone(merchant_id), limit=2)
    rest = await queue.manual(services.db, Everyone(merchant_id), after=first.next)
    assert [row.trx_id for row in first.rows + rest.rows] == trx_ids
    everybody = [
        row.trx_id async for rows in in_pages(queue.manual, services.db, Everyone()) for row in rows
    ]
    assert everybody.index(trx_ids[2]) < everybody.index(pending)
    rows = unchunked(await operations.get(f"/payouts?merchant={merchant_id}&format=csv"))
    assert [line.split(",")[0] for line in rows.decode().splitlines()[1:]] == trx_ids
    unknown = pending[:-1] + ("0" if pending[-1] != "0" else "1")
    for odd in ("TXN-NOT-THERE", unknown, "%27"):
        assert (await operations.get(f"/payouts/{odd}")).status == 404
    for number in ("0", "9" * 30):
        assert (await operations.get(f"/cases/{number}")).status == 404
    assert (await operations.get("/payouts?merchant=0")).status == 400


async def test_a_failed_job_is_retried_once_and_logged(
    services: Services, support: SignedInUser, shop: Shop
) -> None:
    subject = new_reference()
    await create_failed_job(services, shop.merchant.new.id, subject)
    page = text(await support.get(f"/jobs?q={subject}"))
    assert "12 of 14" in page
    job = {"merchant_id": str(shop.merchant.new.id), "kind": "of-a-test", "subject": subject}
    assert (await support.post("/jobs/retry", job)).status == 303
    is_due = "SELECT parked_at IS NULL AND failures = 0 FROM job WHERE subject = $1"
    assert await services.db.value(is_due, subject) is True
    assert (await support.post("/jobs/retry", job)).status == 303
    assert (await support.post("/jobs/retry", {**job, "merchant_id": "x"})).status == 303
    lines = await audited(services, f"job:of-a-test:{subject}")
    assert lines == [("job.retry", support.email)]
    assert "12 of 14" not in text(await support.get(f"/jobs?kind=of-a-test&q={subject}"))


async def test_a_payout_on_hold_is_shown_with_its_reason_and_can_be_rejected(
    payer: PayoutMerchant, operations: SignedInUser, support: SignedInUser
) -> None:
    trx_id, manual_id = await payer.pay_out(), await payer.pay_out(MANUAL)
    await payer.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    merchant = f"merchant={payer.merchant.new.id}"
    listed = text(await operations.get(f"/payouts?show=on_hold&{merchant}"))
    assert (trx_id in listed, "The merchant is disabled." in listed) == (True, True)
    rows = unchunked(await operations.get(f"/payouts?show=on_hold&q={trx_id}&format=csv"))
    assert b"The merchant is disabled." in rows
    assert "The merchant is disabled." in text(await operations.get(f"/payouts?{merchant}"))
    assert "The merchant is disabled." in text(await support.get(f"/payouts/{trx_id}"))
    refused = await operations.post(f"/payouts/{manual_id}/complete", {"bank_reference": "FT-1"})
    assert (refused.status, "Do not pay this payout" in text(refused)) == (422, True)
    paid = {"bank_reference": "FT-1", "already_paid": "on"}
    assert (await operations.post(f"/payouts/{manual_id}/complete", paid)).status == 303
    assert (await payer.payout(manual_id)).status == "completed"
    assert (await operations.post(f"/payouts/{trx_id}/reject", {"reason": "No."})).status == 303
    assert (await payer.payout(trx_id)).status == "canceled"


async def test_an_administrator_refunds_on_behalf_of_a_disabled_merchant_with_the_commission(
    shop: Shop, operations: SignedInUser, support: SignedInUser
) -> None:
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    await shop.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    path = f"/transactions/{started.trx_id}/refund"
    assert path in text(await operations.get(f"/transactions/{started.trx_id}"))
    assert path not in text(await support.get(f"/transactions/{started.trx_id}"))
    assert "15.00" in text(await operations.get(path))
    given = {"amount": "", "reason": "Fault", "refunded_before": "0", "with_commission": "on"}
    assert (await support.post(path, given)).status == 403
    review = text(await operations.post(f"{path}/review", given))
    assert "Refund ₦1,015.00</button>" in review
    assert (await shop.payment(started)).refundable.amount == 1000
    assert (await operations.post(path, given)).status == 303
    payment = await shop.payment(started)
    assert payment.refundable.minor == 0
    again = await operations.post(path, given)
    assert (again.status, "started meanwhile" in text(again)) == (409, True)
    await shop.change(MerchantUpdate(status=MerchantStatus.APPROVED))


async def test_the_refund_form_says_what_the_payments_provider_cannot_refund(
    shop: Shop, operations: SignedInUser, owner: Database
) -> None:
    started = await shop.start(payment_amount=1000)
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    path, note = f"/transactions/{started.trx_id}/refund", "cannot refund a card payment"
    assert note not in text(await operations.get(path))
    hosted, one_time = "provider = 'monnify'", "provider = 'monnify', account_number = '1'"
    async with changed(owner, "charge", hosted, started.trx_id):
        assert note in text(await operations.get(path))
    async with changed(owner, "charge", one_time, started.trx_id):
        assert note not in text(await operations.get(path))


async def test_a_case_whose_difference_is_gone_is_closed_in_one_click(
    services: Services, operations: SignedInUser
) -> None:
    reference = "providerz:NGN"
    kind, detail = CaseKind.CLEARING_DIFFERS, "Our books say 5.00 NGN; the provider says 1.00 NGN."
    await cases.open_case(services.db, kind, reference, detail, merchant_id=0)
    case = await services.db.value("SELECT id FROM operator_case WHERE reference = $1", reference)
    assert "Close case" not in text(await operations.get(f"/cases/{case}"))
    early = await operations.post(f"/cases/{case}/close", {})
    assert "still exists" in text(early)
    await cases.mark_vanished(
        services.db, kind, reference, "Both say 5.00 NGN.", merchant_id=0, is_vanished=True
    )
    page = text(await operations.get(f"/cases/{case}"))
    assert "There is no longer a difference" in page
    assert "Close case" in page
    await operations.post(f"/cases/{case}/close", {})
    assert (await cases.find(services.db, case)).status == "resolved"
