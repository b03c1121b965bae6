"""If a request has several errors, the response has the first error in the documented order."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from manilla.merchants import wallets
from manilla.merchants.merchants import MerchantUpdate
from manilla.merchants.wallets import WalletStatus
from tests.payouts.payout_merchant import (
    PayoutMerchant,
    clear_credentials,
    method,
    new_account,
    see_changes,
    setting,
)
from tests.support.rows import long_rows

Cause = Callable[[PayoutMerchant, AsyncExitStack], Awaitable[None]]


class Fault(msgspec.Struct, frozen=True):
    """An error: the setup or the request fields that cause it, and the expected response."""

    name: str
    code: str
    words: str = ""
    cause: Cause | None = None
    order: dict[str, Any] = {}


async def _inactive(payer: PayoutMerchant, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(method(payer.services, "a", active=False))


async def _no_credentials(payer: PayoutMerchant, _stack: AsyncExitStack) -> None:
    await clear_credentials(payer.services, "a")


async def _switched_off(payer: PayoutMerchant, _stack: AsyncExitStack) -> None:
    await payer.change(MerchantUpdate(payouts_enabled=False))


async def _kyc(payer: PayoutMerchant, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(setting(payer.services, "kyc_required", "true"))


async def _phone(payer: PayoutMerchant, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(setting(payer.services, "phone_required", "true"))


async def _no_day(payer: PayoutMerchant, stack: AsyncExitStack) -> None:
    await stack.enter_async_context(setting(payer.services, "payout_days", ""))


async def _other_currency(payer: PayoutMerchant, _stack: AsyncExitStack) -> None:
    await payer.change(MerchantUpdate(currencies=["USD"]))


async def _no_wallet(payer: PayoutMerchant, _stack: AsyncExitStack) -> None:
    place = payer.merchant.new.id, payer.merchant.environment, "NGN"
    await wallets.set_status(payer.services.db, *place, WalletStatus.INACTIVE)
    await see_changes(payer.services)


async def _low_balance_provider(payer: PayoutMerchant, _stack: AsyncExitStack) -> None:
    await payer.simulator.control("a/balance", {"available": 0})


USED = "used before"
NO_BANK = {"bank_code": "NONE", "account_number": "1234567890"}
FAULTS = (
    Fault("method", "payout_failed", "no such payout method", cause=_inactive),
    Fault("credentials", "gateway_not_configured", cause=_no_credentials),
    Fault("switch", "merchant_payout_disabled", cause=_switched_off),
    Fault("kyc", "kyc_required", "KYC", cause=_kyc),
    Fault("phone", "kyc_required", "phone", cause=_phone),
    Fault("schedule", "payout_schedule_blocked", cause=_no_day),
    Fault("currency", "INVALID_CURRENCY", cause=_other_currency),
    Fault("wallet", "payout_failed", "wallet", cause=_no_wallet),
    Fault("range", "payout_failed", "The amount must be", order={"payout_amount": 6_000_000}),
    Fault("reference", "DUPLICATE_REFERENCE", order={"ref_trx": USED}),
    Fault("balance", "insufficient_balance", order={"payout_amount": 4_000_000}),
    Fault("beneficiary", "invalid_beneficiary", order={"beneficiary": NO_BANK}),
    Fault("provider", "provider_insufficient_balance", cause=_low_balance_provider),
)


async def _changes(payer: PayoutMerchant, faults: tuple[Fault, ...]) -> dict[str, Any]:
    """Returns request fields that cause these errors. The first error has priority."""
    stranger = {"bank_code": "058", "account_number": new_account()}
    changed: dict[str, Any] = {"beneficiary": stranger}
    for fault in reversed(faults):
        changed |= fault.order
    if "ref_trx" in changed:
        sent = await payer.order()
        assert (await payer.send(sent)).status == 200
        changed["ref_trx"] = sent["ref_trx"]
    return changed


@pytest.mark.parametrize("place", range(len(FAULTS)), ids=[fault.name for fault in FAULTS])
@pytest.mark.parametrize(
    "others",
    [
        "with all that come after it",
        *long_rows("alone", "with the next"),
    ],
)
async def test_the_first_failing_check_is_reported(
    payer: PayoutMerchant, place: int, others: str
) -> None:
    count = {"alone": 1, "with the next": 2}.get(others, len(FAULTS))
    faults = FAULTS[place : place + count]
    async with payer.at_second_process() as other, AsyncExitStack() as stack:
        changed = await _changes(payer, faults)
        before = await payer.balance()
        for fault in faults:
            if fault.cause is not None:
                await fault.cause(payer, stack)
        reply = await other.ask(**changed)
    assert (reply.status, reply.code) == (422, faults[0].code), reply.body
    assert faults[0].words in reply.json["error"]
    assert await payer.balance() == before


@pytest.mark.parametrize("rail", ["b", "platform"])
async def test_the_methods_currency_is_checked_with_the_wallet(
    payer: PayoutMerchant, rail: str
) -> None:
    """A merchant with wallets in two currencies uses a method with the wrong currency."""
    await payer.change(MerchantUpdate(currencies=["NGN", "USD"]))
    reply = await payer.ask(rail, currency_code="USD", payout_amount=1)
    assert (reply.status, reply.code) == (422, "payout_failed")
    assert "NGN" in reply.json["error"]


async def test_no_provider_is_called_before_the_balance_check(
    payer: PayoutMerchant,
) -> None:
    stranger = {"bank_code": "058", "account_number": new_account()}
    sent = await payer.order(beneficiary=stranger)
    async with method(payer.services, "a", fee_fixed="1"), payer.at_second_process() as other:
        for changed in ({"payout_amount": 9_999.01}, {"payout_amount": 1}):
            assert (await other.send(sent | changed)).status == 422
        assert await payer.calls() == []
        assert (await other.send(sent)).status == 200
    assert await payer.calls() == ["banks", "resolve", "balance"]
