"""Flutterwave's chargebacks: lists, searches, proof and answers."""

import asyncio
import copy
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers import reading
from manilla.providers.port import (
    Adapter,
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
    Unreadable,
)
from tests.providers.flutterwave import schemas
from tests.providers.flutterwave.conftest import SECRET_HASH
from tests.providers.flutterwave.fixtures import DOCUMENTED, error, success
from tests.providers.samples import PERIOD
from tests.providers.scripted import Scripted, answering
from tests.providers.unknown_values import unknown_values

STATUSES = ("initiated", "declined", "accepted", "won", "lost")
CHARGEBACK: dict[str, Any] = DOCUMENTED["chargebacks"]["data"][0]
AMOUNT, NOTHING = Money("NGN", 101550), Money("NGN", 0)
FILE = EvidenceFile('Proof "1"\r\n.png', "image/png", b"\x89PNG \x00--")
ACCEPT = DisputeAnswer(provider_reference="1", is_accepted=True, amount=AMOUNT)
CONTEST = DisputeAnswer(
    provider_reference="1", is_accepted=False, amount=NOTHING, files=("https://f.example/p",)
)
DISPUTE = DisputeState(
    provider_reference="1",
    status=ReportedDisputeStatus.NEEDS_RESPONSE,
    charge_reference="TXN0-1",
    charge_provider_reference="288200108",
    amount=AMOUNT,
    stage="new",
    reason="Not received",
    opened_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    respond_by=datetime(2026, 1, 2, 13, 4, 5, tzinfo=UTC),
)


@pytest.fixture
def disputes(flutterwave: Adapter) -> DisputeDesk:
    assert flutterwave.disputes is not None
    return flutterwave.disputes


def page(*listed: dict[str, Any], number: int = 1, total: int = 1) -> Any:
    info = {"total": len(listed), "current_page": number, "total_pages": total, "page_size": 20}
    return success(list(listed), meta={"page_info": info})


class Lists:
    """Responds with the chargebacks of the requested status, and with one response to a PUT."""

    def __init__(self, server: Scripted) -> None:
        self._server = server
        self.listed: list[dict[str, Any]] = []
        self.answer: tuple[int, Any] = (500, {})
        server.behaviour = self._behave

    async def _behave(self, writer: asyncio.StreamWriter) -> None:
        request = self._server.recorded[-1]
        if request.method == "PUT":
            await answering(*self.answer)(writer)
            return
        wanted = query(request.target)["status"]
        found = [each for each in self.listed if each["status"] == wanted]
        await answering(200, page(*found))(writer)

    @property
    def asked(self) -> list[str]:
        listed = [each for each in self._server.recorded if each.method == "GET"]
        return [query(each.target)["status"] for each in listed]


@pytest.fixture
def lists(server: Scripted) -> Lists:
    return Lists(server)


def query(target: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}


async def test_a_list_is_requested_for_each_status(disputes: DisputeDesk, lists: Lists) -> None:
    lists.listed = [CHARGEBACK, {**CHARGEBACK, "id": 2, "status": "lost"}]
    found, start = [], None
    for _ in STATUSES:
        answer = await disputes.listed(*PERIOD, start)
        assert isinstance(answer, Done)
        found += answer.value.disputes
        start = answer.value.next
    assert start is None
    assert tuple(lists.asked) == STATUSES
    lost = msgspec.structs.replace(
        DISPUTE, provider_reference="2", status=ReportedDisputeStatus.LOST
    )
    assert found == [DISPUTE, lost]


async def test_a_list_has_a_status_a_currency_a_period_and_a_page(
    disputes: DisputeDesk, server: Scripted
) -> None:
    server.answers(200, page(CHARGEBACK, number=1, total=2))
    assert await disputes.listed(*PERIOD) == Done(DisputePage([DISPUTE], "initiated:2"))
    server.answers(200, page(CHARGEBACK, number=2, total=2))
    assert await disputes.listed(*PERIOD, "initiated:2") == Done(
        DisputePage([DISPUTE], "declined:1")
    )
    expected = {"status": "initiated", "currency": "NGN", "from": "2026-11-13", "to": "2026-11-16"}
    assert query(server.recorded[0].target) == {**expected, "page": "1"}
    assert query(server.recorded[1].target) == {**expected, "page": "2"}


@pytest.mark.parametrize(
    "info", [None, {}, {"current_page": 1}, {"current_page": 2, "total_pages": 9}, {"total": 1}]
)
async def test_another_page_than_requested_is_unknown(
    disputes: DisputeDesk, server: Scripted, info: Any
) -> None:
    server.answers(200, success([CHARGEBACK], meta={"page_info": info}))
    assert isinstance(await disputes.listed(*PERIOD), Unknown)


@pytest.mark.parametrize(("sample", "field", "value"), unknown_values("flutterwave"))
async def test_an_unknown_value_does_not_hide_the_other_chargebacks(
    disputes: DisputeDesk, server: Scripted, sample: str, field: str, value: Any
) -> None:
    assert sample == "chargeback"
    unclear = {**copy.deepcopy(CHARGEBACK), "id": 7, field: value}
    server.answers(200, page(unclear, CHARGEBACK))
    answer = await disputes.listed(*PERIOD)
    assert answer == Done(DisputePage([DISPUTE], "declined:1", ("7",)))
    state = await disputes.state("7")
    assert isinstance(state, Unknown)
    assert state.needs_lookup


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("initiated", ReportedDisputeStatus.NEEDS_RESPONSE),
        ("declined", ReportedDisputeStatus.SUBMITTED),
        ("accepted", ReportedDisputeStatus.ACCEPTED),
        ("won", ReportedDisputeStatus.WON),
        ("lost", ReportedDisputeStatus.LOST),
    ],
)
async def test_a_chargeback_is_searched_in_the_lists_of_all_statuses(
    disputes: DisputeDesk, lists: Lists, word: str, status: ReportedDisputeStatus
) -> None:
    lists.listed = [{**CHARGEBACK, "status": word, "stage": "second"}]
    expected = msgspec.structs.replace(DISPUTE, status=status, stage="second")
    assert await disputes.state("1") == Done(expected)
    assert tuple(lists.asked) == STATUSES[: STATUSES.index(word) + 1]


async def test_a_chargeback_that_is_not_listed_may_exist(
    disputes: DisputeDesk, lists: Lists
) -> None:
    lists.listed = [{**CHARGEBACK, "id": 2}]
    answer = await disputes.state("1")
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup
    assert tuple(lists.asked) == STATUSES


async def test_a_known_chargeback_is_searched_by_its_transaction(
    disputes: DisputeDesk, lists: Lists, server: Scripted
) -> None:
    lists.listed = [CHARGEBACK]
    await disputes.listed(*PERIOD)
    await disputes.state("1")
    assert query(server.recorded[-1].target)["id"] == "288200108"
    assert "from" not in query(server.recorded[-1].target)


async def test_a_search_ends(disputes: DisputeDesk, server: Scripted) -> None:
    async def behave(writer: asyncio.StreamWriter) -> None:
        number = int(query(server.recorded[-1].target)["page"])
        await answering(200, page({**CHARGEBACK, "id": 2}, number=number, total=999))(writer)

    server.behaviour = behave
    answer = await disputes.state("1")
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup
    assert len(server.recorded) == 20


async def test_a_failed_search_is_unknown(disputes: DisputeDesk, server: Scripted) -> None:
    server.answers(500, {})
    assert await disputes.state("1") == Unknown("HTTP 500", is_rail_down=True)
    result = await disputes.answer(ACCEPT)
    assert isinstance(result, Unknown)
    assert result.never_sent  # the answer itself was not sent
    assert {each.method for each in server.recorded} == {"GET"}


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-01-02T13:04:05.000Z", 13),
        ("2026-01-02 13:04:05", 12),  # without a time zone: Lagos time
        ("2026-01-02T13:04:05+01:00", 12),
        ("in 10 hours", None),
        (5, None),
    ],
)
async def test_the_deadline(
    disputes: DisputeDesk, server: Scripted, text: Any, hour: int | None
) -> None:
    server.answers(200, page({**CHARGEBACK, "due_date": text}))
    answer = await disputes.listed(*PERIOD)
    assert isinstance(answer, Done)
    due = None if hour is None else datetime(2026, 1, 2, hour, 4, 5, tzinfo=UTC)
    assert answer.value.disputes[0].respond_by == due


async def test_a_chargeback_is_accepted(
    disputes: DisputeDesk, lists: Lists, server: Scripted
) -> None:
    lists.listed = [CHARGEBACK]
    lists.answer = 200, success({**CHARGEBACK, "status": "accepted"})
    expected = msgspec.structs.replace(DISPUTE, status=ReportedDisputeStatus.ACCEPTED)
    assert await disputes.answer(ACCEPT) == Done(expected)
    sent = server.recorded[-1]
    schemas.check(sent)
    assert (sent.method, sent.target) == ("PUT", "/v3/chargebacks/1")
    assert sent.json == {"action": "accept", "comment": "The merchant accepts the chargeback."}


async def test_a_chargeback_is_declined_with_proof(
    disputes: DisputeDesk, lists: Lists, server: Scripted
) -> None:
    lists.listed = [CHARGEBACK]
    lists.answer = 200, success({**CHARGEBACK, "status": "declined"})
    answer = await disputes.answer(msgspec.structs.replace(CONTEST, text="Delivered"))
    expected = msgspec.structs.replace(DISPUTE, status=ReportedDisputeStatus.SUBMITTED)
    assert answer == Done(expected)
    schemas.check(server.recorded[-1])
    assert server.recorded[-1].json == {
        "action": "decline",
        "comment": "Delivered",
        "proof": "https://f.example/p",
    }


@pytest.mark.parametrize(
    "answer",
    [
        msgspec.structs.replace(ACCEPT, amount=Money("NGN", 101549)),
        msgspec.structs.replace(CONTEST, files=()),
        msgspec.structs.replace(CONTEST, files=("https://f.example/1", "https://f.example/2")),
    ],
)
async def test_answers_that_flutterwave_cannot_take_are_not_sent(
    disputes: DisputeDesk, lists: Lists, server: Scripted, answer: DisputeAnswer
) -> None:
    lists.listed = [CHARGEBACK]
    result = await disputes.answer(answer)
    assert isinstance(result, Refused)
    assert result.code is RefusalCode.DISPUTE_ANSWER_REJECTED
    assert "PUT" not in {each.method for each in server.recorded}


async def test_a_chargeback_that_was_answered_is_not_answered_again(
    disputes: DisputeDesk, lists: Lists, server: Scripted
) -> None:
    lists.listed = [{**CHARGEBACK, "status": "declined"}]
    expected = msgspec.structs.replace(DISPUTE, status=ReportedDisputeStatus.SUBMITTED)
    assert await disputes.answer(ACCEPT) == Done(expected)
    assert "PUT" not in {each.method for each in server.recorded}


async def test_no_error_rejects_an_answer(disputes: DisputeDesk, lists: Lists) -> None:
    """Flutterwave documents no errors, so a person must look at each of them."""
    lists.listed = [CHARGEBACK]
    for status in (400, 403, 404, 422):
        lists.answer = status, error("proof is required")
        answer = await disputes.answer(CONTEST)
        assert isinstance(answer, Unknown), status
        assert answer.needs_lookup
    lists.answer = 200, success({**CHARGEBACK, "id": 2, "status": "declined"})
    assert isinstance(await disputes.answer(CONTEST), Unknown)


async def test_proof_is_uploaded_as_a_form(disputes: DisputeDesk, server: Scripted) -> None:
    server.answers(200, DOCUMENTED["uploaded_image"])
    assert await disputes.upload("1", FILE) == Done("https://files.example/proof.png")
    sent = server.recorded[0]
    assert (sent.method, sent.target) == ("POST", "/v3/upload_image")
    media_type, _, boundary = sent.headers["content-type"].partition("; boundary=")
    assert media_type == "multipart/form-data"
    head, _, rest = sent.body.partition(b"\r\n\r\n")
    assert (
        head
        == (
            f"--{boundary}\r\n"
            'Content-Disposition: form-data; name="image"; filename="Proof-1-.png"\r\n'
            "Content-Type: image/png"
        ).encode()
    )
    assert rest == FILE.content + f"\r\n--{boundary}--\r\n".encode()


@pytest.mark.parametrize("data", [None, "", "proof.png", {"url": "https://f.example"}, 5, []])
async def test_only_a_url_is_proof(disputes: DisputeDesk, server: Scripted, data: Any) -> None:
    server.answers(200, success(data))
    assert isinstance(await disputes.upload("1", FILE), Unknown)


def test_webhooks_about_chargebacks_are_not_used(flutterwave: Adapter) -> None:
    """No source has their content. Chargebacks are found by polling."""
    signed = {b"verif-hash": [SECRET_HASH.encode()]}
    raw = json.dumps({"event": "chargeback.initiated", "data": CHARGEBACK}).encode()
    assert isinstance(flutterwave.read_webhook(signed, raw), Unreadable)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
def test_a_placeholder_for_a_time_is_no_time(moment: str) -> None:
    """The database cannot store such a time, and other disputes on the page must be opened."""
    assert reading.readable_moment({"due_date": moment}, "due_date") is None
