"""A crash around an account or a transfer neither loses nor repeats anything."""

import contextlib

import pytest

from manilla.customers.account import AccountStatus
from tests.customers.steps import Customers
from tests.customers.test_at_providers import customers, providers, rail
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at

__all__ = ["customers", "providers", "rail"]


async def _release_jobs(customers: Customers) -> None:
    """Ends the leases of the process that has crashed."""
    await customers.db.execute(
        "UPDATE job SET lease = NULL, leased_until = NULL WHERE kind IN ($1, $2)",
        *("account", "account.transfer"),
    )


@pytest.mark.parametrize("point", ["before_account_request", "after_account_request"])
async def test_a_crash_around_the_request_creates_at_most_one_account(
    customers: Customers, rail: str, point: str
) -> None:
    requested = await customers.request(await customers.customer(), rail)
    with dying_at(point), contextlib.suppress(Killed):
        await customers.poll(requested)
    sent = (await customers.now(requested)).sent_at
    assert sent is not None
    await _release_jobs(customers)
    if rail == "flutterwave":  # it cannot be asked by our reference
        await customers.until_cases("account_not_created")
        expected = int(point == "after_account_request")
    else:
        await customers.until(requested, AccountStatus.ACTIVE)
        assert await customers.events() == ["account.active"]
        expected = 1
    listed = (await customers.shop.simulator.read(f"{rail}/accounts"))["accounts"]
    assert len(listed) == expected


@pytest.mark.parametrize("point", ["before_account_transfer_commit", "amid_payment_credit"])
async def test_a_crash_while_a_transfer_is_received_credits_it_once(
    customers: Customers, rail: str, point: str
) -> None:
    account = await customers.account(rail)
    lost = {"webhooks": {"mode": "lost"}}
    await customers.shop.simulator.control(f"{rail}/faults", lost)
    await customers.send(account, "1000.00")
    with dying_at(point), contextlib.suppress(Killed):
        await customers.poll(account)
    assert await customers.payments() == []
    await _release_jobs(customers)
    await customers.poll(account)
    assert len(await customers.until_payments(1)) == 1
    assert await customers.shop.balance() == 1000_00
    assert await customers.cases() == []
