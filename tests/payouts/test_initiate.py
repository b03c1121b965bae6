"""initiate-payout: the complete response, the debit, and the transfer that the bank receives."""

import re
from decimal import Decimal
from typing import Any

import pytest

from manilla.services import Services
from tests.payouts.payout_merchant import (
    BANKS,
    INITIATE,
    MANUAL,
    RAILS,
    PayoutMerchant,
    exact,
    method,
    new_account,
    new_reference,
)
from tests.support.rows import first_short

TRX_ID = re.compile(r"TXN[0-9A-Z]{30}")


async def _expected(
    payer: PayoutMerchant, sent: dict[str, Any], rail: str, trx_id: str
) -> dict[str, Any]:
    is_manual = rail == MANUAL
    name = "Manual bank transfer" if is_manual else f"Provider {rail.upper()} bank transfer"
    return {
        "trx_id": trx_id,
        "status": "pending",
        "info": {
            "merchant_id": payer.merchant.new.id,
            "merchant_name": "Ada Stores",
            "ref_trx": sent["ref_trx"],
            "ipn_url": "https://shop.example/ipn",
            "environment": payer.merchant.environment.value,
            "is_sandbox": payer.merchant.environment == "sandbox",
            "api_merchant_payout": True,
            "withdraw_method_id": await payer.method_id(rail),
            "withdraw_method": name,
            "trx_id": trx_id,
            "payout_amount": Decimal("1000.50"),
            "currency_code": "NGN",
            "fee": Decimal("25.75"),
            "net_amount": Decimal("1000.50"),
            "payable_amount": Decimal("1026.25"),
            "status": "pending",
            "processing_type": "manual" if is_manual else "auto",
        },
    }


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
@pytest.mark.parametrize("environment", ["production", "sandbox"])
async def test_the_response_has_exactly_the_documented_fields(
    payer: PayoutMerchant,
    sandbox_payer: PayoutMerchant,
    services: Services,
    environment: str,
    rail: str,
) -> None:
    caller = payer if environment == "production" else sandbox_payer
    before = await caller.balance()
    async with method(services, rail, fee_fixed="25.75"):
        sent = await caller.order(rail, payout_amount=1000.5, description="Rent")
        reply = await caller.send(sent)
    assert reply.status == 200
    answer = exact(reply)
    assert TRX_ID.fullmatch(answer["trx_id"])
    assert answer == await _expected(caller, sent, rail, answer["trx_id"])
    assert type(answer["info"]["is_sandbox"]) is type(answer["info"]["api_merchant_payout"]) is bool
    assert before - await caller.balance() == 102_625
    assert await caller.account("in_flight") == 100_050
    assert await caller.account("payout_fee") == 2_575


@pytest.mark.parametrize(
    ("fee", "amount", "charged"),
    first_short(
        [
            ({}, "1000", "0"),
            ({"fee_fixed": "0.01"}, "100", "0.01"),
            ({"fee_fixed": "52.50"}, "5000", "52.50"),
            ({"fee_percent": "1.5"}, "143.00", "2.15"),
            ({"fee_percent": "1.5"}, "142.99", "2.14"),
            ({"fee_percent": "1.5"}, "143.01", "2.15"),
            ({"fee_percent": "0.0001"}, "5000", "0.01"),
            ({"fee_percent": "0.0001"}, "4999.99", "0"),
            ({"fee_percent": "100"}, "100", "100"),
            ({"fee_fixed": "10", "fee_percent": "1.5"}, "1000", "25"),
            ({"fee_percent": "1.5", "fee_minimum": "15.00"}, "1000", "15"),
            ({"fee_percent": "1.5", "fee_minimum": "15.01"}, "1000", "15.01"),
            ({"fee_percent": "1.5", "fee_minimum": "15.01"}, "1000.67", "15.01"),
            ({"fee_percent": "1.5", "fee_minimum": "15.01"}, "1001", "15.02"),
            ({"fee_percent": "1.5", "fee_maximum": "15.00"}, "1000", "15"),
            ({"fee_percent": "1.5", "fee_maximum": "14.99"}, "1000", "14.99"),
            ({"fee_fixed": "50", "fee_percent": "1", "fee_maximum": "60"}, "999.99", "60"),
            ({"fee_fixed": "50", "fee_percent": "1", "fee_maximum": "60.01"}, "1000.50", "60.01"),
            ({"fee_minimum": "7", "fee_maximum": "7"}, "1000", "7"),
        ],
        of_each=lambda row: tuple(row[0]),
    ),
    ids=str,
)
async def test_a_fee_is_fixed_plus_percentage_within_its_limits(
    payer: PayoutMerchant, services: Services, fee: dict[str, str], amount: str, charged: str
) -> None:
    wanted: dict[str, Any] = {**fee, "fee_percent": Decimal(fee.get("fee_percent", 0))}
    async with method(services, "a", **wanted):
        reply = await payer.send(await payer.order_of(amount))
    info = exact(reply)["info"]
    assert info["payout_amount"] == info["net_amount"] == Decimal(amount)
    assert info["fee"] == Decimal(charged)
    assert info["payable_amount"] == Decimal(amount) + Decimal(charged)
    assert await payer.balance() == 1_000_000 - int(info["payable_amount"] * 100)
    assert await payer.account("payout_fee") == int(Decimal(charged) * 100)


async def test_a_later_fee_change_does_not_affect_a_payout(
    payer: PayoutMerchant, services: Services
) -> None:
    async with method(services, "a", fee_fixed="50"):
        trx_id = await payer.pay_out()
    await payer.simulator.control("a/faults", {"settle_seconds": 3600})
    await payer.simulator.run_jobs()
    await payer.settle("a", trx_id, "failed")
    await payer.until(trx_id, "failed")
    assert await payer.balance() == 1_000_000
    assert await payer.account("payout_fee") == 0


@pytest.mark.parametrize(
    "amount", first_short(["1000", "1000.00", "1000.0", "1000.01", "1e3", "1.5E3"])
)
async def test_an_amount_is_returned_as_the_same_number(
    sandbox_payer: PayoutMerchant, amount: str
) -> None:
    reply = await sandbox_payer.send(await sandbox_payer.order_of(amount))
    assert exact(reply)["info"]["payout_amount"] == Decimal(amount)


async def test_no_digit_of_a_large_amount_is_lost(
    sandbox_payer: PayoutMerchant, services: Services
) -> None:
    await sandbox_payer.fund("90071992547409.93")
    async with method(services, "a", maximum="none", fee_fixed="0.01"):
        body = await sandbox_payer.order_of("90071992547409.93")
        reply = await sandbox_payer.send(body)
    assert reply.status == 200
    for field in (b"payout_amount", b"net_amount"):
        assert re.search(rb'"%b":90071992547409\.93[,}]' % field, reply.body)
    assert re.search(rb'"payable_amount":90071992547409\.94[,}]', reply.body)
    assert await sandbox_payer.balance() == 100_000_000 - 1


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_the_provider_is_sent_exactly_the_requested_amount(
    payer: PayoutMerchant, rail: str
) -> None:
    account = new_account()
    trx_id = await payer.pay_out(
        rail,
        payout_amount=1234.56,
        description="Rent for May",
        beneficiary={"bank_code": BANKS[rail], "account_number": account},
    )
    await payer.simulator.run_jobs()
    [transfer] = await payer.transfers(rail)
    sent = {key: transfer[key] for key in ("reference", "amount", "bank_code", "account_number")}
    assert sent == {
        "reference": trx_id,
        "amount": 1234.56,
        "bank_code": BANKS[rail],
        "account_number": account,
    }
    assert transfer["narration"] == "Rent for May"
    assert transfer["account_name"] == (await payer.payout(trx_id)).account_name


async def test_the_fee_is_not_sent_to_the_beneficiary(
    payer: PayoutMerchant, services: Services
) -> None:
    async with method(services, "a", fee_fixed="50"):
        await payer.pay_out()
    await payer.simulator.run_jobs()
    assert [transfer["amount"] for transfer in await payer.transfers()] == [1000]


@pytest.mark.parametrize("character", first_short(["x", "é", "字", "😀"]))
async def test_a_description_has_up_to_255_characters(
    sandbox_payer: PayoutMerchant, character: str
) -> None:
    trx_id = await sandbox_payer.pay_out(description=character * 255)
    assert (await sandbox_payer.payout(trx_id)).description == character * 255
    reply = await sandbox_payer.ask(description=character * 256)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert list(reply.json["errors"]) == ["description"]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_long_description_does_not_stop_the_transfer(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await payer.pay_out(rail, description="字" * 255)
    await payer.check_until(trx_id, "completed")


async def test_unknown_fields_are_ignored(sandbox_payer: PayoutMerchant) -> None:
    extras = {
        "merchant_id": 1,
        "environment": "production",
        "fee": 0,
        "status": "completed",
        "trx_id": "TXN1",
        "PAYOUT_AMOUNT": 5,
        "nested": {"a": [None, {"b": 1e300}]},
        "": "",
    }
    sent = await sandbox_payer.order()
    plain = (await sandbox_payer.send(sent)).json["info"]
    reply = await sandbox_payer.send({**sent, **extras, "ref_trx": new_reference()})
    assert reply.status == 200
    differing = {"ref_trx": "", "trx_id": ""}
    assert reply.json["info"] | differing == plain | differing


async def test_every_response_has_a_request_id_and_the_rate_limit(
    payer: PayoutMerchant,
) -> None:
    for reply in (await payer.ask(), await payer.merchant.post(INITIATE, b"{}")):
        assert reply.headers["x-request-id"]
        assert reply.headers["ratelimit"].startswith('"merchant";r=')
        assert reply.headers["cache-control"] == "no-store"


async def test_the_transaction_header_is_sent_on_replays_too(
    sandbox_payer: PayoutMerchant,
) -> None:
    sent = await sandbox_payer.order()
    first = await sandbox_payer.send(sent, Idempotency_Key="header")
    again = await sandbox_payer.send(sent, Idempotency_Key="header")
    assert again.headers["idempotent-replayed"] == "true"
    for reply in (first, again):
        # The test client converts header names to lower case.
        assert reply.headers["x-transaction-id"] == first.json["trx_id"].lower()
    verified = await sandbox_payer.verify(first.json["trx_id"])
    assert "x-transaction-id" not in verified.headers
