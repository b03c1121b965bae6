"""Every error code of a payout: when the API returns it, and whether money moves."""

import itertools
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from manilla.kit.clock import LAGOS
from manilla.kit.environment import Environment
from manilla.merchants import wallets
from manilla.merchants.merchants import MerchantUpdate
from manilla.merchants.wallets import WalletStatus
from manilla.payouts import rules
from manilla.platform.settings import WEEKDAYS, PlatformSettings
from manilla.providers.health import FAILURES_TO_TRIP
from manilla.routing import funds
from manilla.services import Services
from manilla.transfers.refusals import ScheduleBlocked
from tests.payouts.payout_merchant import (
    BANKS,
    MANUAL,
    RAILS,
    PayoutMerchant,
    clear_credentials,
    method,
    new_account,
    see_changes,
    set_credentials,
    setting,
)
from tests.support.client import Reply
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

BANK_LIST = "/api/v1/payout/bank-list?method_code="
PROVIDER_FEES = {
    "a": "10.00",
    "b": "0.00",
    "c": "10.75",
}  # the transfer fee of each provider, or 0.00 if the provider does not report one


def assert_refused(reply: Reply, code: str, words: str = "") -> None:
    assert (reply.status, reply.code) == (422, code), reply.body
    assert set(reply.json) == {"error", "error_code"}
    assert words in reply.json["error"]


def unresolved_beneficiary(rail: str = "a", account: str | None = None) -> dict[str, str]:
    """Returns a beneficiary whose account name is not cached and therefore must be resolved."""
    return {"bank_code": BANKS[rail], "account_number": account or new_account()}


async def refuse(simulator: ProviderSimulator, rail: str, call: str, message: str) -> None:
    planned = {"call": call, "fault": "refuse", "message": message}
    await simulator.control(f"{rail}/faults", {"next": [planned]})


async def assert_failed(payer: PayoutMerchant, trx_id: str, code: str, words: str) -> None:
    """Checks that the payout failed after the debit with this error code, and was refunded."""
    await payer.until(trx_id, "failed")
    reply = (await payer.verify(trx_id)).json
    assert (reply["status"], reply["error_code"]) == ("failed", code)
    assert reply["message"] == f"Payout failed or was canceled. {words}"
    [notified] = await payer.notifications(trx_id)
    assert (notified["status"], notified["error_code"]) == ("failed", code)
    assert await payer.balance() == 1_000_000
    assert await payer.account("in_flight") == 0


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
@pytest.mark.parametrize("is_known", [True, False])
async def test_insufficient_balance_is_exact_to_the_kobo(
    payer: PayoutMerchant, services: Services, rail: str, is_known: bool
) -> None:
    changed: dict[str, Any] = (
        {} if rail == MANUAL else {"beneficiary": unresolved_beneficiary(rail)}
    )
    if is_known:
        await payer.pay_out(rail, **changed)
        await payer.fund("1000")
    async with method(services, rail, fee_fixed="25.75"):
        reply = await payer.ask(rail, payout_amount=9974.26, **changed)
        assert_refused(reply, "insufficient_balance")
        assert await payer.balance() == 1_000_000
        assert (await payer.ask(rail, payout_amount=9974.25, **changed)).status == 200
    assert await payer.balance() == 0


async def test_an_empty_wallet_is_rejected(payer: PayoutMerchant) -> None:
    await payer.pay_out(payout_amount=10_000)
    assert_refused(await payer.ask(payout_amount=100), "insufficient_balance")


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_provider_with_too_low_a_balance_is_reported_before_the_debit(
    payer: PayoutMerchant, rail: str
) -> None:
    """The provider's balance must cover the amount and the provider's transfer fee."""
    await payer.check_until(await payer.pay_out(rail), "completed")
    await payer.services.deliveries.flush()
    fee_minor = await funds.transfer_fee_minor(payer.services.db, f"provider{rail}", "NGN")
    assert fee_minor == int(PROVIDER_FEES[rail].replace(".", ""))
    for missing, is_taken in ((1, False), (0, True)):
        available = (100_000 + fee_minor - missing) / 100
        await payer.simulator.control(f"{rail}/balance", {"available": available})
        before = await payer.balance()
        async with payer.at_second_process() as other:
            reply = await other.ask(rail)
        assert (reply.status == 200) is is_taken, reply.body
        if not is_taken:
            assert_refused(reply, "provider_insufficient_balance", "Nothing was debited")
            assert await payer.balance() == before


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_provider_found_to_have_too_low_a_balance_after_the_debit_fails_the_payout(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await payer.pay_out(rail, beneficiary=unresolved_beneficiary(rail))
    await payer.simulator.control(f"{rail}/balance", {"available": 0})
    words = {
        "a": "Insufficient funds in disbursement wallet",
        "b": "Insufficient wallet balance",
        "c": "Insufficient wallet balance to complete this transfer",
    }
    await assert_failed(payer, trx_id, "provider_insufficient_balance", words[rail])


async def test_a_provider_balance_that_cannot_be_read_is_not_checked(payer: PayoutMerchant) -> None:
    unwell = {"call": "balance", "fault": "5xx_before", "times": None}
    await payer.simulator.control("a/faults", {"next": [unwell]})
    async with payer.at_second_process() as other:
        trx_id = await other.pay_out()
    await payer.check_until(trx_id, "completed")


@pytest.mark.parametrize(
    ("key", "verified", "words"),
    [
        ("kyc_required", MerchantUpdate(kyc_verified=True), "KYC"),
        ("phone_required", MerchantUpdate(phone_verified=True), "phone"),
    ],
)
@pytest.mark.parametrize("rail", ["a", MANUAL])
async def test_kyc_and_phone_are_checked_if_the_platform_requires_them(
    payer: PayoutMerchant,
    services: Services,
    rail: str,
    key: str,
    verified: MerchantUpdate,
    words: str,
) -> None:
    assert (await payer.ask(rail)).status == 200
    async with setting(services, key, "true"):
        assert_refused(await payer.ask(rail), "kyc_required", words)
        await payer.change(verified)
        assert (await payer.ask(rail)).status == 200
    assert await payer.balance() == 800_000


async def test_both_kyc_and_phone_must_be_verified_where_both_are_required(
    payer: PayoutMerchant, services: Services
) -> None:
    async with AsyncExitStack() as stack:
        for key in ("kyc_required", "phone_required"):
            await stack.enter_async_context(setting(services, key, "true"))
        for change in (
            MerchantUpdate(kyc_verified=True),
            MerchantUpdate(kyc_verified=False, phone_verified=True),
        ):
            await payer.change(change)
            assert_refused(await payer.ask(), "kyc_required")


@pytest.mark.parametrize("rail", ["a", MANUAL])
async def test_payouts_can_be_disabled_for_a_merchant(payer: PayoutMerchant, rail: str) -> None:
    await payer.change(MerchantUpdate(payouts_enabled=False))
    assert_refused(await payer.ask(rail), "merchant_payout_disabled")
    await payer.change(MerchantUpdate(payouts_enabled=True))
    assert (await payer.ask(rail)).status == 200


@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_withdrawals_can_be_disabled_for_everyone(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, services: Services, environment: str
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    before = await caller.balance()
    async with setting(services, "withdrawals_enabled", "false"):
        assert_refused(await caller.ask(), "merchant_payout_disabled")
    assert await caller.balance() == before
    assert (await caller.ask()).status == 200


async def test_a_setting_a_process_has_not_seen_yet_applies_all_the_same(
    payer: PayoutMerchant,
) -> None:
    """Cached settings are only used to reject payouts. The debit checks the stored settings."""
    trx_id = await payer.pay_out()
    refused = {
        "payouts_enabled = false": (422, "merchant_payout_disabled"),
        "status = 'disabled'": (403, "MERCHANT_SUSPENDED"),
        "status = 'pending'": (403, "MERCHANT_PENDING_APPROVAL"),
    }
    for change, expected in refused.items():
        await payer.services.db.execute(
            f"UPDATE merchant SET {change} WHERE id = $1", payer.merchant.new.id
        )
        reply = await payer.ask()
        assert (reply.status, reply.code) == expected
        await payer.services.db.execute(
            "UPDATE merchant SET payouts_enabled = true, status = 'approved' WHERE id = $1",
            payer.merchant.new.id,
        )
        await payer.change(
            MerchantUpdate(payouts_enabled=True)
        )  # Enable payouts again, whether or not the process has reloaded the setting.
    assert await payer.balance() == 900_000
    assert (await payer.verify(trx_id)).json["status"] == "pending"


async def test_a_day_without_payouts_is_reported_with_the_days_that_have_them(
    payer: PayoutMerchant, services: Services
) -> None:
    today = WEEKDAYS[datetime.now(LAGOS).weekday()]
    others = ",".join(day for day in WEEKDAYS if day != today)
    async with setting(services, "payout_days", others):
        assert_refused(await payer.ask(), "payout_schedule_blocked", others)
        assert_refused(await payer.ask(MANUAL), "payout_schedule_blocked")
    async with setting(services, "payout_days", today):
        assert (await payer.ask()).status == 200
    assert await payer.balance() == 900_000


# 2026-01-04 is a Sunday. Lagos is an hour ahead of UTC all year.
@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2026-01-04T22:59:59.999999", "sun"),
        ("2026-01-04T23:00:00", "mon"),
        ("2026-01-05T00:00:00", "mon"),
        ("2026-01-05T22:59:59", "mon"),
        ("2026-01-05T23:00:00", "tue"),
        ("2026-07-04T22:59:59", "sat"),
        ("2026-07-04T23:00:00", "sun"),
        ("2025-12-31T23:00:00", "thu"),
    ],
)
def test_the_payout_day_is_in_lagos_time(moment: str, day: str) -> None:
    now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    rules._check_day(PlatformSettings(payout_days=day), now)
    others = ",".join(each for each in WEEKDAYS if each != day)
    with pytest.raises(ScheduleBlocked):
        rules._check_day(PlatformSettings(payout_days=others), now)


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_a_rail_without_credentials_is_not_configured(
    payer: PayoutMerchant,
    sandbox_payer: PayoutMerchant,
    services: Services,
    environment: str,
    rail: str,
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    await clear_credentials(services, rail)
    assert_refused(await caller.ask(rail), "gateway_not_configured")


@pytest.mark.parametrize("rail", ["b", "c"])
async def test_a_disabled_rail_is_not_configured(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    await set_credentials(services, rail, pay_out_enabled="false")
    reply = await payer.ask(rail)
    assert_refused(reply, "gateway_not_configured", "Payouts are switched off")
    assert "credentials" not in reply.json["error"]
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_an_unknown_bank_code_is_rejected(payer: PayoutMerchant, rail: str) -> None:
    reply = await payer.ask(rail, beneficiary=unresolved_beneficiary(rail) | {"bank_code": "NONE"})
    assert_refused(reply, "invalid_beneficiary", "NONE")
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize(("rail", "other"), first_short(itertools.permutations(RAILS, 2)))
async def test_another_rails_bank_code_is_rejected_with_a_hint(
    payer: PayoutMerchant, rail: str, other: str
) -> None:
    assert (await payer.merchant.get(BANK_LIST + RAILS[other])).status == 200
    reply = await payer.ask(rail, beneficiary=unresolved_beneficiary(other))
    assert_refused(reply, "invalid_beneficiary", f"bank code of provider{other}")
    assert f"provider{rail}" in reply.json["error"]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_an_account_unknown_to_the_rail_is_rejected(payer: PayoutMerchant, rail: str) -> None:
    reply = await payer.ask(rail, beneficiary=unresolved_beneficiary(rail, "0000000002"))
    assert_refused(reply, "invalid_beneficiary", "could not be verified")
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_transfer_refused_by_the_provider_is_refunded(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await payer.pay_out(rail)
    await refuse(payer.simulator, rail, "transfer", "Beneficiary is on a list")
    await assert_failed(payer, trx_id, "gateway_payout_failed", "Beneficiary is on a list")
    assert await payer.transfers(rail) == []
    assert (await payer.calls(rail)).count("transfer") == 1


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_transfer_that_fails_later_is_refunded(payer: PayoutMerchant, rail: str) -> None:
    trx_id = await payer.pay_out(rail, beneficiary=unresolved_beneficiary(rail, "0000000001"))
    await payer.check_until(trx_id, "failed")
    words = "Beneficiary bank rejected the transfer"
    await assert_failed(payer, trx_id, "gateway_payout_failed", words)


NOT_ALLOWED = [
    ("a", "Payouts are not enabled for this business"),
    ("a", "IP address is not whitelisted"),
    ("b", "Transfers are not enabled for this business"),
    ("b", "IP not whitelisted"),
]


@pytest.mark.parametrize(("rail", "message"), first_short(NOT_ALLOWED))
async def test_a_provider_problem_to_fix_is_reported_before_the_debit(
    payer: PayoutMerchant, rail: str, message: str
) -> None:
    await refuse(payer.simulator, rail, "resolve", message)
    reply = await payer.ask(rail, beneficiary=unresolved_beneficiary(rail))
    assert_refused(reply, "payout_failed", message)
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize(
    ("rail", "message"),
    [*first_short(NOT_ALLOWED), ("c", "Minimum transfer amount is 500")],
)
async def test_a_provider_problem_to_fix_is_reported_after_the_debit(
    payer: PayoutMerchant, rail: str, message: str
) -> None:
    trx_id = await payer.pay_out(rail)
    await refuse(payer.simulator, rail, "transfer", message)
    await assert_failed(payer, trx_id, "payout_failed", message)


@pytest.mark.parametrize(
    "method_id", first_short([0, -1, 999_999, 2**31, 2**63, 10**30], of_each=lambda n: n >= 2**31)
)
async def test_an_unknown_method_is_rejected(payer: PayoutMerchant, method_id: int) -> None:
    reply = await payer.ask(withdraw_method_id=method_id)
    assert_refused(reply, "payout_failed", "method")


async def test_a_deposit_method_is_not_a_withdrawal_method(payer: PayoutMerchant) -> None:
    reply = await payer.ask(withdraw_method_id=await payer.method_id("providera-ngn"))
    assert_refused(reply, "payout_failed", "method")


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
async def test_an_inactive_method_is_rejected(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    async with method(services, rail, active=False):
        assert_refused(await payer.ask(rail), "payout_failed", "method")
    assert (await payer.ask(rail)).status == 200


async def test_a_disabled_wallet_is_rejected_only_in_its_environment(
    payer: PayoutMerchant, services: Services
) -> None:
    place = payer.merchant.new.id, payer.merchant.environment, "NGN"
    await wallets.set_status(services.db, *place, WalletStatus.INACTIVE)
    await see_changes(services)
    assert_refused(await payer.ask(), "payout_failed", "wallet")
    merchant = msgspec.structs.replace(payer.merchant, environment=Environment.SANDBOX)
    assert (await PayoutMerchant(services, payer.simulator, merchant).ask()).status == 200


@pytest.mark.parametrize("environment", ["production", "sandbox"])
@pytest.mark.parametrize(
    ("rail", "lowest", "highest"),
    first_short(
        [
            *(("a", 100, 5_000_000), ("b", 100, 5_000_000), ("c", 500, 5_000_000)),
            (MANUAL, 500, 1_000_000),
        ],
        of_each=lambda row: row[0] == MANUAL,
    ),
)
async def test_an_amount_outside_the_methods_limits_is_rejected(
    payer: PayoutMerchant,
    sandbox_payer: PayoutMerchant,
    environment: str,
    rail: str,
    lowest: int,
    highest: int,
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    await caller.fund("6000000")
    before = await caller.balance()
    outside = (f"{lowest - 1}.99", f"{highest}.01", "0", "0.01", "-1", f"-{lowest}")
    for amount in outside:
        reply = await caller.send(await caller.order_of(amount, rail))
        assert_refused(reply, "payout_failed", f"₦{lowest:,}.00")
        assert f"₦{highest:,}.00" in reply.json["error"]
    assert await caller.balance() == before
    for amount in (str(lowest), f"{highest}.00"):
        assert (await caller.send(await caller.order_of(amount, rail))).status == 200
    assert await caller.balance() == before - (lowest + highest) * 100


async def test_a_method_without_a_minimum_rejects_a_zero_amount(
    payer: PayoutMerchant, services: Services
) -> None:
    async with method(services, MANUAL, minimum="0"):
        reply = await payer.send(await payer.order_of("0", MANUAL))
        assert_refused(reply, "payout_failed", "at least ₦0.01")
        assert (await payer.send(await payer.order_of("0.01", MANUAL))).status == 200


def assert_retryable(reply: Reply) -> None:
    assert (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE"), reply.body
    assert "Nothing was debited" in reply.json["error"]
    assert int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize("fault", ["5xx_before", "reset", "garbage_after_accept"])
@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_rail_that_cannot_resolve_the_account_rejects_before_the_debit(
    payer: PayoutMerchant, rail: str, fault: str
) -> None:
    await payer.simulator.control(f"{rail}/faults", {"next": [{"call": "resolve", "fault": fault}]})
    order = await payer.order(rail, beneficiary=unresolved_beneficiary(rail))
    assert_retryable(await payer.send(order))
    assert await payer.balance() == 1_000_000
    assert (await payer.send(order)).status == 200, "the fault is no longer active"


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_credentials_rejected_by_the_provider_are_not_a_temporary_error(
    payer: PayoutMerchant, rail: str
) -> None:
    fault = {"call": "resolve", "fault": "refuse", "status": 401, "message": "Unauthorized"}
    await payer.simulator.control(f"{rail}/faults", {"next": [fault]})
    reply = await payer.ask(rail, beneficiary=unresolved_beneficiary(rail))
    assert_refused(reply, "payout_failed", "rejects the platform's credentials")
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_rail_that_is_down_rejects_before_the_debit_until_it_is_up_again(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    # The first call caches the beneficiary, so that only the rail can cause the error.
    await payer.pay_out(rail)
    await payer.simulator.control(f"{rail}/faults", {"outage": True})
    for _ in range(FAILURES_TO_TRIP):
        reply = await payer.ask(rail, beneficiary=unresolved_beneficiary(rail))
        assert_retryable(reply)
    before = await payer.calls(rail)
    await payer.simulator.control(f"{rail}/faults", {"outage": False})
    assert_retryable(await payer.ask(rail))
    assert await payer.calls(rail) == before
    assert await payer.balance() == 900_000

    async def is_up_again() -> bool:
        await services.rails.probe()
        return (await payer.ask(rail)).status == 200

    await payer.simulator.until(is_up_again)
