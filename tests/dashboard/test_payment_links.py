"""Payment links in the dashboard: creating, sharing and disabling links, and their revenue."""

import re
from urllib.parse import quote, unquote

import pytest
from playwright.async_api import Browser

from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment_links import store
from manilla.payments.payment_links.link import LinkTerms, PaymentLink
from manilla.payments.payment_links.paying import CustomerInput
from manilla.payments.payment_links.store import create
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site

LINKS = "/sandbox/links"


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def new_link(dashboard: MerchantDashboard, **changed: object) -> PaymentLink:
    merchant = dashboard.merchant
    terms = {"title": "Adire cloth", "currency": "NGN", "amount_minor": 100_000, **changed}
    tenant = Tenant(merchant.new.id, merchant.environment)
    return await create(dashboard.services.db, tenant, LinkTerms(**terms))  # type: ignore[arg-type]


async def pay(dashboard: MerchantDashboard, link: PaymentLink) -> str:
    services, address = dashboard.services, dashboard.merchant.site.address
    url = await services.link_payments.start(link.id, CustomerInput(), address)
    trx_id = url.partition("/checkout/")[2].partition("?")[0]
    await services.checkout.pretend(trx_id, SandboxOutcome.PAY)
    return trx_id


async def test_a_created_link_can_be_shared(dashboard: MerchantDashboard) -> None:
    fields = {"title": "Adire & cloth", "amount": "12,500.50", "currency": "NGN"}
    created = await dashboard.owner.post(LINKS, fields)
    page = (await dashboard.owner.get(created.location.removeprefix("/dashboard"))).body.decode()
    link_id = created.location.rpartition("/")[2]
    path = (await store.find(dashboard.services.db, link_id)).path
    url = dashboard.services.base_url + path
    shared = re.search(r'href="https://wa\.me/\?text=([^"]+)"', page)
    assert shared is not None
    assert unquote(shared[1]) == f"Adire & cloth (₦12,500.50). Pay Ada Stores here: {url}"
    assert f'data-copy="{url}"' in page
    assert f'src="{path}/qr.svg"' in page


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", ""),
        ("title", "two\nlines"),
        ("amount", "0.5"),
        ("amount", "10.001"),
        ("currency", "USD"),
        ("description", "x" * 2001),
        ("expires_at", "2020-01-01T00:00"),
        ("expires_at", "tomorrow"),
        ("success_redirect", "javascript:alert(1)"),
    ],
)
async def test_an_invalid_field_is_marked_and_nothing_is_created(
    dashboard: MerchantDashboard, field: str, value: str
) -> None:
    reply = await dashboard.owner.post(LINKS, {"title": "Cloth", "currency": "NGN", field: value})
    assert reply.status in (400, 422)
    assert f'id="h-{field}"' in reply.body.decode()
    assert await dashboard.count("payment_link") == 0


async def test_the_list_shows_and_exports_what_links_have_earned(
    dashboard: MerchantDashboard,
) -> None:
    link, other = await new_link(dashboard), await new_link(dashboard, title="Donation")
    await pay(dashboard, link)
    page = (await dashboard.owner.get(LINKS)).body.decode()
    assert "2 payment links, 1 payment, earned ₦1,000.00" in page
    found = (await dashboard.owner.get(f"{LINKS}?q=donation")).body.decode()
    assert (other.id in found, link.id in found) == (True, False)
    rows = {row[0]: row for row in await dashboard.rows(LINKS, status="active")}
    assert (rows[link.id][7:9], rows[other.id][7]) == (["1", "1000.00"], "0")


async def test_a_payment_shows_its_link_and_the_list_filters_by_it(
    dashboard: MerchantDashboard,
) -> None:
    link = await new_link(dashboard)
    paid, other = await pay(dashboard, link), await dashboard.pay_in()
    page = (await dashboard.owner.get(f"/sandbox/payments/{paid}")).body.decode()
    assert f'href="/dashboard/sandbox/links/{link.id}"' in page
    rows = await dashboard.rows("/sandbox/payments", link_id=link.id)
    assert [row[0] for row in rows] == [paid]
    assert other not in str(rows)


async def test_a_link_is_edited_and_enabled_again(dashboard: MerchantDashboard) -> None:
    link = await new_link(dashboard)
    path = f"{LINKS}/{link.id}"
    form = (await dashboard.owner.get(f"{path}/edit")).body.decode()
    assert f'value="{link.title}"' in form
    wrong = await dashboard.owner.post(f"{path}/edit", {"title": "New", "amount": "0.10"})
    assert wrong.status == 400
    edited = {"title": "New title", "amount": "2,500.50", "expires_at": "2034-05-06T07:08"}
    page = await dashboard.owner.follow(await dashboard.owner.post(f"{path}/edit", edited))
    assert "New title" in page
    assert "₦2,500.50" in page
    assert 'value="2034-05-06T07:08"' in (await dashboard.owner.get(f"{path}/edit")).body.decode()
    await dashboard.owner.post(f"{path}/disable", {})
    assert "Enable" in (await dashboard.owner.get(path)).body.decode()
    page = await dashboard.owner.follow(await dashboard.owner.post(f"{path}/enable", {}))
    assert "Payment link enabled." in page


async def test_a_disabled_link_takes_no_more_payments(dashboard: MerchantDashboard) -> None:
    link = await new_link(dashboard)
    reply = await dashboard.owner.post(f"{LINKS}/{link.id}/disable", {})
    assert reply.status == 303
    with pytest.raises(Refusal):
        await pay(dashboard, link)


async def test_links_of_others_and_of_the_other_environment_are_not_found(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    link = await new_link(dashboard)
    other = await new_dashboard(services, site)
    for user, path in (
        (other.owner, f"{LINKS}/{link.id}"),
        (dashboard.owner, f"/production/links/{link.id}"),
        (dashboard.owner, f"{LINKS}/{quote('ß')}"),
    ):
        assert (await user.get(path)).status == 404
        assert (await user.post(f"{path}/disable", {})).status == 404


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
async def test_the_qr_code_is_visible(
    dashboard: MerchantDashboard, browser: Browser, width: int
) -> None:
    link = await new_link(dashboard)
    async with dashboard.open_page(browser, f"{LINKS}/{link.id}", width=width) as page:
        picture = page.get_by_role("img", name="QR code of the payment link")
        assert await picture.evaluate("each => each.complete && each.naturalWidth > 0")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_link_of_a_customer_needs_an_existing_one(dashboard: MerchantDashboard) -> None:
    fields = {"title": "Fees", "currency": "NGN", "customer_reference": "pupil-17"}
    page = (await dashboard.owner.post(LINKS, fields)).body.decode()
    assert "There is no such customer." in page
    await dashboard.owner.post("/sandbox/customers", {"reference": "pupil-17", "name": "Ada Obi"})
    created = await dashboard.owner.post(LINKS, fields)
    assert created.status == 303, created.body
    path = created.location.removeprefix("/dashboard")
    assert "pupil-17" in (await dashboard.owner.get(path)).body.decode()
