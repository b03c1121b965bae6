"""How the second cell's PostgreSQL finds the first cell, and what a move does with a wrong copy."""

import pytest

from manilla.cells.moving import fence, replication
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.stored import Step
from tests.moving.movers import Mover


@pytest.mark.parametrize(
    ("url", "query"),
    [
        ("postgresql://o:p@db1,db2/manilla", "target_session_attrs=read-write&connect_timeout=5"),
        (
            "postgresql://o@db/manilla?connect_timeout=9&sslmode=require",
            "connect_timeout=9&sslmode=require&target_session_attrs=read-write",
        ),
    ],
)
def test_the_second_cell_looks_for_the_primary(url: str, query: str) -> None:
    assert replication.libpq_url(url) == f"{url.partition('?')[0]}?{query}"


async def test_a_copy_that_differs_after_a_failover_is_not_activated(mover: Mover) -> None:
    await mover.move_until(Step.COPY)
    # Another timeline, as if a standby had been promoted after the copy.
    await mover.owners["lagos"].execute(
        "UPDATE merchant_move SET facts = jsonb_set(facts, '{timelines,0}', '\"00000009\"')"
    )
    async with mover.owners["abuja"].transaction() as connection:
        await fence.pass_fence(connection, mover.merchant_id)
        await connection.execute(
            "INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status)"
            " VALUES ($1, 'lost', 1, 'lost', '', '')",
            mover.merchant_id,
        )
    with pytest.raises(CannotMove, match="the rows in the table timeline differ"):
        await mover.resume()
    await mover.abort()
    assert await mover.broken("lagos") == []
    assert await mover.is_clean()
