"""The API's endpoints for disputes, through real HTTP requests with signatures."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla.api.disputes import DISPUTES
from manilla.api.kernel import UPLOADS_MAX
from manilla.disputes import manual
from manilla.disputes.dispute import FILES_MAX, Dispute
from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.merchants.documents import BYTES_MAX
from manilla.merchants.rights import Right
from manilla.providers.kinds.providera import ProviderA
from manilla.providers.port import EvidenceField
from manilla.services import Services
from tests.api.test_keys import new_key
from tests.compliance.files import PDF, PNG
from tests.disputes.dispute_api import DisputeApi
from tests.disputes.steps import LOST, SUBMITTED, WON, Disputes, Paid
from tests.payments.orders import INITIATE, order
from tests.payments.shop import Shop
from tests.support.client import Merchant, Reply, Site
from tests.support.waiting import until

BOUNDARY = "------------------------d74496d66958873e"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def form(content: bytes, name: str = "receipt.pdf", field: str = "file") -> bytes:
    head = (
        f"--{BOUNDARY}\r\nContent-Disposition: form-data; name={json.dumps(field)}; "
        f"filename={json.dumps(name)}\r\nContent-Type: application/pdf\r\n\r\n"
    )
    return head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def padded(length: int) -> bytes:
    """Returns a PDF file with this size."""
    return PDF[:20] + b" " * (length - len(PDF)) + PDF[20:]


def path(dispute: Dispute, action: str = "") -> str:
    return f"{DISPUTES}/{dispute.trx_id}{action}"


async def upload(merchant: Merchant, dispute: Dispute, body: bytes, **headers: str | None) -> Reply:
    sent: dict[str, Any] = {"Content_Type": FORM_TYPE, **headers}
    return await merchant.call("POST", path(dispute, "/files"), body, **sent)


async def put(merchant: Merchant, dispute: Dispute, evidence: dict[str, Any]) -> Reply:
    body = json.dumps(evidence).encode()
    return await merchant.call("PUT", path(dispute, "/evidence"), body)


@pytest.fixture
def merchant(disputes: Disputes) -> Merchant:
    return disputes.shop.merchant


@pytest.fixture
async def paid(disputes: Disputes) -> Paid:
    return await disputes.pay()


@pytest.fixture
async def dispute(disputes: Disputes, paid: Paid) -> Dispute:
    return await disputes.open(paid)


# Reading


async def test_a_dispute_is_returned_as_documented(
    merchant: Merchant, paid: Paid, dispute: Dispute
) -> None:
    reply = await merchant.get(path(dispute))
    assert reply.status == 200
    assert b'"amount":1000.00' in reply.body
    assert reply.json == {
        "id": dispute.trx_id,
        "trx_id": dispute.trx_id,
        "payment_trx_id": paid.started.trx_id,
        "ref_trx": dispute.ref_trx,
        "amount": 1000,
        "currency": "NGN",
        "status": "needs_response",
        "stage": "new",
        "category": "fraud",
        "reason": "The customer does not know the payment.",
        "provider_reference": dispute.provider_reference,
        "opened_at": iso(dispute.opened_at),
        "respond_by": "2099-01-01T00:00:00.000000Z",
        "missed": False,
        "withheld": 1000,
        "short": 0,
        "fee": 0,
        "evidence": {"text": "", "fields": {}, "files": []},
        "rejection": "",
        "outcome_at": None,
        "environment": "production",
    }


async def test_the_list_has_the_newest_dispute_first_and_its_filters(
    disputes: Disputes, merchant: Merchant, paid: Paid, dispute: Dispute
) -> None:
    soon = datetime.now(UTC) + timedelta(hours=4)
    other = await disputes.pay(500)
    second = await disputes.open(other, "500", respond_by=soon)
    await upload(merchant, second, form(PDF))

    async def listed(query: str) -> list[str]:
        reply = await merchant.get(f"{DISPUTES}?{query}")
        assert reply.status == 200, reply.body
        return [each["id"] for each in reply.json["data"]]

    both = [second.trx_id, dispute.trx_id]
    assert await listed("") == both
    assert await listed("status=needs_response") == both
    assert await listed("status=won") == []
    assert await listed(f"trx_id={paid.started.trx_id}") == [dispute.trx_id]
    assert await listed(f"ref_trx={second.ref_trx}") == [second.trx_id]
    before = (soon + timedelta(minutes=1)).isoformat().replace("+", "%2B")
    assert await listed(f"respond_before={before}") == [second.trx_id]
    await disputes.report(paid.reported(LOST))
    assert await listed("status=lost") == [dispute.trx_id]
    first = (await merchant.get(f"{DISPUTES}?limit=1")).json
    assert first["data"][0]["evidence"]["files"][0]["name"] == "receipt.pdf"
    after = (await merchant.get(f"{DISPUTES}?limit=1&cursor={first['next_cursor']}")).json
    assert [each["id"] for each in first["data"] + after["data"]] == both


@pytest.mark.parametrize("query", ["status=open", "respond_before=soon", "cursor=x", "limit=0"])
async def test_a_wrong_filter_is_rejected(merchant: Merchant, query: str) -> None:
    reply = await merchant.get(f"{DISPUTES}?{query}")
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert list(reply.json["errors"]) == [query.partition("=")[0]]


REQUESTS = {
    "/api/v1/initiate-refund": {"trx_id": "TXN1", "ref_trx": "REFUND-1"},
    "/api/v1/initiate-payout": {
        "payout_amount": 100,
        "currency_code": "NGN",
        "ref_trx": "PAYOUT-1",
        "ipn_url": "https://shop.example/ipn",
        "withdraw_method_id": 6,
        "beneficiary": {"bank_code": "058", "account_number": "0000000000"},
    },
}
ACTIONS = [
    ("GET", "", b""),
    ("POST", "/accept", b""),
    ("PUT", "/evidence", b'{"text": "Delivered."}'),
    ("POST", "/files", form(PDF)),
    ("DELETE", "/files/1", b""),
    ("POST", "/submit", b""),
]


@pytest.mark.parametrize(("method", "action", "body"), ACTIONS)
async def test_a_dispute_of_another_merchant_or_environment_is_unknown(
    services: Services, sandbox: Merchant, dispute: Dispute, method: str, action: str, body: bytes
) -> None:
    own_sandbox = msgspec.structs.replace(sandbox, environment=Environment.PRODUCTION)
    for caller in (sandbox, own_sandbox):
        sent = {"Content_Type": FORM_TYPE}
        reply = await caller.call(method, path(dispute, action), body, **sent)
        assert (reply.status, reply.code) == (404, "TRANSACTION_NOT_FOUND"), reply.body


@pytest.mark.parametrize(("method", "action", "body"), ACTIONS)
async def test_the_merchants_own_sandbox_does_not_know_its_production_disputes(
    merchant: Merchant, dispute: Dispute, method: str, action: str, body: bytes
) -> None:
    sandbox = msgspec.structs.replace(merchant, environment=Environment.SANDBOX)
    reply = await sandbox.call(method, path(dispute, action), body, Content_Type=FORM_TYPE)
    assert (reply.status, reply.code) == (404, "TRANSACTION_NOT_FOUND"), reply.body


@pytest.mark.parametrize("unknown", ["DSP1", "x", "TXN01M7EWKJ9J0000001WNNC2DWVAFGAZ", "%00"])
async def test_an_unknown_id_is_not_found(merchant: Merchant, unknown: str) -> None:
    reply = await merchant.get(f"{DISPUTES}/{unknown}")
    assert (reply.status, reply.code) == (404, "TRANSACTION_NOT_FOUND")


# Answering


@pytest.mark.parametrize(("body", "accepted"), [(b"", 1000), (b'{"amount": 400.5}', 400.5)])
async def test_an_accepted_dispute_is_submitted_once(
    disputes: Disputes, merchant: Merchant, dispute: Dispute, body: bytes, accepted: float
) -> None:
    reply = await merchant.call("POST", path(dispute, "/accept"), body)
    assert (reply.status, reply.json["status"]) == (200, "submitted")
    after = (await disputes.now(dispute)).accepted
    assert after is not None
    assert float(after.amount) == accepted
    for action in ("/accept", "/submit"):
        again = await merchant.post(path(dispute, action), b"")
        assert (again.status, again.code) == (422, "dispute_closed")
    assert (await put(merchant, dispute, {"text": "No."})).code == "dispute_closed"
    assert (await upload(merchant, dispute, form(PDF))).code == "dispute_closed"


@pytest.mark.parametrize("amount", ["0", "-1", "1000.01", "1.001", '"5"', "true"])
async def test_a_wrong_amount_cannot_be_accepted(
    disputes: Disputes, merchant: Merchant, dispute: Dispute, amount: str
) -> None:
    before = await disputes.now(dispute)
    body = b'{"amount": %b}' % amount.encode()
    reply = await merchant.call("POST", path(dispute, "/accept"), body)
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT")
    assert list(reply.json["errors"]) == ["amount"]
    assert await disputes.now(dispute) == before


async def test_evidence_is_replaced_field_by_field_and_submitted(
    merchant: Merchant, dispute: Dispute
) -> None:
    assert (await put(merchant, dispute, {"text": "Sent.\nArrived."})).status == 200
    reply = await put(merchant, dispute, {"fields": {"customer_name": "Ada"}})
    assert reply.json["evidence"] == {
        "text": "Sent.\nArrived.",
        "fields": {"customer_name": "Ada"},
        "files": [],
    }
    cleared = await put(merchant, dispute, {"text": "", "fields": None})
    assert cleared.json["evidence"] == {"text": "", "fields": {}, "files": []}
    await put(merchant, dispute, {"text": "It was delivered."})
    submitted = await merchant.post(path(dispute, "/submit"), b"")
    assert (submitted.status, submitted.json["status"]) == (200, "submitted")
    again = await merchant.post(path(dispute, "/submit"), b"")
    assert (again.status, again.code) == (422, "dispute_closed")


@pytest.mark.parametrize(
    ("evidence", "field"),
    [
        ({"text": "x" * 5001}, "text"),
        ({"text": 5}, "text"),
        ({"text": "\u202e"}, "text"),
        ({"fields": {"name": 1}}, "fields"),
        ({"fields": {"name": "x" * 1001}}, "fields"),
        ({"fields": {str(number): "" for number in range(31)}}, "fields"),
        ({"fields": {"": "a"}, "text": "x" * 5001}, "text"),
    ],
)
async def test_invalid_evidence_names_the_field(
    merchant: Merchant, dispute: Dispute, evidence: dict[str, Any], field: str
) -> None:
    reply = await put(merchant, dispute, evidence)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert field in reply.json["errors"]


async def test_incomplete_evidence_is_rejected_with_what_is_missing(
    disputes: Disputes, merchant: Merchant, dispute: Dispute
) -> None:
    before = await disputes.now(dispute)
    reply = await merchant.post(path(dispute, "/submit"), b"")
    assert (reply.status, reply.code) == (422, "evidence_incomplete")
    assert list(reply.json["errors"]) == ["text"]
    assert await disputes.now(dispute) == before


async def test_fields_that_the_provider_requires_are_named(
    merchant: Merchant, dispute: Dispute, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = DisputeApi()
    api.fields = (EvidenceField("customer_name", "The customer's name", is_required=True),)
    monkeypatch.setattr(ProviderA, "disputes", api)
    await put(merchant, dispute, {"text": "It was delivered."})
    reply = await merchant.post(path(dispute, "/submit"), b"")
    assert (reply.status, reply.code) == (422, "evidence_incomplete")
    assert reply.json["errors"] == {"customer_name": "The customer's name is required."}
    await put(merchant, dispute, {"fields": {"customer_name": "Ada"}})
    assert (await merchant.post(path(dispute, "/submit"), b"")).status == 200


async def test_rejected_evidence_shows_the_providers_words_until_it_is_changed(
    disputes: Disputes, merchant: Merchant, dispute: Dispute
) -> None:
    await put(merchant, dispute, {"text": "It was delivered."})
    await merchant.post(path(dispute, "/submit"), b"")
    await manual.return_to_merchant(
        *(disputes.db, disputes.settings, await disputes.now(dispute), "The receipt is missing.")
    )
    shown = (await merchant.get(path(dispute))).json
    assert (shown["status"], shown["rejection"]) == ("needs_response", "The receipt is missing.")
    reply = await merchant.post(path(dispute, "/submit"), b"")
    assert (reply.status, reply.code) == (422, "evidence_rejected")
    assert "The receipt is missing." in reply.json["error"]
    assert (await upload(merchant, dispute, form(PDF))).status == 200
    assert (await merchant.post(path(dispute, "/submit"), b"")).json["rejection"] == ""


async def test_the_sandbox_plays_a_whole_dispute(sandbox_shop: Shop) -> None:
    shop, body = sandbox_shop.merchant, json.dumps(order(payment_amount=1000)).encode()
    created = await shop.call("POST", INITIATE, body, X_Sandbox_Scenario="disputed")
    trx_id = created.headers["x-transaction-id"].upper()
    await sandbox_shop.simulator.run_job_now("payment.sandbox", trx_id)
    [found] = (await shop.get(f"{DISPUTES}?trx_id={trx_id}")).json["data"]
    target = f"{DISPUTES}/{found['id']}"
    await shop.call("PUT", f"{target}/evidence", b'{"text": "This will be won."}')
    assert (await shop.post(f"{target}/submit", b"")).json["status"] == "submitted"
    await sandbox_shop.simulator.run_job_now("dispute", found["id"])
    ended = (await shop.get(target)).json
    assert (ended["status"], ended["withheld"]) == ("won", 0)
    assert ended["outcome_at"] is not None


async def test_only_payments_can_be_disputed_in_the_sandbox(sandbox_shop: Shop) -> None:
    for path_ in ("/api/v1/initiate-payout", "/api/v1/initiate-refund"):
        body = json.dumps(REQUESTS[path_]).encode()
        reply = await sandbox_shop.merchant.call("POST", path_, body, X_Sandbox_Scenario="disputed")
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
        assert list(reply.json["errors"]) == ["X-Sandbox-Scenario"]


async def test_after_the_deadline_nothing_is_accepted(
    disputes: Disputes, merchant: Merchant, paid: Paid
) -> None:
    dispute = await disputes.open(paid, respond_by=datetime.now(UTC) - timedelta(seconds=1))
    replies = [
        await merchant.post(path(dispute, "/accept"), b""),
        await put(merchant, dispute, {"text": "Delivered."}),
        await upload(merchant, dispute, form(PDF)),
        await merchant.call("DELETE", path(dispute, "/files/1")),
        await merchant.post(path(dispute, "/submit"), b""),
    ]
    assert {(each.status, each.code) for each in replies} == {(422, "dispute_deadline_passed")}
    assert (await merchant.get(path(dispute))).json["status"] == "needs_response"


async def test_an_ended_dispute_cannot_be_answered(
    disputes: Disputes, merchant: Merchant, paid: Paid, dispute: Dispute
) -> None:
    for status in (SUBMITTED, WON):
        await disputes.report(paid.reported(status))
        reply = await put(merchant, dispute, {"text": "Delivered."})
        assert (reply.status, reply.code) == (422, "dispute_closed")


async def test_a_repeated_answer_returns_the_first_response(
    disputes: Disputes, merchant: Merchant, dispute: Dispute
) -> None:
    await put(merchant, dispute, {"text": "It was delivered."})
    await upload(merchant, dispute, form(PDF))

    async def submit() -> Reply:
        return await merchant.call("POST", path(dispute, "/submit"), Idempotency_Key="answer")

    replies = await asyncio.gather(*(submit() for _ in range(5)))
    assert {(each.status, each.body) for each in replies} == {(200, replies[0].body)}
    assert len(replies[0].json["evidence"]["files"]) == 1
    assert await disputes.events(dispute) == ["opened", "submitted"]
    other = await merchant.call("POST", path(dispute, "/submit"), b" ", Idempotency_Key="answer")
    assert (other.status, other.code) == (422, "dispute_closed")


# Files


async def test_a_file_is_added_listed_and_removed(merchant: Merchant, dispute: Dispute) -> None:
    added = await upload(merchant, dispute, form(PDF, "../Receipt 7.pdf"))
    file = {"id": 1, "name": "Receipt 7.pdf", "size": len(PDF)}
    assert (added.status, added.json) == (200, file)
    assert (await merchant.get(path(dispute))).json["evidence"]["files"] == [file]
    removed = await merchant.call("DELETE", path(dispute, "/files/1"))
    assert removed.json == {"id": 1, "deleted": True}
    again = await merchant.call("DELETE", path(dispute, "/files/1"))
    assert (again.status, again.code) == (404, "DOCUMENT_NOT_FOUND")
    for unknown in ("0", "x", "-1", "9" * 30, "\u0661".encode().hex()):
        reply = await merchant.call("DELETE", path(dispute, f"/files/{unknown}"))
        assert (reply.status, reply.code) == (404, "DOCUMENT_NOT_FOUND")


@pytest.mark.parametrize("size", [64 * 1024, 100_000, 1024**2, BYTES_MAX])
async def test_a_large_file_arrives_whole(
    disputes: Disputes, merchant: Merchant, dispute: Dispute, size: int
) -> None:
    content = padded(size)
    reply = await upload(merchant, dispute, form(content))
    assert (reply.status, reply.json["size"]) == (200, size)
    file, stored = await disputes.service.read_file(disputes.tenant, dispute.trx_id, 1)
    assert (file.media_type, stored == content) == ("application/pdf", True)


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (form(b""), {}, 400, "BAD_DOCUMENT"),
        (form(b"<html><script>alert(1)</script></html>"), {}, 400, "BAD_DOCUMENT"),
        (form(b"%PDF-1.4 without an end"), {}, 400, "BAD_DOCUMENT"),
        (form(b"MZ" + PDF), {}, 400, "BAD_DOCUMENT"),
        (form(padded(BYTES_MAX + 1)), {}, 400, "BAD_DOCUMENT"),
        (form(padded(50_000_000)), {}, 400, "BAD_DOCUMENT"),
        (form(PDF, field="document"), {}, 400, "VALIDATION_FAILED"),
        (form(PDF)[:-20], {}, 400, "VALIDATION_FAILED"),
        (b"", {}, 400, "VALIDATION_FAILED"),
        (PDF, {"Content_Type": "application/pdf"}, 400, "VALIDATION_FAILED"),
        (form(PDF), {"Content_Type": "multipart/form-data"}, 400, "VALIDATION_FAILED"),
        (form(PDF), {"Content_Type": None}, 400, "VALIDATION_FAILED"),
        (form(PDF), {"Content_Encoding": "gzip"}, 400, "VALIDATION_FAILED"),
        (form(PDF), {"X_Signature": "0" * 64}, 401, "INVALID_CREDENTIALS"),
        (form(padded(1024**2)), {"X_Signature": "0" * 64}, 401, "INVALID_CREDENTIALS"),
        (form(padded(1024**2)), {"X_API_Key": "other"}, 401, "INVALID_CREDENTIALS"),
        (form(padded(1024**2)), {"X_Merchant_Key": None}, 401, "INVALID_CREDENTIALS"),
    ],
)
async def test_a_file_that_cannot_be_taken_is_rejected(
    merchant: Merchant, dispute: Dispute, body: bytes, headers: Any, status: int, code: str
) -> None:
    reply = await upload(merchant, dispute, body, **headers)
    assert (reply.status, reply.code) == (status, code), reply.body
    assert (await merchant.get(path(dispute))).json["evidence"]["files"] == []


async def test_the_content_decides_the_type_of_a_file(
    disputes: Disputes, merchant: Merchant, dispute: Dispute
) -> None:
    await upload(merchant, dispute, form(PNG, "receipt.pdf"))
    file, _ = await disputes.service.read_file(disputes.tenant, dispute.trx_id, 1)
    assert file.media_type == "image/png"


async def test_the_number_of_files_is_limited(merchant: Merchant, dispute: Dispute) -> None:
    replies = [await upload(merchant, dispute, form(PDF)) for _ in range(FILES_MAX + 1)]
    assert [each.status for each in replies] == [200] * FILES_MAX + [400]
    assert replies[-1].code == "BAD_DOCUMENT"


async def test_a_repeated_upload_adds_one_file(merchant: Merchant, dispute: Dispute) -> None:
    first = await upload(merchant, dispute, form(PDF), Idempotency_Key="receipt")
    again = await upload(merchant, dispute, form(PDF), Idempotency_Key="receipt")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    other = await upload(merchant, dispute, form(PNG), Idempotency_Key="receipt")
    assert (other.status, other.code) == (422, "DUPLICATE_REFERENCE")
    assert len((await merchant.get(path(dispute))).json["evidence"]["files"]) == 1


async def test_only_uploads_may_be_large(merchant: Merchant, dispute: Dispute) -> None:
    body = json.dumps({"text": "x" * 70_000}).encode()
    for method, target in (
        ("PUT", path(dispute, "/evidence")),
        ("POST", path(dispute, "/accept")),
        ("DELETE", path(dispute, "/files/1")),
        ("GET", path(dispute, "/files")),
    ):
        reply = await merchant.call(method, target, body)
        assert reply.code in ("VALIDATION_FAILED", "METHOD_NOT_ALLOWED")
        assert reply.status in (400, 405)


async def test_a_large_file_without_its_length_is_rejected(
    merchant: Merchant, dispute: Dispute
) -> None:
    body, target = form(padded(200_000)), path(dispute, "/files")
    headers = {**merchant.headers("POST", target, body), "Content-Type": FORM_TYPE}
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    reply = await merchant.site.send(
        "POST", target, {**headers, "Transfer-Encoding": "chunked"}, chunked
    )
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert "Content-Length" in reply.json["error"]


async def test_an_unknown_sender_gets_the_error_before_it_has_sent_the_file(
    merchant: Merchant, dispute: Dispute
) -> None:
    answer = await _begin_upload(merchant.site, dispute, {"X-Merchant-Key": "unknown"}, 1024**2)
    assert b" 401 " in answer.splitlines()[0]


async def test_a_file_of_50_mb_is_rejected_before_it_arrives(
    merchant: Merchant, dispute: Dispute
) -> None:
    headers = merchant.headers("POST", path(dispute, "/files"))
    answer = await _begin_upload(merchant.site, dispute, headers, 50_000_000)
    assert b" 400 " in answer.splitlines()[0]
    assert b"BAD_DOCUMENT" in answer


async def test_a_merchant_has_only_a_few_uploads_at_once(
    merchant: Merchant, dispute: Dispute
) -> None:
    headers = merchant.headers("POST", path(dispute, "/files"))
    writers = [
        (await _announce(merchant.site, dispute, headers, 1024**2))[1] for _ in range(UPLOADS_MAX)
    ]

    async def is_busy() -> bool:
        reply = await upload(merchant, dispute, form(padded(100_000)))
        assert reply.status in (200, 503), reply.body
        if reply.status == 200:
            await merchant.call("DELETE", path(dispute, f"/files/{reply.json['id']}"))
        return reply.status == 503

    await until(is_busy)
    assert (await upload(merchant, dispute, form(PDF))).status == 200  # a small body needs no check
    for writer in writers:
        writer.close()

    async def is_free() -> bool:
        return not await is_busy()

    await until(is_free)


async def test_a_rejected_upload_does_not_count_as_in_progress(
    merchant: Merchant, dispute: Dispute
) -> None:
    for _ in range(UPLOADS_MAX + 1):
        reply = await upload(merchant, dispute, form(b"not a document" + bytes(100_000)))
        assert (reply.status, reply.code) == (400, "BAD_DOCUMENT")
    for _ in range(UPLOADS_MAX + 1):
        reply = await upload(merchant, dispute, form(padded(100_000)), X_Signature="0" * 64)
        assert (reply.status, reply.code) == (401, "INVALID_CREDENTIALS")
    assert (await upload(merchant, dispute, form(padded(100_000)))).status == 200


async def _begin_upload(
    site: Site, dispute: Dispute, headers: dict[str, str], length: int
) -> bytes:
    """Returns the response to a request whose body is announced, but never sent."""
    reader, writer = await _announce(site, dispute, headers, length)
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
        return answer + await reader.read(1000)
    finally:
        writer.close()


async def _announce(
    site: Site, dispute: Dispute, headers: dict[str, str], length: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = [f"POST {path(dispute, '/files')} HTTP/1.1", "Host: manilla", *lines]
    head += [f"Content-Type: {FORM_TYPE}", f"Content-Length: {length}"]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
    return reader, writer


# Rights, limits, and the balance


async def test_an_additional_key_needs_the_right_to_refund_for_answers(
    services: Services, merchant: Merchant, dispute: Dispute
) -> None:
    reader = await new_key(services, merchant, Right.READ)
    assert (await reader.get(path(dispute))).status == 200
    assert (await reader.get(DISPUTES)).status == 200
    for method, action, body in ACTIONS[1:]:
        reply = await reader.call(method, path(dispute, action), body, Content_Type=FORM_TYPE)
        assert (reply.status, reply.code) == (403, "INSUFFICIENT_PERMISSION")
        assert reply.json["required_right"] == "refunds"
    refunder = await new_key(services, merchant, Right.REFUNDS, name="Refunds")
    assert (await refunder.get(path(dispute))).status == 403
    assert (await upload(refunder, dispute, form(PDF))).status == 200
    assert (await refunder.post(path(dispute, "/submit"), b"")).status == 200


async def test_the_balance_and_the_statement_show_withheld_money_and_debts(
    disputes: Disputes, merchant: Merchant, paid: Paid
) -> None:
    await disputes.empty_wallet()
    await disputes.shop.fund("300")
    await disputes.open(paid)
    [balance] = (await merchant.get("/api/v1/balance")).json["balances"]
    assert {name: balance[name] for name in ("available", "withheld", "short")} == {
        "available": 0,
        "withheld": 1000,
        "short": 700,
    }
    await disputes.shop.fund("900")
    [balance] = (await merchant.get("/api/v1/balance")).json["balances"]
    assert (balance["available"], balance["short"]) == (200, 0)
    lines = (await merchant.get("/api/v1/balance-transactions?limit=3")).json["data"]
    assert [(each["kind"], each["amount"]) for each in lines] == [
        ("short_paid", -700),
        ("funding", 900),
        ("withheld", -300),
    ]


async def test_events_of_disputes_are_listed_and_can_be_subscribed_to(
    disputes: Disputes, merchant: Merchant, paid: Paid, dispute: Dispute
) -> None:
    await disputes.report(paid.reported(WON))
    events = (await merchant.get("/api/v1/events?type=dispute.won")).json["data"]
    body = json.loads(events[0]["body"])
    assert [each["type"] for each in events] == ["dispute.won"]
    assert (body["event"], body["data"]["id"], body["status"]) == ("dispute", dispute.trx_id, "won")
    order = {"url": "https://shop.example/webhooks", "events": ["dispute.*", "dispute.reopened"]}
    created = await merchant.post("/api/v1/webhook-endpoints", order)
    assert created.status == 200, created.body
