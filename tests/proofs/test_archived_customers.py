"""Payments of customers are archived. What prevents a second credit or charge stays."""

from datetime import UTC, datetime

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.proofs.archive import lookup, months
from manilla.providers.port import AccountTransfer, Payer, ReportedChargeStatus
from tests.customers.steps import Customers
from tests.payments.steps import complete
from tests.proofs.ledger_story import LedgerStory
from tests.proofs.test_archive import Archive, archive
from tests.saved_ways.steps import Lender
from tests.support.client import new_merchant

__all__ = ["archive"]

PROVIDER, NUMBER = "paystack", "9911223344"


@pytest.fixture(scope="module")
def customers(archive: Archive) -> Customers:
    return Customers(archive.story.shop)


async def test_an_archived_transfer_is_not_credited_again(
    archive: Archive, customers: Customers
) -> None:
    account = await customers.account_without_provider(NUMBER)
    transfer = AccountTransfer(
        reference="T-1",
        status=ReportedChargeStatus.PAID,
        paid=Money.of("100", "NGN"),
        payer=Payer(name="Chidi Eze", bank="Access Bank"),
        account_number=NUMBER,
        paid_at=datetime.now(UTC),
    )
    receiving = customers.services.receiving
    await receiving.report(PROVIDER, transfer)
    trx_id = (await customers.payments())[-1].trx_id
    balances = await archive.balances()
    await archive.run()
    assert await customers.payments() == []
    more = msgspec.structs.replace(transfer, paid=Money.of("200", "NGN"))
    for again in (transfer, more):
        await receiving.report(PROVIDER, again)
    assert await customers.payments() == []
    assert await archive.balances() == balances
    stored = await months.load(archive.owner)
    [found] = lookup.find(archive.folder, stored, trx_id)["rows"]["payment"]
    assert found["customer_reference"] == "pupil-17"
    assert found["account_id"] == account.id
    assert "Chidi Eze" in str(found["payer"])
    await archive.assert_sound()


async def test_the_card_of_an_archived_payment_can_be_charged(archive: Archive) -> None:
    shop = archive.story.shop
    merchant = await new_merchant(
        archive.story.merchant.site.from_new_ip(), shop.services.db, shop.services.keyring
    )
    tester = Lender(LedgerStory(shop.services, shop.simulator, merchant).shop)
    customer = await tester.customer()
    saved = await tester.start(customer)
    await complete(shop.services, merchant, saved.trx_id)
    [way] = await tester.ways(customer)
    first = (await tester.charge(customer, way["id"])).json
    assert first["status"] == "success"
    await archive.run()
    stored = await months.load(archive.owner)
    for trx_id in (saved.trx_id, first["trx_id"]):
        [found] = lookup.find(archive.folder, stored, trx_id)["rows"]["payment"]
        assert way["id"] in str(found["saved_way"])
    assert (await tester.charge(customer, way["id"])).json["status"] == "success"
    await archive.assert_sound()
