"""New rows that arrive together are written together: one statement counts, checks and writes them.

Behind it stands a function of the database that takes the items as JSON and says of each what
became of it. Requests are counted for the rate limit by the same statement.
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
    environment: str
    ref_trx: str
    endpoint: str | None
    key: str | None
    only_look: bool = False  # whether anything stands in its way; nothing is written
    # Where it stands in its batch; whether it counts for the rate limit, and how many after it do;
    # whether one before it would write the same reference or key.
    item: int = 0
    cost: int = 1
    behind: int = 0
    repeats: bool = False


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
        self._sql = f"SELECT * FROM {function}($1::jsonb, $2)"
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
        items = _batched(new)
        crash.point("before_intake_commit")
        rows = await self._connection.rows(
            Taken,
            self._sql,
            strict_json.encode(items).decode(),
            ratelimit.WINDOW,
        )
        crash.point("after_intake_commit")
        rows.sort(key=lambda row: row.item)
        assert len(rows) == len(new)
        return rows


def _batched(new: Sequence[NewItem]) -> list[NewItem]:
    """Each item knows what of its like stands before and after it."""
    behind: dict[str, int] = {}
    for item in new:
        behind[item.bucket] = behind.get(item.bucket, 0) + item.cost
    seen: set[tuple[object, ...]] = set()
    batched = []
    for place, item in enumerate(new):
        behind[item.bucket] -= item.cost
        names = _names(item)
        batched.append(
            msgspec.structs.replace(
                item, item=place, behind=behind[item.bucket], repeats=not seen.isdisjoint(names)
            )
        )
        seen |= names
    return batched


def _names(item: NewItem) -> set[tuple[object, ...]]:
    """What nothing else may be written under."""
    if item.only_look:
        return set()
    owner = (item.merchant_id, item.environment)
    names: set[tuple[object, ...]] = {(*owner, item.ref_trx)}
    if item.key is not None:
        names.add((*owner, item.endpoint, item.key))
    return names
