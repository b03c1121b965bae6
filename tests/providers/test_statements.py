"""All lines of a provider statement are read once, even if lines are added between two pages."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.providers import reading, statements
from manilla.providers.kinds import KINDS
from manilla.providers.port import (
    Answer,
    Done,
    LineKind,
    RefusalCode,
    Refused,
    StatementLine,
    StatementPage,
    Unknown,
)
from manilla.providers.statements import StatementNotRead
from tests.providers.adapters import Adapters
from tests.providers.conftest import ABC
from tests.providers.samples import PERIOD
from tests.providers.scripted import Scripted

SINCE, UNTIL = PERIOD


def line(line_id: str, booked_at: datetime = SINCE) -> StatementLine:
    return StatementLine(line_id=line_id, booked_at=booked_at, amount=Money("NGN", 100))


class Pages:
    """A provider whose statement has exactly these pages."""

    def __init__(self, *pages: Answer[list[StatementLine]]) -> None:
        self.pages = pages

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        number = int(start or 0)
        page = self.pages[min(number, len(self.pages) - 1)]
        if not isinstance(page, Done):
            return page
        is_last = number == len(self.pages) - 1 and page.value == []
        return Done(StatementPage(page.value, None if is_last else str(number + 1)))


async def read(provider: Any) -> list[str]:
    pages = statements.read(provider, SINCE, UNTIL, "NGN")
    return [each.line_id async for page in pages for each in page]


async def test_a_line_on_two_pages_is_returned_once() -> None:
    pages = [["5", "4", "3"], ["4", "3", "2"], ["3", "2"], ["1"], []]
    answers = [Done([line(each) for each in page]) for page in pages]
    assert await read(Pages(*answers)) == ["5", "4", "3", "2", "1"]


async def test_lines_outside_the_period_are_left_out() -> None:
    before, last = SINCE - timedelta(microseconds=1), UNTIL - timedelta(microseconds=1)
    given = [line("before", before), line("first"), line("last", last), line("after", UNTIL)]
    assert await read(Pages(Done(given), Done([]))) == ["first", "last"]


async def test_a_page_without_new_lines_does_not_end_the_statement() -> None:
    pages = [["2"], ["2"], ["2"], ["1"], []]
    answers = [Done([line(each) for each in page]) for page in pages]
    assert await read(Pages(*answers)) == ["2", "1"]


async def test_a_provider_that_repeats_a_page_for_ever_is_not_read_for_ever() -> None:
    with pytest.raises(StatementNotRead, match="repeatedly"):
        await read(Pages(Done([line("1")])))


async def test_a_statement_with_too_many_pages_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statements, "PAGES_MAX", 5)
    with pytest.raises(StatementNotRead, match="too many"):
        await read(Pages(*(Done([line(str(number))]) for number in range(9))))


async def test_a_page_without_an_answer_is_an_error_and_not_the_end() -> None:
    with pytest.raises(StatementNotRead, match="HTTP 502"):
        await read(Pages(Done([line("2")]), Unknown("HTTP 502")))


@pytest.mark.parametrize("provider", ABC)
async def test_a_provider_without_statements_is_not_called(
    adapters: Adapters, server: Scripted, provider: str
) -> None:
    answer = await adapters.of(provider).statement(*PERIOD, "NGN")
    assert isinstance(answer, Refused)
    assert answer.code is RefusalCode.NOT_SUPPORTED
    assert server.recorded == []


def test_each_kind_says_which_movements_its_statements_list() -> None:
    with_statements = {name: kind.capabilities.statements for name, kind in KINDS.items()}
    assert {name for name, kinds in with_statements.items() if kinds} == {
        *("paystack", "kora", "monnify"),
    }
    assert with_statements["monnify"] == {LineKind.TRANSFER, LineKind.FEE}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Payout txn0001abcdefghjkmnpqrstvwxyz0123: rent", "TXN0001ABCDEFGHJKMNPQRSTVWXYZ0123"),
        ("TXN0001ABCDEFGHJKMNPQRSTVWXYZ0123-12", "TXN0001ABCDEFGHJKMNPQRSTVWXYZ0123-12"),
        ("TXN0001ABCDEFGHJKMNPQRSTVWXYZ01234", None),
        ("xTXN0001ABCDEFGHJKMNPQRSTVWXYZ0123", None),
        ("", None),
    ],
)
def test_our_reference_is_found_in_a_text(text: str, found: str | None) -> None:
    assert reading.our_reference(text) == found
