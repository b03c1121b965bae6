"""Every call to Flutterwave's simulated API."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.simulator.dialects import Flutterwave
from tests.simulator.examples import assert_like, example
from tests.simulator.merchant_platform import Platform, Reply
from tests.support.waiting import until

FLUTTERWAVE = Flutterwave()
REFERENCE = "txn0000000000000001"


async def call(platform: Platform, method: str, path: str, body: Any = None) -> Reply:
    return await FLUTTERWAVE.call(platform, method, path, body)


async def paid_charge(platform: Platform) -> int:
    await FLUTTERWAVE.open_hosted(platform, "TXN0001-1")
    await platform.control("flutterwave/charges/TXN0001-1/pay", {})
    await platform.webhooks(1)
    return int((await FLUTTERWAVE.verify(platform, "TXN0001-1")).data["id"])


class SandboxFlutterwave(Flutterwave):
    secret_key = "FLWSECK_TEST-simulated-X"


async def sandbox(platform: Platform, **more: Any) -> SandboxFlutterwave:
    change = {"secret_key": SandboxFlutterwave.secret_key, **more}
    await platform.control("flutterwave/account", change)
    return SandboxFlutterwave()


async def test_banks_and_balance(platform: Platform) -> None:
    banks = await call(platform, "GET", "/v3/banks/NG")
    assert_like(banks.json, example("flutterwave", "banks"))
    assert "044" in {bank["code"] for bank in banks.data}
    reply = await call(platform, "GET", "/v3/balances/NGN")
    assert_like(reply.json, example("flutterwave", "balance"))
    # Flutterwave's Node library calls some paths with two slashes.
    listed = await call(platform, "GET", "//v3/balances?")
    assert listed.data == [reply.data]


async def test_an_account_is_resolved(platform: Platform) -> None:
    body = {"account_number": "0123456789", "account_bank": "058"}
    reply = await call(platform, "POST", "/v3/accounts/resolve", body)
    assert_like(reply.json, example("flutterwave", "account"))
    wrong = await call(platform, "POST", "/v3/accounts/resolve", {**body, "account_bank": "C058"})
    assert wrong.refusal == (400, "Invalid bank code")


@pytest.mark.parametrize(
    ("amount", "fee"), [("5000", "10.75"), ("5000.01", "26.875"), ("50000.01", "53.75")]
)
async def test_a_fee_can_have_three_decimals(platform: Platform, amount: str, fee: str) -> None:
    path = f"/v3/transfers/fee?amount={amount}&currency=NGN"
    reply = await call(platform, "GET", path)
    assert_like(reply.json, example("flutterwave", "fee"))
    assert reply.data[0]["fee"] == Decimal(fee)
    transfer = await FLUTTERWAVE.transfer(platform, REFERENCE, amount=amount)
    assert transfer.data["fee"] == Decimal(fee)
    debited = Decimal("10000000.00") - await platform.available("flutterwave")
    assert debited == Decimal(amount) + Decimal(fee).quantize(Decimal("0.01"), "ROUND_HALF_UP")


@pytest.mark.parametrize("query", ["amount=1000", "amount=much&currency=NGN", "currency=NGN"])
async def test_a_fee_needs_amount_and_currency(platform: Platform, query: str) -> None:
    assert (await call(platform, "GET", f"/v3/transfers/fee?{query}")).status == 400


async def test_a_transfer_has_the_documented_fields(platform: Platform) -> None:
    accepted = await FLUTTERWAVE.transfer(platform, REFERENCE)
    assert_like(accepted.json, example("flutterwave", "transfer"))
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("flutterwave", "webhook_transfer", "derived"))
    listed = await FLUTTERWAVE.ask_transfer(platform, REFERENCE)
    assert_like(listed.json, example("flutterwave", "transfers"))
    number = accepted.data["id"]
    one = await call(platform, "GET", f"/v3/transfers/{number}")
    assert one.data == listed.data[0]
    assert (await call(platform, "GET", "/v3/transfers/1")).refusal == (404, "Transfer not found")
    none = await call(platform, "GET", "/v3/transfers?status=failed")
    assert (none.data, none.json["meta"]["page_info"]["total"]) == ([], 0)


async def test_a_failed_transfer_sends_the_same_event(platform: Platform) -> None:
    body = FLUTTERWAVE.order(REFERENCE, "0000000001", callback_url=f"{platform.url}/mine")
    await call(platform, "POST", "/v3/transfers", body)
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == "/mine"
    data = webhook.json["data"]
    assert (webhook.json["event"], data["status"]) == ("transfer.completed", "FAILED")
    assert data["complete_message"] == "DISBURSE FAILED: Insufficient funds/ wallet balance"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"account_bank": None}, "account_bank is required"),
        ({"account_number": "1" * 21}, "account_number is too long"),
        ({"amount": 0}, "amount must be more than 0"),
        ({"currency": None}, "currency is required"),
        ({"narration": "x" * 101}, "narration is too long"),
        ({"reference": "x" * 101}, "reference is too long"),
        ({"callback_url": "https://" + "x" * 100}, "callback_url is too long"),
        ({"bank_code": "058"}, "bank_code is not allowed"),
    ],
)
async def test_a_wrong_transfer_is_refused(
    platform: Platform, change: dict[str, Any], message: str
) -> None:
    body = {**FLUTTERWAVE.order(REFERENCE), **change}
    assert (await call(platform, "POST", "/v3/transfers", body)).refusal == (400, message)


async def test_a_transfer_that_waits_for_approval_says_so(platform: Platform) -> None:
    await platform.control("flutterwave/account", {"transfers_need_approval": True})
    reply = await FLUTTERWAVE.transfer(platform, REFERENCE)
    assert (reply.data["requires_approval"], reply.data["is_approved"]) == (1, 0)
    await platform.control(f"flutterwave/transfers/{REFERENCE}/approve", {})
    await platform.webhooks(1)
    asked = await FLUTTERWAVE.ask_transfer(platform, REFERENCE)
    assert (asked.data[0]["requires_approval"], asked.data[0]["is_approved"]) == (0, 1)


async def test_references_may_not_be_unique(platform: Platform) -> None:
    await platform.control("flutterwave/account", {"references_are_unique": False})
    first = await FLUTTERWAVE.transfer(platform, REFERENCE)
    second = await FLUTTERWAVE.transfer(platform, REFERENCE)
    assert first.data["id"] != second.data["id"]
    assert second.data["reference"] == REFERENCE
    listed = await FLUTTERWAVE.ask_transfer(platform, REFERENCE)
    assert [item["reference"] for item in listed.data] == [REFERENCE, REFERENCE]


async def test_a_list_can_have_other_transfers(platform: Platform) -> None:
    await FLUTTERWAVE.transfer(platform, REFERENCE)
    await platform.control("flutterwave/account", {"ignores_reference_filter": True})
    listed = await FLUTTERWAVE.ask_transfer(platform, "txn0000000000000404")
    assert [item["reference"] for item in listed.data] == [REFERENCE]


async def test_a_retry_is_a_second_transfer(platform: Platform) -> None:
    accepted = await FLUTTERWAVE.transfer(platform, REFERENCE, "0000000001")
    path = f"/v3/transfers/{accepted.data['id']}/retries"
    assert (await call(platform, "POST", path, {})).status == 400
    await platform.webhooks(1)
    again = await call(platform, "POST", path, {})
    assert again.data["reference"].startswith(f"{REFERENCE}_RETRY_")


@pytest.mark.parametrize(
    ("suffix", "status"),
    [("_PMCK", "SUCCESSFUL"), ("_PMCK_ST_F", "FAILED"), ("_PMCKDU_1", "SUCCESSFUL"),
     ("_PMCK_ST_FDU_1", "FAILED")],
)  # fmt: skip
async def test_the_sandbox_decides_by_the_end_of_the_reference(
    platform: Platform, suffix: str, status: str
) -> None:
    test = await sandbox(platform, minute_seconds=600)
    await platform.control("flutterwave/faults", {"settle_seconds": 600})
    await test.transfer(platform, f"{REFERENCE}{suffix}", "0690000031")
    assert await test.transfer_status(platform, f"{REFERENCE}{suffix}") == "PENDING"
    await sandbox(platform, minute_seconds=0)
    await platform.control("flutterwave/faults", {"settle_seconds": 0})
    await test.transfer(platform, f"{REFERENCE}1{suffix}", "0690000031")
    (webhook,) = await platform.webhooks(1)
    assert webhook.json["data"]["status"] == status


async def test_a_test_transfer_without_a_suffix_stays_pending(platform: Platform) -> None:
    test = await sandbox(platform)
    await test.transfer(platform, REFERENCE)
    await test.transfer(platform, f"{REFERENCE}_PMCK")
    await platform.webhooks(1)  # This webhook is about the second transfer.
    assert await test.transfer_status(platform, REFERENCE) == "PENDING"


async def test_a_link_is_unknown_until_the_customer_tries_to_pay(platform: Platform) -> None:
    body = FLUTTERWAVE.link("TXN0001-1", "https://shop.example")
    body |= {"customizations": {"title": "Ada"}, "payment_options": "card", "meta": {"a": 1}}
    reply = await call(platform, "POST", "/v3/payments", body)
    assert_like(reply.json, example("flutterwave", "payment_link", "derived"))
    unknown = await FLUTTERWAVE.verify(platform, "TXN0001-1")
    assert unknown.refusal == (400, "No transaction was found for this id")
    await platform.control("flutterwave/account", {"unpaid_links_are_unknown": False})
    assert await FLUTTERWAVE.charge_status(platform, "TXN0001-1") == "pending"
    await platform.control("flutterwave/charges/TXN0001-1/pay", {})
    verified = await FLUTTERWAVE.verify(platform, "TXN0001-1")
    assert_like(verified.json, example("flutterwave", "charge"))
    again = await call(platform, "GET", f"/v3/transactions/{verified.data['id']}/verify")
    assert again.data == verified.data
    assert (await call(platform, "GET", "/v3/transactions/1/verify")).status == 400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"redirect_url": None}, "redirect_url is required"),
        ({"customer": {"name": "Ada"}}, "customer.email is required"),
        ({"customer": {"email": "a@b.co", "phone": "1"}}, "customer.phone is not allowed"),
        ({"reference": "TXN0001-1"}, "reference is not allowed"),
        ({"amount": None}, "amount must be a number"),
    ],
)
async def test_a_wrong_link_is_refused(
    platform: Platform, change: dict[str, Any], message: str
) -> None:
    body = {**FLUTTERWAVE.link("TXN0001-1", "https://shop.example"), **change}
    assert (await call(platform, "POST", "/v3/payments", body)).refusal == (400, message)


async def test_a_failed_payment_sends_the_same_event(platform: Platform) -> None:
    await FLUTTERWAVE.open_hosted(platform, "TXN0001-1")
    await platform.control("flutterwave/charges/TXN0001-1/pay", {"outcome": "failed"})
    (webhook,) = await platform.webhooks(1)
    assert webhook.json["event"] == "charge.completed"
    assert webhook.json["event.type"] == "CARD_TRANSACTION"
    data = webhook.json["data"]
    assert (data["status"], data["processor_response"]) == ("failed", "Declined")


async def test_a_customer_who_cancels_returns_without_a_transaction(platform: Platform) -> None:
    page = (await FLUTTERWAVE.open_hosted(platform, "TXN0001-1")).removeprefix(platform.simulator)
    receipt = await platform.send("GET", f"{page}/receipt?canceled=yes")
    assert b'status=cancelled&amp;tx_ref=TXN0001-1"' in receipt.body


async def test_the_account_of_a_charge_is_in_the_meta(platform: Platform) -> None:
    body = {"tx_ref": "TXN0001-1", "amount": "1500", "currency": "NGN", "email": "a@b.co"}
    reply = await call(platform, "POST", "/v3/charges?type=bank_transfer", body)
    assert_like(reply.json, example("flutterwave", "one_time_account"))
    assert "data" not in reply.json
    assert await FLUTTERWAVE.charge_status(platform, "TXN0001-1") == "pending"
    await platform.control("flutterwave/charges/TXN0001-1/pay", {})
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("flutterwave", "webhook_charge", "derived"))
    card = await call(platform, "POST", "/v3/charges?type=card", body)
    assert card.refusal == (400, "type is not supported")
    for expires in (0, 31_536_001, "soon"):
        wrong = {**body, "tx_ref": "TXN0001-2", "expires": expires}
        reply = await call(platform, "POST", "/v3/charges?type=bank_transfer", wrong)
        assert reply.status == 400
    short = {**body, "tx_ref": "TXN0001-2", "expires": 60}
    reply = await call(platform, "POST", "/v3/charges?type=bank_transfer", short)
    ends = datetime.fromisoformat(reply.json["meta"]["authorization"]["account_expiration"])
    assert ends < datetime.now(UTC) + timedelta(seconds=61)
    permanent = {**body, "is_permanent": True}
    reply = await call(platform, "POST", "/v3/charges?type=bank_transfer", permanent)
    assert reply.status == 400


async def test_a_virtual_account_of_its_own(platform: Platform) -> None:
    body = {"email": "a@b.co", "is_permanent": False, "tx_ref": "TXN0001-1", "amount": 1500}
    reply = await call(platform, "POST", "/v3/virtual-account-numbers", body)
    assert_like(reply.json, example("flutterwave", "virtual_account"))
    static = {**body, "is_permanent": True}
    assert (await call(platform, "POST", "/v3/virtual-account-numbers", static)).refusal == (
        400,
        "bvn is required",
    )


async def refund_status(platform: Platform, number: int, word: str) -> Any:
    """Waits until the refund has this status, and returns its data."""

    async def found() -> Any:
        reply = await call(platform, "GET", f"/v3/refunds/{number}")
        return reply.data if reply.data["status"] == word else None

    return await until(found)


async def test_a_refund_starts_as_completed_and_is_paid_later(platform: Platform) -> None:
    number = await paid_charge(platform)
    path = f"/v3/transactions/{number}/refund"
    body = {"amount": "400", "comments": "Damaged", "id": number}
    reply = await call(platform, "POST", path, body)
    assert_like(reply.json, example("flutterwave", "refund"))
    assert (reply.data["status"], reply.data["tx_id"]) == ("completed", number)
    paid = await refund_status(platform, reply.data["id"], "completed-mpgs")
    assert {**paid, "status": "completed"} == reply.data
    await platform.control("flutterwave/faults", {"refunds": "failed"})
    rest = await call(platform, "POST", path, {})
    assert (rest.data["status"], rest.data["amount_refunded"]) == ("completed", 600)
    await refund_status(platform, rest.data["id"], "failed")
    listed = await call(platform, "GET", f"/v3/refunds?id={number}")
    assert [each["id"] for each in listed.data] == [rest.data["id"], reply.data["id"]]
    assert listed.json["meta"]["page_info"]["total"] == 2
    other = await call(platform, "GET", "/v3/refunds?id=1")
    assert other.data == []


async def test_the_result_of_a_refund_can_be_text_in_meta(platform: Platform) -> None:
    await platform.control("flutterwave/account", {"refund_result_is_in_meta": True})
    await platform.control("flutterwave/faults", {"refunds": "pending"})
    path = f"/v3/transactions/{await paid_charge(platform)}/refund"
    started = (await call(platform, "POST", path, {})).data
    assert started["meta"] == '{"source":"availablebalance"}'
    settled = {"status": "success"}
    await platform.control(f"flutterwave/refunds/{started['id']}/settle", settled)
    found = (await call(platform, "GET", f"/v3/refunds/{started['id']}")).data
    assert found["status"] == "completed"
    assert '"disburse_status":"successful"' in found["meta"]


async def test_refunds_that_are_rejected(platform: Platform) -> None:
    path = f"/v3/transactions/{await paid_charge(platform)}/refund"
    assert (await call(platform, "POST", path, {})).status == 200
    more = await call(platform, "POST", path, {})
    assert more.refusal == (400, "Refund amount is more than the transaction amount")
    unknown = await call(platform, "POST", "/v3/transactions/1/refund", {"amount": 1})
    assert unknown.refusal == (400, "No transaction was found for this id")
    missing = await call(platform, "GET", "/v3/refunds/1")
    assert missing.refusal == (404, "Refund not found")


async def test_the_secret_hash_is_sent_as_it_is(platform: Platform) -> None:
    await platform.control("flutterwave/account", {"secret_hash": "another hash"})
    raw = b'{"event": "charge.completed", "data": {"amount": 1000.50}}'
    await platform.control("flutterwave/webhooks/send", b'{"body": ' + raw + b"}")
    (received,) = await platform.webhooks(1)
    assert (received.raw, received.headers["verif-hash"]) == (raw, "another hash")


async def test_the_ip_whitelist_refuses(platform: Platform) -> None:
    message = "Please enable IP Whitelisting to access this service"
    planned = {"call": "transfer", "fault": "refuse", "message": message}
    await platform.control("flutterwave/faults", {"next": [planned]})
    assert (await FLUTTERWAVE.transfer(platform, REFERENCE)).refusal == (400, message)
