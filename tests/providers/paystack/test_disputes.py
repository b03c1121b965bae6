"""Paystack's disputes: lists, status queries, evidence and answers."""

import copy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    Channel,
    DisputeAnswer,
    DisputeDesk,
    DisputePage,
    DisputeState,
    Done,
    EvidenceFile,
    RefusalCode,
    Refused,
    ReportedDisputeStatus,
    Unknown,
)
from tests.providers.paystack.paystack_server import PaystackServer, example, query, refusal
from tests.providers.samples import PERIOD
from tests.providers.scripted import Scripted
from tests.providers.unknown_values import unknown_values

AMOUNT, NOTHING = Money("NGN", 101550), Money("NGN", 0)
FILE = EvidenceFile("Receipt of Ada.pdf", "application/pdf", b"%PDF-1.7 \x00\xff")
ACCEPT = DisputeAnswer(provider_reference="2867", is_accepted=True, amount=AMOUNT)
CONTEST = DisputeAnswer(
    provider_reference="2867", is_accepted=False, amount=NOTHING, text="Sent", files=("a.pdf",)
)
FIELDS = {
    "customer_email": "ada@example.com",
    "customer_name": "Ada Obi",
    "customer_phone": "080",
    "service_details": "Shoes",
    "delivery_address": "",
    "color": "red",
}
DISPUTE = DisputeState(
    provider_reference="2867",
    status=ReportedDisputeStatus.NEEDS_RESPONSE,
    charge_reference="TXN0-1",
    charge_provider_reference="5991760",
    amount=AMOUNT,
    category="chargeback",
    reason="Not received",
    opened_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    respond_by=datetime(2026, 1, 2, 19, 4, 5, tzinfo=UTC),
    channel=Channel.CARD,
)
RESOLVED = {"status": "resolved", "resolution": "declined"}


@pytest.fixture
def disputes(paystack: Adapter) -> DisputeDesk:
    assert paystack.disputes is not None
    return paystack.disputes


async def state_after(disputes: DisputeDesk, api: PaystackServer, **changes: Any) -> Any:
    api.on("GET /dispute/2867", example("dispute", **changes))
    return await disputes.state("2867")


async def test_a_dispute_is_queried(disputes: DisputeDesk, api: PaystackServer) -> None:
    assert await state_after(disputes, api) == Done(DISPUTE)


@pytest.mark.parametrize(
    ("status", "resolution", "expected"),
    [
        ("awaiting-merchant-feedback", None, ReportedDisputeStatus.NEEDS_RESPONSE),
        ("awaiting-bank-feedback", None, ReportedDisputeStatus.SUBMITTED),
        ("resolved", "declined", ReportedDisputeStatus.WON),
        ("resolved", "merchant-accepted", ReportedDisputeStatus.ACCEPTED),
        ("resolved", "auto-accepted", ReportedDisputeStatus.LOST),
    ],
)
async def test_statuses(
    disputes: DisputeDesk,
    api: PaystackServer,
    status: str,
    resolution: str | None,
    expected: ReportedDisputeStatus,
) -> None:
    answer = await state_after(disputes, api, status=status, resolution=resolution)
    assert answer == Done(msgspec.structs.replace(DISPUTE, status=expected))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pending"], True),
        (["pending", "pending"], True),
        (["pending", "awaiting-bank-feedback", "pending"], False),
        ([], False),
        (None, False),
    ],
)
async def test_a_pending_dispute_needs_a_response_only_before_any_other_status(
    disputes: DisputeDesk, api: PaystackServer, words: list[str] | None, expected: bool
) -> None:
    history = None if words is None else [{"status": word} for word in words]
    answer = await state_after(disputes, api, status="pending", history=history)
    if expected:
        assert answer == Done(DISPUTE)
    else:
        assert isinstance(answer, Unknown)
        assert answer.needs_lookup


@pytest.mark.parametrize(("sample", "field", "value"), unknown_values("paystack"))
async def test_an_unknown_value_needs_a_person(
    disputes: DisputeDesk, api: PaystackServer, sample: str, field: str, value: Any
) -> None:
    more = RESOLVED if sample == "resolved_dispute" else {}
    answer = await state_after(disputes, api, **{**more, field: value})
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup


async def test_a_dispute_without_an_amount_is_about_the_whole_charge(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    assert await state_after(disputes, api, refund_amount=None) == Done(DISPUTE)
    for changes in ({"refund_amount": 0}, {"refund_amount": None, "transaction": {"amount": 0}}):
        assert isinstance(await state_after(disputes, api, **changes), Unknown)


@pytest.mark.parametrize("amount", [0, None])
async def test_after_an_answer_the_disputed_amount_may_not_be_reported(
    disputes: DisputeDesk, api: PaystackServer, amount: int | None
) -> None:
    answer = await state_after(disputes, api, refund_amount=amount, **RESOLVED)
    won = msgspec.structs.replace(DISPUTE, status=ReportedDisputeStatus.WON, amount=None)
    assert answer == Done(won)


async def test_unreadable_times_do_not_hide_a_dispute(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    answer = await state_after(disputes, api, dueAt="soon", created_at=5)
    assert answer == Done(msgspec.structs.replace(DISPUTE, respond_by=None, opened_at=None))


async def test_a_dispute_that_paystack_does_not_know(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    api.on("GET /dispute/2867", refusal("Dispute not found"), status=404)
    missing = DisputeState(provider_reference="2867", status=ReportedDisputeStatus.NOT_FOUND)
    assert await disputes.state("2867") == Done(missing)
    api.on("GET /dispute/2867", refusal("Not found"), status=404)
    assert isinstance(await disputes.state("2867"), Unknown)


@pytest.mark.parametrize("reference", ["", "28/67", "../balance", "2867?", "٣", "DSP1"])
async def test_only_ids_are_put_into_urls(
    disputes: DisputeDesk, api: PaystackServer, reference: str
) -> None:
    answer = msgspec.structs.replace(ACCEPT, provider_reference=reference)
    for result in (
        await disputes.state(reference),
        await disputes.upload(reference, FILE),
        await disputes.answer(answer),
    ):
        assert isinstance(result, Unknown)
        assert result.never_sent
    assert not api.recorded


async def test_a_list_has_pages(disputes: DisputeDesk, api: PaystackServer) -> None:
    first = example("disputes")
    first["meta"]["pageCount"] = 2
    api.on("GET /dispute", first)
    assert await disputes.listed(*PERIOD) == Done(DisputePage([DISPUTE], "2"))
    assert query(api.recorded[0]) == {
        "from": "2026-11-14T23:00:00Z",
        "to": "2026-11-15T23:00:00Z",
        "perPage": "100",
        "page": "1",
    }
    first["meta"]["page"] = 2
    assert await disputes.listed(*PERIOD, "2") == Done(DisputePage([DISPUTE], None))
    assert query(api.recorded[1])["page"] == "2"


async def test_without_page_numbers_an_empty_page_is_the_last(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    page = example("disputes")
    del page["meta"]
    api.on("GET /dispute", page, {**page, "data": []})
    assert await disputes.listed(*PERIOD) == Done(DisputePage([DISPUTE], "2"))
    assert await disputes.listed(*PERIOD, "2") == Done(DisputePage([], None))


async def test_an_unclear_dispute_does_not_hide_the_others(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    page = example("disputes")
    unclear = copy.deepcopy(page["data"][0]) | {"id": 7, "status": "archived"}
    page["data"] = [unclear, *page["data"]]
    api.on("GET /dispute", page)
    assert await disputes.listed(*PERIOD) == Done(DisputePage([DISPUTE], None, ("7",)))
    page["data"] = [{**unclear, "id": None}]
    assert isinstance(await disputes.listed(*PERIOD), Unknown)


def test_paystack_asks_for_evidence_only_after_a_claim_of_fraud(disputes: DisputeDesk) -> None:
    assert disputes.evidence_fields("chargeback") == ()
    asked = disputes.evidence_fields("Fraud")
    assert [each.name for each in asked if each.is_required] == list(FIELDS)[:4]


async def test_a_file_is_uploaded_to_the_signed_url(
    disputes: DisputeDesk, api: PaystackServer, server: Scripted
) -> None:
    place = example("dispute_upload_url")
    place["data"]["signedUrl"] = f"{server.url}/files/a?signature=b%2Bc"
    api.on("GET /dispute/2867/upload_url", place)
    api.on("PUT /files/a", {})
    assert await disputes.upload("2867", FILE) == Done("qesp8a4df1xejihd9x5q.pdf")
    asked, sent = api.recorded
    assert query(asked) == {"upload_filename": "Receipt-of-Ada.pdf"}
    assert (sent.target, sent.body) == ("/files/a?signature=b%2Bc", FILE.content)
    assert sent.headers["content-type"] == "application/pdf"
    assert "authorization" not in sent.headers
    del api.recorded[1]  # the file store is not part of Paystack's API


async def test_a_file_that_was_not_stored_is_unknown(
    disputes: DisputeDesk, api: PaystackServer, server: Scripted
) -> None:
    place = example("dispute_upload_url")
    place["data"]["signedUrl"] = f"{server.url}/files/a"
    api.on("GET /dispute/2867/upload_url", place)
    api.on("PUT /files/a", b"<Error/>", status=403)
    assert await disputes.upload("2867", FILE) == Unknown("the file was not uploaded: HTTP 403")
    place["data"]["fileName"] = "x" * 300
    api.on("GET /dispute/2867/upload_url", place)
    assert isinstance(await disputes.upload("2867", FILE), Unknown)
    api.recorded[:] = [each for each in api.recorded if each.method == "GET"]


async def test_a_dispute_is_accepted(disputes: DisputeDesk, api: PaystackServer) -> None:
    accepted = {"status": "resolved", "resolution": "merchant-accepted", "message": {"body": "b"}}
    api.on("PUT /dispute/2867/resolve", example("dispute", **accepted))
    expected = msgspec.structs.replace(DISPUTE, status=ReportedDisputeStatus.ACCEPTED)
    assert await disputes.answer(ACCEPT) == Done(expected)
    assert api.recorded[0].json == {
        "resolution": "merchant-accepted",
        "message": "The merchant accepts the dispute.",
        "refund_amount": 101550,
    }


async def test_a_dispute_is_contested(disputes: DisputeDesk, api: PaystackServer) -> None:
    api.on("PUT /dispute/2867/resolve", example("dispute", status="awaiting-bank-feedback"))
    expected = msgspec.structs.replace(DISPUTE, status=ReportedDisputeStatus.SUBMITTED)
    assert await disputes.answer(CONTEST) == Done(expected)
    assert api.recorded[0].json == {
        "resolution": "declined",
        "message": "Sent",
        "refund_amount": 0,
        "uploaded_filename": "a.pdf",
    }


async def test_evidence_against_fraud_is_added_first(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    api.on("POST /dispute/2867/evidence", example("dispute_evidence"))
    api.on("PUT /dispute/2867/resolve", example("dispute", **RESOLVED))
    answer = await disputes.answer(msgspec.structs.replace(CONTEST, fields=FIELDS))
    assert isinstance(answer, Done)
    assert api.recorded[0].json == {name: FIELDS[name] for name in list(FIELDS)[:4]}
    assert api.recorded[1].json["evidence"] == 21


@pytest.mark.parametrize("status", [400, 500])
async def test_without_evidence_the_dispute_is_not_answered(
    disputes: DisputeDesk, api: PaystackServer, status: int
) -> None:
    error = refusal("customer_email is invalid", type="validation_error")
    api.on("POST /dispute/2867/evidence", error, status=status)
    answer = await disputes.answer(msgspec.structs.replace(CONTEST, fields=FIELDS))
    assert isinstance(answer, Refused if status == 400 else Unknown)
    assert api.calls == ["POST /dispute/2867/evidence"]


async def test_only_an_invalid_request_is_rejected(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    too_much = "Refund amount cannot be greater than initial amount"
    path = "PUT /dispute/2867/resolve"
    api.on(path, refusal(too_much, type="validation_error"), status=400)
    assert await disputes.answer(ACCEPT) == Refused(RefusalCode.DISPUTE_ANSWER_REJECTED, too_much)
    for status, message, kind in (
        (400, too_much, "api_error"),
        (400, "Dispute has already been resolved", "validation_error"),
        (400, "This dispute was resolved", "validation_error"),
        (404, "Dispute not found", "validation_error"),
        (409, too_much, "validation_error"),
    ):
        api.on(path, refusal(message, type=kind), status=status)
        answer = await disputes.answer(ACCEPT)
        assert isinstance(answer, Unknown), message
        assert answer.needs_lookup, message


async def test_answers_that_paystack_cannot_take_are_not_sent(
    disputes: DisputeDesk, api: PaystackServer
) -> None:
    for answer in (
        msgspec.structs.replace(CONTEST, files=("a.pdf", "b.pdf")),
        msgspec.structs.replace(ACCEPT, amount=NOTHING),
    ):
        result = await disputes.answer(answer)
        assert isinstance(result, Refused)
        assert result.code is RefusalCode.DISPUTE_ANSWER_REJECTED
    assert not api.recorded
