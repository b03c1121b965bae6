"""A customer's choice while the database's connections are lost, as in a failover."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

import asyncpg
import pytest

from manilla.kit import crash, time_limits
from manilla.payments import store
from manilla.payments.payment import Charge, ChargeStatus, PaymentStatus
from manilla.settings import Settings
from tests.checkout.shop import HOSTED, Checkout, Shop
from tests.checkout.test_forms import Customer

LOSE = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
     WHERE usename = current_user AND pid <> pg_backend_pid()"""

LoseAt = Callable[[str], list[str]]


@pytest.fixture
def lose_connections_at(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> LoseAt:
    """Ends the application's database sessions when code first reaches the crash point."""

    def arm(wanted: str) -> list[str]:
        reached: list[str] = []

        def point(name: str) -> None:
            if name == wanted and not reached:
                reached.append(name)
                # The code at the crash point must not continue before its session has ended.
                loser = threading.Thread(target=lambda: asyncio.run(_lose(settings.database_url)))
                loser.start()
                loser.join()

        monkeypatch.setattr(crash, "point", point)
        return reached

    return arm


async def _lose(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.fetch(LOSE)
    await connection.close()


async def _charges(shop: Shop, checkout: Checkout) -> list[Charge]:
    payment = await shop.payment(checkout)
    return await store.charges(shop.services.db, payment.merchant_id, checkout.trx_id)


async def _choose(shop: Shop, checkout: Checkout) -> Customer:
    return await Customer(shop, checkout).submit("choose", f"method={HOSTED}")


@pytest.mark.parametrize(
    "point", ["before_charge_commit", "after_charge_commit", "after_charge_is_created"]
)
async def test_a_customer_pays_one_charge_although_connections_are_lost(
    shop: Shop, lose_connections_at: LoseAt, point: str
) -> None:
    checkout = await shop.sell()
    reached = lose_connections_at(point)
    customer = await _choose(shop, checkout)
    assert reached == [point]
    if point == "before_charge_commit":
        # Nothing was committed, and the page says what the customer can do.
        assert "Please try again" in customer.text
        assert await _charges(shop, checkout) == []
        customer = await _choose(shop, checkout)
    assert "Continue to Provider A" in customer.text
    [charge] = await _charges(shop, checkout)
    assert charge.status is ChargeStatus.OPEN
    assert (charge.checkout_url or "") in customer.html
    await shop.pay(charge)
    await shop.is_settled(checkout)
    assert (await shop.payment(checkout)).status is PaymentStatus.SUCCESS


async def test_a_customer_learns_that_a_charge_was_not_created(shop: Shop) -> None:
    """The process that created the charge has crashed, and nobody saves the provider's response."""
    checkout = await shop.sell()
    charge = await shop.choose(checkout, HOSTED)
    await shop.services.db.execute(
        "UPDATE charge SET status = 'opening', checkout_url = NULL WHERE reference = $1",
        charge.reference,
    )
    customer = await _choose(shop, checkout)
    assert "We are preparing your payment." in customer.text
    age = timedelta(seconds=time_limits.current.charge_opening_seconds)
    await shop.services.db.execute(
        "UPDATE charge SET created_at = created_at - $2::interval WHERE reference = $1",
        *(charge.reference, age),
    )
    customer = await Customer(shop, checkout).open("pay")
    assert "We could not prepare your payment. Nothing was charged." in customer.text
    assert "How would you like to pay?" in customer.text
    assert "Continue to Provider A" in (await _choose(shop, checkout)).text
    first, second = await _charges(shop, checkout)
    assert (first.status, second.status) == (ChargeStatus.OPENING, ChargeStatus.OPEN)


def test_a_charge_is_opening_for_longer_than_its_creation_can_take() -> None:
    limits = time_limits.TimeLimits()
    assert limits.charge_opening_seconds > limits.charge_seconds + limits.charge_save_seconds
