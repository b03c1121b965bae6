"""Customers' accounts at the simulated providers, from the request to the credited transfer."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.customers import service
from manilla.customers.account import AccountStatus
from manilla.payments.payment import PaymentStatus
from manilla.providers.port import Payer
from manilla.refunds import initiate as refunds
from manilla.services import Services
from tests.customers.steps import Customers
from tests.payments.shop import Shop
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

RAILS = ("paystack", "monnify", "flutterwave", "kora")


@pytest.fixture(scope="module")
async def providers(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, RAILS) as running:
        yield running


@pytest.fixture
async def customers(
    services: Services, providers: ProviderSimulator, production: Merchant
) -> AsyncIterator[Customers]:
    await providers.reset()
    steps = Customers(Shop(services, providers, production))
    yield steps
    assert await steps.broken_rules() == []


@pytest.fixture(params=RAILS)
def rail(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_each_transfer_becomes_one_payment_of_its_own(
    customers: Customers, rail: str
) -> None:
    account = await customers.account(rail)
    await customers.send(account, "1500.00", payer_name="عائشة محمد")
    await customers.send(account, "1500.00")
    found = await customers.until_payments(2)
    assert [each.status for each in found] == [PaymentStatus.SUCCESS] * 2
    assert {each.account_id for each in found} == {account.id}
    assert {each.customer_reference for each in found} == {"pupil-17"}
    assert all(each.ref_trx.startswith("ACC-") for each in found)
    payer = msgspec.json.decode(found[0].payer or "", type=Payer)
    assert payer.account_number == "0123456789"
    assert {msgspec.json.decode(each.payer or "", type=Payer).name for each in found} == {
        "عائشة محمد",
        "Chidi Eze",
    }
    assert await customers.shop.balance() == 3000_00
    assert await customers.cases() == []


async def test_webhooks_polls_and_repeats_credit_a_transfer_once(
    customers: Customers, rail: str
) -> None:
    account = await customers.account(rail)
    await customers.shop.simulator.control(
        f"{rail}/faults", {"webhooks": {"mode": "duplicate", "copies": 3}}
    )
    await customers.send(account, "1000.00")
    await asyncio.gather(customers.poll(account), customers.until_payments(1))
    await customers.poll(account)
    assert len(await customers.payments()) == 1
    assert await customers.shop.balance() == 1000_00
    assert await customers.cases() == []


async def test_polling_finds_a_transfer_without_a_webhook(customers: Customers, rail: str) -> None:
    account = await customers.account(rail)
    await customers.shop.simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})
    await customers.send(account, "1000.00")
    await customers.poll(account)
    [payment] = await customers.payments()
    assert payment.status is PaymentStatus.SUCCESS


async def test_a_transfer_to_a_disabled_customer_is_held(customers: Customers, rail: str) -> None:
    account = await customers.account(rail)
    await service.set_disabled(customers.db, customers.tenant, "pupil-17", is_disabled=True)
    await customers.send(account, "1000.00")
    [payment] = await customers.until_payments(1)
    assert payment.status is PaymentStatus.FAILED
    assert await customers.shop.balance() == 0
    assert [kind for kind, _ in await customers.cases()] == ["account_transfer"]
    assert await customers.shop.account("suspense") == 1000_00


@pytest.mark.parametrize(
    "fault", ["timeout_after_accept", "5xx_after_accept", "reset_after_accept"]
)
async def test_a_lost_response_never_creates_a_second_account(
    customers: Customers, rail: str, fault: str
) -> None:
    customer = await customers.customer()
    await customers.shop.simulator.control(
        f"{rail}/faults", {"next": [{"call": "account", "fault": fault}]}
    )
    requested = await customers.request(customer, rail)
    if rail == "flutterwave":  # it cannot be asked by our reference
        await customers.until_cases("account_not_created")
        assert (await customers.now(requested)).status is AccountStatus.PENDING
        listed = (await customers.shop.simulator.read(f"{rail}/accounts"))["accounts"]
        assert len(listed) == 1
        return
    account = await customers.until(requested, AccountStatus.ACTIVE)
    listed = (await customers.shop.simulator.read(f"{rail}/accounts"))["accounts"]
    assert [each["account_number"] for each in listed] == [account.account_number]


@pytest.mark.parametrize("rail", ["paystack", "monnify", "kora"])
async def test_a_late_response_and_a_webhook_create_one_account(
    customers: Customers, rail: str
) -> None:
    """A webhook, status queries and a repeated request meet. Flutterwave cannot be queried."""
    faults = {
        "next": [{"call": "account", "fault": "5xx_after_accept"}],
        "webhooks": {"mode": "duplicate", "copies": 3},
    }
    await customers.shop.simulator.control(f"{rail}/faults", faults)
    requested = await customers.request(await customers.customer(), rail)
    again = customers.request(await customers.customer_of(requested), rail)
    both = await asyncio.gather(customers.poll(requested), customers.poll(requested), again)
    assert both[2].id == requested.id
    await customers.until(requested, AccountStatus.ACTIVE)
    await customers.poll(requested)
    assert await customers.events() == ["account.active"]
    listed = (await customers.shop.simulator.read(f"{rail}/accounts"))["accounts"]
    assert len(listed) == 1


async def test_the_refund_of_a_transfer_returns_that_transfer(
    customers: Customers, rail: str
) -> None:
    """Our reference of the account can be the same for all transfers into it."""
    account = await customers.account(rail)
    sent = {amount: await customers.send(account, amount) for amount in ("1000", "2000", "3000")}
    found = {each.amount_minor: each for each in await customers.until_payments(3)}
    await refunds.start(customers.db, found[2000_00].trx_id, "400", "paid twice")

    async def is_sent() -> bool:
        return bool((await customers.shop.simulator.read(f"{rail}/refunds"))["refunds"])

    await customers.shop.simulator.until(is_sent)
    [refund] = (await customers.shop.simulator.read(f"{rail}/refunds"))["refunds"]
    assert (refund["payment_reference"], refund["amount"]) == (sent["2000"], 400)
    assert await customers.shop.balance() == 5600_00
