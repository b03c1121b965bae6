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
def disputes(kora: Adapter) -> DisputeDesk:
    assert kora.disputes is not None
    return kora.disputes


async def test_a_chargeback_is_accepted(disputes: DisputeDesk, server: Scripted) -> None:
    server.answers(200, ok(ACCEPTED))
    state = DisputeState(
        provider_reference="KPY-CHB-1", status=ReportedDisputeStatus.ACCEPTED, amount=AMOUNT
    )
    assert await disputes.answer(ACCEPT) == Done(state)
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
async def test_other_answers_are_given_in_the_dashboard(
    disputes: DisputeDesk, server: Scripted, answer: DisputeAnswer
) -> None:
    result = await disputes.answer(answer)
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
    disputes: DisputeDesk, server: Scripted, data: Any
) -> None:
    server.answers(200, ok(data))
    answer = await disputes.answer(ACCEPT)
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500])
async def test_no_error_rejects_an_answer(
    disputes: DisputeDesk, server: Scripted, status: int
) -> None:
    server.answers(status, error("Chargeback not found"))
    answer = await disputes.answer(ACCEPT)
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup


async def test_only_a_reference_is_put_into_the_url(
    disputes: DisputeDesk, server: Scripted
) -> None:
    for reference in ("", "../balances", "KPY/1", "KPY?1", "-"):
        answer = await disputes.answer(
            msgspec.structs.replace(ACCEPT, provider_reference=reference)
        )
        assert isinstance(answer, Unknown)
        assert answer.never_sent
    assert not server.recorded


async def test_kora_has_no_other_calls(disputes: DisputeDesk, server: Scripted) -> None:
    assert not disputes.can_list
    assert isinstance(await disputes.listed(*PERIOD), Refused)
    file = EvidenceFile("a.pdf", "application/pdf", b"%PDF")
    assert isinstance(await disputes.upload("KPY-CHB-1", file), Refused)
    state = await disputes.state("KPY-CHB-1")
    assert isinstance(state, Unknown)
    assert state.needs_lookup
    assert not server.recorded
