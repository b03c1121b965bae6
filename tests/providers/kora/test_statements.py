"""Kora's balance history: our requests, and the parsing of its lines."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jsonschema_rs
import pytest

from manilla.kit.money import Money
from manilla.providers.port import Adapter, Done, LineKind, StatementLine, StatementPage, Unknown
from tests.providers.kora.samples import TRX_ID
from tests.providers.kora.schemas import HISTORY
from tests.providers.samples import PERIOD
from tests.providers.scripted import Scripted

LINE: dict[str, Any] = {
    "pointer": "cus_1B89",
    "amount": "3000.00",
    "currency": "NGN",
    "balance_before": "10811758.99",
    "balance_after": "10808758.99",
    "date_created": "2026-11-15 07:20:00",
    "description": "Payout",
    "direction": "debit",
    "source": "payout",
    "source_reference": TRX_ID,
}
READ = StatementLine(
    line_id="cus_1B89",
    booked_at=datetime(2026, 11, 15, 7, 20, tzinfo=UTC),
    amount=Money("NGN", -300000),
    kind=LineKind.TRANSFER,
    reference=TRX_ID,
    description="Payout",
    balance_after=Money("NGN", 1080875899),
)


def history(data: Any, *, has_more: bool | None = False) -> dict[str, Any]:
    more = {} if has_more is None else {"has_more": has_more}
    return {"status": True, "message": "success", "data": data, **more}


async def test_the_request_has_an_hour_more_on_both_sides(kora: Adapter, server: Scripted) -> None:
    server.answers(200, history([LINE]))
    for start in (None, "cus_1B8A"):
        await kora.statement(*PERIOD, "NGN", start)
    first, second = server.recorded
    asked = dict(parse_qsl(urlsplit(first.target).query))
    assert (first.method, urlsplit(first.target).path) == (
        *("GET", "/merchant/api/v1/balances/history"),
    )
    assert first.headers["authorization"] == "Bearer sk_live_k"
    assert asked == {
        "currency": "NGN",
        "date_from": "2026-11-14-22-00-00",
        "date_to": "2026-11-16-00-00-00",
        "limit": "100",
    }
    continued = dict(parse_qsl(urlsplit(second.target).query))
    assert continued == {**asked, "starting_after": "cus_1B8A"}
    validator = jsonschema_rs.Draft202012Validator(HISTORY)
    assert validator.is_valid(asked)
    assert validator.is_valid(continued)
    assert not validator.is_valid({**asked, "date_form": "x"})


async def test_a_documented_line(kora: Adapter, server: Scripted) -> None:
    server.answers(200, history([LINE]))
    assert await kora.statement(*PERIOD, "NGN") == Done(StatementPage([READ], None))


async def test_the_documented_example_is_one_object_without_a_status(
    kora: Adapter, server: Scripted
) -> None:
    server.answers(200, {"has_more": True, "data": LINE})
    assert await kora.statement(*PERIOD, "NGN") == Done(StatementPage([READ], "cus_1B89"))


async def test_without_has_more_an_empty_page_is_the_last(kora: Adapter, server: Scripted) -> None:
    server.answers(200, history([LINE], has_more=None))
    assert await kora.statement(*PERIOD, "NGN") == Done(StatementPage([READ], "cus_1B89"))
    server.answers(200, history([], has_more=None))
    assert await kora.statement(*PERIOD, "NGN") == Done(StatementPage([], None))


@pytest.mark.parametrize(
    ("change", "kind", "minor"),
    [
        ({"source": "chargeback"}, LineKind.DISPUTE, -300000),
        (
            {
                "source": "Pay_in",
                "direction": "credit",
                "balance_before": "1.00",
                "balance_after": 3001,
            },
            LineKind.CHARGE,
            300000,
        ),
        ({"amount": 3000, "source": "refund"}, LineKind.REFUND, -300000),
        ({"balance_before": None, "balance_after": None}, LineKind.TRANSFER, -300000),
        ({"source": None}, LineKind.OTHER, -300000),
    ],
)
async def test_odd_lines(
    kora: Adapter, server: Scripted, change: dict[str, Any], kind: LineKind, minor: int
) -> None:
    server.answers(200, history([{**LINE, **change}]))
    answer = await kora.statement(*PERIOD, "NGN")
    assert isinstance(answer, Done)
    [line] = answer.value.lines
    assert (line.kind, line.amount) == (kind, Money("NGN", minor))


@pytest.mark.parametrize(
    "change",
    [
        {"direction": "sideways"},
        {"direction": None},
        {"amount": "-3000.00"},
        {"amount": "3000.001"},
        {"amount": "2999.00"},
        {"balance_after": "10811758.99"},
        {"pointer": None},
        {"date_created": "now"},
        {"date_created": None},
        {"currency": "USD"},
        {"currency": None},
    ],
)
async def test_a_page_with_an_invalid_line_is_unknown(
    kora: Adapter, server: Scripted, change: dict[str, Any]
) -> None:
    server.answers(200, history([LINE, {**LINE, **change}]))
    assert isinstance(await kora.statement(*PERIOD, "NGN"), Unknown)


@pytest.mark.parametrize(
    "document",
    [history([], has_more=True), history({}), history(None), {"has_more": "no", "data": []}],
)
async def test_an_invalid_page_is_unknown(kora: Adapter, server: Scripted, document: Any) -> None:
    server.answers(200, document)
    assert isinstance(await kora.statement(*PERIOD, "NGN"), Unknown)
