"""Tests the simulated provider B with handwritten requests and responses."""

import hashlib
import hmac

import pytest

from tests.simulator.merchant_platform import Platform

WALLET = "/pms/api/external/request/wallet"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"api-key": "sim_b_key"},
        {"api-key": "sim_b_key", "api-secret": "sim_b_secret"},
        {"api-key": "wrong", "api-secret": "Bearer sim_b_secret"},
    ],
)
async def test_both_keys_are_required(platform: Platform, headers: dict[str, str]) -> None:
    reply = await platform.send("GET", f"/b{WALLET}/balance/", headers=headers)
    assert reply.refusal == (401, "Unauthorized")


async def test_balances_are_strings_and_include_pending_transfers(platform: Platform) -> None:
    await platform.transfer("b", "TXN1", account="0000000003", amount="1000.00")
    reply = await platform.call("b", "GET", f"{WALLET}/balance/")
    assert reply.data == {"available_balance": "9998985.00", "ledger_balance": "10000000.00"}


async def test_banks_use_the_interbank_codes(platform: Platform) -> None:
    reply = await platform.call("b", "GET", f"{WALLET}/banks/")
    expected = {"bank_code": "000014", "bank_name": "Access Bank", "is_active": True}
    assert expected in reply.data


async def test_an_account_is_validated_and_the_enquiry_has_a_reference(platform: Platform) -> None:
    body = {"account_number": "0123456789", "bank_code": "000013"}
    reply = await platform.call("b", "POST", f"{WALLET}/validate-account/", body)
    assert set(reply.data) == {"account_name", "name_enquiry_reference"}
    order = {
        "reference": "TXN1",
        "amount": "1000.00",
        **body,
        "account_name": reply.data["account_name"],
        "narration": "Rent",
        "name_enquiry_reference": reply.data["name_enquiry_reference"],
    }
    accepted = await platform.call("b", "POST", f"{WALLET}/transfer/", order)
    assert accepted.data["status"] == "pending"
    other = {**order, "reference": "TXN2", "account_number": "1111111111"}
    refused = await platform.call("b", "POST", f"{WALLET}/transfer/", other)
    assert refused.refusal == (400, "Account validation failed")


@pytest.mark.parametrize(
    ("bank", "account", "refusal"),
    [
        ("000013", "0000000002", (400, "Account validation failed")),
        ("058", "0123456789", (400, "Invalid bank code")),
    ],
)
async def test_an_account_that_cannot_be_validated_is_rejected(
    platform: Platform, bank: str, account: str, refusal: tuple[int, str]
) -> None:
    body = {"account_number": account, "bank_code": bank}
    reply = await platform.call("b", "POST", f"{WALLET}/validate-account/", body)
    assert reply.refusal == refusal


async def test_a_transfer_is_delivered_without_a_webhook(platform: Platform) -> None:
    accepted = await platform.transfer("b", "TXN1")
    session_id = accepted.data["session_id"]
    assert accepted.data == {"reference": "TXN1", "session_id": session_id, "status": "pending"}
    await platform.settled("b", "TXN1", "success")
    asked = await platform.ask_transfer("b", "TXN1")
    assert asked.data == {
        "reference": "TXN1",
        "session_id": session_id,
        "status": "success",
        "reason": "Transaction was successful",
    }
    assert await platform.sent_webhooks("b") == []


async def test_a_numeric_amount_is_rejected(platform: Platform) -> None:
    body = {
        "reference": "TXN1",
        "amount": 1000,
        "account_number": "0123456789",
        "bank_code": "000013",
    }
    reply = await platform.call("b", "POST", f"{WALLET}/transfer/", body)
    assert reply.refusal == (400, "amount must be a string such as 1000.00")


async def test_a_payment_is_confirmed_and_signed_with_the_secret_key(platform: Platform) -> None:
    address = await platform.open_hosted("b", "TXN1-1", amount="1015.00")
    assert address.startswith(f"{platform.simulator}/b/checkout/")
    pending = await platform.charge_status("b", "TXN1-1")
    assert (pending["status"], pending["fee"]) == ("PENDING", "0.00")
    await platform.control("b/charges/TXN1-1/pay", {})
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/webhooks/providerb"
    expected = hmac.new(b"sim_b_secret", webhook.raw, hashlib.sha512).hexdigest()
    assert webhook.headers["HTTP_PROVIDERB_SIGNATURE"] == expected
    assert webhook.json == {
        "transaction": {"reference": "TXN1-1"},
        "order": {
            "amount": "1015.00",
            "settlement_amount": "1002.82",
            "fee": "12.18",
            "currency": "NGN",
        },
        "customer": {"email": "ada@example.com"},
        "message": "Payment successful",
        "code": "00",
    }
    assert await platform.charge_status("b", "TXN1-1") == {
        "reference": "TXN1-1",
        "status": "SUCCESS",
        "amount": "1015.00",
        "fee": "12.18",
        "currency": "NGN",
        "reason": None,
    }


async def test_a_declined_payment_sends_no_webhook(platform: Platform) -> None:
    await platform.open_hosted("b", "TXN1-1")
    command = {"outcome": "failed", "reason": "insufficient_funds"}
    await platform.control("b/charges/TXN1-1/pay", command)
    charge = await platform.charge_status("b", "TXN1-1")
    assert (charge["status"], charge["reason"]) == ("FAILED", "Insufficient funds")
    assert await platform.sent_webhooks("b") == []


async def test_one_reserved_account_is_created_for_each_bank(platform: Platform) -> None:
    body = {
        "businessid": "sim_b_business",
        "reference": "TXN1-1",
        "amount": "1015.00",
        "email": "ada@example.com",
        "name": "Ada Obi",
        "bankcode": ["000017", "000001"],
        "account_type": "DYNAMIC",
    }
    path = "/pms/api/external/request/customerReservedAccount/"
    reply = await platform.call("b", "POST", path, body)
    first, second = reply.data["banks"]
    assert (first["bankName"], first["bankCode"]) == ("Wema Bank", "000017")
    assert (second["bankName"], second["bankCode"]) == ("Sterling Bank", "000001")
    assert set(first) == {
        "bankName",
        "bankCode",
        "accountNumber",
        "accountName",
        "trackingReference",
        "expireDate",
    }
    again = await platform.call("b", "POST", path, body)
    assert again.refusal == (400, "Transfer reference already exists")
    other = await platform.call("b", "POST", path, {**body, "businessid": "other"})
    assert other.refusal == (400, "Invalid businessid")


async def test_an_unknown_reference_is_not_found(platform: Platform) -> None:
    charge = await platform.call("b", "GET", "/pms/transactions/TXN404/confirm/")
    transfer = await platform.ask_transfer("b", "TXN404")
    assert charge.refusal == transfer.refusal == (404, "Transaction not found")
