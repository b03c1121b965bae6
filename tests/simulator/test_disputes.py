"""Disputes at the simulated providers: the control API, and the dialects' own calls."""

import json
from typing import Any

import pytest
from manilla_simulator import files

from tests.simulator.dialects import DIALECTS
from tests.simulator.examples import assert_like, example
from tests.simulator.merchant_platform import Platform, Reply

FORM = (
    b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\nPNG\x00\r\n--b--\r\n"
)
FRAUD_EVIDENCE = {
    "customer_email": "ada@example.com",
    "customer_name": "Ada Obi",
    "customer_phone": "080",
    "service_details": "Shoes",
}


async def open_dispute(platform: Platform, key: str, **claim: Any) -> dict[str, Any]:
    await DIALECTS[key].open_hosted(platform, "TXN0001-1")
    await platform.control(f"{key}/charges/TXN0001-1/pay", {})
    opened: dict[str, Any] = await platform.control(f"{key}/charges/TXN0001-1/dispute", claim)
    return opened


async def call(platform: Platform, key: str, method: str, path: str, body: Any = None) -> Reply:
    return await DIALECTS[key].call(platform, method, path, body)


async def resolve(platform: Platform, number: int, **changes: Any) -> Reply:
    body = {"resolution": "declined", "message": "Sent", "refund_amount": 0, **changes}
    return await call(platform, "paystack", "PUT", f"/dispute/{number}/resolve", body)


async def status(platform: Platform, key: str) -> str:
    return str((await platform.control(f"{key}/disputes"))["disputes"][0]["status"])


@pytest.mark.parametrize("key", DIALECTS)
async def test_a_dispute_is_decided_and_opened_again(platform: Platform, key: str) -> None:
    opened = await open_dispute(platform, key)
    before = await platform.available(key)
    held = opened["debited"]
    target = f"{key}/disputes/{opened['reference']}"
    await platform.control(f"{target}/resolve", {"status": "lost"})
    assert await platform.available(key) == before + held - opened["amount"]
    reopened = await platform.control(f"{target}/reopen", {"stage": "second"})
    assert (reopened["status"], reopened["stage"]) == ("open", "second")
    await platform.control(f"{target}/resolve", {"status": "won"})
    assert await platform.available(key) == before + held


@pytest.mark.parametrize("key", DIALECTS)
async def test_a_dispute_that_nobody_answers_is_lost(platform: Platform, key: str) -> None:
    await open_dispute(platform, key, due_seconds=0)
    lost = (await platform.control(f"{key}/disputes"))["disputes"][0]
    assert (lost["status"], lost["is_missed"]) == ("lost", True)


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        ({"amount": "1000.01"}, "at most what is left"),
        ({"amount": 0}, "at most what is left"),
        ({"amount": -1}, "at most what is left"),
    ],
)
async def test_an_impossible_dispute_needs_force(
    platform: Platform, claim: dict[str, Any], error: str
) -> None:
    await DIALECTS["paystack"].open_hosted(platform, "TXN0001-1")
    await platform.control("paystack/charges/TXN0001-1/pay", {})
    target = "/control/api/paystack/charges/TXN0001-1/dispute"
    refused = await platform.send("POST", target, claim)
    assert refused.status == 409
    assert error in refused.json["error"]
    assert (await platform.send("POST", target, {**claim, "insist": True})).status == 200


async def test_a_charge_is_not_refunded_beside_a_lost_dispute(platform: Platform) -> None:
    opened = await open_dispute(platform, "paystack", amount="600.00")
    await platform.control(f"paystack/disputes/{opened['reference']}/resolve", {"status": "lost"})
    body = {"transaction": "TXN0001-1", "amount": 400_01}
    assert (await call(platform, "paystack", "POST", "/refund", body)).status == 400
    body["amount"] = 400_00
    assert (await call(platform, "paystack", "POST", "/refund", body)).status == 200


async def test_paystack_reports_a_dispute_in_its_own_terms(platform: Platform) -> None:
    number = (await open_dispute(platform, "paystack"))["id"]
    one = await call(platform, "paystack", "GET", f"/dispute/{number}")
    assert_like(one.json, example("paystack", "dispute"))
    assert one.data["status"] == "awaiting-merchant-feedback"
    assert one.data["refund_amount"] == 1000_00
    every = await call(platform, "paystack", "GET", "/dispute?status=awaiting-merchant-feedback")
    assert_like(every.json, example("paystack", "disputes"))
    resolved = await call(platform, "paystack", "GET", "/dispute?status=resolved")
    assert resolved.data == []
    charge = one.data["transaction"]["id"]
    by_charge = await call(platform, "paystack", "GET", f"/dispute/transaction/{charge}")
    assert by_charge.data == one.data
    missing = await call(platform, "paystack", "GET", "/dispute/1")
    assert missing.refusal == (404, "Dispute not found")


async def test_paystack_sends_webhooks_about_disputes(platform: Platform) -> None:
    opened = await open_dispute(platform, "paystack")
    target = f"paystack/disputes/{opened['reference']}"
    await platform.control(f"{target}/remind", {})
    await platform.control(f"{target}/resolve", {"status": "won"})
    sent = [each for each in await platform.sent_webhooks("paystack") if "dispute" in each["event"]]
    events = [each["event"] for each in reversed(sent)]
    assert events == [f"charge.dispute.{word}" for word in ("create", "remind", "resolve")]
    bodies = [json.loads(each["body"]) for each in reversed(sent)]
    assert_like(bodies[0], example("paystack", "webhook_dispute"))
    assert (bodies[2]["data"]["status"], bodies[2]["data"]["resolution"]) == (
        "resolved",
        "declined",
    )


@pytest.mark.parametrize(
    ("lie", "field", "value"),
    [
        ("webhook_amount", "refund_amount", 2000_01),
        ("webhook_status", "resolution", "declined"),
        ("unknown_status", "status", "under-review"),
        ("no_amount", "refund_amount", None),
    ],
)
async def test_paystack_lies(platform: Platform, lie: str, field: str, value: Any) -> None:
    await platform.control("paystack/faults", {"disputes": lie})
    number = (await open_dispute(platform, "paystack"))["id"]
    sent = (await platform.sent_webhooks("paystack"))[0]
    assert json.loads(sent["body"])["data"][field] == value
    queried = (await call(platform, "paystack", "GET", f"/dispute/{number}")).data[field]
    assert (queried == value) is not lie.startswith("webhook")


async def test_paystack_takes_a_file_at_a_signed_url(platform: Platform) -> None:
    number = (await open_dispute(platform, "paystack"))["id"]
    path = f"/dispute/{number}/upload_url?upload_filename=a.pdf"
    place = await call(platform, "paystack", "GET", path)
    assert_like(place.json, example("paystack", "dispute_upload_url"))
    url = place.data["signedUrl"].removeprefix(platform.simulator)
    stored = await platform.send("PUT", url, b"%PDF", {"Content-Type": "application/pdf"})
    assert (stored.status, stored.body) == (200, b"")
    shown = (await platform.control("paystack/disputes"))["disputes"][0]["files"][0]
    assert (shown["reference"], shown["size"]) == (place.data["fileName"], 4)
    answer = await resolve(platform, number, uploaded_filename=place.data["fileName"])
    assert answer.data["resolution"] == "declined"
    assert answer.data["message"]["body"] == "Sent"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "uploaded_filename is required"),
        ({"uploaded_filename": "other.pdf"}, "Invalid uploaded_filename"),
        ({"resolution": "accepted"}, "resolution must be merchant-accepted or declined"),
        ({"resolution": "merchant-accepted", "refund_amount": 1000_01}, "cannot be greater"),
        ({"refund_amount": None}, "refund_amount is required"),
        ({"message": ""}, "message is required"),
    ],
)
async def test_paystack_rejects_an_invalid_answer(
    platform: Platform, changes: dict[str, Any], message: str
) -> None:
    number = (await open_dispute(platform, "paystack"))["id"]
    rejected = await resolve(platform, number, **changes)
    assert rejected.status == 400
    assert message in rejected.json["message"]
    assert rejected.json["type"] == "validation_error"
    assert await status(platform, "paystack") == "open"


async def test_paystack_needs_evidence_after_a_claim_of_fraud(platform: Platform) -> None:
    number = (await open_dispute(platform, "paystack", category="fraud"))["id"]
    path = f"/dispute/{number}/evidence"
    added = await call(platform, "paystack", "POST", path, FRAUD_EVIDENCE)
    assert_like(added.json, example("paystack", "dispute_evidence"))
    incomplete = {**FRAUD_EVIDENCE, "customer_phone": ""}
    rejected = await call(platform, "paystack", "POST", path, incomplete)
    assert rejected.refusal == (400, "customer_phone is required")


async def test_a_dispute_is_answered_once(platform: Platform) -> None:
    number = (await open_dispute(platform, "paystack"))["id"]
    accepted = {"resolution": "merchant-accepted", "refund_amount": 400_00}
    assert (await resolve(platform, number, **accepted)).status == 200
    again = await resolve(platform, number, **accepted)
    assert again.refusal == (400, "Dispute has already been resolved")
    updated = await call(platform, "paystack", "PUT", f"/dispute/{number}", {"refund_amount": 1})
    assert updated.status == 400


async def test_paystack_changes_the_amount_of_a_dispute(platform: Platform) -> None:
    number = (await open_dispute(platform, "paystack"))["id"]
    path = f"/dispute/{number}"
    changed = await call(platform, "paystack", "PUT", path, {"refund_amount": 400_00})
    assert [each["id"] for each in changed.data] == [number]
    rejected = await call(platform, "paystack", "PUT", path, {"refund_amount": 1000_01})
    assert rejected.refusal == (400, "Refund amount cannot be greater than initial amount")


async def test_flutterwave_lists_chargebacks_of_one_status(platform: Platform) -> None:
    opened = await open_dispute(platform, "flutterwave")
    listed = await call(platform, "flutterwave", "GET", "/v3/chargebacks?status=initiated")
    assert_like(listed.json, example("flutterwave", "chargebacks"))
    assert [each["id"] for each in listed.data] == [opened["id"]]
    transaction = listed.data[0]["transaction_id"]
    for query, found in (
        ("", []),  # the default status is `lost`
        ("status=initiated&currency=USD", []),
        (f"status=initiated&id={transaction}", [opened["id"]]),
        ("status=initiated&id=1", []),
        ("status=initiated&from=2000-01-01&to=2000-01-02", []),
        ("status=initiated&page=2", []),
    ):
        reply = await call(platform, "flutterwave", "GET", f"/v3/chargebacks?{query}")
        assert [each["id"] for each in reply.data] == found, query


async def test_flutterwave_holds_the_amount_when_a_chargeback_opens(platform: Platform) -> None:
    opened = await open_dispute(platform, "flutterwave")
    assert opened["debited"] == opened["amount"]


async def test_flutterwave_takes_proof_in_a_form(platform: Platform) -> None:
    number = (await open_dispute(platform, "flutterwave"))["id"]
    headers = {
        "Authorization": "Bearer FLWSECK-simulated-X",
        "Content-Type": "multipart/form-data; boundary=b",
    }
    uploaded = await platform.send("POST", "/flutterwave/v3/upload_image", FORM, headers)
    assert_like(uploaded.json, example("flutterwave", "uploaded_image"))
    body = {"action": "decline", "comment": "Sent", "proof": uploaded.data}
    path = f"/v3/chargebacks/{number}"
    declined = await call(platform, "flutterwave", "PUT", path, body)
    assert_like(declined.json, example("flutterwave", "chargeback"))
    assert declined.data["status"] == "declined"
    assert declined.data["meta"]["uploaded_proof"] == uploaded.data
    again = await call(platform, "flutterwave", "PUT", path, body)
    assert again.refusal == (400, "Chargeback has already been treated")


@pytest.mark.parametrize(
    "form", [b"", FORM.replace(b"image", b"photo"), FORM.replace(b'; filename="a.png"', b"")]
)
async def test_flutterwave_rejects_another_form(platform: Platform, form: bytes) -> None:
    headers = {
        "Authorization": "Bearer FLWSECK-simulated-X",
        "Content-Type": "multipart/form-data; boundary=b",
    }
    rejected = await platform.send("POST", "/flutterwave/v3/upload_image", form, headers)
    assert rejected.refusal == (400, "image is required")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"action": "decline", "comment": "Sent"}, "proof is required"),
        ({"action": "decline", "comment": "Sent", "proof": "https://x"}, "proof is required"),
        ({"action": "ignore", "comment": "Sent"}, "action must be accept or decline"),
        ({"action": "accept"}, "comment is required"),
    ],
)
async def test_flutterwave_rejects_an_invalid_answer(
    platform: Platform, body: dict[str, Any], message: str
) -> None:
    number = (await open_dispute(platform, "flutterwave"))["id"]
    rejected = await call(platform, "flutterwave", "PUT", f"/v3/chargebacks/{number}", body)
    assert rejected.refusal == (400, message)


async def test_kora_takes_only_acceptances(platform: Platform) -> None:
    reference = (await open_dispute(platform, "kora"))["reference"]
    path = f"/api/v1/chargebacks/{reference}"
    for body in ({"status": "declined", "evidence": "Sent"}, {"status": "declined"}, {}):
        assert (await call(platform, "kora", "PATCH", path, body)).status == 400
    accepted = await call(platform, "kora", "PATCH", path, {"status": "accepted"})
    assert_like(accepted.json, example("kora", "chargeback", "derived"))
    assert accepted.data["reference"] == reference
    again = await call(platform, "kora", "PATCH", path, {"status": "accepted"})
    assert again.refusal == (400, "Chargeback has already been processed")


async def test_an_upload_is_limited(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    number = (await open_dispute(platform, "paystack"))["id"]
    monkeypatch.setattr(files, "FILE_BYTES_MAX", 4)
    path = f"/paystack/uploads/a.pdf?dispute={number}&signature=a"
    assert (await platform.send("PUT", path, b"%PDF")).status == 200
    assert (await platform.send("PUT", path, b"%PDF-")).status == 413


async def test_a_reset_forgets_disputes(platform: Platform) -> None:
    await open_dispute(platform, "paystack")
    await platform.control("paystack/reset", {})
    assert (await platform.control("paystack/disputes"))["disputes"] == []
