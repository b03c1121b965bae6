"""Paystack's balance ledger: our requests, and the parsing of its lines."""

from datetime import UTC, datetime
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.providers import statements
from manilla.providers.port import Adapter, Done, LineKind, StatementLine, StatementPage, Unknown
from tests.providers.paystack.paystack_server import TRX_ID, PaystackServer, query, refusal
from tests.providers.samples import PERIOD

LEDGER = "GET /balance/ledger"
LINE: dict[str, Any] = {
    "integration": 463433,
    "domain": "live",
    "balance": 207822,
    "currency": "NGN",
    "difference": -50000,
    "reason": f"{TRX_ID.lower()}: rent",
    "model_responsible": "Transfer",
    "model_row": 56610500,
    "id": 149411613,
    "createdAt": "2026-11-15T09:39:49.000Z",
    "updatedAt": "2026-11-15T09:39:49.000Z",
}
READ = StatementLine(
    line_id="149411613",
    booked_at=datetime(2026, 11, 15, 9, 39, 49, tzinfo=UTC),
    amount=Money("NGN", -50000),
    kind=LineKind.TRANSFER,
    provider_reference="56610500",
    description=f"{TRX_ID.lower()}: rent",
    balance_after=Money("NGN", 207822),
)


def ledger(*lines: dict[str, Any], **meta: Any) -> dict[str, Any]:
    document = {"status": True, "message": "Balance ledger retrieved", "data": list(lines)}
    return {**document, "meta": meta} if meta else document


async def test_the_request_and_a_documented_line(paystack: Adapter, api: PaystackServer) -> None:
    api.on(LEDGER, ledger(LINE, total=1, page=1, pageCount=1))
    assert await paystack.statement(*PERIOD, "NGN") == Done(StatementPage([READ], None))
    [asked] = api.recorded
    assert query(asked) == {
        "from": "2026-11-14T23:00:00Z",
        "to": "2026-11-15T23:00:00Z",
        "page": "1",
    }


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("Transaction", LineKind.CHARGE),
        ("Refund", LineKind.REFUND),
        ("Settlement", LineKind.SETTLEMENT),
        ("Topup", LineKind.OTHER),
        ("Fee", LineKind.FEE),
        (None, LineKind.OTHER),
    ],
)
async def test_the_kind_of_a_line(
    paystack: Adapter, api: PaystackServer, model: str | None, kind: LineKind
) -> None:
    odd = {"difference": "50000", "balance": "-3", "reason": None, "model_row": None}
    api.on(LEDGER, ledger({**LINE, **odd, "model_responsible": model}, pageCount=1))
    answer = await paystack.statement(*PERIOD, "NGN")
    assert isinstance(answer, Done)
    [line] = answer.value.lines
    assert (line.kind, line.amount, line.reference) == (kind, Money("NGN", 50000), None)
    assert (line.balance_after, line.provider_reference) == (Money("NGN", -3), None)


@pytest.mark.parametrize("model", ["Settlement", "Topup", "Fee", None])
async def test_the_number_of_a_row_that_we_do_not_know_is_not_read(
    paystack: Adapter, api: PaystackServer, model: str | None
) -> None:
    api.on(LEDGER, ledger({**LINE, "model_responsible": model}, pageCount=1))
    answer = await paystack.statement(*PERIOD, "NGN")
    assert isinstance(answer, Done)
    [line] = answer.value.lines
    assert line.provider_reference is None


async def test_without_a_page_count_an_empty_page_is_the_last(
    paystack: Adapter, api: PaystackServer
) -> None:
    pages = [[{**LINE, "id": number} for number in page] for page in ((3, 2), (2, 1), ())]
    api.on(LEDGER, *(ledger(*page) for page in pages))
    read = statements.read(paystack, *PERIOD, "NGN")
    assert [line.line_id async for page in read for line in page] == ["3", "2", "1"]
    assert [query(asked)["page"] for asked in api.recorded] == ["1", "2", "3"]


async def test_lines_in_another_currency_are_left_out(
    paystack: Adapter, api: PaystackServer
) -> None:
    api.on(LEDGER, ledger({**LINE, "currency": "USD"}, pageCount=1))
    assert await paystack.statement(*PERIOD, "NGN") == Done(StatementPage([], None))


INVALID: dict[str, list[Any]] = {
    "difference": [None, "", "--5", "5.5", 0.5, True, [], "1e3", "+5"],
    "id": [None, [], True],
    "createdAt": [None, "yesterday", 5],
    "currency": [None, "XXX", 5],
    "balance": ["much", [], True],
}


@pytest.mark.parametrize(
    "change", [{name: value} for name, values in INVALID.items() for value in values]
)
async def test_a_page_with_an_invalid_line_is_unknown(
    paystack: Adapter, api: PaystackServer, change: dict[str, Any]
) -> None:
    api.on(LEDGER, ledger(LINE, {**LINE, **change}, pageCount=1))
    assert isinstance(await paystack.statement(*PERIOD, "NGN"), Unknown)


async def test_an_error_is_unknown(paystack: Adapter, api: PaystackServer) -> None:
    api.on(LEDGER, refusal("Invalid key"), status=401)
    assert isinstance(await paystack.statement(*PERIOD, "NGN"), Unknown)
