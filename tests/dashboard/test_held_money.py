"""The page of a payment with a wrong amount shows the amounts and where the money goes."""

import pytest

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants.merchants import MerchantUpdate, OverpaidRule, UnderpaidRule
from manilla.resolutions import resolutions
from manilla.services import Services
from tests.payments.shop import HOLD, Shop
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import administrator, member


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (CaseAction.CREDIT, "Resolved: ₦720.00 was credited to your wallet."),
        (CaseAction.RETURN, "Resolved: ₦720.00 is being returned to the customer."),
        (CaseAction.KEEP, "Resolved: nobody claimed the money, so it was not credited."),
    ],
)
async def test_a_wrong_amount_and_its_resolution_are_shown_on_the_payment(
    services: Services, site: Site, db: Database, keyring: Keyring, action: CaseAction, text: str
) -> None:
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    owner = await member(services, site, merchant.new.id)
    async with running_simulator(services) as simulator:
        shop = Shop(services, simulator, merchant)
        await shop.change(HOLD)
        started = await shop.start()
        page = f"/production/payments/{started.trx_id}"
        before = (await owner.get(page)).body.decode()
        assert "Wrong amount received" not in before
        charge = await shop.choose(started, "providera_ngn_va")
        await shop.pay(charge, amount=720)
        await shop.until_charge(charge, "suspense")
    known = before.split("?known=")[1].split('"')[0]
    assert (await owner.get(f"{page}?known={known}")).headers["hx-refresh"] == "true"
    held = (await owner.get(page)).body.decode()
    for part in ("Wrong amount received", "We received ₦720.00", "the amount due was ₦1,000.00"):
        assert part in held

    [case] = [each for each in await cases.cases(db) if each.reference == charge.reference]
    await resolutions.resolve(db, case.id, "As agreed.", action)
    assert text in (await owner.get(page)).body.decode()


@pytest.mark.parametrize(
    ("paid", "shown"),
    [
        (1250, ("Amount due", "₦1,250.00", "Surplus", "₦250.00", "Returned to the customer")),
        (700, ("Amount due", "₦700.00", "Rest to pay", "₦300.00", "requests the rest")),
    ],
)
async def test_both_payment_pages_show_an_accepted_wrong_amount(
    services: Services,
    site: Site,
    db: Database,
    keyring: Keyring,
    paid: int,
    shown: tuple[str, ...],
) -> None:
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    owner = await member(services, site, merchant.new.id)
    admin = await administrator(services, site, f"wrong-{merchant.new.id}@example.com")
    async with running_simulator(services) as simulator:
        shop = Shop(services, simulator, merchant)
        await shop.change(MerchantUpdate(overpaid=OverpaidRule.SETTLE, underpaid=UnderpaidRule.ASK))
        started = await shop.start()
        charge = await shop.choose(started, "providera_ngn_va")
        await shop.pay(charge, amount=paid)
        if paid < 1000:
            await shop.until_charge(charge, "part")
        else:
            await shop.until_refunded(started)
    pages = (
        await owner.get(f"/production/payments/{started.trx_id}"),
        await admin.get(f"/console/transactions/{started.trx_id}"),
    )
    for page in pages:
        text = page.body.decode()
        assert [part for part in ("Wrong amount received", *shown) if part not in text] == []
        assert "under review" not in text
