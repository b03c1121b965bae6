"""The transfer rules that providers A, B and C share. Their statuses and errors differ."""

import asyncio
from decimal import Decimal

import pytest

from tests.simulator.merchant_platform import (
    ACCEPTED,
    FAILED,
    PROCESSING,
    REVERSED,
    SUCCESS,
    Platform,
)

every_provider = pytest.mark.parametrize("key", ["a", "b", "c"])
FEE = {"a": Decimal("10.00"), "b": Decimal("15.00"), "c": Decimal("10.75")}
OPENING = Decimal("10000000.00")
DUPLICATE = {
    "a": (409, "Duplicate Transaction Reference"),
    "b": (400, "Transfer reference already exists"),
    "c": (400, "Duplicate reference"),
}
INSUFFICIENT = {
    "a": (402, "Insufficient funds in disbursement wallet"),
    "b": (400, "Insufficient wallet balance"),
    "c": (400, "Insufficient wallet balance to complete this transfer"),
}
UNRESOLVABLE = {
    "a": (400, "Unable to resolve bank account."),
    "b": (400, "Account validation failed"),
    "c": (400, "Account resolve failed"),
}


@every_provider
@pytest.mark.parametrize("account", ["0000000000", "0123456789"])
async def test_an_ordinary_account_receives_the_transfer(
    platform: Platform, key: str, account: str
) -> None:
    accepted = await platform.transfer(key, "TXN1", account)
    assert accepted.data["status"] == ACCEPTED[key]
    await platform.settled(key, "TXN1", SUCCESS[key])
    assert await platform.available(key) == OPENING - 1000 - FEE[key]


@every_provider
async def test_0000000001_is_accepted_then_fails_and_costs_nothing(
    platform: Platform, key: str
) -> None:
    await platform.control(f"{key}/faults", {"settle_seconds": 60})
    accepted = await platform.transfer(key, "TXN1", "0000000001")
    assert accepted.data["status"] == ACCEPTED[key]
    assert await platform.available(key) == OPENING - 1000 - FEE[key]
    await platform.control("reset", {})
    await platform.transfer(key, "TXN1", "0000000001")
    await platform.settled(key, "TXN1", FAILED[key])
    assert await platform.available(key) == OPENING


@every_provider
async def test_0000000002_cannot_be_resolved(platform: Platform, key: str) -> None:
    reply = await platform.transfer(key, "TXN1", "0000000002")
    assert reply.refusal == UNRESOLVABLE[key]
    assert await platform.available(key) == OPENING


@every_provider
async def test_0000000003_stays_pending_until_it_is_settled(platform: Platform, key: str) -> None:
    await platform.transfer(key, "TXN1", "0000000003")
    await platform.transfer(key, "TXN2")
    await platform.settled(key, "TXN2", SUCCESS[key])
    assert await platform.transfer_status(key, "TXN1") == PROCESSING[key]
    await platform.control(f"{key}/transfers/TXN1/settle", {"status": "success"})
    assert await platform.transfer_status(key, "TXN1") == SUCCESS[key]


@every_provider
async def test_0000000004_is_rejected_for_insufficient_balance(
    platform: Platform, key: str
) -> None:
    assert (await platform.transfer(key, "TXN1", "0000000004")).refusal == INSUFFICIENT[key]


@every_provider
async def test_a_wallet_must_cover_amount_and_fee(platform: Platform, key: str) -> None:
    enough = 1000 + FEE[key]
    await platform.control(f"{key}/balance", {"available": float(enough) - 0.01})
    assert (await platform.transfer(key, "TXN1")).refusal == INSUFFICIENT[key]
    await platform.control(f"{key}/balance", {"available": float(enough)})
    assert (await platform.transfer(key, "TXN1")).status == 200
    assert await platform.available(key) == 0


@every_provider
async def test_a_reference_is_sent_at_most_once(platform: Platform, key: str) -> None:
    replies = await asyncio.gather(*(platform.transfer(key, "TXN1") for _ in range(20)))
    assert [reply.status for reply in replies].count(200) == 1
    refused = [reply.refusal for reply in replies if reply.status != 200]
    assert refused == [DUPLICATE[key]] * 19
    listed = await platform.control(f"{key}/transfers?reference=TXN1")
    assert [item["duplicates"] for item in listed["transfers"]] == [19]
    assert await platform.available(key) == OPENING - 1000 - FEE[key]


@every_provider
async def test_a_duplicate_reference_is_reported_even_with_an_empty_wallet(
    platform: Platform, key: str
) -> None:
    await platform.transfer(key, "TXN1")
    await platform.control(f"{key}/balance", {"available": 0})
    assert (await platform.transfer(key, "TXN1")).refusal == DUPLICATE[key]


@every_provider
async def test_a_refused_transfer_is_not_stored(platform: Platform, key: str) -> None:
    await platform.transfer(key, "TXN1", "0000000002")
    asked = await platform.ask_transfer(key, "TXN1")
    assert (asked.data == []) if key == "c" else (asked.status == 404)


@every_provider
async def test_a_delivered_transfer_can_be_reversed(platform: Platform, key: str) -> None:
    await platform.transfer(key, "TXN1")
    await platform.settled(key, "TXN1", SUCCESS[key])
    command = {"status": "reversed", "reason": "Account closed"}
    await platform.control(f"{key}/transfers/TXN1/settle", command)
    assert await platform.transfer_status(key, "TXN1") == REVERSED[key]
    assert await platform.available(key) == OPENING


async def test_providers_a_and_c_send_a_webhook_about_a_reversal(platform: Platform) -> None:
    for key in "ac":
        await platform.transfer(key, "TXN1")
        await platform.settled(key, "TXN1", SUCCESS[key])
        await platform.control(f"{key}/transfers/TXN1/settle", {"status": "reversed"})
    received = await platform.webhooks(4)
    notified = {(each.json["event"], each.json["data"]["status"]) for each in received}
    assert notified == {
        ("transfer.success", "success"),
        ("transfer.reversed", "reversed"),
        ("transfer.completed", "SUCCESSFUL"),
        ("transfer.completed", "REVERSED"),
    }


@every_provider
async def test_bank_codes_of_one_rail_are_not_valid_on_another(
    platform: Platform, key: str
) -> None:
    from manilla_simulator import banks

    codes = {"a": banks.PROVIDER_A, "b": banks.PROVIDER_B, "c": banks.PROVIDER_C}
    others = [code for other in codes if other != key for code in codes[other]]
    assert not set(others) & set(codes[key])
    names = [sorted(bank.name for bank in each.values()) for each in codes.values()]
    assert names[0] == names[1] == names[2]
