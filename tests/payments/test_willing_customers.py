"""Customers who try again can pay, although one of two gateways fails half of the time."""

import asyncio
import random
from typing import Any

import pytest

from manilla.payments import store
from manilla.payments.charges import GatewayRefused, GatewayUnavailable
from manilla.payments.payment import Charge, PaymentStatus
from manilla.payments.ways import way_of
from manilla.providers.port import Channel, Direction
from tests.payments.shop import PROVIDERS, Shop, Started

SEED = 20_261_116
FAILING = "a"
FAULTS = ("refuse", "5xx_before", "5xx_after_accept", "garbage_after_accept")
CUSTOMERS = 60  # the number of customers for each fault
AT_ONCE = 30
CHOICES_MAX = 4  # Customers give up after this many attempts.
PAGE = way_of(Channel.CARD)


class WillingCustomer:
    """A customer who chooses a gateway again if possible, and pays unless the bank declines."""

    def __init__(self, shop: Shop, started: Started, number: int) -> None:
        self._shop = shop
        self._started = started
        self._luck = random.Random(SEED + number)

    async def pay(self) -> bool:
        for _ in range(CHOICES_MAX):
            charge = await self._choose()
            if charge is not None and await self._pay(charge):
                return True
        return False

    async def _choose(self) -> Charge | None:
        try:
            return await self._shop.choose(self._started, PAGE)
        except (GatewayRefused, GatewayUnavailable):
            return None

    async def _pay(self, charge: Charge) -> bool:
        """Pays the charge, and returns whether the checkout page then shows success."""
        is_declined = PROVIDERS[charge.method_code] == FAILING and self._luck.random() < 0.5
        how: dict[str, Any] = {"outcome": "failed", "reason": "declined"} if is_declined else {}
        await self._shop.pay(charge, **how)
        await self._shop.services.checkout.look_again(self._started.trx_id)
        view = await self._shop.services.checkout.view(self._started.trx_id)
        return view.payment.status is PaymentStatus.SUCCESS


async def _send_customers(shop: Shop, first: int) -> int:
    """Makes all customers try to pay, and returns how many have paid."""
    numbers = range(first, first + AT_ONCE)
    only = ["providera-ngn", "providerb-ngn"]
    started = await asyncio.gather(
        *(
            shop.from_new_ip().start(payment_amount=1000, allow_payment_methods=only)
            for _ in numbers
        )
    )
    customers = map(WillingCustomer, [shop] * AT_ONCE, started, numbers)
    return sum(await asyncio.gather(*(customer.pay() for customer in customers)))


async def _pay_uncertain_charges(shop: Shop) -> int:
    """Pays all charges that the failing gateway has created although its response was unknown."""
    merchant_id, db = shop.merchant.new.id, shop.services.db
    records = await db.records("SELECT trx_id FROM payment WHERE merchant_id = $1", merchant_id)
    found = [
        charge
        for record in records
        for charge in await store.charges(db, merchant_id, record["trx_id"])
        if charge.is_uncertain
    ]
    known = await shop.simulator.read(f"{FAILING}/charges?limit=1000")
    references = {each["reference"] for each in known["charges"]}
    created = [charge for charge in found if charge.reference in references]
    for charge in created:
        await shop.pay(charge)
        await shop.services.charges.ask(charge)
    return len(created)


@pytest.mark.long
async def test_at_least_99_percent_of_willing_customers_pay_and_none_is_credited_twice(
    shop: Shop,
) -> None:
    for provider in "ab":
        await shop.simulator.control(f"{provider}/faults", {"webhooks": {"mode": "lost"}})
    rail = shop.services.rails.health.rail("providera", Direction.PAY_IN)
    paid = 0
    for phase, fault in enumerate(FAULTS):
        planned = {"call": "charge", "fault": fault, "times": None, "every": 2}
        await shop.simulator.control(f"{FAILING}/faults", {"next": [planned]})
        for number in range(phase * CUSTOMERS, (phase + 1) * CUSTOMERS, AT_ONCE):
            paid += await _send_customers(shop, number)
            # Close the circuit breaker. While it is open, the failing gateway would not be called.
            rail.reset()
    assert paid >= 0.99 * CUSTOMERS * len(FAULTS)
    assert await shop.balance() == paid * 100_000
    twice = await _pay_uncertain_charges(shop)
    assert twice > 0
    assert await shop.balance() == paid * 100_000
    assert [kind for kind, _ in await shop.cases()] == ["second_charge_paid"] * twice
