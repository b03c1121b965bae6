"""Finds postings by their time or transaction, and reads their rows by id.

The only index on the ids and times of postings is a BRIN index, which finds ranges of rows.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from manilla.kit.database.rows import Reads, RowSource, columns
from manilla.kit.listing import INTEGER_MAX, Conditions, read_cursor
from manilla.kit.listing.sorting import RecordFilter
from manilla.posting_kinds import PostingKind, PostingSource, in_sql, kind_of, kinds_of, part_of

# If the first and last ids differ by less than this, the whole range is read, which is faster.
NEAR_MAX = 20_000
# A posting gets its id slightly after its timestamp.
# The orders of ids and of timestamps can therefore differ by this much.
ASTRAY = timedelta(minutes=5)


class PostingRow(msgspec.Struct, frozen=True):
    merchant_id: int
    id: int
    environment: str
    currency: str
    kind: str
    rail: str | None  # the earlier rail that a payout's case is about; merchants must not see it
    trx_id: str
    reason: str | None
    posted_at: datetime


_COLUMNS = columns(
    PostingRow,
    kind=kind_of("kind"),
    rail=f"CASE WHEN {kind_of('kind')} IN {in_sql(kinds_of(PostingSource.CASE))}"
    f" THEN nullif({part_of('kind')}, '') END",
    # The reason of a payout's posting is the digest of its destination, which only checks read.
    reason=f"CASE WHEN kind <> '{PostingKind.PAYOUT}' THEN reason END",
)


def add_kind_and_period(
    conditions: Conditions, kind: str | None, wanted: RecordFilter
) -> Conditions:
    """Adds the conditions for the postings `p`."""
    return (
        conditions.add_given(f"{kind_of('p.kind')} = {{}}", kind)
        .add_given("p.posted_at >= {}", wanted.since)
        .add_given("p.posted_at < {}", wanted.until)
    )


async def newest(
    db: RowSource, conditions: Conditions, limit: int, postings: str = "posting"
) -> list[PostingRow]:
    """Returns the newest postings `p` that match the conditions."""
    return await db.rows(
        PostingRow,
        f"""
        SELECT {_COLUMNS} FROM {postings} AS p
         WHERE {conditions.sql} ORDER BY id DESC LIMIT {limit}""",
        *conditions.values,
    )


async def with_ids(
    db: Reads, ids: Sequence[int], conditions: Conditions, limit: int = NEAR_MAX
) -> list[PostingRow]:
    """Returns the newest postings `p` with these ids that match the conditions.

    The ids are in descending order. The result can include postings with ids between them, so the
    conditions must exclude postings that the caller does not expect.
    """
    if not ids:
        return []
    conditions, postings = conditions.copy(), "posting"
    if ids[0] - ids[-1] < NEAR_MAX:
        first, last = conditions.value(ids[-1]), conditions.value(ids[0])
        # OFFSET 0 makes the planner start with the ids instead of all of the merchant's postings.
        postings = f"(SELECT * FROM posting WHERE id BETWEEN {first} AND {last} OFFSET 0)"
    else:
        conditions.add("p.id = ANY({}::bigint[])", ids)
    async with db.by_key() as connection:
        return await newest(connection, conditions, limit, postings)


async def id_bounds(db: Reads, wanted: RecordFilter, after: str | None = None) -> tuple[int, int]:
    """Returns the lowest id in the period, and the id before which a page starts."""
    before = read_cursor(int, after)
    low = 0 if wanted.since is None else await _first_id(db, wanted.since - ASTRAY)
    if not before:
        before = INTEGER_MAX if wanted.until is None else await _first_id(db, wanted.until + ASTRAY)
    return low, before


async def _first_id(db: Reads, start: datetime) -> int:
    """Returns the id of the first posting at or after this time, or INTEGER_MAX if none exists."""
    span = timedelta(hours=1)
    while start < datetime.now(UTC):
        first: int | None = await db.value(
            "SELECT min(id) FROM posting WHERE posted_at >= $1 AND posted_at < $2",
            *(start, start + span),
        )
        if first is not None:
            return first
        start, span = start + span, span * 8
    return INTEGER_MAX


async def ids_of(db: Reads, merchant_id: int, references: Sequence[str]) -> list[int]:
    """Returns the ids of the postings for these transaction ids and charge references."""
    records = await db.records(
        "SELECT id FROM posting WHERE merchant_id = $1 AND trx_id = ANY($2::text[])",
        *(merchant_id, list(references)),
    )
    return [record["id"] for record in records]
