"""A payment with a wrong amount: the merchant sees that it is held and how it was resolved."""

import pytest

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.resolutions import resolutions
from manilla.services import Services
from tests.client import Site, new_merchant
from tests.payments.shop import Shop
from tests.provider_simulator import running_simulator
from tests.web.signed_in_user import member


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (CaseAction.CREDIT, "Resolved: ₦720.00 was credited to your wallet."),
        (CaseAction.RETURN, "Resolved: ₦720.00 is returned to the customer."),
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
