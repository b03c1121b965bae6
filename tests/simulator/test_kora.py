"""Every call to Kora's simulated API."""

import hashlib
import hmac
from decimal import Decimal
from typing import Any

import pytest

from tests.simulator.dialects import Kora
from tests.simulator.examples import assert_like, example
from tests.simulator.merchant_platform import Platform, Reply
from tests.support.waiting import until_true

KORA = Kora()
REFERENCE = "txn0000000000000001"
ROOT = "/merchant/api/v1"


async def call(platform: Platform, method: str, path: str, body: Any = None) -> Reply:
    return await KORA.call(platform, method, f"{ROOT}{path}", body)


async def paid_charge(platform: Platform) -> None:
    await KORA.open_hosted(platform, "TXN0001-1")
    await platform.control("kora/charges/TXN0001-1/pay", {})
    await platform.webhooks(1)


class SandboxKora(Kora):
    secret_key = "sk_test_simulated"


async def sandbox(platform: Platform, **more: Any) -> SandboxKora:
    dialect = SandboxKora()
    await platform.control("kora/account", {"secret_key": dialect.secret_key, **more})
    return dialect


async def test_balances_are_numbers(platform: Platform) -> None:
    reply = await call(platform, "GET", "/balances")
    assert_like(reply.json, example("kora", "balances"))
    assert reply.data["NGN"]["available_balance"] == 10_000_000


async def test_banks_have_the_central_banks_codes(platform: Platform) -> None:
    reply = await call(platform, "GET", "/misc/banks?countryCode=NG")
    access = next(bank for bank in reply.data if bank["code"] == "044")
    assert (access["name"], access["slug"], access["country"]) == (
        "Access Bank",
        "access-bank",
        "NG",
    )
    assert (await call(platform, "GET", "/misc/banks")).status == 400


@pytest.mark.parametrize(
    ("bank", "account", "refusal"),
    [
        ("058", "0000000002", (400, "Unable to resolve bank account.")),
        ("000013", "0123456789", (400, "Invalid bank provided.")),
        ("058", "12345", (400, "invalid request data")),
    ],
)
async def test_an_account_that_cannot_be_resolved(
    platform: Platform, bank: str, account: str, refusal: tuple[int, str]
) -> None:
    body = {"bank": bank, "account": account, "currency": "NGN"}
    assert (await call(platform, "POST", "/misc/banks/resolve", body)).refusal == refusal


async def test_an_account_is_resolved(platform: Platform) -> None:
    body = {"bank": "058", "account": "0123456789", "currency": "NGN"}
    reply = await call(platform, "POST", "/misc/banks/resolve", body)
    assert_like(reply.json, example("kora", "resolved"))


async def test_a_payout_has_the_documented_fields(platform: Platform) -> None:
    reply = await KORA.transfer(platform, REFERENCE, amount="1000.10")
    assert_like(reply.json, example("kora", "sent"))
    assert (reply.data["amount"], reply.data["fee"]) == ("1000.10", "20.00")
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("kora", "webhook_transfer"))
    assert webhook.json["data"]["amount"] == Decimal("1000.10")
    asked = await KORA.ask_transfer(platform, REFERENCE)
    assert_like(asked.json, example("kora", "transfer", "derived"))


async def test_a_payout_notifies_the_url_of_its_request(platform: Platform) -> None:
    body = KORA.payout(REFERENCE, "0123456789", "1000")
    body = body.replace(b"{", b'{"notification_url":"%s/mine",' % platform.url.encode(), 1)
    await call(platform, "POST", "/transactions/disburse", body)
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/mine"


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (REFERENCE, "tx1", "reference"),
        ('"amount":1000', '"amount":"1000"', "destination.amount"),
        ('"amount":1000', '"amount":10.001', "destination.amount"),
        ('"currency":"NGN"', '"currency":"USD"', "destination.currency"),
        ('"bank":"058"', '"bank_code":"058"', "destination.bank_account.bank_code"),
        ('"email":"ada@example.com"', '"email":"ada"', "destination.customer.email"),
        ('"type":"bank_account"', '"type":"card"', "destination.type"),
        ('{"reference"', '{"metadata":{},"reference"', "metadata"),
        ('{"reference"', '{"metadata":{"a_b":1},"reference"', "metadata.a_b"),
    ],
)
async def test_a_wrong_payout_names_the_field(
    platform: Platform, old: str, new: str, field: str
) -> None:
    body = KORA.payout(REFERENCE, "0123456789", "1000").decode().replace(old, new, 1)
    reply = await call(platform, "POST", "/transactions/disburse", body.encode())
    assert reply.status == 400
    assert reply.json["error"] == "bad_request"
    assert reply.json["message"] == "invalid request data"
    assert list(reply.data) == [field]
    assert reply.data[field]["message"]


async def test_refused_payouts_can_have_another_status(platform: Platform) -> None:
    await platform.control("kora/account", {"payout_refusal_status": 409})
    reply = await KORA.transfer(platform, REFERENCE, "0000000004")
    assert reply.refusal == (409, "Insufficient funds in disbursement wallet")


async def test_accounts_of_the_sandbox_force_an_outcome(platform: Platform) -> None:
    test = await sandbox(platform)
    for bank, account in (("033", "0000000000"), ("035", "0000000000")):
        body = test.payout(f"{REFERENCE}-{bank}", account, "1000", bank)
        assert (
            await test.call(platform, "POST", f"{ROOT}/transactions/disburse", body)
        ).status == 200
    await platform.webhooks(2)
    assert await test.transfer_status(platform, f"{REFERENCE}-033") == "success"
    failed = await test.ask_transfer(platform, f"{REFERENCE}-035")
    assert (failed.data["status"], failed.data["message"]) == ("failed", "Payout failed")
    body = test.payout(REFERENCE, "9999999999", "1000", "011")
    refused = await test.call(platform, "POST", f"{ROOT}/transactions/disburse", body)
    assert refused.refusal == (400, "Invalid account.")
    body_of_resolve = {"bank": "011", "account": "9999999999", "currency": "NGN"}
    refused = await test.call(platform, "POST", f"{ROOT}/misc/banks/resolve", body_of_resolve)
    assert refused.refusal == (400, "Invalid account.")


async def test_a_payout_that_came_back_can_be_called_reversed(platform: Platform) -> None:
    await KORA.transfer(platform, REFERENCE)
    await platform.webhooks(1)
    command = {"status": "reversed", "provider_status": "reversed"}
    await platform.control(f"kora/transfers/{REFERENCE}/settle", command)
    assert (await platform.webhooks(2))[1].json["event"] == "transfer.reversed"


@pytest.mark.parametrize(
    ("switch", "digest", "is_whole_body"),
    [
        ("data-sha256", "sha256", False),
        ("body-sha256", "sha256", True),
        ("body-sha512", "sha512", True),
    ],
)
async def test_webhooks_are_signed_in_one_of_three_ways(
    platform: Platform, switch: str, digest: str, is_whole_body: bool
) -> None:
    await platform.control("kora/account", {"signature": switch})
    data = b'{"amount": 1000.50, "reference": "TXN1"}'
    raw = b'{"event": "charge.success", "data": ' + data + b"}"
    await platform.control("kora/webhooks/send", b'{"body": ' + raw + b"}")
    (received,) = await platform.webhooks(1)
    assert received.raw == raw
    expected = hmac.new(b"sk_live_simulated", raw if is_whole_body else data, digest).hexdigest()
    assert received.headers["x-korapay-signature"] == expected


async def test_the_signature_of_a_known_body() -> None:
    """The test vector for the bytes of `data` is our own, because Kora publishes none."""
    from manilla_simulator.dialects.kora.contract import sign
    from manilla_simulator.settings import KoraAccount

    raw = b'{"event":"transfer.success","data":{"amount":150.99,"reference":"Z78EYMAUBQ5"}}'
    signed = b'{"amount":150.99,"reference":"Z78EYMAUBQ5"}'
    expected = "c278f72b8a4421b6713ad8c65b6c9a1186d506804de4d9678228ae7dbbb71dfe"
    assert hmac.new(b"sk_test_key", signed, hashlib.sha256).hexdigest() == expected
    assert sign(KoraAccount(), "sk_test_key", raw) == {"x-korapay-signature": expected}


async def test_a_hosted_charge(platform: Platform) -> None:
    body = KORA.charge(
        "TXN0001-1",
        narration="Order 7",
        notification_url=f"{platform.url}/mine",
        channels=["card", "bank_transfer"],
        default_channel="card",
        metadata={"order-id": "7"},
    )
    reply = await call(platform, "POST", "/charges/initialize", body)
    assert_like(reply.json, example("kora", "checkout"))
    assert await KORA.charge_status(platform, "TXN0001-1") == "pending"
    await platform.control("kora/charges/TXN0001-1/pay", {})
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/mine"
    assert_like(webhook.json, example("kora", "webhook_charge"))
    charge = await call(platform, "GET", "/charges/TXN0001-1")
    assert_like(charge.json, example("kora", "charge"))
    assert (charge.data["amount"], charge.data["amount_paid"]) == ("1000.00", 1000)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"reference": "TXN1-1"}, "reference"),
        ({"amount": "1000"}, "amount"),
        ({"customer": {"name": "Ada"}}, "customer.email"),
        ({"metadata": {str(number): 1 for number in range(6)}}, "metadata"),
        ({"metadata": {"a-name-of-21-characters": 1}}, "metadata.a-name-of-21-characters"),
        ({"callback_url": "https://shop.example"}, "callback_url"),
        ({"merchant_bears_cost": "yes"}, "merchant_bears_cost"),
        ({"auto_complete": False}, "auto_complete"),
    ],
)
async def test_a_wrong_charge_names_the_field(
    platform: Platform, change: dict[str, Any], field: str
) -> None:
    body = {**KORA.charge("TXN0001-1"), **change}
    reply = await call(platform, "POST", "/charges/bank-transfer", body)
    assert (reply.status, list(reply.data)) == (400, [field])
    if field == "amount":
        assert_like(reply.json, example("kora", "invalid_request", "derived"))


async def test_a_one_time_account_adds_the_fee_unless_the_merchant_bears_it(
    platform: Platform,
) -> None:
    body = KORA.charge("TXN0001-1", amount=1500, merchant_bears_cost=False)
    reply = await call(platform, "POST", "/charges/bank-transfer", body)
    assert_like(reply.json, example("kora", "virtual_account"))
    expected = (Decimal("1524.19"), Decimal("22.50"), Decimal("1.69"))
    assert (reply.data["amount_expected"], reply.data["fee"], reply.data["vat"]) == expected
    account = reply.data["bank_account"]["account_number"]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    await platform.send("POST", f"/bank/{account}", b"choice=exact", form)
    charge = await call(platform, "GET", "/charges/TXN0001-1")
    assert (charge.data["amount_paid"], charge.data["fee"]) == (
        Decimal("1524.19"),
        Decimal("24.19"),
    )
    bearing = KORA.charge("TXN0001-2", amount=1500)
    reply = await call(platform, "POST", "/charges/bank-transfer", bearing)
    assert reply.data["amount_expected"] == 1500


@pytest.mark.parametrize(
    ("amount", "word"), [(900, "underpaid"), (1000, "success"), (1100, "overpaid")]
)
async def test_the_webhook_says_whether_the_amount_was_right(
    platform: Platform, amount: int, word: str
) -> None:
    await KORA.open_account(platform, "TXN0001-1")
    await platform.control("kora/charges/TXN0001-1/pay", {"amount": amount})
    (webhook,) = await platform.webhooks(1)
    assert webhook.json["data"]["transaction_status"] == word
    assert webhook.json["data"]["amount"] == amount


@pytest.mark.parametrize(
    ("switch", "ours"),
    [
        ("both", ["reference", "payment_reference"]),
        ("reference", ["reference"]),
        ("payment_reference", ["payment_reference"]),
    ],
)
async def test_which_field_has_our_reference_is_a_switch(
    platform: Platform, switch: str, ours: list[str]
) -> None:
    await platform.control("kora/account", {"our_reference": switch})
    await KORA.open_account(platform, "TXN0001-1")
    await platform.control("kora/charges/TXN0001-1/pay", {})
    data = (await platform.webhooks(1))[0].json["data"]
    names = ("reference", "payment_reference")
    assert [name for name in names if data[name] == "TXN0001-1"] == ours
    for name in names:
        if name not in ours:
            assert data[name].startswith("KPY-PAY-")
            assert (await call(platform, "GET", f"/charges/{data[name]}")).status == 200


async def test_a_failed_or_expired_charge(platform: Platform) -> None:
    await KORA.open_hosted(platform, "TXN0001-1")
    await platform.control("kora/charges/TXN0001-1/pay", {"outcome": "failed"})
    assert (await platform.webhooks(1))[0].json["event"] == "charge.failed"
    await KORA.open_account(platform, "TXN0001-2")
    await platform.control("kora/charges/TXN0001-2/expire", {})
    assert await KORA.charge_status(platform, "TXN0001-2") == "expired"
    assert (await call(platform, "GET", "/charges/TXN0404-1")).refusal == (404, "Charge not found")
    again = await call(platform, "POST", "/charges/initialize", KORA.charge("TXN0001-1"))
    assert again.refusal == (409, "Duplicate payment reference")


async def test_the_sandbox_pays_a_one_time_account_by_itself(platform: Platform) -> None:
    test = await sandbox(platform, auto_complete_seconds=0.05)
    await test.open_account(platform, "TXN0001-1")
    assert (await platform.webhooks(1))[0].json["event"] == "charge.success"


async def test_the_sandbox_can_credit_a_one_time_account(platform: Platform) -> None:
    test = await sandbox(platform, auto_complete_seconds=0.01)
    body = test.charge("TXN0001-1", auto_complete=False)
    opened = await test.call(platform, "POST", f"{ROOT}/charges/bank-transfer", body)
    credit = {"account_number": opened.data["bank_account"]["account_number"], "currency": "NGN"}
    path = f"{ROOT}/virtual-bank-account/sandbox/credit"
    reply = await test.call(platform, "POST", path, {**credit, "amount": 1000})
    assert reply.data["status"] == "success"
    assert await test.charge_status(platform, "TXN0001-1") == "success"
    again = await test.call(platform, "POST", path, {**credit, "amount": 1000})
    assert again.status == 400
    await platform.control("kora/account", {"secret_key": "sk_live_simulated"})
    live = await call(
        platform, "POST", "/virtual-bank-account/sandbox/credit", {**credit, "amount": 1}
    )
    assert live.status == 404


async def test_a_refund_has_the_documented_fields(platform: Platform) -> None:
    await paid_charge(platform)
    body = {"reference": REFERENCE, "payment_reference": "TXN0001-1", "amount": 400.5}
    body |= {"reason": "late", "webhook_url": f"{platform.url}/refunds"}
    reply = await call(platform, "POST", "/refunds/initiate", body)
    assert_like(reply.json, example("kora", "new_refund"))
    webhook = (await platform.webhooks(2))[1]
    assert webhook.path == "/refunds"
    assert_like(webhook.json, example("kora", "webhook_refund"))
    asked = await call(platform, "GET", f"/refunds/{REFERENCE}")
    assert_like(asked.json, example("kora", "refund"))
    listed = await call(platform, "GET", "/refunds")
    assert_like(listed.json, example("kora", "refunds"))
    again = await call(platform, "POST", "/refunds/initiate", body)
    assert again.refusal == (409, f"Refund already exists with reference {REFERENCE}")


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"amount": 99.99}, (400, "Refund amount cannot be less than NGN 100")),
        ({"amount": 1000.01}, (400, "Refund amount cannot be more than NGN 1000.00")),
        ({"payment_reference": "TXN0404-1"}, (404, "Transaction not found")),
        ({"reference": "x" * 51}, (400, "invalid request data")),
        ({"reason": "x" * 201}, (400, "invalid request data")),
        ({"completion_status": "success"}, (400, "invalid request data")),
    ],
)
async def test_a_wrong_refund_is_refused(
    platform: Platform, change: dict[str, Any], refusal: tuple[int, str]
) -> None:
    await paid_charge(platform)
    body = {"reference": REFERENCE, "payment_reference": "TXN0001-1", "amount": 100, **change}
    assert (await call(platform, "POST", "/refunds/initiate", body)).refusal == refusal


async def test_refunds_need_a_paid_and_settled_charge(platform: Platform) -> None:
    await KORA.open_hosted(platform, "TXN0001-1")
    reply = await KORA.refund(platform, "TXN0001-1", REFERENCE)
    assert reply.refusal == (400, "Refund can only be requested on a successful transaction")
    await platform.control("kora/charges/TXN0001-1/pay", {})
    await platform.control("kora/account", {"charges_are_settled": False})
    reply = await KORA.refund(platform, "TXN0001-1", REFERENCE)
    assert reply.refusal == (400, "Transaction has not yet been settled")
    await platform.control("kora/account", {"charges_are_settled": True})
    body = {"reference": REFERENCE, "payment_reference": "TXN0001-1"}
    assert (await call(platform, "POST", "/refunds/initiate", body)).data["amount_returned"] == 1000
    reply = await call(platform, "POST", "/refunds/initiate", {**body, "reference": "txn2"})
    message = "A full reversal has already been processed for this transaction"
    assert reply.refusal == (400, message)


async def test_the_sandbox_decides_how_a_refund_ends(platform: Platform) -> None:
    test = await sandbox(platform)
    await test.open_hosted(platform, "TXN0001-1")
    await platform.control("kora/charges/TXN0001-1/pay", {})
    body = {"reference": REFERENCE, "payment_reference": "TXN0001-1", "amount": 100}
    body |= {"completion_status": "failed", "status_reason": "closed"}
    await test.call(platform, "POST", f"{ROOT}/refunds/initiate", body)
    data = (await platform.webhooks(2))[1].json["data"]
    assert (data["status"], data["status_reason"]) == ("failed", "closed")


async def test_statements_are_paged_by_pointers(platform: Platform) -> None:
    await paid_charge(platform)
    await KORA.transfer(platform, REFERENCE)
    await until_true(lambda: len(platform.received) >= 2)
    history = await call(platform, "GET", "/balances/history?limit=1")
    assert_like(history.json, example("kora", "history", "derived"))
    assert history.json["has_more"] is True
    line = history.data[0]
    assert (line["direction"], line["amount"]) == ("debit", "1020.00")
    older = await call(platform, "GET", f"/balances/history?starting_after={line['pointer']}")
    assert [each["direction"] for each in older.data] == ["credit"]
    assert older.json["has_more"] is False
    newer = await call(
        platform,
        "GET",
        f"/balances/history?ending_before={older.data[0]['pointer']}&direction=debit",
    )
    assert [each["pointer"] for each in newer.data] == [line["pointer"]]
    assert_like(
        (await call(platform, "GET", "/payouts")).json, example("kora", "payouts", "derived")
    )
    assert_like(
        (await call(platform, "GET", "/pay-ins")).json, example("kora", "pay_ins", "derived")
    )
    none = await call(platform, "GET", "/payouts?date_to=2020-01-01-00-00-00")
    assert none.data == []
    assert (await call(platform, "GET", "/payouts?date_from=today")).status == 400
