"""The limits per payment and per day, which depend on the merchant's verification level."""

import asyncio
from datetime import UTC, datetime, time, timedelta

import pytest

from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.merchants import limits, merchants
from manilla.merchants.merchants import MerchantLevel, MerchantUpdate
from manilla.platform.settings import LimitKind
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import order
from tests.payouts.payout_merchant import setting
from tests.support.client import Merchant, Reply, Site, new_merchant

EACH, DAY = "payment_limits_unverified", "daily_payment_limits_unverified"


@pytest.fixture
async def live(services: Services, site: Site) -> Merchant:
    return await new_merchant(
        site, services.db, services.keyring, environment=Environment.PRODUCTION
    )


async def _ask(merchant: Merchant, amount: float, **changed: object) -> Reply:
    return await steps.initiate(merchant, order(payment_amount=amount, **changed))


def _reason(reply: Reply) -> str:
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT"), reply.body
    text: str = reply.json["errors"]["payment_amount"]
    return text


async def test_a_payment_above_the_limit_of_the_level_is_rejected(
    services: Services, live: Merchant
) -> None:
    async with setting(services, EACH, "NGN:1000"):
        assert (await _ask(live, 1000)).status == 200
        text = _reason(await _ask(live, 1000.01))
        assert text == "The amount exceeds your limit of ₦1,000.00 for a payment."
        change = MerchantUpdate(level=MerchantLevel.VERIFIED)
        await merchants.change(services.db, services.keyring, live.new.id, change)
        await services.directory._refresh(0)
        assert (await _ask(live, 1000.01)).status == 200


async def test_failed_payments_do_not_count_toward_the_day(
    services: Services, live: Merchant
) -> None:
    async with setting(services, DAY, "NGN:2000"):
        first = await _ask(live, 1500)
        text = _reason(await _ask(live, 501))
        assert text == "Today's payments would exceed your daily limit of ₦2,000.00."
        await services.checkout.cancel(first.json["payment_url"].split("/checkout/")[1][:33])
        assert (await _ask(live, 2000)).status == 200
        _reason(await _ask(live, 1))


async def test_a_day_starts_at_midnight_in_lagos(services: Services, live: Merchant) -> None:
    async with setting(services, DAY, "NGN:2000"):
        caller = await services.directory.of(Environment.PRODUCTION, live.new.id)
        about = services.platform.now, caller, LimitKind.DAILY_PAYMENT, "NGN"
        item = limits.of_day(*about)
    start = trx_ids.moment_of(item["day_from"])
    assert start is not None
    assert start.astimezone(LAGOS).time() == time()
    assert timedelta() <= datetime.now(UTC) - start < timedelta(days=1)


async def test_concurrent_payments_do_not_exceed_the_limit_together(
    services: Services, db: Database, live: Merchant
) -> None:
    async with setting(services, DAY, "NGN:3000"):
        replies = await asyncio.gather(*(_ask(live, 1000) for _ in range(10)))
    assert sum(reply.status == 200 for reply in replies) == 3
    assert {reply.status for reply in replies} <= {200, 400, 503}
    total = await db.value(
        "SELECT sum(amount_minor)::bigint FROM payment WHERE merchant_id = $1", live.new.id
    )
    assert total == 3000_00


async def test_the_sandbox_has_no_limits(services: Services, live: Merchant) -> None:
    sandbox = steps.in_environment(live, Environment.SANDBOX)
    async with setting(services, EACH, "NGN:1"), setting(services, DAY, "NGN:1"):
        assert (await _ask(sandbox, 1000)).status == 200
