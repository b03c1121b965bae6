"""New rows that arrive together are written together: one statement counts, checks and writes them.

Behind it stands a function of the database that takes one merchant's items as JSON and says of each
what became of it. Requests are counted for the rate limit by the same statement.
"""

from collections.abc import Sequence

import msgspec

from manilla.kit import crash, ratelimit, strict_json
from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.kit.errors import Unavailable
from manilla.kit.ratelimit import Ticket

TRIES = 5
AGAIN = "again"  # another item of the same batch stood in the way; what became of it is known now


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """What every such function must know of an item; the structs of the rooms add to it."""

    merchant_id: int
    bucket: str
    rate_limit: int
    # Where it stands in its batch; whether it counts for the rate limit, and how many after it do.
    item: int = 0
    cost: int = 1
    behind: int = 0


class Taken(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    trx_id: str | None  # of the first under this reference
    status: str | None
    answer: str | None  # to the first request under this key
    used: int
    resets_in_seconds: int


class Intake:
    def __init__(self, db: Database, function: str) -> None:
        self._connection = db.keep_connection()
        # Each merchant's items go to their own call of the function, in merchant order: all
        # statements take their locks in the same order.
        self._sql = f"""
            SELECT taken.*
              FROM unnest($1::bigint[], $2::jsonb[]) AS m (merchant_id, items)
             CROSS JOIN LATERAL {function}(m.merchant_id, m.items, $3) AS taken"""
        self._batcher: Batcher[NewItem, Taken] = Batcher(self._write)

    async def take(self, new: NewItem, ticket: Ticket) -> Taken:
        """Spends the ticket, unless something has spent it before."""
        if ticket.allowance is not None:
            new = msgspec.structs.replace(new, cost=0)
        for _ in range(TRIES):
            taken = await self._batcher.submit(new)
            if ticket.allowance is None:
                ticket.spend(taken.used, taken.resets_in_seconds)
            if taken.outcome != AGAIN:
                return taken
            new = msgspec.structs.replace(new, cost=0)
        raise Unavailable

    async def _write(self, new: Sequence[NewItem]) -> Sequence[Taken]:
        by_merchant = _batched(new)
        crash.point("before_intake_commit")
        rows = await self._connection.rows(
            Taken,
            self._sql,
            list(by_merchant),
            [strict_json.encode(items).decode() for items in by_merchant.values()],
            ratelimit.WINDOW,
        )
        crash.point("after_intake_commit")
        rows.sort(key=lambda row: row.item)
        assert len(rows) == len(new)
        return rows


def _batched(new: Sequence[NewItem]) -> dict[int, list[NewItem]]:
    """By merchant, in order; each item knows how many of its bucket are counted after it."""
    behind: dict[str, int] = {}
    by_merchant: dict[int, list[NewItem]] = {m: [] for m in sorted({n.merchant_id for n in new})}
    for place in range(len(new) - 1, -1, -1):
        item = new[place]
        after = behind.get(item.bucket, 0)
        behind[item.bucket] = after + item.cost
        by_merchant[item.merchant_id].append(
            msgspec.structs.replace(item, item=place, behind=after)
        )
    return by_merchant
