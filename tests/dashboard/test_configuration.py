"""The pages for gateways, commission payer, test money, resends and invitations, over HTTP.

`test_journeys.py` tests the same pages in a browser.
"""

import re
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.people import invitations, throttle
from manilla.people.roles import Role
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.mail.outbox_reader import letters_to
from tests.notify.deliveries import Deliveries, delivery_worker
from tests.notify.receiver import answer, receiving
from tests.payments.orders import INITIATE, order
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator
from tests.web.http_browser import HttpBrowser
from tests.web.signed_in_user import member

GATEWAYS, COMMISSION = "/sandbox/gateways", "/sandbox/commission"
WALLET = "/sandbox/wallets/NGN"


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    async with running_simulator(services):
        yield await new_dashboard(services, site)


async def _offer(dashboard: MerchantDashboard) -> dict[str, object]:
    """Returns the terms of a new payment, from an API process that has reloaded all changes."""
    await dashboard.services.directory._refresh(0)
    info: dict[str, object] = (await dashboard.merchant.post(INITIATE, order())).json["info"]
    return info


async def _offered(dashboard: MerchantDashboard) -> list[str]:
    codes = (await _offer(dashboard))["merchant_payment_method_codes"]
    assert isinstance(codes, list)
    return codes


async def test_checkout_offers_the_selected_gateways_and_all_if_none_is_selected(
    dashboard: MerchantDashboard,
) -> None:
    everything = await _offered(dashboard)
    chosen = everything[-1]
    reply = await dashboard.owner.post(GATEWAYS, {"which": "selected", "gateway": chosen})
    page = await dashboard.owner.follow(reply)
    assert "Checkout now offers the selected gateways." in page
    assert page.count("You have not selected this method.") == len(everything) - 1
    assert await _offered(dashboard) == [chosen]
    reply = await dashboard.owner.post(GATEWAYS, {"which": "all", "gateway": chosen})
    assert "Checkout now offers all available gateways." in await dashboard.owner.follow(reply)
    assert await _offered(dashboard) == everything


async def test_a_gateway_moves_one_place_up_or_down(dashboard: MerchantDashboard) -> None:
    async def shown() -> list[str]:
        page = (await dashboard.owner.get(GATEWAYS)).body.decode()
        return re.findall(r'name="gateway"[^>]* value="([^"]+)"', page)

    first, second, *others = await shown()
    assert (await dashboard.owner.post(f"{GATEWAYS}/move", {"down": first})).status == 303
    assert await shown() == [second, first, *others]
    assert (await dashboard.owner.post(f"{GATEWAYS}/move", {"up": first})).status == 303
    assert await shown() == [first, second, *others]


async def test_the_chosen_bearer_pays_the_commission(
    dashboard: MerchantDashboard, services: Services
) -> None:
    rate = MerchantUpdate(commission_percent=Decimal("1.5"))
    await merchants.change(services.db, services.keyring, dashboard.merchant.new.id, rate)
    example = (await dashboard.owner.get(f"{COMMISSION}/example?amount=20000")).body.decode()
    assert "₦20,000.00" in example
    example = (await dashboard.owner.get(f"{COMMISSION}/example?amount=nothing")).body.decode()
    assert "₦10,000.00" in example
    assert (await _offer(dashboard))["customer_pays"] == 1015
    reply = await dashboard.owner.post(COMMISSION, {"bearer": "merchant"})
    assert "Your business now pays the commission." in await dashboard.owner.follow(reply)
    assert (await _offer(dashboard))["customer_pays"] == 1000
    assert (await dashboard.owner.post(COMMISSION, {"bearer": "nobody"})).status == 400


async def test_test_money_is_added_in_the_sandbox_only(dashboard: MerchantDashboard) -> None:
    before = await dashboard.balance()
    reply = await dashboard.owner.post(f"{WALLET}/top-up", {"amount": "2,500.50"})
    assert "Test money added." in await dashboard.owner.follow(reply)
    assert await dashboard.balance() == before + 250_050
    for amount in ("-1", "0", "much", "10000000.01"):
        reply = await dashboard.owner.post(f"{WALLET}/top-up", {"amount": amount})
        assert "notice-danger" in await dashboard.owner.follow(reply), amount
    production = await dashboard.owner.post("/production/wallets/NGN/top-up", {"amount": "1"})
    assert production.status == 404
    assert await dashboard.balance() == before + 250_050


async def test_a_notification_is_sent_again_with_the_same_id(dashboard: MerchantDashboard) -> None:
    async with receiving() as receiver, delivery_worker(dashboard.services) as delivering:
        deliveries = Deliveries(dashboard.services, dashboard.merchant, receiver, delivering)
        receiver.answers = [answer(500, b"<b>out of order</b>")]
        trx_id = await deliveries.finish_payment()
        await deliveries.deliver()
        [notification] = await deliveries.notifications(trx_id)
        path = f"/sandbox/notifications/{notification.id}"
        assert b"Attempt 1: HTTP 500" in (await dashboard.owner.get(path)).body
        reply = await dashboard.owner.post(f"{path}/redeliver", {})
        assert "is being sent again under the same id" in await dashboard.owner.follow(reply)
        await deliveries.deliver()
    assert b"Attempt 2: HTTP 200" in (await dashboard.owner.get(path)).body
    first, second = receiver.received
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_an_invited_colleague_joins_once_with_the_role_of_the_invitation(
    dashboard: MerchantDashboard, site: Site
) -> None:
    email = f"uche-{dashboard.merchant.new.id}@example.com"
    shown = await dashboard.owner.post("/team/invite", {"email": email, "role": "finance"})
    found = re.search(r"/dashboard(/invitation/[A-Za-z0-9_-]+)", shown.body.decode())
    assert found
    async with HttpBrowser.of(site) as theirs:
        form = await theirs.get(found.group(1))
        given = {"name": "Uche", "password": "four loud cedi notes", "csrf": form.csrf}
        assert (await theirs.post(found.group(1), given)).status == 303
        assert (await theirs.get("/sandbox/payouts/new")).status == 200
        assert (await theirs.get("/sandbox/credentials")).status == 403
        assert (await theirs.get(found.group(1))).status == 404
    assert email in (await dashboard.owner.get("/team")).body.decode()


async def test_invitations_to_an_email_address_are_limited_for_all_merchants_together(
    services: Services, site: Site
) -> None:
    one, other = await new_dashboard(services, site), await new_dashboard(services, site)
    email = f"flooded-{one.merchant.new.id}@example.com"
    for number in range(throttle.INVITATIONS_PER_EMAIL + 2):
        inviting = one if number % 2 else other
        reply = await inviting.owner.post("/team/invite", {"email": email, "role": "viewer"})
        if number < throttle.INVITATIONS_PER_EMAIL:
            assert reply.status == 200
        else:
            assert "Too many attempts" in await inviting.owner.follow(reply)
    letters = await letters_to(services.db, services.letters, email)
    assert len(letters) == throttle.INVITATIONS_PER_EMAIL


async def test_an_invitation_is_withdrawn(dashboard: MerchantDashboard, services: Services) -> None:
    merchant_id = dashboard.merchant.new.id
    email = f"withdrawn-{merchant_id}@example.com"
    await dashboard.owner.post("/team/invite", {"email": email, "role": "viewer"})
    [invitation] = await invitations.list_open(services.db, merchant_id)
    path = f"/team/invitations/{invitation.id}/withdraw"
    assert (await dashboard.owner.post(path, {})).status == 303
    assert await invitations.list_open(services.db, merchant_id) == []


async def test_customers_get_receipts_only_if_the_merchant_wants_it(
    dashboard: MerchantDashboard, services: Services
) -> None:
    for fields, expected in (({"receipts": "on"}, True), ({}, False)):
        assert (await dashboard.owner.post("/sandbox/checkout/receipts", fields)).status == 303
        merchant = await merchants.get(services.db, dashboard.merchant.new.id)
        assert merchant.sends_receipts is expected


RULES = {"overpaid": "hold", "underpaid": "hold"}


async def test_the_rules_for_wrong_amounts_are_saved_and_shown(
    dashboard: MerchantDashboard, services: Services
) -> None:
    before = await merchants.get(services.db, dashboard.merchant.new.id)
    assert (before.overpaid, before.underpaid) == ("settle", "ask")
    reply = await dashboard.owner.post("/sandbox/checkout/wrong-amounts", RULES)
    page = await dashboard.owner.follow(reply)
    assert page.count('value="hold" checked') == 2
    merchant = await merchants.get(services.db, dashboard.merchant.new.id)
    assert (merchant.overpaid, merchant.underpaid) == ("hold", "hold")


async def test_the_rules_for_wrong_amounts_need_a_password(services: Services, site: Site) -> None:
    dashboard = await new_dashboard(services, site)
    merchant_id = dashboard.merchant.new.id
    finance = await member(services, site, merchant_id, role=Role.FINANCE)
    await finance.post("/sandbox/checkout/wrong-amounts", RULES)
    assert (await merchants.get(services.db, merchant_id)).overpaid == "settle"
    await finance.step_up(services)
    await finance.post("/sandbox/checkout/wrong-amounts", RULES)
    assert (await merchants.get(services.db, merchant_id)).overpaid == "hold"
    developer = await member(services, site, merchant_id, role=Role.DEVELOPER)
    assert (await developer.post("/sandbox/checkout/wrong-amounts", RULES)).status == 403


async def test_failed_notifications_are_resent_together(services: Services, site: Site) -> None:
    dashboard = await new_dashboard(services, site)
    await dashboard.pay_in(ipn_url="https://shop.example/ipn")
    merchant_id = dashboard.merchant.new.id
    await services.db.execute(
        "UPDATE notification SET state = 'failed', decided_at = now() WHERE merchant_id = $1",
        merchant_id,
    )
    path = "/sandbox/notifications/redeliver-failed"
    elsewhere = await dashboard.owner.post(path.replace("sandbox", "production"), {"days": "1"})
    assert "Resending 0 notifications." in await dashboard.owner.follow(elsewhere)
    reply = await dashboard.owner.post(path, {"days": "1"})
    assert "Resending 1 notification." in await dashboard.owner.follow(reply)
