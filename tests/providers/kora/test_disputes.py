"""Kora's chargebacks, which can only be accepted as a whole."""

from typing import Any

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    DisputeAnswer,
    DisputeDesk,
    DisputeState,
    Done,
    EvidenceFile,
    RefusalCode,
    Refused,
    ReportedDisputeStatus,
    Unknown,
)
from tests.providers.kora.samples import error, ok, sample
from tests.providers.samples import PERIOD
from tests.providers.scripted import Scripted

AMOUNT = Money("NGN", 101550)
ACCEPT = DisputeAnswer(
    provider_reference="KPY-CHB-1", is_accepted=True, amount=AMOUNT, disputed=AMOUNT
)
ACCEPTED = sample("chargeback", "derived")


@pytest.fixture
def desk(kora: Adapter) -> DisputeDesk:
    assert kora.disputes is not None
    return kora.disputes


async def test_a_chargeback_is_accepted(desk: DisputeDesk, server: Scripted) -> None:
    server.answers(200, ok(ACCEPTED))
    state = DisputeState(
        provider_reference="KPY-CHB-1", status=ReportedDisputeStatus.ACCEPTED, amount=AMOUNT
    )
    assert await desk.answer(ACCEPT) == Done(state)
    sent = server.recorded[0]
    assert (sent.method, sent.target) == ("PATCH", "/api/v1/chargebacks/KPY-CHB-1")
    assert sent.json == {"status": "accepted"}


@pytest.mark.parametrize(
    "answer",
    [
        msgspec.structs.replace(ACCEPT, is_accepted=False, amount=Money("NGN", 0), text="Sent"),
        msgspec.structs.replace(ACCEPT, amount=Money("NGN", 101549)),
        msgspec.structs.replace(ACCEPT, disputed=None),
    ],
    ids=["contested", "in part", "without the whole amount"],
)
async def test_other_answers_are_given_by_hand(
    desk: DisputeDesk, server: Scripted, answer: DisputeAnswer
) -> None:
    result = await desk.answer(answer)
    assert isinstance(result, Refused)
    assert result.code is RefusalCode.NOT_SUPPORTED
    assert not server.recorded


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {**ACCEPTED, "reference": "KPY-CHB-2"},
        {**ACCEPTED, "status": "declined"},
        {**ACCEPTED, "status": "lost"},
        {**ACCEPTED, "status": "ACCEPTED"},
        {**ACCEPTED, "amount": "1015.49"},
        {**ACCEPTED, "currency": "USD"},
    ],
)
async def test_only_a_complete_response_is_conclusive(
    desk: DisputeDesk, server: Scripted, data: Any
) -> None:
    server.answers(200, ok(data))
    answer = await desk.answer(ACCEPT)
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500])
async def test_no_error_rejects_an_answer(desk: DisputeDesk, server: Scripted, status: int) -> None:
    server.answers(status, error("Chargeback not found"))
    answer = await desk.answer(ACCEPT)
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup


async def test_only_a_reference_is_put_into_the_url(desk: DisputeDesk, server: Scripted) -> None:
    for reference in ("", "../balances", "KPY/1", "KPY?1", "-"):
        answer = await desk.answer(msgspec.structs.replace(ACCEPT, provider_reference=reference))
        assert isinstance(answer, Unknown)
        assert answer.never_sent
    assert not server.recorded


async def test_kora_has_no_other_calls(desk: DisputeDesk, server: Scripted) -> None:
    assert not desk.can_list
    assert isinstance(await desk.listed(*PERIOD), Refused)
    file = EvidenceFile("a.pdf", "application/pdf", b"%PDF")
    assert isinstance(await desk.upload("KPY-CHB-1", file), Refused)
    state = await desk.state("KPY-CHB-1")
    assert isinstance(state, Unknown)
    assert state.needs_lookup
    assert not server.recorded
