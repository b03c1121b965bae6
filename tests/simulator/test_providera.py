"""Tests the simulated provider A with handwritten requests and responses."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.simulator.merchant_platform import Platform, Received, charge_a

ROOT = "/merchant/api/v1"


def assert_signed(received: Received) -> None:
    expected = hmac.new(b"sim_a_webhook", received.raw, hashlib.sha256).hexdigest()
    assert received.headers["x-providera-signature"] == expected
    assert received.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer é"}]
)
async def test_the_secret_key_is_required(platform: Platform, headers: dict[str, str]) -> None:
    reply = await platform.send("GET", f"/a{ROOT}/balances", headers=headers)
    assert reply.refusal == (401, "Unauthorized")


async def test_balances_are_exact_numbers(platform: Platform) -> None:
    await platform.control("a/balance", b'{"available":90071992547409.93}')
    reply = await platform.call("a", "GET", f"{ROOT}/balances")
    assert reply.body == (
        b'{"status":true,"message":"Success","data":'
        b'{"NGN":{"available_balance":90071992547409.93,"pending_balance":0.00}}}'
    )


async def test_banks_use_the_central_bank_codes(platform: Platform) -> None:
    reply = await platform.call("a", "GET", f"{ROOT}/misc/banks?countryCode=NG")
    listed = {bank["code"]: bank for bank in reply.data}
    assert listed["044"] == {
        "name": "Access Bank",
        "slug": "access-bank",
        "code": "044",
        "country": "NG",
    }


async def test_an_account_is_resolved_to_its_holder(platform: Platform) -> None:
    body = {"bank": "058", "account": "0123456789", "currency": "NGN"}
    first = await platform.call("a", "POST", f"{ROOT}/misc/banks/resolve", body)
    assert first.data["bank_name"] == "Guaranty Trust Bank"
    assert (first.data["bank_code"], first.data["account_number"]) == ("058", "0123456789")
    assert first.data["account_name"].isupper()
    again = await platform.call("a", "POST", f"{ROOT}/misc/banks/resolve", body)
    assert again.body == first.body


@pytest.mark.parametrize(
    ("bank", "account", "refusal"),
    [
        ("058", "0000000002", (400, "Unable to resolve bank account.")),
        ("000013", "0123456789", (400, "Invalid bank provided.")),
        ("C058", "0123456789", (400, "Invalid bank provided.")),
        ("058", "12345", (400, "account must be 10 digits")),
    ],
)
async def test_an_unresolvable_account_is_rejected(
    platform: Platform, bank: str, account: str, refusal: tuple[int, str]
) -> None:
    body = {"bank": bank, "account": account, "currency": "NGN"}
    reply = await platform.call("a", "POST", f"{ROOT}/misc/banks/resolve", body)
    assert reply.refusal == refusal


async def test_a_transfer_is_accepted_delivered_and_reported_by_webhook(platform: Platform) -> None:
    accepted = await platform.transfer("a", "TXN1", amount="1000.10")
    trace_id = accepted.data["trace_id"]
    assert accepted.data == {
        "reference": "TXN1",
        "status": "processing",
        "amount": "1000.10",
        "fee": "10.00",
        "currency": "NGN",
        "trace_id": trace_id,
    }
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/webhooks/providera"
    assert_signed(webhook)
    assert webhook.json == {
        "event": "transfer.success",
        "data": {
            "reference": "TXN1",
            "status": "success",
            "amount": Decimal("1000.10"),
            "fee": Decimal("10.00"),
            "currency": "NGN",
            "message": "Transaction was successful",
            "trace_id": trace_id,
        },
    }
    asked = await platform.ask_transfer("a", "TXN1")
    assert asked.data == {
        "reference": "TXN1",
        "status": "success",
        "amount": "1000.10",
        "fee": "10.00",
        "currency": "NGN",
        "message": "Transaction was successful",
        "trace_id": trace_id,
    }


async def test_a_hosted_charge_is_paid_and_reported_to_its_own_url(platform: Platform) -> None:
    body = charge_a("TXN1-1", "1015.00", notification_url=f"{platform.url}/elsewhere")
    reply = await platform.call("a", "POST", f"{ROOT}/charges/initialize", body)
    assert reply.data["reference"] == "TXN1-1"
    assert reply.data["checkout_url"].startswith(f"{platform.simulator}/a/checkout/")
    before = await platform.charge_status("a", "TXN1-1")
    assert (before["status"], before["amount_paid"], before["reason"]) == ("processing", 0, None)
    await platform.control("a/charges/TXN1-1/pay", {})
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/elsewhere"
    assert_signed(webhook)
    assert webhook.json["event"] == "charge.success"
    assert webhook.json["data"]["amount"] == Decimal("1015.00")
    assert await platform.charge_status("a", "TXN1-1") == {
        "reference": "TXN1-1",
        "status": "success",
        "amount": Decimal("1015.00"),
        "amount_paid": Decimal("1015.00"),
        "fee": Decimal("15.23"),
        "currency": "NGN",
        "payment_method": "card",
        "reason": None,
    }


async def test_a_virtual_account_is_open_for_half_an_hour(platform: Platform) -> None:
    body = charge_a("TXN1-1", "1015.00", kyc={"bvn": "22222222222"})
    reply = await platform.call("a", "POST", f"{ROOT}/charges/bank-transfer", body)
    account = reply.data["bank_account"]
    assert (reply.data["status"], reply.data["amount_expected"]) == ("processing", 1015)
    assert (account["bank_name"], account["bank_code"]) == ("Wema Bank", "035")
    assert account["account_name"] == "Provider A / Ada Obi"
    assert len(account["account_number"]) == 10
    expiry = datetime.fromisoformat(account["expiry_date_in_utc"])
    assert timedelta(minutes=29) < expiry - datetime.now(UTC) <= timedelta(minutes=30)


async def test_a_virtual_account_needs_a_bvn(platform: Platform) -> None:
    body = charge_a("TXN1-1", "1015.00", kyc={"bvn": "123"})
    reply = await platform.call("a", "POST", f"{ROOT}/charges/bank-transfer", body)
    assert reply.refusal == (400, "kyc.bvn must be 11 digits")


async def test_an_expired_charge_is_reported_and_can_still_be_paid(platform: Platform) -> None:
    await platform.open_account("a", "TXN1-1")
    await platform.control("a/charges/TXN1-1/expire", {})
    assert (await platform.charge_status("a", "TXN1-1"))["status"] == "expired"
    assert not platform.received
    await platform.control("a/charges/TXN1-1/pay", {})
    assert (await platform.webhooks(1))[0].json["event"] == "charge.success"


@pytest.mark.parametrize("reason", ["insufficient_funds", "declined"])
async def test_a_declined_charge_has_a_reason(platform: Platform, reason: str) -> None:
    await platform.open_hosted("a", "TXN1-1")
    await platform.control("a/charges/TXN1-1/pay", {"outcome": "failed", "reason": reason})
    charge = await platform.charge_status("a", "TXN1-1")
    assert (charge["status"], charge["reason"]) == ("failed", reason)
    (webhook,) = await platform.webhooks(1)
    assert (webhook.json["event"], webhook.json["data"]["message"]) == ("charge.failed", reason)


async def test_a_refund_is_processed_then_completed(platform: Platform) -> None:
    await platform.open_hosted("a", "TXN1-1")
    await platform.control("a/charges/TXN1-1/pay", {})
    await platform.webhooks(1)
    body = {"reference": "TXN2", "payment_reference": "TXN1-1", "amount": 400.5, "reason": "late"}
    reply = await platform.call("a", "POST", f"{ROOT}/refunds/initiate", body)
    assert reply.data == {"reference": "TXN2", "status": "processing"}
    webhook = (await platform.webhooks(2))[1]
    assert_signed(webhook)
    assert webhook.json["event"] == "refund.success"
    asked = await platform.call("a", "GET", f"{ROOT}/refunds/TXN2")
    assert asked.data == {"reference": "TXN2", "status": "success", "amount": Decimal("400.50")}
    too_much = await platform.call(
        "a", "POST", f"{ROOT}/refunds/initiate", {**body, "reference": "TXN3", "amount": 600}
    )
    assert too_much.refusal == (400, "Refund amount exceeds the amount paid")


async def test_a_failed_refund_returns_the_money(platform: Platform) -> None:
    await platform.open_hosted("a", "TXN1-1")
    await platform.control("a/charges/TXN1-1/pay", {})
    await platform.webhooks(1)
    before = await platform.available("a")
    await platform.control("a/faults", {"refunds": "failed"})
    body = {"reference": "TXN2", "payment_reference": "TXN1-1", "amount": 1000}
    await platform.call("a", "POST", f"{ROOT}/refunds/initiate", body)
    assert (await platform.webhooks(2))[1].json["event"] == "refund.failed"
    assert await platform.available("a") == before


@pytest.mark.parametrize("kind", ["charges", "transactions", "refunds"])
async def test_an_unknown_reference_is_not_found(platform: Platform, kind: str) -> None:
    reply = await platform.call("a", "GET", f"{ROOT}/{kind}/TXN404")
    assert reply.refusal == (404, "Transaction not found")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is not valid JSON."),
        (b'{"reference":"1","reference":"2"}', "The body repeats a key."),
        (b'{"reference":"\\ud800"}', "The body contains invalid characters."),
        (b"[]", "The body must be an object"),
        (b"{}", "currency is required"),
        (charge_a("T", "1000", currency="USD"), "currency must be NGN"),
        (charge_a("T", "0"), "amount must be more than 0"),
        ({**charge_a("T", "1000"), "amount": "1000"}, "amount must be a number"),
        ({**charge_a("T", "1000"), "amount": 1.001}, "The amount may have at most 2 decimals."),
        (charge_a("T", "1000", redirect_url="javascript:alert(1)"),
         "redirect_url must be an http or https address"),
    ],
)  # fmt: skip
async def test_an_invalid_charge_is_rejected(
    platform: Platform, body: object, message: str
) -> None:
    reply = await platform.call("a", "POST", f"{ROOT}/charges/initialize", body)
    assert reply.refusal == (400, message)
