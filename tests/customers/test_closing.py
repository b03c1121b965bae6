"""Accounts that are closed, and accounts at a provider that is disabled."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from manilla.customers import accounts
from manilla.customers.account import AccountStatus, CustomerAccount, NoAccountMethod
from manilla.payments.payment import PaymentStatus
from manilla.providers import credentials
from tests.customers.steps import Customers
from tests.customers.test_at_providers import customers, providers, rail
from tests.support.kinds import BY_RAIL

__all__ = ["customers", "providers", "rail"]

WITHOUT_CLOSING = ("kora",)


async def close(customers: Customers, account: CustomerAccount) -> None:
    await accounts.close(customers.db, customers.tenant, "pupil-17", account.id)


@asynccontextmanager
async def disabled(customers: Customers, rail: str) -> AsyncIterator[None]:
    """Disables payments through a provider, until the block has ended."""
    services, provider = customers.services, BY_RAIL[rail].provider
    for is_on in ("false", "true"):
        await credentials.change(services.db, services.keyring, provider, {"pay_in_enabled": is_on})
        await services.rails.load()
        assert services.rails.credentials(provider).given["pay_in_enabled"] == is_on
        if is_on == "false":
            yield


@pytest.mark.parametrize("fault", ["none", "reset", "5xx_after_accept", "garbage_after_accept"])
async def test_a_closed_account_is_closed_at_its_provider_too(
    customers: Customers, rail: str, fault: str
) -> None:
    account = await customers.account(rail)
    if fault != "none":
        planned = {"next": [{"call": "account", "fault": fault}]}
        await customers.shop.simulator.control(f"{rail}/faults", planned)
    await close(customers, account)
    await customers.until(account, AccountStatus.CLOSED)
    [listed] = (await customers.shop.simulator.read(f"{rail}/accounts"))["accounts"]
    assert listed["status"] == ("active" if rail in WITHOUT_CLOSING else "closed")
    assert await customers.events() == ["account.active", "account.closed"]
    # Some providers still accept transfers, and their webhooks arrive.
    await customers.send(account, "1000.00")
    [payment] = await customers.until_payments(1)
    assert payment.status is PaymentStatus.FAILED
    assert await customers.shop.account("suspense") == 1000_00
    assert [kind for kind, _ in await customers.cases()] == ["account_transfer"]


async def test_a_late_transfer_into_a_closed_account_is_found_without_a_webhook(
    customers: Customers, rail: str
) -> None:
    account = await customers.account(rail)
    await customers.shop.simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})
    await customers.send(account, "1000.00")
    await close(customers, account)
    closed = await customers.until(account, AccountStatus.CLOSED)
    await customers.poll(closed)
    [payment] = await customers.until_payments(1)
    assert payment.status is PaymentStatus.FAILED
    assert [kind for kind, _ in await customers.cases()] == ["account_transfer"]
    await customers.db.execute("UPDATE customer_account SET closed_at = now() - interval '91 days'")
    await customers.poll(closed)
    left = "SELECT true FROM job WHERE kind = 'account' AND subject = $1"
    assert not await customers.db.has_row(left, account.id)


async def test_flutterwaves_lost_account_is_closed_here_alone(customers: Customers) -> None:
    """Flutterwave cannot be asked by our reference, so an administrator deactivates it there."""
    fault = {"next": [{"call": "account", "fault": "5xx_after_accept"}]}
    await customers.shop.simulator.control("flutterwave/faults", fault)
    requested = await customers.request(await customers.customer(), "flutterwave")
    await customers.until_cases("account_not_created")
    await close(customers, requested)
    await customers.until(requested, AccountStatus.CLOSED)
    assert await customers.cases() == []
    [listed] = (await customers.shop.simulator.read("flutterwave/accounts"))["accounts"]
    # A transfer into the account names our reference, so the money is held for this customer.
    path = f"flutterwave/accounts/{listed['account_number']}/transfer"
    await customers.shop.simulator.control(path, {"amount": "1000.00"})
    [payment] = await customers.until_payments(1)
    assert (payment.status, payment.account_id) == (PaymentStatus.FAILED, requested.id)


async def test_a_disabled_provider_gets_no_new_accounts_and_loses_no_transfer(
    customers: Customers, rail: str
) -> None:
    account = await customers.account(rail)
    other = await customers.customer("pupil-18")
    async with disabled(customers, rail):
        with pytest.raises(NoAccountMethod):
            await customers.request(other, rail)
        await customers.send(account, "1000.00")
        await customers.until_payments(1)
        assert await customers.shop.balance() == 1000_00
        await close(customers, account)
        await customers.until(account, AccountStatus.CLOSED)
    await customers.until(await customers.request(other, rail), AccountStatus.ACTIVE)


async def test_a_provider_without_credentials_keeps_its_accounts(
    customers: Customers, rail: str
) -> None:
    account = await customers.account(rail)
    simulator, services = customers.shop.simulator, customers.services
    await simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})
    await customers.send(account, "1000.00")
    await credentials.clear(services.db, BY_RAIL[rail].provider)
    await services.rails.load()
    await customers.poll(account)
    assert await customers.now(account) == account
    assert await customers.payments() == []
    given = BY_RAIL[rail].credentials(simulator.url)
    await credentials.change(services.db, services.keyring, BY_RAIL[rail].provider, given)
    await services.rails.load()
    await customers.poll(account)
    assert await customers.shop.balance() == 1000_00
