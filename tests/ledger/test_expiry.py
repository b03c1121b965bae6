"""Old rows are deleted in batches, and finding them reads no other rows."""

import json
from datetime import timedelta

import pytest

from manilla.kit.database import expiry
from manilla.kit.database.connections import Database
from manilla.ledger import idempotency

DAY = timedelta(days=1)
ROWS = 20_000
PAGES_MAX = 20  # of an index and of the rows that it finds
ADD = """
    INSERT INTO idempotency (merchant_id, environment, endpoint, key, body_hash, answer, created_at)
    SELECT $1, 'sandbox', 'payout', n::text, repeat('x', 64), '{}',
           now() - $2::interval - n * interval '1 microsecond'
      FROM generate_series(1, $3) AS n"""


async def _number(owner: Database, merchant_id: int) -> int:
    number: int = await owner.value(
        "SELECT count(*) FROM idempotency WHERE merchant_id = $1", merchant_id
    )
    return number


async def test_rows_are_deleted_in_batches_when_they_are_old_enough(
    owner: Database, merchant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "ROWS_MAX", 2)
    await owner.execute(ADD, merchant_id, DAY, 5)
    await idempotency.delete_old_answers(owner)
    assert await _number(owner, merchant_id) == 0
    await owner.execute(ADD, merchant_id, timedelta(hours=23), 5)
    await idempotency.delete_old_answers(owner)
    assert await _number(owner, merchant_id) == 5


@pytest.mark.parametrize(
    ("table", "time"),
    [
        ("delivery_attempt", "at"),
        ("endpoint_delivery", "created_at"),
        ("idempotency", "created_at"),
        ("notification", "created_at"),
        ("webhook", "received_at"),
    ],
)
async def test_an_expiring_table_has_an_ordered_index_on_its_time(
    db: Database, table: str, time: str
) -> None:
    assert await db.value(
        """
        SELECT EXISTS (
               SELECT FROM pg_index x
                 JOIN pg_class i ON i.oid = x.indexrelid
                 JOIN pg_am m ON m.oid = i.relam AND m.amname = 'btree'
                 JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
                WHERE x.indrelid = $1::text::regclass AND a.attname = $2 AND x.indpred IS NULL)""",
        table,
        time,
    )


async def test_finding_old_rows_does_not_read_the_rows_that_took_the_place_of_deleted_rows(
    owner: Database, merchant_id: int
) -> None:
    await owner.execute(ADD, merchant_id, DAY, ROWS)
    await owner.execute("VACUUM idempotency")
    await idempotency.delete_old_answers(owner)
    await owner.execute("VACUUM (ANALYZE) idempotency")
    await owner.execute(ADD, merchant_id, timedelta(0), ROWS)
    await owner.execute("VACUUM (ANALYZE) idempotency")
    plan = await owner.value(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {expiry.statement('idempotency', 'created_at')}",
        DAY,
        expiry.ROWS_MAX,
    )
    [explained] = json.loads(plan)
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < (
        PAGES_MAX
    )
    await owner.execute("DELETE FROM idempotency WHERE merchant_id = $1", merchant_id)
