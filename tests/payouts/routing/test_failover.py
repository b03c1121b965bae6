"""A payout moves to another rail only if the first rail certainly will not pay."""

from typing import Any

import pytest

from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.merchants import outgoing
from manilla.payouts.explanation import AttemptState, explain_attempts
from manilla.platform import settings as platform
from manilla.proofs import restored
from manilla.providers import credentials
from manilla.providers.port import Direction, ResolvedAccount
from tests.payouts.payout_merchant import ACCOUNT, BANKS
from tests.payouts.routing.routed import BAD_ACCOUNT, REFUSED, UNFUNDED, RoutedPayouts
from tests.payouts.test_states import messages, send_webhook
from tests.support.client import Site
from tests.support.rows import first_short

FIRST, SECOND, THIRD = "providera", "providerb", "providerc"


async def test_a_payout_goes_to_the_first_rail_under_its_own_code(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out(who={"bank_code": "000013"})
    await routed.simulator.run_jobs()
    payout = await routed.payer.payout(trx_id)
    assert (payout.provider, payout.bank, payout.rail_bank_code) == (FIRST, "058", "058")
    assert await routed.transfers(trx_id) == {"a": "processing"}
    [attempt] = await explain_attempts(routed.services.db, payout.merchant_id, trx_id)
    assert (attempt.provider, attempt.state) == (FIRST, AttemptState.CURRENT)


@pytest.mark.parametrize("fault", [REFUSED, UNFUNDED])
async def test_a_rejected_first_send_moves_the_payout_to_the_next_rail(
    routed: RoutedPayouts, fault: dict[str, Any]
) -> None:
    trx_id = await routed.pay_out()
    await routed.plan("a", fault)
    await routed.simulator.run_jobs()
    assert await routed.transfers(trx_id) == {"b": "processing"}
    first, second = await routed.attempts(trx_id)
    assert (first.provider, first.dead_at is None) == (FIRST, False)
    assert (second.provider, second.dead_at is None) == (SECOND, True)
    await routed.payer.settle("b", trx_id, "success")
    await routed.payer.check_until(trx_id, "completed")
    assert await messages(routed.payer, trx_id) == ["Payout Completed"]
    assert await routed.payer.balance() == 900_000


async def test_after_rejections_by_all_rails_the_payout_fails_once(routed: RoutedPayouts) -> None:
    for rail in "abc":
        await routed.plan(rail, REFUSED)
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    assert await routed.rails(trx_id) == [FIRST, SECOND, THIRD]
    assert (await routed.payer.payout(trx_id)).status == "failed"
    assert await messages(routed.payer, trx_id) == ["Payout Failed"]
    assert await routed.payer.balance() == 1_000_000


async def test_a_rejection_of_the_beneficiary_ends_the_payout(routed: RoutedPayouts) -> None:
    await routed.plan("a", BAD_ACCOUNT)
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    assert await routed.rails(trx_id) == [FIRST]
    payout = await routed.payer.payout(trx_id)
    assert (payout.status, payout.error_code) == ("failed", "invalid_beneficiary")


@pytest.mark.parametrize(
    "fault",
    first_short(
        ["5xx_before", "reset", "5xx_after_accept", "reset_after_accept", "garbage_after_accept"]
    ),
)
async def test_after_an_unknown_answer_a_payout_stays_on_its_rail(
    routed: RoutedPayouts, fault: str
) -> None:
    await routed.plan("a", {"call": "transfer", "fault": fault})
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    # After an unknown outcome, a rejection is no longer conclusive.
    await routed.plan("a", {**REFUSED, "times": None})
    await routed.payer.check_now(trx_id)
    assert await routed.rails(trx_id) == [FIRST]
    assert set(await routed.transfers(trx_id)) <= {"a"}
    assert (await routed.payer.payout(trx_id)).status == "pending"


async def test_a_failure_after_acceptance_ends_the_payout(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    await routed.payer.settle("a", trx_id, "failed")
    await routed.payer.check_until(trx_id, "failed")
    assert await routed.rails(trx_id) == [FIRST]
    assert await routed.payer.balance() == 1_000_000


async def test_an_unsent_payout_leaves_a_rail_that_went_down(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    rail = routed.services.rails.health.rail(FIRST, Direction.PAY_OUT)
    rail.is_down = True
    try:
        await routed.payer.check_now(trx_id)
    finally:
        rail.reset()
    assert await routed.transfers(trx_id) == {"b": "processing"}
    [first, _] = await routed.attempts(trx_id)
    assert first.sent_reference is None


async def test_a_rail_that_reports_another_holder_is_skipped(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    second = routed.services.rails.credentials(SECOND)
    who = Beneficiary({"bank_code": "000013", "account_number": ACCOUNT})
    routed.services.resolver._keep(SECOND, who, second, ResolvedAccount("SOMEBODY ELSE"))
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    assert await routed.rails(trx_id) == [FIRST, THIRD]


async def test_a_rail_whose_name_differs_from_any_earlier_one_is_skipped(
    routed: RoutedPayouts,
) -> None:
    """The third account name matches the second name, but not the first name."""
    services = routed.services
    resolved = {FIRST: "ADA OBI NWOSU", SECOND: "ADA OBI", THIRD: "ADA OBI EZE"}
    for provider, name in resolved.items():
        who = Beneficiary({"bank_code": BANKS[provider[-1]], "account_number": ACCOUNT})
        current = services.rails.credentials(provider)
        services.resolver._keep(provider, who, current, ResolvedAccount(name))
    for rail in "ab":
        await routed.plan(rail, REFUSED)
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    assert await routed.rails(trx_id) == [FIRST, SECOND]
    assert (await routed.payer.payout(trx_id)).status == "failed"
    assert await routed.transfers(trx_id) == {}


async def test_a_balance_that_runs_out_after_the_choice_moves_the_payout(
    routed: RoutedPayouts,
) -> None:
    trx_id = await routed.pay_out()
    await routed.simulator.control("a/balance", {"available": 10})
    await routed.simulator.run_jobs()
    assert await routed.transfers(trx_id) == {"b": "processing"}


async def test_a_late_report_of_a_rail_that_rejected_the_transfer_opens_a_case(
    routed: RoutedPayouts, site: Site
) -> None:
    trx_id = await routed.pay_out()
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    assert (await send_webhook(site, "a", trx_id, "success")).status == 200
    await routed.simulator.run_jobs()
    assert await routed.payer.cases() == [("contradiction", trx_id)]
    assert await routed.payer.balance() == 900_000


async def test_a_webhook_about_a_rejected_transfer_keeps_the_payout_on_its_rail(
    routed: RoutedPayouts, site: Site
) -> None:
    trx_id = await routed.pay_out()
    assert (await send_webhook(site, "a", trx_id, "success")).status == 200
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    assert await routed.rails(trx_id) == [FIRST]


async def test_money_that_is_on_hold_is_not_moved(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    await routed.services.db.execute(
        "INSERT INTO setting (key, value) VALUES ('payouts_held', 'true')"
        " ON CONFLICT (key) DO UPDATE SET value = 'true'"
    )
    rail = routed.services.rails.health.rail(FIRST, Direction.PAY_OUT)
    rail.is_down = True
    try:
        await routed.payer.check_now(trx_id)
        assert await routed.rails(trx_id) == [FIRST]
    finally:
        rail.reset()
        await routed.services.db.execute(
            "UPDATE setting SET value = 'false' WHERE key = 'payouts_held'"
        )


async def test_a_connection_that_is_never_established_moves_the_payout(
    routed: RoutedPayouts,
) -> None:
    trx_id = await routed.pay_out()
    services = routed.services
    given = {"base_url": "http://127.0.0.1:1"}
    await credentials.change(services.db, services.keyring, FIRST, given)
    await services.rails.load()
    await routed.simulator.run_jobs()
    assert await routed.transfers(trx_id) == {"b": "processing"}
    [first, _] = await routed.attempts(trx_id)
    assert "never received" in (first.dead_because or "")


async def test_after_a_restore_a_payout_is_found_on_the_rail_that_has_it(
    routed: RoutedPayouts,
) -> None:
    """The backup was made before the move, so the restored payout is unsent on the first rail."""
    trx_id = await routed.pay_out()
    await routed.plan("a", REFUSED)
    db, key = routed.services.db, (routed.payer.merchant.new.id, trx_id)
    before = await db.record("SELECT * FROM payout WHERE merchant_id = $1 AND trx_id = $2", *key)
    await routed.simulator.run_jobs()
    assert before is not None
    await db.execute(
        "UPDATE payout SET provider = $3, began_at = NULL, sent_reference = NULL"
        " WHERE merchant_id = $1 AND trx_id = $2",
        *(*key, before["provider"]),
    )
    await db.execute(
        "UPDATE payout_attempt SET dead_at = now(), dead_because = 'test'"
        " WHERE merchant_id = $1 AND trx_id = $2 AND number = 2",
        *key,
    )
    await db.execute(
        "UPDATE payout_attempt SET dead_at = NULL, dead_because = NULL"
        " WHERE merchant_id = $1 AND trx_id = $2 AND number = 1",
        *key,
    )
    await outgoing.hold_all(db)
    try:
        await restored.look(db, routed.services.rails)
        await restored.release(db, routed.services.rails)
    finally:
        await platform.change(db, "payouts_held", "false")
    await routed.payer.check_now(trx_id)
    assert await routed.transfers(trx_id) == {"b": "processing"}
    assert await routed.provider(trx_id) == SECOND
