"""A drained rail gets no new payouts. Its open payouts continue to their final status."""

import contextlib
from collections.abc import AsyncIterator

from manilla.audit import audit
from manilla.kit.changes import ChangeWatch
from manilla.kit.environment import Environment
from manilla.methods.method import MethodKind
from manilla.payouts.explanation import explain_attempts
from manilla.providers import draining
from manilla.providers.rails import Rails, open_client
from manilla.services import Services
from tests.payouts.payout_merchant import RAILS, PayoutMerchant, see_changes
from tests.payouts.routing.routed import AUTO, RoutedPayouts

FIRST, SECOND = "providera", "providerb"


@contextlib.asynccontextmanager
async def drained(services: Services, *providers: str) -> AsyncIterator[None]:
    try:
        for provider in providers:
            assert await draining.drain(services.db, provider)
        await see_changes(services)
        yield
    finally:
        for provider in providers:
            await draining.undrain(services.db, provider)
        await see_changes(services)


async def test_other_processes_see_a_drained_rail_until_it_is_permitted_again(
    services: Services,
) -> None:
    db = services.db
    async with open_client() as client:
        watch = ChangeWatch(db)
        elsewhere = Rails(db, services.keyring, watch, client, is_production_mode=False)
        await watch.ensure_fresh()
        assert not elsewhere.is_drained(FIRST)
        async with drained(services, FIRST):
            await watch._look()
            assert elsewhere.is_drained(FIRST)
            assert not elsewhere.is_drained(SECOND)
        await watch._look()
        assert not elsewhere.is_drained(FIRST)


async def test_draining_is_audited_once(services: Services) -> None:
    async with drained(services, FIRST):
        assert not await draining.drain(services.db, FIRST)
        latest = await audit.latest(services.db, "rail.drain")
        assert f"provider:{FIRST}" in latest
    assert not await draining.undrain(services.db, FIRST)
    assert f"provider:{FIRST}" in await audit.latest(services.db, "rail.undrain")


async def test_the_automatic_method_skips_a_drained_rail_and_says_why(
    routed: RoutedPayouts,
) -> None:
    async with drained(routed.services, FIRST):
        trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == SECOND
    [attempt] = await explain_attempts(routed.services.db, routed.payer.merchant.new.id, trx_id)
    assert attempt.skipped[FIRST] == "drained by an administrator"


async def test_the_own_method_of_a_drained_rail_is_not_offered_and_rejected(
    routed: RoutedPayouts,
) -> None:
    payer = routed.payer
    async with drained(routed.services, FIRST):
        reply = await payer.ask("a")
        listed = await payer.merchant.get("/api/v1/payout-methods?currency=NGN")
    assert (reply.status, reply.json["error_code"]) == (422, "gateway_not_configured")
    assert "switched off" in reply.json["error"]
    codes = [each["method_code"] for each in listed.json["methods"]]
    assert RAILS["a"] not in codes
    assert {RAILS["b"], AUTO} <= set(codes)
    assert await payer.balance() == 1_000_000
    await payer.pay_out("a")


async def test_without_another_rail_the_automatic_method_is_rejected(routed: RoutedPayouts) -> None:
    async with drained(routed.services, "providera", "providerb", "providerc"):
        reply = await routed.ask()
    assert (reply.status, reply.json["error_code"]) == (422, "gateway_not_configured")
    assert "switched off" in reply.json["error"]
    assert await routed.payer.balance() == 1_000_000


async def test_a_sent_payout_of_a_drained_rail_is_followed_to_its_end(
    routed: RoutedPayouts,
) -> None:
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    async with drained(routed.services, FIRST):
        await routed.payer.check_now(trx_id)
        assert await routed.rails(trx_id) == [FIRST]
        await routed.payer.settle("a", trx_id, "success")
        await routed.payer.check_until(trx_id, "completed")
    assert await routed.transfers(trx_id) == {"a": "success"}


async def test_an_unsent_payout_leaves_a_drained_rail(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    async with drained(routed.services, FIRST):
        await routed.payer.check_now(trx_id)
    assert await routed.transfers(trx_id) == {"b": "processing"}
    [first, second] = await routed.attempts(trx_id)
    assert (first.sent_reference, second.provider) == (None, SECOND)
    assert "drained" in (first.dead_because or "")


async def test_an_unsent_payout_that_cannot_move_is_still_sent(routed: RoutedPayouts) -> None:
    fixed, automatic = await routed.payer.pay_out("a"), await routed.pay_out()
    async with drained(routed.services, "providera", "providerb", "providerc"):
        await routed.payer.check_now(fixed)
        await routed.payer.check_now(automatic)
    assert await routed.transfers(fixed) == {"a": "processing"}
    assert await routed.transfers(automatic) == {"a": "processing"}


async def test_draining_does_not_concern_the_sandbox(sandbox_payer: PayoutMerchant) -> None:
    services = sandbox_payer.services
    async with drained(services, FIRST):
        await sandbox_payer.pay_out("a")
        offered = services.methods.offered(MethodKind.WITHDRAW, "NGN", Environment.SANDBOX)
        assert RAILS["a"] in [method.code for method in offered]
