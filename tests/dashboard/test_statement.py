"""The statement of a wallet: each line links to the page of its transaction."""

import re

from manilla.merchants.merchants import CommissionBearer
from manilla.refunds import initiate
from manilla.services import Services
from tests.payments.conftest import production, shop, simulator
from tests.payments.shop import Shop
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser, administrator, member

__all__ = ["production", "shop", "simulator"]

STATEMENT = "/production/wallets/NGN"


async def _links(user: SignedInUser, path: str) -> list[str]:
    """Returns the targets of the statement's links, newest line first."""
    page = await user.get(path)
    assert page.status == 200
    return re.findall(r'<a class="row-link" href="([^"]+)"', page.body.decode())


async def test_each_line_about_a_transaction_links_to_its_page(
    shop: Shop, services: Services, site: Site
) -> None:
    merchant_id = shop.merchant.new.id
    await shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await shop.fund("15")
    started = await shop.start(payment_amount=1000)
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    refund = await initiate.start(services.db, started.trx_id, "100", "Returned")
    owner = await member(services, site, merchant_id)
    links = await _links(owner, STATEMENT)
    assert [link.removeprefix("/dashboard/production") for link in links] == [
        f"/refunds/{refund.trx_id}",
        f"/payments/{started.trx_id}",  # the commission
        f"/payments/{started.trx_id}",
    ]
    console = await administrator(services, site, f"statement-{merchant_id}@example.com")
    links += await _links(console, f"/merchants/{merchant_id}/wallets/production/NGN")
    for link in links:
        user = owner if link.startswith("/dashboard") else console
        assert (await user.get(link)).status in (200, 303), link
