"""Monnify's list of transfers: our requests, and the parsing of the list as a statement."""

from datetime import UTC, datetime
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.providers.kinds.monnify.adapter import Monnify
from manilla.providers.port import Done, LineKind, StatementLine, StatementPage, Unknown
from tests.providers.monnify.conftest import ScriptedMonnify
from tests.providers.monnify.samples import ok
from tests.providers.samples import PERIOD

OWN = "MFDS20261115044951AABQGV"
TRANSFER: dict[str, Any] = {
    "amount": 200,
    "reference": "TXN1",
    "narration": "Rent",
    "currency": "NGN",
    "fee": 35,
    "twoFaEnabled": True,
    "status": "SUCCESS",
    "transactionDescription": "Approved",
    "transactionReference": OWN,
    "createdOn": "2026-11-15T15:49:51.000+0000",
    "sourceAccountNumber": "8012345678",
}
PAID = StatementLine(
    line_id=OWN,
    booked_at=datetime(2026, 11, 15, 15, 49, 51, tzinfo=UTC),
    amount=Money("NGN", -20000),
    kind=LineKind.TRANSFER,
    reference="TXN1",
    provider_reference=OWN,
    description="Rent",
)


def page(*transfers: Any, last: bool | None = True) -> dict[str, Any]:
    ending = {} if last is None else {"last": last}
    return ok({"content": list(transfers), **ending})


async def lines(monnify: Monnify) -> list[tuple[str, int, LineKind]]:
    answer = await monnify.statement(*PERIOD, "NGN")
    assert isinstance(answer, Done), answer
    return [(line.line_id, line.amount.minor, line.kind) for line in answer.value.lines]


async def test_the_request_and_a_documented_transfer(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, page(TRANSFER, last=False))
    answer = await monnify.statement(*PERIOD, "NGN", "2")
    assert isinstance(answer, Done)
    fee, kind = Money("NGN", -3500), LineKind.FEE
    assert answer.value.lines[0] == PAID
    assert (answer.value.lines[1].amount, answer.value.lines[1].kind) == (fee, kind)
    assert answer.value.next == "3"
    [call] = monnify_server.calls
    assert call.target == (
        "/api/v2/disbursements/search-transactions?sourceAccountNumber=8012345678"
        "&startDate=1794697200000&endDate=1794783600000&pageNo=2&pageSize=100"
    )


@pytest.mark.parametrize(
    "created",
    ["2026-11-15 16:49:51.000", "15/11/2026 4:49:51 PM", "2026-11-15T15:49:51.000Z"],
)
async def test_times_in_every_format(
    monnify: Monnify, monnify_server: ScriptedMonnify, created: str
) -> None:
    """A time without a time zone is Lagos time."""
    monnify_server.answers(200, page({**TRANSFER, "createdOn": created, "fee": 0}))
    assert await monnify.statement(*PERIOD, "NGN") == Done(StatementPage([PAID], None))


async def test_amounts_as_text(monnify: Monnify, monnify_server: ScriptedMonnify) -> None:
    text = {"amount": "200.00", "fee": "35.5", "currency": None}
    monnify_server.answers(200, page({**TRANSFER, **text}))
    expected = [(OWN, -20000, LineKind.TRANSFER), (f"{OWN}/fee", -3550, LineKind.FEE)]
    assert await lines(monnify) == expected


async def test_a_transfer_that_came_back_has_lines_in_both_directions(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    monnify_server.answers(200, page({**TRANSFER, "status": "REVERSED"}))
    assert await lines(monnify) == [
        (OWN, -20000, LineKind.TRANSFER),
        (f"{OWN}/fee", -3500, LineKind.FEE),
        (f"{OWN}/return", 20000, LineKind.TRANSFER),
        (f"{OWN}/fee-return", 3500, LineKind.FEE),
    ]


@pytest.mark.parametrize("status", ["PENDING", "PENDING_AUTHORIZATION", "FAILED", "EXPIRED"])
async def test_a_transfer_that_moved_nothing_has_no_line(
    monnify: Monnify, monnify_server: ScriptedMonnify, status: str
) -> None:
    monnify_server.answers(200, page({**TRANSFER, "status": status}, last=None))
    assert await monnify.statement(*PERIOD, "NGN") == Done(StatementPage([], "1"))
    monnify_server.answers(200, page(last=None))
    assert await monnify.statement(*PERIOD, "NGN") == Done(StatementPage([], None))


@pytest.mark.parametrize(
    "change",
    [
        *({"status": value} for value in (None, "DONE", 1)),
        *({"amount": value} for value in (None, -1, 0, "1e5", "200.001", True)),
        *({"createdOn": value} for value in (None, "", "31/31/2026 1:00:00 PM", 5)),
        *({"currency": "USD"}, {"transactionReference": None}, {"reference": None}),
    ],
)
async def test_a_page_with_an_invalid_transfer_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, change: dict[str, Any]
) -> None:
    monnify_server.answers(200, page(TRANSFER, {**TRANSFER, **change}))
    assert isinstance(await monnify.statement(*PERIOD, "NGN"), Unknown)


@pytest.mark.parametrize("body", [None, {}, [], {"content": None}, {"content": {}}, "x"])
async def test_an_invalid_page_is_unknown(
    monnify: Monnify, monnify_server: ScriptedMonnify, body: Any
) -> None:
    monnify_server.answers(200, ok(body))
    assert isinstance(await monnify.statement(*PERIOD, "NGN"), Unknown)


async def test_another_currency_is_not_asked_for(
    monnify: Monnify, monnify_server: ScriptedMonnify
) -> None:
    assert isinstance(await monnify.statement(*PERIOD, "USD"), Unknown)
    assert monnify_server.calls == []
