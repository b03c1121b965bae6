"""Splits of transfers into customers' accounts, and of charges of saved ways."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.api.customers import CUSTOMERS
from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.customers import account_store, store
from manilla.customers.account import AccountStatus
from manilla.merchants.merchants import CommissionBearer
from manilla.refunds import initiate
from manilla.resolutions import resolutions
from manilla.services import Services
from manilla.splits import service
from tests.customers.steps import Customers
from tests.customers.test_transfers import RAIL, report, transfer
from tests.payments.orders import new_reference
from tests.payments.shop import Shop
from tests.saved_ways.steps import Lender
from tests.splits.steps import SPLITS, Splits, fixed, percent
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

PUPIL = f"{CUSTOMERS}/pupil-17"


@pytest.fixture(scope="module")
async def providers(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, (RAIL,)) as running:
        yield running


@pytest.fixture
async def customers(
    services: Services, providers: ProviderSimulator, production: Merchant
) -> AsyncIterator[Customers]:
    await providers.reset()
    steps = Customers(Shop(services, providers, production))
    yield steps
    assert await steps.broken_rules() == []


@pytest.fixture
def splits(customers: Customers) -> Splits:
    return Splits(customers.shop)


async def request(customers: Customers, **body: Any) -> dict[str, Any]:
    """Requests an account of the customer through the API, and returns it."""
    wanted = {"method_codes": [f"{RAIL}_ngn_va"], **body}
    reply = await customers.shop.merchant.post(f"{PUPIL}/accounts", wanted)
    assert reply.status == 200, reply.body
    [account] = reply.json["data"]
    return dict(account)


async def number(customers: Customers, **body: Any) -> str:
    """Returns the number of an active account of a new customer."""
    await customers.customer()
    requested = await request(customers, **body)
    found = [each for each in await _accounts(customers) if each.id == requested["id"]]
    account = await customers.until(found[0], AccountStatus.ACTIVE)
    return account.account_number or ""


async def _accounts(customers: Customers) -> list[Any]:
    customer = await store.of_tenant(customers.db, customers.tenant, "pupil-17")
    return await account_store.accounts_of(customers.db, customer.merchant_id, [customer.id])


async def money(splits: Splits, *receivers: int) -> list[float]:
    return [await splits.balance(), *[await splits.balance(each) for each in receivers]]


async def test_a_transfer_is_divided_by_the_accounts_rule(
    customers: Customers, splits: Splits
) -> None:
    await customers.shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 30)], "fees": "proportional"}
    to = await number(customers, split=split)
    await report(customers, transfer(to))
    assert await money(splits, receiver) == [689.5, 295.5]
    [payment] = await customers.payments()
    assert (payment.amount_minor, payment.commission_minor) == (1000_00, 15_00)


async def test_a_transfer_is_divided_by_the_default_rule(
    customers: Customers, splits: Splits
) -> None:
    to = await number(customers)
    receiver = await splits.receiver()
    rule = {"name": "All", "receivers": [percent(receiver, 10)], "default": True}
    made = (await customers.shop.merchant.post(SPLITS, rule)).json
    await report(customers, transfer(to))
    assert await money(splits, receiver) == [900, 100]
    await customers.shop.merchant.post(f"{SPLITS}/{made['id']}/disable", {})
    await report(customers, transfer(to))
    assert await money(splits, receiver) == [1900, 100]


async def test_the_accounts_rule_comes_before_the_default_rule_and_can_be_changed(
    customers: Customers, splits: Splits
) -> None:
    receiver = await splits.receiver()
    of_account = {"name": "Fees", "receivers": [percent(receiver, 50)]}
    rule_id = (await customers.shop.merchant.post(SPLITS, of_account)).json["id"]
    to = await number(customers, split=rule_id)
    rule = {"name": "All", "receivers": [percent(receiver, 10)], "default": True}
    await customers.shop.merchant.post(SPLITS, rule)
    await report(customers, transfer(to))
    assert await money(splits, receiver) == [500, 500]
    again = await request(customers)
    assert again["split_id"] == rule_id
    changed = await request(customers, split={"receivers": [percent(receiver, 20)]})
    assert (changed["id"], "split_id" in changed) == (again["id"], False)
    await report(customers, transfer(to))
    assert await money(splits, receiver) == [1300, 700]
    await request(customers, split=None)
    await report(customers, transfer(to))
    assert await money(splits, receiver) == [2200, 800]


async def test_an_account_with_an_impossible_rule_is_rejected(
    customers: Customers, splits: Splits
) -> None:
    await customers.customer()
    stranger = await splits.stranger()
    body = {"split": {"receivers": [percent(stranger, 10)]}}
    reply = await customers.shop.merchant.post(f"{PUPIL}/accounts", body)
    assert (reply.status, reply.code) == (422, "split_invalid")
    assert await _accounts(customers) == []


@pytest.mark.parametrize("trouble", ["too_small", "receiver_left", "rule_disabled"])
async def test_a_transfer_that_cannot_be_divided_is_held(
    customers: Customers, splits: Splits, trouble: str
) -> None:
    """Nobody gets the money until an administrator has decided. Then it is the owner's."""
    receiver = await splits.receiver()
    rule = {"name": "Rent", "receivers": [fixed(receiver, 400)]}
    made = (await customers.shop.merchant.post(SPLITS, rule)).json
    to = await number(customers, split=made["id"])
    if trouble == "receiver_left":
        await service.answer(splits.db, receiver, splits.owner, accepts=False)
    if trouble == "rule_disabled":
        await customers.shop.merchant.post(f"{SPLITS}/{made['id']}/disable", {})
    amount = "399.99" if trouble == "too_small" else "1000"

    sent = transfer(to, amount)
    await report(customers, sent)
    await report(customers, sent)

    assert await money(splits, receiver) == [0, 0]
    assert await customers.shop.account("suspense") / 100 == float(amount)
    [(kind, detail)] = await customers.cases()
    assert kind == "account_transfer"
    assert "cannot be divided" in detail
    [case] = [each for each in await cases.cases(splits.db) if each.merchant_id == splits.owner]
    await resolutions.resolve(splits.db, case.id, "theirs", CaseAction.CREDIT)
    assert await money(splits, receiver) == [float(amount), 0]


async def test_a_refund_of_a_transfer_takes_the_shares_back(
    customers: Customers, splits: Splits
) -> None:
    receiver = await splits.receiver()
    to = await number(customers, split={"receivers": [percent(receiver, 30)]})
    await report(customers, transfer(to))
    [payment] = await customers.payments()
    await initiate.start(splits.db, payment.trx_id, "500", "a test")
    assert await money(splits, receiver) == [350, 150]


async def test_a_charge_of_a_saved_way_is_divided(customers: Customers, splits: Splits) -> None:
    lender = Lender(customers.shop)
    reference = await lender.customer()
    way = await lender.save_card(reference)
    before = await splits.balance()
    receiver = await splits.receiver()
    body = {
        "way_id": way.id,
        "payment_amount": 1000,
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "ipn_url": "https://shop.example/ipn",
        "split": {"receivers": [percent(receiver, 30)]},
    }
    reply = await customers.shop.merchant.post(f"{CUSTOMERS}/{reference}/charges", body)
    assert reply.status == 200, reply.body
    shares = reply.json["info"]["split"]["shares"]
    assert [each["amount"] for each in shares] == [700, 300]
    assert await money(splits, receiver) == [before + 700, 300]
