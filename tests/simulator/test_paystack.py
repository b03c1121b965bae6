"""Every call to Paystack's simulated API."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.simulator.dialects import Paystack
from tests.simulator.examples import assert_like, example
from tests.simulator.merchant_platform import Platform, Reply

PAYSTACK = Paystack()
REFERENCE = "txn0000000000000001"
UNRESOLVED = (422, "Could not resolve account name. Check parameters or try again.")
ILLEGAL = "Your reference contains illegal special characters"
REVERSED = "Transaction has been fully reversed"
CHARGE = {"email": "ada@example.com", "amount": 1000_00, "reference": "TXN1-1"}


async def call(platform: Platform, method: str, path: str, body: Any = None) -> Reply:
    return await PAYSTACK.call(platform, method, path, body)


async def paid_charge(platform: Platform) -> None:
    await PAYSTACK.open_hosted(platform, "TXN1-1")
    await platform.control("paystack/charges/TXN1-1/pay", {})
    await platform.webhooks(1)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "No Authorization Header was found"),
        ({"Authorization": "sk_live_simulated"}, "Format is Authorization Bearer [secret key]"),
        ({"Authorization": "Bearer sk_live_wrong"}, "Invalid key"),
    ],
)
async def test_wrong_credentials_are_rejected(
    platform: Platform, headers: dict[str, str], message: str
) -> None:
    reply = await platform.send("GET", "/paystack/balance", headers=headers)
    assert reply.refusal == (401, message)


async def test_the_balance_is_in_kobo(platform: Platform) -> None:
    reply = await call(platform, "GET", "/balance")
    assert_like(reply.json, example("paystack", "balance"))
    assert reply.data == [{"currency": "NGN", "balance": 10_000_000_00}]


async def test_banks_have_codes_that_are_text(platform: Platform) -> None:
    reply = await call(platform, "GET", "/bank?country=nigeria&perPage=100")
    assert_like(reply.json, example("paystack", "banks"))
    codes = {bank["code"]: bank["name"] for bank in reply.data}
    assert (codes["044"], codes["035A"]) == ("Access Bank", "ALAT by WEMA")
    assert "nip_sort_code" not in reply.data[0]
    first = await call(platform, "GET", "/bank?perPage=1&include_nip_sort_code=true")
    assert [bank["nip_sort_code"] for bank in first.data] == ["000014"]


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("account_number=0000000002&bank_code=058", UNRESOLVED),
        ("account_number=123&bank_code=058", UNRESOLVED),
        ("account_number=01234x6789&bank_code=058", (400, "Account number should be numeric")),
        ("account_number=0123456789&bank_code=000013", (400, "Unknown bank code")),
        ("bank_code=058", (400, "account_number is required")),
    ],
)  # fmt: skip
async def test_an_account_that_cannot_be_resolved(
    platform: Platform, query: str, refusal: tuple[int, str]
) -> None:
    assert (await call(platform, "GET", f"/bank/resolve?{query}")).refusal == refusal


async def test_an_account_is_resolved(platform: Platform) -> None:
    reply = await call(platform, "GET", "/bank/resolve?account_number=0123456789&bank_code=058")
    assert_like(reply.json, example("paystack", "resolve"))


async def test_the_same_account_has_one_recipient(platform: Platform) -> None:
    first = await PAYSTACK.recipient(platform)
    assert first.status == 201
    assert_like(first.json, example("paystack", "recipient"))
    again = await PAYSTACK.recipient(platform)
    assert again.data["recipient_code"] == first.data["recipient_code"]
    other = await PAYSTACK.recipient(platform, "0123456780")
    assert other.data["recipient_code"] != first.data["recipient_code"]


async def test_a_transfer_has_the_documented_fields(platform: Platform) -> None:
    accepted = await PAYSTACK.transfer(platform, REFERENCE, amount="1000.10")
    assert_like(accepted.json, example("paystack", "transfer"))
    assert (accepted.data["amount"], accepted.data["status"]) == (1000_10, "pending")
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("paystack", "webhook_transfer"))
    asked = await PAYSTACK.ask_transfer(platform, REFERENCE)
    assert_like(asked.json, example("paystack", "transfer_status"))
    session = asked.data["session"]["id"]
    assert len(session) == 30
    assert session.isdigit()
    assert webhook.json["data"]["session"]["id"] == session


async def test_a_transfer_needs_a_recipient(platform: Platform) -> None:
    body = {"source": "balance", "amount": 100, "recipient": "RCP_none", "reference": REFERENCE}
    reply = await call(platform, "POST", "/transfer", body)
    assert (reply.status, reply.json) == (400, example("paystack", "invalid_recipient"))
    asked = await PAYSTACK.ask_transfer(platform, REFERENCE)
    assert (asked.status, asked.json) == (404, example("paystack", "transfer_not_found"))


async def test_a_duplicate_transfer_has_its_own_wording(platform: Platform) -> None:
    await PAYSTACK.transfer(platform, REFERENCE)
    again = await PAYSTACK.transfer(platform, REFERENCE)
    assert_like(again.json, example("paystack", "duplicate_transfer", "derived"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reference": "TXN0000000000000001"}, ILLEGAL),
        ({"reference": "short"}, ILLEGAL),
        ({"reference": None}, "reference is required"),
        ({"amount": "1000.00"}, "Invalid amount passed."),
        ({"amount": 10.5}, "Invalid amount passed."),
        ({"amount": 0}, "Invalid amount passed."),
        ({"source": "wallet"}, "Source is invalid"),
        ({"currency": "USD"}, "currency must be NGN"),
        ({"narration": "Rent"}, "narration is not allowed"),
    ],
)  # fmt: skip
async def test_a_wrong_transfer_is_refused(
    platform: Platform, change: dict[str, Any], message: str
) -> None:
    code = (await PAYSTACK.recipient(platform)).data["recipient_code"]
    body = {"source": "balance", "amount": 100_00, "recipient": code, "reference": REFERENCE}
    reply = await call(platform, "POST", "/transfer", {**body, **change})
    assert reply.refusal == (400, message)


async def test_with_a_test_key_a_transfer_succeeds_at_once(platform: Platform) -> None:
    await platform.control("paystack/account", {"secret_key": "sk_test_simulated"})
    headers = {"Authorization": "Bearer sk_test_simulated"}
    body = {"type": "nuban", "name": "Ada", "account_number": "0123456789", "bank_code": "001"}
    created = await platform.send("POST", "/paystack/transferrecipient", body, headers)
    order = {"source": "balance", "amount": 100_00, "reference": REFERENCE}
    order |= {"recipient": created.data["recipient_code"]}
    reply = await platform.send("POST", "/paystack/transfer", order, headers)
    assert (reply.data["status"], reply.data["domain"]) == ("success", "test")
    verified = await platform.send("GET", f"/paystack/transfer/verify/{REFERENCE}", None, headers)
    assert verified.data["session"] == {"provider": None, "id": None}


async def test_an_otp_finalizes_a_transfer(platform: Platform) -> None:
    await platform.control("paystack/account", {"transfers_need_otp": True})
    reply = await PAYSTACK.transfer(platform, REFERENCE)
    assert reply.json["message"] == "Transfer requires OTP to continue"
    code = reply.data["transfer_code"]
    path = "/transfer/finalize_transfer"
    wrong = await call(platform, "POST", path, {"transfer_code": code, "otp": "000000"})
    assert wrong.refusal == (400, "Invalid OTP or expired")
    done = await call(platform, "POST", path, {"transfer_code": code, "otp": "123456"})
    assert done.data["status"] == "pending"
    assert (await platform.webhooks(1))[0].json["event"] == "transfer.success"
    again = await call(platform, "POST", path, {"transfer_code": code, "otp": "123456"})
    assert again.refusal == (400, "Transfer is not currently awaiting OTP")


@pytest.mark.parametrize("word", ["abandoned", "blocked", "rejected"])
async def test_a_transfer_ends_in_words_without_an_event(platform: Platform, word: str) -> None:
    await PAYSTACK.transfer(platform, REFERENCE, "0000000003")
    target = f"paystack/transfers/{REFERENCE}/settle"
    await platform.control(target, {"status": "failed", "provider_status": word})
    assert await PAYSTACK.transfer_status(platform, REFERENCE) == word
    assert not (await platform.control("paystack/webhooks"))["webhooks"]


async def test_a_transfer_that_was_never_delivered_can_be_reversed(platform: Platform) -> None:
    await PAYSTACK.transfer(platform, REFERENCE, "0000000003")
    await platform.control(f"paystack/transfers/{REFERENCE}/settle", {"status": "reversed"})
    (webhook,) = await platform.webhooks(1)
    assert webhook.json["event"] == "transfer.reversed"
    assert webhook.json["data"]["transferred_at"] is None


async def test_a_word_must_fit_the_status(platform: Platform) -> None:
    await PAYSTACK.transfer(platform, REFERENCE, "0000000003")
    target = f"/control/api/paystack/transfers/{REFERENCE}/settle"
    reply = await platform.send("POST", target, {"status": "success", "provider_status": "otp"})
    assert reply.status == 400
    assert "success" in reply.json["error"]


async def test_a_hosted_charge_is_abandoned_until_it_is_paid(platform: Platform) -> None:
    body = {**CHARGE, "metadata": {"order": "7"}, "channels": ["card"]}
    reply = await call(platform, "POST", "/transaction/initialize", body)
    assert_like(reply.json, example("paystack", "initialize"))
    assert await PAYSTACK.charge_status(platform, "TXN1-1") == "abandoned"
    page = reply.data["authorization_url"].removeprefix(platform.simulator)
    await platform.send("GET", page)
    assert await PAYSTACK.charge_status(platform, "TXN1-1") == "ongoing"
    await platform.control("paystack/charges/TXN1-1/status", {"provider_status": "processing"})
    assert await PAYSTACK.charge_status(platform, "TXN1-1") == "processing"
    await platform.control("paystack/charges/TXN1-1/expire", {})
    await platform.control("paystack/charges/TXN1-1/pay", {})
    verified = await call(platform, "GET", "/transaction/verify/TXN1-1")
    assert_like(verified.json, example("paystack", "verify"))
    assert (verified.data["amount"], verified.data["fees"]) == (1000_00, 15_00)


async def test_a_failed_charge_sends_no_webhook(platform: Platform) -> None:
    await PAYSTACK.open_hosted(platform, "TXN1-1")
    await platform.control("paystack/charges/TXN1-1/pay", {"outcome": "failed"})
    verified = await call(platform, "GET", "/transaction/verify/TXN1-1")
    assert (verified.data["status"], verified.data["gateway_response"]) == ("failed", "Declined")
    assert not (await platform.control("paystack/webhooks"))["webhooks"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"email": None}, "Invalid Email Address Passed"),
        ({"email": "nobody"}, "Invalid Email Address Passed"),
        ({"amount": None}, "Invalid Amount Sent"),
        ({"amount": 1000.5}, "Invalid Amount Sent"),
        ({"amount": "1000.00"}, "Invalid Amount Sent"),
        ({"reference": "TXN1_1"}, "Invalid character in transaction reference"),
        ({"callback_url": "javascript:1"}, "callback_url must be an http or https address"),
        ({"redirect_url": "https://shop.example"}, "redirect_url is not allowed"),
    ],
)
async def test_a_wrong_charge_is_refused(
    platform: Platform, change: dict[str, Any], message: str
) -> None:
    reply = await call(platform, "POST", "/transaction/initialize", {**CHARGE, **change})
    assert reply.refusal == (400, message)


async def test_amounts_may_be_text_and_references_are_used_once(platform: Platform) -> None:
    body = {**CHARGE, "amount": "25000"}
    assert (await call(platform, "POST", "/transaction/initialize", body)).status == 200
    again = await call(platform, "POST", "/transaction/initialize", body)
    assert again.refusal == (400, "Duplicate Transaction Reference")
    generated = await call(
        platform, "POST", "/transaction/initialize", {"email": "a@b.co", "amount": 100}
    )
    assert generated.data["reference"]


async def test_an_unknown_charge_is_404_or_400(platform: Platform) -> None:
    reply = await call(platform, "GET", "/transaction/verify/TXN404-1")
    assert_like(reply.json, example("paystack", "charge_not_found"))
    assert reply.refusal == (404, "Transaction reference not found")
    await platform.control("paystack/account", {"unknown_charge_is_400": True})
    reply = await call(platform, "GET", "/transaction/verify/TXN404-1")
    assert reply.refusal == (400, "Transaction reference not found")


async def test_where_customers_pay_the_fee_the_amounts_differ(platform: Platform) -> None:
    await platform.control("paystack/account", {"customer_pays_fees": True})
    await paid_charge(platform)
    assert_like(platform.received[0].json, example("paystack", "webhook_charge"))
    verified = await call(platform, "GET", "/transaction/verify/TXN1-1")
    amounts = (verified.data["amount"], verified.data["requested_amount"], verified.data["fees"])
    assert amounts == (1015_00, 1000_00, 15_00)


async def test_a_one_time_account_takes_exactly_the_amount(platform: Platform) -> None:
    expires_at = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
    body = {**CHARGE, "bank_transfer": {"account_expires_at": expires_at}, "bearer": "account"}
    reply = await call(platform, "POST", "/charge", body)
    assert_like(reply.json, example("paystack", "charge_by_transfer"))
    assert await PAYSTACK.charge_status(platform, "TXN1-1") == "ongoing"
    wrong = await platform.send("POST", "/control/api/paystack/charges/TXN1-1/pay", {"amount": 900})
    assert wrong.status == 409
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("paystack", "webhook_transfer_rejected"))
    assert "TXN1-1" not in webhook.raw.decode()
    await platform.control("paystack/charges/TXN1-1/pay", {})
    assert (await platform.webhooks(2))[1].json["data"]["channel"] == "bank_transfer"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bank_transfer": None}, "One of Authorization code"),
        ({"amount": 99_99}, "Pay with transfer is not currently supported"),
        ({"bank_transfer": {"account_expires_at": "soon"}}, "account_expires_at is invalid"),
        ({"bank_transfer": {"expires": "soon"}}, "bank_transfer.expires is not allowed"),
    ],
)
async def test_a_wrong_one_time_account_is_refused(
    platform: Platform, change: dict[str, Any], message: str
) -> None:
    body = {**CHARGE, "bank_transfer": {}, **change}
    status, text = (await call(platform, "POST", "/charge", body)).refusal
    assert status == 400
    assert text.startswith(message)


async def test_an_account_expires_after_15_minutes_at_the_earliest(platform: Platform) -> None:
    soon = datetime.now(UTC).isoformat()
    body = {**CHARGE, "bank_transfer": {"account_expires_at": soon}}
    reply = await call(platform, "POST", "/charge", body)
    expiry = datetime.fromisoformat(reply.data["account_expires_at"])
    assert timedelta(minutes=14) < expiry - datetime.now(UTC) <= timedelta(minutes=15)


async def test_a_refund_has_only_an_id_of_paystack(platform: Platform) -> None:
    await paid_charge(platform)
    reply = await PAYSTACK.refund(platform, "TXN1-1", "")
    assert_like(reply.json, example("paystack", "refund"))
    refund_id = reply.data["id"]
    _, pending, processed = await platform.webhooks(3)
    assert_like(pending.json, example("paystack", "webhook_refund_pending"))
    assert (processed.json["event"], processed.json["data"]["amount"]) == (
        "refund.processed",
        "40050",
    )
    assert str(refund_id) not in processed.raw.decode()
    asked = await call(platform, "GET", f"/refund/{refund_id}")
    assert_like(asked.json, example("paystack", "refund_status"))
    listed = await call(platform, "GET", "/refund?transaction=TXN1-1&from=2020-01-01")
    assert [refund["id"] for refund in listed.data] == [refund_id]
    assert listed.json["meta"]["total"] == 1
    assert (await call(platform, "GET", "/refund?to=2020-01-01")).data == []
    wrong = await call(platform, "GET", "/refund?from=yesterday")
    assert wrong.refusal == (400, "Invalid 'from' date")


async def test_a_failed_refund_reports_a_number(platform: Platform) -> None:
    await paid_charge(platform)
    await platform.control("paystack/faults", {"refunds": "failed"})
    await PAYSTACK.refund(platform, "TXN1-1", "")
    failed = (await platform.webhooks(3))[2]
    assert_like(failed.json, example("paystack", "webhook_refund_failed"))


async def test_a_refund_can_need_attention(platform: Platform) -> None:
    await paid_charge(platform)
    await platform.control("paystack/faults", {"refunds": "pending"})
    refund_id = (await PAYSTACK.refund(platform, "TXN1-1", "")).data["id"]
    command = {"status": "processing", "provider_status": "needs-attention"}
    await platform.control(f"paystack/refunds/{refund_id}/settle", command)
    webhook = (await platform.webhooks(3))[2]
    assert (webhook.json["event"], webhook.json["data"]["id"]) == (
        "refund.needs-attention",
        refund_id,
    )
    asked = await call(platform, "GET", f"/refund/{refund_id}")
    assert asked.data["status"] == "needs-attention"


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"transaction": "TXN404-1"}, (404, "Transaction not found")),
        ({"transaction": "TXN1-1", "amount": 1000_01}, (400, REVERSED)),
        ({"transaction": "TXN1-1", "amount": "1.5"}, (400, "Invalid Amount Sent")),
        ({"amount": 100}, (400, "transaction is required")),
    ],
)  # fmt: skip
async def test_a_wrong_refund_is_refused(
    platform: Platform, body: dict[str, Any], refusal: tuple[int, str]
) -> None:
    await paid_charge(platform)
    assert (await call(platform, "POST", "/refund", body)).refusal == refusal


async def test_a_fully_refunded_charge_is_reversed(platform: Platform) -> None:
    await paid_charge(platform)
    await call(platform, "POST", "/refund", {"transaction": "TXN1-1"})
    await platform.webhooks(3)
    assert await PAYSTACK.charge_status(platform, "TXN1-1") == "reversed"


async def test_the_ledger_lists_every_movement(platform: Platform) -> None:
    await paid_charge(platform)
    await PAYSTACK.transfer(platform, REFERENCE)
    await platform.webhooks(2)
    reply = await call(platform, "GET", "/balance/ledger?perPage=10")
    assert_like(reply.json, example("paystack", "ledger"))
    lines = [(line["model_responsible"], line["difference"]) for line in reply.data]
    assert lines == [("Transfer", -1010_00), ("Transaction", 985_00)]
    assert reply.data[0]["balance"] == 10_000_000_00 - 25_00


async def test_too_many_requests_say_when_to_come_back(platform: Platform) -> None:
    message = "Please wait a few minutes and try again."
    planned = {"call": "balance", "fault": "refuse", "message": message}
    await platform.control("paystack/faults", {"next": [planned]})
    assert (await call(platform, "GET", "/balance")).refusal == (429, message)
