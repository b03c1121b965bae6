"""Tests the simulated provider C with handwritten requests and responses."""

import hashlib
import hmac
import json
from decimal import Decimal

import pytest

from tests.simulator.merchant_platform import Platform, Received


def assert_signed(received: Received) -> None:
    expected = hmac.new(b"sim_c_webhook", received.raw, hashlib.sha256).hexdigest()
    assert received.headers["X-ProviderC-Signature"] == expected


async def test_errors_use_provider_cs_envelope(platform: Platform) -> None:
    reply = await platform.send("GET", "/c/v3/balances/NGN")
    assert reply.status == 401
    assert reply.json == {"status": "error", "message": "Unauthorized", "data": None}


async def test_balance_bank_list_and_name_resolution(platform: Platform) -> None:
    balance = await platform.call("c", "GET", "/v3/balances/NGN")
    assert balance.json["status"] == "success"
    assert balance.data == {
        "currency": "NGN",
        "available_balance": Decimal("10000000.00"),
        "ledger_balance": Decimal("10000000.00"),
    }
    banks = await platform.call("c", "GET", "/v3/banks/NG")
    assert {"id": 101, "code": "C044", "name": "Access Bank"} in banks.data
    body = {"account_number": "0123456789", "account_bank": "C058"}
    resolved = await platform.call("c", "POST", "/v3/accounts/resolve", body)
    assert resolved.data["account_number"] == "0123456789"
    assert resolved.data["account_name"]


@pytest.mark.parametrize(("bank", "account"), [("C058", "0000000002"), ("058", "0123456789")])
async def test_an_unresolvable_account_is_rejected(
    platform: Platform, bank: str, account: str
) -> None:
    body = {"account_number": account, "account_bank": bank}
    reply = await platform.call("c", "POST", "/v3/accounts/resolve", body)
    assert reply.refusal == (400, "Account resolve failed")


async def test_a_transfer_is_new_then_successful_and_reported_by_webhook(
    platform: Platform,
) -> None:
    accepted = await platform.transfer("c", "TXN1", amount="90071992.93")
    assert accepted.refusal == (400, "Insufficient wallet balance to complete this transfer")
    accepted = await platform.transfer("c", "TXN1", amount="1000.93")
    number = accepted.data["id"]
    assert accepted.data == {
        "id": number,
        "reference": "TXN1",
        "status": "NEW",
        "fee": Decimal("10.75"),
        "bank_name": "Guaranty Trust Bank",
        "complete_message": "",
    }
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/webhooks/providerc"
    assert_signed(webhook)
    assert webhook.json == {
        "event": "transfer.completed",
        "data": {
            "id": number,
            "reference": "TXN1",
            "status": "SUCCESSFUL",
            "amount": Decimal("1000.93"),
            "currency": "NGN",
            "complete_message": "Transaction was successful",
        },
    }
    asked = await platform.ask_transfer("c", "TXN1")
    assert asked.data == [
        {
            "id": number,
            "reference": "TXN1",
            "status": "SUCCESSFUL",
            "amount": Decimal("1000.93"),
            "fee": Decimal("10.75"),
            "complete_message": "Transaction was successful",
        }
    ]


async def test_a_transfer_webhook_goes_to_the_requested_url(platform: Platform) -> None:
    body = {
        "reference": "TXN1",
        "account_bank": "C058",
        "account_number": "0123456789",
        "amount": 1000,
        "currency": "NGN",
        "callback_url": f"{platform.url}/elsewhere",
    }
    await platform.call("c", "POST", "/v3/transfers", body)
    assert (await platform.webhooks(1))[0].path == "/elsewhere"


async def test_a_failed_transfer_is_reported_as_completed_too(platform: Platform) -> None:
    await platform.transfer("c", "TXN1", account="0000000001")
    (webhook,) = await platform.webhooks(1)
    assert webhook.json["event"] == "transfer.completed"
    assert webhook.json["data"]["status"] == "FAILED"


async def test_an_amount_below_the_minimum_is_rejected(platform: Platform) -> None:
    reply = await platform.transfer("c", "TXN1", amount="499.99")
    assert reply.refusal == (400, "Minimum transfer amount is 500")
    assert (await platform.ask_transfer("c", "TXN1")).data == []


@pytest.mark.parametrize(
    ("command", "status", "response", "charged"),
    [
        ({}, "successful", "Approved", "1015.00"),
        ({"outcome": "failed"}, "failed", "Declined", "0.00"),
        (
            {"outcome": "failed", "reason": "insufficient_funds"},
            "failed",
            "Insufficient Funds",
            "0.00",
        ),
    ],
)
async def test_a_payment_link_is_verified_and_reported_by_webhook(
    platform: Platform, command: dict[str, str], status: str, response: str, charged: str
) -> None:
    address = await platform.open_hosted("c", "TXN1-1", amount="1015.00")
    assert address.startswith(f"{platform.simulator}/c/checkout/")
    assert (await platform.charge_status("c", "TXN1-1"))["status"] == "pending"
    await platform.control("c/charges/TXN1-1/pay", command)
    (webhook,) = await platform.webhooks(1)
    assert_signed(webhook)
    charge = await platform.charge_status("c", "TXN1-1")
    assert webhook.json == {
        "event": "charge.completed",
        "data": {
            "id": charge["id"],
            "tx_ref": "TXN1-1",
            "status": status,
            "amount": Decimal("1015.00"),
            "currency": "NGN",
            "complete_message": response,
        },
    }
    assert charge == {
        "id": charge["id"],
        "tx_ref": "TXN1-1",
        "status": status,
        "amount": Decimal("1015.00"),
        "charged_amount": Decimal(charged),
        "app_fee": Decimal("14.21") if status == "successful" else Decimal("0.00"),
        "currency": "NGN",
        "processor_response": response,
    }


async def test_a_refund_is_completed_immediately(platform: Platform) -> None:
    await platform.open_hosted("c", "TXN1-1")
    await platform.control("c/charges/TXN1-1/pay", {})
    number = (await platform.charge_status("c", "TXN1-1"))["id"]
    body = {"amount": 400, "reference": "TXN2"}
    reply = await platform.call("c", "POST", f"/v3/transactions/{number}/refund", body)
    assert (reply.data["status"], reply.data["amount_refunded"]) == ("completed", Decimal(400))
    again = await platform.call("c", "POST", f"/v3/transactions/{number}/refund", body)
    assert again.refusal == (400, "Duplicate reference")
    unknown = await platform.call("c", "POST", "/v3/transactions/1/refund", body)
    assert unknown.refusal == (404, "Transaction not found")


async def test_a_refund_can_be_pending_or_refused(platform: Platform) -> None:
    await platform.open_hosted("c", "TXN1-1")
    await platform.control("c/charges/TXN1-1/pay", {})
    number = (await platform.charge_status("c", "TXN1-1"))["id"]
    target = f"/v3/transactions/{number}/refund"
    await platform.control("c/faults", {"refunds": "pending"})
    pending = await platform.call("c", "POST", target, {"amount": 400, "reference": "TXN2"})
    assert pending.data["status"] == "pending"
    await platform.control("c/faults", {"refunds": "failed"})
    refused = await platform.call("c", "POST", target, {"amount": 400, "reference": "TXN3"})
    assert refused.refusal == (400, "Refund could not be processed")


async def test_an_unknown_url_returns_the_error_envelope(platform: Platform) -> None:
    reply = await platform.call("c", "GET", "/v3/nothing")
    assert json.loads(reply.body)["status"] == "error"
    assert reply.status == 404
