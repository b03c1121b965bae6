"""Several requests share an SQL statement, and each request gets its own records or error."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from manilla.kit.batch import SharedReads
from manilla.kit.database.connections import BY_KEY, Database
from manilla.settings import Settings

NAME = "a test of shared reads"
UP_TO = """
    SELECT place, n FROM unnest($1::integer[], $2::integer[]) AS wanted (place, last)
     CROSS JOIN LATERAL (SELECT n FROM generate_series(1, last) AS n) AS found"""
QUOTIENT = """
    SELECT place, one / other FROM unnest($1::integer[], $2::integer[], $3::integer[])
           AS wanted (place, one, other)"""


@pytest.fixture
async def own_db(settings: Settings) -> AsyncIterator[Database]:
    db = await Database.open(settings.database_url, size=1, name=NAME)
    yield db
    await db.close()


async def test_each_request_gets_its_own_records_in_their_order(own_db: Database) -> None:
    reads = SharedReads(own_db.keep_connection(BY_KEY))
    found = await asyncio.gather(*(reads.records(UP_TO, last) for last in (3, 0, 5, 1)))
    assert [[record[1] for record in each] for each in found] == [
        [1, 2, 3],
        [],
        [1, 2, 3, 4, 5],
        [1],
    ]


async def test_requests_of_different_queries_can_arrive_together(own_db: Database) -> None:
    reads = SharedReads(own_db.keep_connection(BY_KEY))
    mixed = [reads.records(UP_TO, 2), reads.records(QUOTIENT, 8, 2), reads.records(UP_TO, 1)]
    found = await asyncio.gather(*mixed)
    assert [[record[1] for record in each] for each in found] == [[1, 2], [4], [1]]


async def test_a_request_that_fails_fails_alone(own_db: Database) -> None:
    reads = SharedReads(own_db.keep_connection(BY_KEY))
    pairs = [(8, 2), (1, 0), (9, 3)]
    found = await asyncio.gather(
        *(reads.records(QUOTIENT, *pair) for pair in pairs), return_exceptions=True
    )
    assert isinstance(found[1], asyncpg.DivisionByZeroError)
    assert [each[0][1] for each in found if not isinstance(each, BaseException)] == [4, 3]


async def test_a_lost_connection_is_opened_again(own_db: Database) -> None:
    reads = SharedReads(own_db.keep_connection(BY_KEY))
    await reads.records(UP_TO, 1)
    await own_db.execute(
        """
        SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
         WHERE application_name = $1 AND pid <> pg_backend_pid()""",
        NAME,
    )
    # The lost connection may be detected only by the first request.
    await asyncio.gather(reads.records(UP_TO, 1), return_exceptions=True)
    assert len(await reads.records(UP_TO, 2)) == 2
