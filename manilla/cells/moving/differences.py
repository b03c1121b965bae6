"""Finds what a cell knows about a merchant and the merchant's new cell does not know.

If a cell's database was recovered to a moment before a move, the cell may have acted for a merchant
that lives in another cell. The other cell has every row from before the recovered moment, so each
row that it does not have was written since.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.proofs import verify

PAGE_ROWS = 5_000
# The other cell may have deleted older rows of some tables. The clocks of the cells can differ.
SINCE_MARGIN = timedelta(days=1)
STATUSES = ("payout", "payment", "refund")


class Difference(msgspec.Struct, frozen=True):
    """What only this cell knows about a transaction, a payment link or a payout file."""

    reference: str
    only_here: str
    status_here: str | None
    status_there: str | None


class _Compared(msgspec.Struct, frozen=True):
    what: str
    table: str
    fact: str  # an SQL expression that never changes once it is stored
    key: str = "trx_id"
    where: str = "true"
    since: str | None = None  # the column with the time, if the other cell deletes old rows


_COMPARED = (
    _Compared("payment", "payment", "created_at"),
    _Compared("payout", "payout", "created_at"),
    _Compared("refund", "refund", "created_at"),
    _Compared("charge", "charge", "concat_ws(' ', reference, created_at)"),
    _Compared("attempt", "payout_attempt", "concat_ws(' ', number, provider, created_at)"),
    _Compared("event", "timeline", "concat_ws(' ', number, event, at)"),
    # When a transfer was sent. This is stored before the first byte of the request is sent.
    _Compared(
        *("sent", "payout", "concat_ws(' ', began_at, last_sent_at)"), where="began_at IS NOT NULL"
    ),
    _Compared(
        *("sent", "refund", "concat_ws(' ', first_sent_at, sent_at)"), where="sent_at IS NOT NULL"
    ),
    _Compared(
        *("webhook", "webhook", "encode(digest, 'hex')"), key="reference", since="received_at"
    ),
    _Compared("case", "operator_case", "kind", key="reference", since="opened_at"),
    _Compared("payment link", "payment_link", "created_at", key="id", since="created_at"),
    _Compared("payout file", "payout_batch", "created_at", key="id", since="created_at"),
)


async def find(
    source: Database, target: Database, merchant_id: int, moved_at: datetime
) -> list[Difference]:
    """Returns what only `source` knows. `moved_at`: when the merchant's move began."""
    found: dict[str, list[str]] = defaultdict(list)
    async with source.read_only() as here, target.read_only() as there:
        for connection in (here, there):
            await connection.execute(verify.SETTINGS)
        for compared in _COMPARED:
            for key in await _missing(here, there, merchant_id, compared, moved_at):
                found[key].append(compared.what)
        for key in await _missing_postings(here, there, merchant_id):
            found[key].append("posting")
        statuses = [await _statuses(each, merchant_id, list(found)) for each in (here, there)]
    return [
        Difference(key, ", ".join(what), *(each.get(key) for each in statuses))
        for key, what in sorted(found.items())
    ]


async def _missing(
    here: Connection,
    there: Connection,
    merchant_id: int,
    compared: _Compared,
    moved_at: datetime,
) -> set[str]:
    """Returns the keys of rows that `there` does not have with the same fact."""
    key = compared.key
    rows = f"FROM {compared.table} WHERE merchant_id = $1 AND {key} > $2 AND {compared.where}"
    if compared.since is not None:
        rows += f" AND {compared.since} > '{(moved_at - SINCE_MARGIN).isoformat()}'"
    found: set[str] = set()
    after = ""
    while True:
        last = await here.value(
            f"SELECT max({key})"
            f" FROM (SELECT {key} {rows} ORDER BY {key} LIMIT {PAGE_ROWS}) AS page",
            *(merchant_id, after),
        )
        if last is None:
            return found
        ours, theirs = [
            {
                (row["key"], row["fact"])
                for row in await each.records(
                    f"SELECT {key} AS key, ({compared.fact})::text AS fact {rows} AND {key} <= $3",
                    *(merchant_id, after, last),
                )
            }
            for each in (here, there)
        ]
        found |= {reference for reference, _ in ours - theirs}
        after = last


async def _missing_postings(here: Connection, there: Connection, merchant_id: int) -> set[str]:
    """Returns the transactions of postings that differ, or that `there` does not have.

    Both cells may have used the same id for different postings.
    """
    found: set[str] = set()
    after_id = 0
    while True:
        last_id = await here.value(
            """
            SELECT max(posting_id) FROM (
                   SELECT posting_id FROM entry WHERE merchant_id = $1 AND posting_id > $2
                    ORDER BY merchant_id, posting_id LIMIT $3) AS page""",
            *(merchant_id, after_id, PAGE_ROWS),
        )
        if last_id is None:
            return found
        span = (after_id + 1, last_id)
        ours, theirs = [
            await verify.read_arrived(each, merchant_id, *span) for each in (here, there)
        ]
        names = {line.split(b"\t")[0]: line.split(b"\t")[5].decode() for line in ours[0]}
        for kind in (0, 1):  # postings and entries
            numbers = {line.split(b"\t")[0] for line in set(ours[kind]) - set(theirs[kind])}
            found |= {names[number] for number in numbers}
        after_id = last_id


async def _statuses(
    connection: Connection, merchant_id: int, trx_ids: list[str]
) -> Mapping[str, str]:
    every = " UNION ALL ".join(
        f"SELECT trx_id, status FROM {table} WHERE merchant_id = $1 AND trx_id = ANY ($2::text[])"
        for table in STATUSES
    )
    return {
        row["trx_id"]: row["status"]
        for row in await connection.records(every, merchant_id, trx_ids)
    }
