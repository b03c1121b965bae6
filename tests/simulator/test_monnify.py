"""Every call to Monnify's simulated API."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from manilla_simulator.dialects.monnify import contract
from manilla_simulator.state import now

from tests.simulator.dialects import Monnify
from tests.simulator.examples import FOLDER, assert_like, example
from tests.simulator.merchant_platform import Platform, Reply
from tests.support.waiting import until_true

MONNIFY = Monnify()
REFERENCE = "txn0000000000000001"
SINGLE = "/api/v2/disbursements/single"


async def call(platform: Platform, method: str, path: str, body: Any = None) -> Reply:
    return await MONNIFY.call(platform, method, path, body)


def body_of(reply: Reply) -> Any:
    assert reply.status == 200, reply.body
    return reply.json["responseBody"]


async def paid_charge(platform: Platform) -> None:
    await MONNIFY.open_hosted(platform, "TXN0001-1")
    await platform.control("monnify/charges/TXN0001-1/pay", {})
    await platform.webhooks(1)


class SandboxMonnify(Monnify):
    api_key = "MK_TEST_SIMULATED"


async def sandbox(platform: Platform) -> SandboxMonnify:
    await platform.control("monnify/account", {"api_key": "MK_TEST_SIMULATED"})
    return SandboxMonnify()


async def test_a_login_gives_a_token_for_a_while(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    await platform.control("monnify/account", {"token_seconds": 600})
    reply = await MONNIFY.login(platform)
    assert_like(reply.json, example("monnify", "login"))
    headers = {"Authorization": f"Bearer {body_of(reply)['accessToken']}"}
    path = "/monnify/api/v1/banks"
    assert (await platform.send("GET", path, headers=headers)).status == 200
    monkeypatch.setattr(contract, "now", lambda: now() + timedelta(seconds=600))
    expired = await platform.send("GET", path, headers=headers)
    assert MONNIFY.refusal(expired) == (401, "Access token expired")
    assert_like(expired.json, example("monnify", "error", "derived"))


@pytest.mark.parametrize("header", ["", "Basic d3Jvbmc6d3Jvbmc=", "Bearer token"])
async def test_a_login_needs_key_and_secret(platform: Platform, header: str) -> None:
    headers = {"Authorization": header}
    reply = await platform.send("POST", "/monnify/api/v1/auth/login", b"{}", headers)
    assert MONNIFY.refusal(reply) == (401, "Invalid API credentials")


async def test_a_login_can_break(platform: Platform) -> None:
    planned = {"call": "token", "fault": "5xx_before"}
    await platform.control("monnify/faults", {"next": [planned]})
    assert (await MONNIFY.login(platform)).status == 502


async def test_banks_have_two_codes(platform: Platform) -> None:
    reply = await call(platform, "GET", "/api/v1/banks")
    assert_like(reply.json, example("monnify", "banks"))
    access = next(bank for bank in body_of(reply) if bank["code"] == "044")
    assert access["nipBankCode"] == "000014"


async def test_an_account_is_validated(platform: Platform) -> None:
    path = "/api/v1/disbursements/account/validate"
    reply = await call(platform, "GET", f"{path}?accountNumber=0123456789&bankCode=058")
    assert_like(reply.json, example("monnify", "resolved"))
    unknown = await call(platform, "GET", f"{path}?accountNumber=0123456789&bankCode=999")
    assert MONNIFY.refusal(unknown) == (200, "Could not validate account number")
    wrong = await call(platform, "GET", f"{path}?accountNumber=0000000002&bankCode=058")
    assert MONNIFY.refusal(wrong) == (200, "Could not validate account number")
    assert (await call(platform, "GET", f"{path}?accountNumber=1&bankCode=058")).status == 400


async def test_balances_are_text_or_numbers(platform: Platform) -> None:
    reply = await call(platform, "GET", MONNIFY.balance_path)
    assert_like(reply.json, example("monnify", "balance"))
    assert body_of(reply)["availableBalance"] == "10000000.00"
    await platform.control("monnify/account", {"balances_are_text": False})
    reply = await call(platform, "GET", MONNIFY.balance_path)
    assert body_of(reply)["availableBalance"] == 10_000_000
    other = await call(platform, "GET", MONNIFY.balance_path.replace("8012345678", "1"))
    assert other.status == 404


async def test_a_transfer_has_the_documented_fields(platform: Platform) -> None:
    reply = await MONNIFY.transfer(platform, REFERENCE)
    assert_like(reply.json, example("monnify", "sent"))
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("monnify", "webhook_disbursement"))
    data = webhook.json["eventData"]
    assert re.fullmatch(r"\d{30}", data["sessionId"])
    assert re.fullmatch(r"\d\d/\d\d/\d{4} \d{1,2}:\d\d:\d\d [AP]M", data["completedOn"])
    summary = await MONNIFY.ask_transfer(platform, REFERENCE)
    assert_like(summary.json, example("monnify", "transfer"))
    assert re.search(r"\+00:00$", body_of(summary)["createdOn"])
    assert body_of(summary)["transactionReference"] == data["transactionReference"]


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"destinationAccountName": "SOMEBODY ELSE"},
         (400, "Beneficiary account name mismatch")),
        ({"destinationAccountName": None}, (400, "destinationAccountName is required")),
        ({"narration": None}, (400, "narration is required")),
        ({"narration": "x" * 101}, (400, "narration is too long")),
        ({"amount": "all"}, (400, "amount must be a string such as 1000.00")),
        ({"amount": "19.99"}, (400, "amount must be at least 20.00")),
        ({"narration": "TV"}, (400, "narration must be at least 3 characters long")),
        ({"currency": None}, (400, "currency is required")),
        ({"sourceAccountNumber": "1"}, (404, "Could not find wallet with the account number")),
        ({"destinationBankCode": "000013"}, (400, "Unknown destination bank code")),
        ({"destinationAccountNumber": "1"}, (400, "destinationAccountNumber must be 10 digits")),
        ({"bankCode": "058"}, (400, "bankCode is not allowed")),
    ],
)  # fmt: skip
async def test_a_wrong_transfer_is_refused(
    platform: Platform, change: dict[str, Any], refusal: tuple[int, str]
) -> None:
    body = {**MONNIFY.order(REFERENCE), **change}
    assert MONNIFY.refusal(await call(platform, "POST", SINGLE, body)) == refusal


async def test_amounts_may_be_text(platform: Platform) -> None:
    body = {**MONNIFY.order(REFERENCE), "amount": "1000.50"}
    reply = await call(platform, "POST", SINGLE, body)
    assert body_of(reply)["amount"] == 1000.5


@pytest.mark.parametrize(
    ("path", "error_code"),
    [(f"{SINGLE}/summary?reference=none", "D02"), ("/api/v1/refunds/none", "R7")],
)
async def test_an_unknown_reference_has_an_error_code(
    platform: Platform, path: str, error_code: str
) -> None:
    reply = await call(platform, "GET", path)
    assert (reply.status, reply.json["responseCode"]) == (400, error_code)


async def test_the_check_of_the_name_can_be_switched_off(platform: Platform) -> None:
    await platform.control("monnify/account", {"checks_account_name": False})
    body = MONNIFY.order(REFERENCE, destinationAccountName="SOMEBODY ELSE")
    assert (await call(platform, "POST", SINGLE, body)).status == 200


async def test_a_duplicate_can_return_the_first_result(platform: Platform) -> None:
    await platform.control("monnify/account", {"duplicate_transfer_returns_first": True})
    first = await MONNIFY.transfer(platform, REFERENCE)
    await platform.webhooks(1)
    again = await MONNIFY.transfer(platform, REFERENCE)
    assert body_of(again)["dateCreated"] == body_of(first)["dateCreated"]
    assert body_of(again)["status"] == "SUCCESS"
    (transfer,) = (await platform.control("monnify/transfers"))["transfers"]
    assert transfer["duplicates"] == 1


async def test_an_otp_authorizes_a_transfer(platform: Platform) -> None:
    await platform.control("monnify/account", {"transfers_need_otp": True})
    await MONNIFY.transfer(platform, REFERENCE)
    resent = await call(platform, "POST", f"{SINGLE}/resend-otp", {"reference": REFERENCE})
    assert "sent to predefined email" in body_of(resent)["message"]
    path = f"{SINGLE}/validate-otp"
    wrong = await call(platform, "POST", path, {"reference": REFERENCE, "authorizationCode": "1"})
    assert MONNIFY.refusal(wrong) == (400, "Invalid or expired authorization code")
    body = {"reference": REFERENCE, "authorizationCode": "123456"}
    assert body_of(await call(platform, "POST", path, body))["status"] == "PENDING"
    await platform.webhooks(1)
    again = await call(platform, "POST", path, body)
    assert MONNIFY.refusal(again) == (422, "Transaction is not awaiting authorization")


@pytest.mark.parametrize(
    ("status", "word", "event"),
    [
        ("awaiting_approval", "OTP_EMAIL_DISPATCH_FAILED", None),
        ("processing", "IN_PROGRESS", None),
        ("failed", "EXPIRED", None),
        ("failed", "FAILED", "FAILED_DISBURSEMENT"),
    ],
)
async def test_a_transfer_has_several_words(
    platform: Platform, status: str, word: str, event: str | None
) -> None:
    await platform.control("monnify/account", {"transfers_need_otp": True})
    await MONNIFY.transfer(platform, REFERENCE)
    command = {"status": status, "provider_status": word}
    await platform.control(f"monnify/transfers/{REFERENCE}/settle", command)
    assert await MONNIFY.transfer_status(platform, REFERENCE) == word
    sent = (await platform.control("monnify/webhooks"))["webhooks"]
    assert [each["event"] for each in sent] == ([event] if event else [])


async def test_the_sandbox_succeeds_at_once_and_signs_nothing(platform: Platform) -> None:
    test = await sandbox(platform)
    reply = await test.transfer(platform, REFERENCE)
    assert body_of(reply)["status"] == "SUCCESS"
    (webhook,) = await platform.webhooks(1)
    assert "monnify-signature" not in webhook.headers
    order = {**test.order(f"{REFERENCE}-2"), "async": True}
    reply = await test.call(platform, "POST", SINGLE, order)
    assert body_of(reply)["status"] == "PENDING"


async def test_the_published_signature_of_the_published_body(platform: Platform) -> None:
    key = "91MUDL9N6U3BQRXBQ2PJ9M0PW4J22M1Y"
    await platform.control("monnify/account", {"secret_key": key})
    raw = (FOLDER / "monnify" / "documented_signed_body.json").read_bytes()
    assert len(raw) == 650
    await platform.control("monnify/webhooks/send", b'{"body": ' + raw + b"}")
    (received,) = await platform.webhooks(1)
    assert received.raw == raw
    assert received.headers["monnify-signature"] == (
        "f04fb635e04d71648bd3cc7999003da6861483342c856d05ddfa9b2dafacb873"
        "b0de1d0f8f67405d0010b4348b721c49fa171d317972618debba6b638aedcd3c"
    )


async def test_a_hosted_charge(platform: Platform) -> None:
    methods = {
        "paymentMethods": ["CARD", "ACCOUNT_TRANSFER"],
        "redirectUrl": "https://shop.example",
    }
    reply = await MONNIFY.initialize(platform, "TXN0001-1", **methods)
    assert_like(reply.json, example("monnify", "initialized"))
    own = body_of(reply)["transactionReference"]
    assert re.fullmatch(r"MNFY\|\d\d\|\d{14}\|\d{6,}", own)
    path = f"/api/v2/transactions/{quote(own, safe='')}"
    assert_like((await call(platform, "GET", path)).json, example("monnify", "unpaid charge"))
    assert await MONNIFY.charge_status(platform, "TXN0001-1") == "PENDING"
    await platform.control("monnify/charges/TXN0001-1/pay", {})
    (webhook,) = await platform.webhooks(1)
    data = webhook.json["eventData"]
    assert (data["paymentSourceInformation"], data["destinationAccountInformation"]) == ({}, {})
    assert re.fullmatch(r"\d\d/\d\d/\d{4} \d{1,2}:\d\d:\d\d [AP]M", data["paidOn"])
    assert (data["amountPaid"], data["settlementAmount"]) == (1000, "984.00")
    asked = await call(platform, "GET", path)
    assert_like(asked.json, example("monnify", "charge"))
    assert body_of(asked)["amountPaid"] == "1000.00"
    unknown = await call(platform, "GET", "/api/v2/transactions/MNFY%7C1%7C2%7C3")
    assert unknown.status == 404


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"paymentDescription": "ab"},
         (400, "paymentDescription must be at least 3 characters long")),
        ({"contractCode": "1"}, (404, "Could not find specified contract")),
        ({"customerEmail": None}, (400, "customerEmail is required")),
        ({"paymentMethods": ["CASH"]}, (400, "paymentMethods is not valid")),
        ({"currency": "NGN"}, (400, "currency is not allowed")),
        ({"currencyCode": None}, (400, "currencyCode is required")),
    ],
)  # fmt: skip
async def test_a_wrong_charge_is_refused(
    platform: Platform, change: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert MONNIFY.refusal(await MONNIFY.initialize(platform, "TXN0001-1", **change)) == refusal


async def test_a_reference_has_one_charge(platform: Platform) -> None:
    await MONNIFY.initialize(platform, "TXN0001-1")
    again = await MONNIFY.initialize(platform, "TXN0001-1")
    assert MONNIFY.refusal(again) == (422, "Duplicate payment reference")
    nothing = await call(platform, "GET", "/api/v2/merchant/transactions/query")
    assert nothing.status == 400
    unknown = await call(platform, "GET", "/api/v2/merchant/transactions/query?paymentReference=x")
    assert unknown.status == 404


async def test_a_one_time_account_needs_two_calls(platform: Platform) -> None:
    own = body_of(await MONNIFY.initialize(platform, "TXN0001-1"))["transactionReference"]
    path = "/api/v1/merchant/bank-transfer/init-payment"
    body = {"transactionReference": own, "bankCode": "232"}
    reply = await call(platform, "POST", path, body)
    assert_like(reply.json, example("monnify", "account"))
    assert body_of(reply)["bankName"] == "Sterling Bank"
    again = await call(platform, "POST", path, body)
    assert body_of(again)["accountNumber"] == body_of(reply)["accountNumber"]
    wrong = await call(platform, "POST", path, {**body, "bankCode": "058"})
    assert MONNIFY.refusal(wrong) == (400, "Unknown destination bank code")
    await platform.control("monnify/charges/TXN0001-1/pay", {})
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("monnify", "webhook_transaction"))
    paid_on = webhook.json["eventData"]["paidOn"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", paid_on)
    closed = await call(platform, "POST", path, body)
    assert MONNIFY.refusal(closed) == (422, "Transaction is no longer open for payment")


async def test_an_underpayment_goes_back_unless_it_is_accepted(platform: Platform) -> None:
    await MONNIFY.open_account(platform, "TXN0001-1")
    target = "/control/api/monnify/charges/TXN0001-1/pay"
    assert (await platform.send("POST", target, {"amount": 400})).status == 409
    (webhook,) = await platform.webhooks(1)
    assert_like(webhook.json, example("monnify", "webhook_rejected"))
    assert await MONNIFY.charge_status(platform, "TXN0001-1") == "PENDING"
    await platform.control("monnify/account", {"accepts_underpayment": True})
    await platform.control("monnify/charges/TXN0001-1/pay", {"amount": 400})
    assert await MONNIFY.charge_status(platform, "TXN0001-1") == "PARTIALLY_PAID"
    await MONNIFY.open_account(platform, "TXN0001-2")
    await platform.control("monnify/charges/TXN0001-2/pay", {"amount": 1400})
    assert await MONNIFY.charge_status(platform, "TXN0001-2") == "OVERPAID"


async def test_a_charge_is_cancelled_or_expires(platform: Platform) -> None:
    await MONNIFY.open_hosted(platform, "TXN0001-1")
    await platform.control("monnify/charges/TXN0001-1/pay", {"outcome": "failed"})
    await platform.control("monnify/charges/TXN0001-1/status", {"provider_status": "CANCELLED"})
    assert await MONNIFY.charge_status(platform, "TXN0001-1") == "CANCELLED"
    await MONNIFY.open_hosted(platform, "TXN0001-2")
    await platform.control("monnify/charges/TXN0001-2/expire", {})
    assert await MONNIFY.charge_status(platform, "TXN0001-2") == "EXPIRED"
    assert not (await platform.control("monnify/webhooks"))["webhooks"]


async def test_a_refund_has_the_documented_fields(platform: Platform) -> None:
    await paid_charge(platform)
    reply = await MONNIFY.refund(platform, "TXN0001-1", REFERENCE)
    assert_like(reply.json, example("monnify", "refund"))
    assert body_of(reply)["refundStatus"] == "PENDING"
    webhook = (await platform.webhooks(2))[1]
    assert_like(webhook.json, example("monnify", "webhook_refund"))
    asked = await call(platform, "GET", f"/api/v1/refunds/{REFERENCE}")
    assert body_of(asked)["refundStatus"] == "COMPLETED"
    listed = await call(platform, "GET", "/api/v1/refunds?page=0&size=5")
    assert [each["refundReference"] for each in body_of(listed)["content"]] == [REFERENCE]
    again = await MONNIFY.refund(platform, "TXN0001-1", REFERENCE)
    assert MONNIFY.refusal(again) == (422, "Supplied refund reference already exists")
    assert (await call(platform, "GET", "/api/v1/refunds/unknown")).status == 400


@pytest.mark.parametrize("field", [("refundReason", 65), ("customerNote", 17)])
async def test_a_refund_with_a_text_that_is_too_long(
    platform: Platform, field: tuple[str, int]
) -> None:
    await paid_charge(platform)
    body = {
        "transactionReference": await MONNIFY.own_reference(platform, "TXN0001-1"),
        "refundAmount": "400.50",
        "refundReference": REFERENCE,
        "refundReason": "Order canceled",
        "customerNote": "Order 7",
        "currencyCode": "NGN",
    }
    path, (name, length) = "/api/v1/refunds/initiate-refund", field
    reply = await call(platform, "POST", path, {**body, name: "x" * length})
    assert (reply.status, reply.json["responseCode"]) == (422, "R8")
    assert (await call(platform, "POST", path, body)).status == 200


async def test_a_refund_can_say_completed_too_early(platform: Platform) -> None:
    await paid_charge(platform)
    await platform.control("monnify/account", {"refunds_say_completed_early": True})
    await platform.control("monnify/faults", {"refunds": "failed"})
    reply = body_of(await MONNIFY.refund(platform, "TXN0001-1", REFERENCE))
    assert (reply["refundStatus"], reply["comment"]) == (
        "COMPLETED",
        "Transaction refund is in progress.",
    )
    webhook = (await platform.webhooks(2))[1]
    assert webhook.json["eventType"] == "FAILED_REFUND"


async def test_a_charge_that_is_not_paid_is_not_refunded(platform: Platform) -> None:
    await MONNIFY.open_hosted(platform, "TXN0001-1")
    reply = await MONNIFY.refund(platform, "TXN0001-1", REFERENCE)
    assert MONNIFY.refusal(reply) == (422, "Refund not permitted for an unpaid transaction.")


async def test_transfers_are_searched_by_wallet_date_and_amount(platform: Platform) -> None:
    await MONNIFY.transfer(platform, REFERENCE)
    await until_true(lambda: bool(platform.received))
    path = "/api/v2/disbursements/search-transactions?sourceAccountNumber=8012345678"
    reply = await call(platform, "GET", f"{path}&pageNo=0&pageSize=3&amountFrom=1000&amountTo=1000")
    assert_like(reply.json, example("monnify", "page"))
    for none in ("amountFrom=1000.01", "endDate=1577836800000", "pageNo=1"):
        assert body_of(await call(platform, "GET", f"{path}&{none}"))["content"] == []
    for wrong in ("amountFrom=much", "startDate=today", "endDate=2020-01-01"):
        assert (await call(platform, "GET", f"{path}&{wrong}")).status == 400
    assert (await call(platform, "GET", path.partition("?")[0])).status == 400
    listed = await call(platform, "GET", f"{SINGLE}/transactions?pageNo=0&pageSize=3")
    assert body_of(listed)["totalElements"] == 1


async def test_some_answers_do_not_say_that_they_succeeded(platform: Platform) -> None:
    await platform.control("monnify/account", {"omits_request_successful": True})
    reply = await call(platform, "GET", "/api/v1/banks")
    assert "requestSuccessful" not in reply.json
    assert reply.json["responseCode"] == "0"


async def test_a_business_error_can_be_a_500_or_a_200(platform: Platform) -> None:
    message = "An error occurred while processing your request"
    for status in (500, 200):
        planned = {"call": "transfer", "fault": "refuse", "message": message, "status": status}
        await platform.control("monnify/faults", {"next": [planned]})
        reply = await MONNIFY.transfer(platform, REFERENCE)
        assert MONNIFY.refusal(reply) == (status, message)
        assert reply.json["responseCode"] == "99"
