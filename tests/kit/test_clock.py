"""The API's times have the same format, whether Python or SQL formats them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from manilla.kit import clock
from manilla.kit.database.connections import Database
from manilla.ledger.transaction_lists import EARLIEST, LATEST

FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
MOMENTS = [
    EARLIEST,
    LATEST,
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),  # no fraction of a second
    datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC),
    datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2024, 2, 29, 0, 30, 0, 1, tzinfo=timezone(timedelta(hours=1))),
]


@given(st.timedeltas(timedelta(0), LATEST - EARLIEST), st.timedeltas(-timedelta(1), timedelta(1)))
def test_a_time_has_six_decimals_and_is_in_utc(age: timedelta, offset: timedelta) -> None:
    moment = EARLIEST + age
    assume(abs(offset) < timedelta(1))
    assert clock.iso(moment.astimezone(timezone(offset))) == moment.strftime(FORMAT)


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
async def test_a_time_that_sql_writes_has_the_same_format(db: Database, moment: datetime) -> None:
    cast = await db.value("SELECT $1::timestamptz::text", moment)
    assert clock.iso_of_sql(cast) == clock.iso(moment)
