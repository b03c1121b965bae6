"""Pages say where the money is, who reported that and when, and what happens next."""

import re
from datetime import timedelta
from html import unescape

import pytest

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.lookup import querying
from manilla.payments.charges import CUSTOMER_SENT
from manilla.people.roles import ConsoleRole, Role
from manilla.refunds import initiate as refunds
from manilla.refunds.refund import RefundStatus
from manilla.services import Services
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.web.signed_in_user import SignedInUser, administrator, member


@pytest.fixture
async def payer(
    services: Services,
    simulated_providers: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
) -> PayoutMerchant:
    """A merchant with money, and a provider that settles on command and sends no webhooks."""
    await simulated_providers.reset()
    await simulated_providers.control("a/balance", {"available": 100_000_000})
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await simulated_providers.control("a/faults", quiet)
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    payer = PayoutMerchant(services, simulated_providers, merchant)
    await payer.fund("10000")
    return payer


async def _story(user: SignedInUser, path: str) -> str:
    """Returns the sentences on top of a page, without markup."""
    reply = await user.get(path)
    assert reply.status == 200, reply.body
    found = re.search(r'<section id="story".*?</section>', reply.body.decode(), re.DOTALL)
    assert found is not None, path
    return " ".join(unescape(re.sub("<[^>]*>", "", found[0])).split())


async def _is_due(db: Database, kind: JobKind, merchant_id: int, subject: str) -> bool:
    due = await jobs.due_at(db, merchant_id, kind, subject)
    return due is not None and await db.value("SELECT $1 <= now()", due)


async def test_a_payout_shows_the_providers_answers_until_it_is_delivered(
    payer: PayoutMerchant, services: Services, site: Site, db: Database
) -> None:
    merchant_id = payer.merchant.new.id
    owner = await member(services, site, merchant_id)
    admin = await administrator(services, site, f"story-{merchant_id}@example.com")
    trx_id = await payer.pay_out()
    ours, theirs = f"/production/payouts/{trx_id}", f"/transactions/{trx_id}"
    assert "Not sent yet." in await _story(owner, ours)

    await payer.simulator.run_jobs()
    sent = await _story(owner, ours)
    assert "Sent to Provider A at" in sent
    assert "and accepted at" in sent
    assert "Query provider" in sent
    await payer.check_now(trx_id)
    for user, path in ((owner, ours), (admin, theirs), (admin, f"/payouts/{trx_id}")):
        waiting = await _story(user, path)
        assert "Provider A says: still in progress. Last queried at" in waiting, path
        assert "The next status query is due at" in waiting, path
        assert "providera" not in waiting, path

    await payer.settle("a", trx_id, "success")
    await payer.check_until(trx_id, "completed")
    assert "Provider A delivered ₦1,000.00 to" in await _story(owner, ours)


async def test_a_payout_whose_provider_does_not_answer_says_so(
    payer: PayoutMerchant, services: Services, site: Site
) -> None:
    owner = await member(services, site, payer.merchant.new.id)
    await payer.simulator.control(
        "a/faults", {"next": [{"call": "transfer", "fault": "5xx_after_accept"}]}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    page = f"/production/payouts/{trx_id}"
    assert "has not confirmed yet that it has the transfer" in await _story(owner, page)
    await payer.simulator.control(
        "a/faults", {"next": [{"call": "transfer_status", "fault": "5xx_before"}]}
    )
    await payer.check_now(trx_id)
    assert "Provider A gave no usable answer at" in await _story(owner, page)


async def test_a_requested_query_makes_the_job_due_but_never_just_after_the_send(
    payer: PayoutMerchant, services: Services, site: Site, db: Database
) -> None:
    merchant_id = payer.merchant.new.id
    trx_id = await payer.pay_out()
    with pytest.raises(querying.NothingToQuery):  # a query must not send the payout earlier
        await querying.query_now(db, merchant_id, trx_id)
    await payer.simulator.run_jobs()
    await jobs.postpone(db, merchant_id, JobKind.TRANSFER, trx_id, timedelta(minutes=5))
    finance = await member(services, site, merchant_id, Role.FINANCE)
    path = f"/production/payouts/{trx_id}/query"
    assert "The provider is being queried." in await finance.follow(await finance.post(path, {}))
    assert not await _is_due(db, JobKind.TRANSFER, merchant_id, trx_id)

    await db.execute("UPDATE payout SET began_at = now() - interval '1 minute'")
    viewer = await member(services, site, merchant_id, Role.VIEWER)
    assert (await viewer.post(path, {})).status == 403
    assert "Query provider" not in await _story(viewer, f"/production/payouts/{trx_id}")
    assert not await _is_due(db, JobKind.TRANSFER, merchant_id, trx_id)
    assert (await finance.post(path, {})).status == 303
    assert await _is_due(db, JobKind.TRANSFER, merchant_id, trx_id)
    subject = f"payout:{trx_id}"
    assert await db.number("SELECT count(*) FROM audit WHERE subject = $1", subject) == 2

    support = await administrator(
        services, site, f"asks-{merchant_id}@example.com", ConsoleRole.SUPPORT
    )
    asked = await support.post(f"/transactions/{trx_id}/query", {})
    assert "The provider is being queried." in await support.follow(asked)


async def test_a_payment_shows_the_account_and_what_customer_and_provider_said(
    payer: PayoutMerchant, services: Services, site: Site, db: Database
) -> None:
    merchant_id = payer.merchant.new.id
    shop = Shop(services, payer.simulator, payer.merchant)
    owner = await member(services, site, merchant_id)
    admin = await administrator(services, site, f"paid-{merchant_id}@example.com")
    started = await shop.start()
    ours, theirs = f"/production/payments/{started.trx_id}", f"/transactions/{started.trx_id}"
    assert "The customer has not opened checkout yet." in await _story(owner, ours)

    charge = await shop.choose(started, "providera_ngn_va")
    for _ in range(2):
        await services.checkout.report_sent(started.trx_id)
    said = await db.number("SELECT count(*) FROM timeline WHERE event = $1", CUSTOMER_SENT)
    assert said == 1
    await services.checkout.look_again(started.trx_id)
    assert "Provider A says: still in progress. Last queried at" in await _story(owner, ours)
    await payer.simulator.run_job_now(JobKind.CHARGE, charge.reference)
    for user, path in ((owner, ours), (admin, theirs)):
        waiting = await _story(user, path)
        assert f"The customer got the account number {charge.account_number}, " in waiting
        assert "The customer said at" in waiting
        assert "Provider A says: still in progress. Last queried at" in waiting
        page = (await user.get(path)).body.decode()
        assert "providera_ngn_va" not in page
        assert "Account given" in page
        assert "The customer said that the money was sent" in page

    await jobs.postpone(db, merchant_id, JobKind.CHARGE, charge.reference, timedelta(minutes=5))
    assert (await owner.post(f"{ours}/query", {})).status == 303
    assert await _is_due(db, JobKind.CHARGE, merchant_id, charge.reference)
    await shop.pay(charge)
    await shop.until(started, "success")
    assert "Provider A confirmed the payment at" in await _story(owner, ours)


async def test_a_merchant_sees_its_refunds_and_what_happens_with_each(
    payer: PayoutMerchant, services: Services, site: Site, db: Database
) -> None:
    merchant_id = payer.merchant.new.id
    shop = Shop(services, payer.simulator, payer.merchant)
    owner = await member(services, site, merchant_id)
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await payer.simulator.run_job_now(JobKind.CHARGE, charge.reference)
    await shop.until(started, "success")
    refund = await refunds.start(db, started.trx_id, "100", "Damaged")
    page = f"/production/refunds/{refund.trx_id}"
    assert "Not sent yet." in await _story(owner, page)
    home = (await owner.get("/production")).body.decode()
    assert "/dashboard/production/refunds?status=pending" in home
    assert refund.trx_id in (await owner.get("/production/refunds")).body.decode()
    assert (await owner.get(f"/sandbox/refunds/{refund.trx_id}")).status == 404

    await payer.simulator.control("a/faults", {"settle_seconds": 0})
    await shop.until_refunded(started)
    assert "paid ₦100.00 back to the customer" in await _story(owner, page)
    listed = await owner.get(f"/production/refunds?status={RefundStatus.PENDING}")
    assert refund.trx_id not in listed.body.decode()
