"""Extends the hash chain over postings, in the order in which postings become final.

A posting's id is drawn before its transaction commits, so a posting can become visible after
postings with later ids. A link must only cover ids of transactions that have ended. A transaction
that draws an id locks the sequence of the ids until the transaction ends, and `pg_locks` shows the
lock. The chain therefore needs no column or index in the ledger's tables.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import structlog

from manilla.kit import crash
from manilla.kit.database.connections import Connection, Database
from manilla.proofs import verify
from manilla.proofs.verify import SETTINGS, Lines, Link

log = structlog.get_logger(__name__)

IDS_MAX = 10_000  # maximum range of ids in one link
ARRIVED_ENTRIES_MAX = 50_000  # maximum number of entries in a link of arrived postings
WAIT_SECONDS = 10
POLL_SECONDS = 0.05

# Returns the transactions that have drawn a posting id and have not ended.
DRAWING = """
    SELECT virtualtransaction FROM pg_locks
     WHERE locktype = 'relation' AND relation = 'posting_id_seq'::regclass
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND mode = 'RowExclusiveLock'"""


class _ChainHead(msgspec.Struct, frozen=True):
    number: int
    last_id: int
    hash: bytes


async def extend(db: Database) -> None:
    """Adds links for all postings that are final. Does nothing if another worker extends it."""
    last_id = await final_id(db)
    while last_id is not None and await _add_link(db, last_id):
        pass


async def final_id(db: Database) -> int | None:
    """Returns an id up to which every posting is visible or will never be, or None for a timeout.

    The id is read before the transactions that have drawn an id. If such a transaction has ended,
    the next statement sees its postings.
    """
    async with db.connection() as connection:
        last_id: int = await connection.value(
            "SELECT coalesce(pg_sequence_last_value('posting_id_seq'), 0)"
        )
        waiting = await _open_transactions(connection)
        ends = time.monotonic() + WAIT_SECONDS
        while waiting:
            if time.monotonic() > ends:
                log.warning("posting_chain_waits", transactions=len(waiting))
                return None
            await asyncio.sleep(POLL_SECONDS)
            waiting &= await _open_transactions(connection)
        return last_id


async def _open_transactions(connection: Connection) -> set[str]:
    return {row["virtualtransaction"] for row in await connection.records(DRAWING)}


async def _add_link(db: Database, final_id: int) -> bool:
    """Adds one link. Returns False if no final posting is left, or another worker adds links."""
    async with db.transaction() as connection:
        last = await connection.row(_ChainHead, f"{verify.HEAD} FOR UPDATE SKIP LOCKED")
        if last is None or last.last_id >= final_id:
            return False
        last_id = min(final_id, last.last_id + IDS_MAX)
        await connection.execute(SETTINGS)
        postings, entries = await verify.read(connection, last.last_id, last_id)
        await _insert(connection, _link(last, last_id, postings, entries))
        crash.point("before_link_commit")
    crash.point("after_link_commit")
    return True


class ArrivedRange(msgspec.Struct, frozen=True):
    """Postings that were moved here with a merchant, before a link covers them."""

    first_id: int
    last_id: int
    postings: int
    entries: int
    content: bytes


async def digest_arrival(
    connection: Connection, merchant_id: int, after_id: int, last_id: int = verify.HIGHEST_ID
) -> list[ArrivedRange]:
    """Returns the ranges of a merchant's postings above an id, which another cell has numbered.

    `last_id`: an id up to which all postings have arrived. Postings do not arrive in the order of
    their ids, so the content of a range could change later without this limit.
    """
    await connection.execute(SETTINGS)
    ranges: list[ArrivedRange] = []
    while True:
        # Only entries have an index on the posting's id.
        end_id = await connection.value(
            """
            SELECT max(posting_id) FROM (
                   SELECT posting_id FROM entry
                    WHERE merchant_id = $1 AND posting_id > $2 AND posting_id <= $4
                    ORDER BY merchant_id, posting_id LIMIT $3) AS next""",
            *(merchant_id, after_id, ARRIVED_ENTRIES_MAX, last_id),
        )
        if end_id is None:
            return ranges
        span = (after_id + 1, end_id)
        postings, entries = await verify.read_arrived(connection, merchant_id, *span)
        counts = (len(postings), len(entries))
        ranges.append(ArrivedRange(*span, *counts, verify.digest(postings, entries)))
        after_id = end_id


async def covers(db: Database, merchant_id: int, last_id: int) -> bool:
    """Returns whether links cover all of a merchant's postings up to an id."""
    return not await db.has_row(
        f"""
        SELECT true FROM posting p
         WHERE p.merchant_id = $1 AND p.id <= $2
           AND p.id > (SELECT h.last_id FROM posting_chain_head h)
           AND {verify.NUMBERED_HERE.format(row="p", id="id")}
         LIMIT 1""",
        *(merchant_id, last_id),
    )


async def add_arrival(
    connection: Connection, merchant_id: int, ranges: Sequence[ArrivedRange]
) -> dict[str, int]:
    """Adds links for postings that were moved here with a merchant, and returns their numbers.

    The audit entry of the move names the numbers, so that nobody can add such a link without one.

    Links must cover the merchant's earlier postings, so that the order of its entries is kept.
    The chain's head keeps its last id, because another cell has numbered these postings.
    """
    last = await connection.row(_ChainHead, f"{verify.HEAD} FOR UPDATE")
    assert last is not None
    first_number = last.number + 1
    for each in ranges:
        link = Link(
            **msgspec.structs.asdict(each),
            number=last.number + 1,
            linked_at=datetime.now(UTC),
            previous_hash=last.hash,
            merchant_id=merchant_id,
        )
        await _insert(connection, link)
        last = _ChainHead(link.number, last.last_id, link.computed_hash)
    return {"first_link": first_number, "last_link": last.number} if ranges else {}


def _link(last: _ChainHead, last_id: int, postings: Lines, entries: Lines) -> Link:
    return Link(
        number=last.number + 1,
        first_id=last.last_id + 1,
        last_id=last_id,
        postings=len(postings),
        entries=len(entries),
        content=verify.digest(postings, entries),
        linked_at=datetime.now(UTC),
        previous_hash=last.hash,
    )


async def _insert(connection: Connection, link: Link) -> None:
    await connection.execute(
        """
        WITH head AS (
            UPDATE posting_chain_head
               SET number = $1, hash = $9,
                   last_id = CASE WHEN $10::bigint IS NULL THEN $3 ELSE last_id END)
        INSERT INTO posting_chain (number, first_id, last_id, postings, entries, content,
                                   linked_at, previous_hash, hash, merchant_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)""",
        *(link.number, link.first_id, link.last_id, link.postings, link.entries, link.content),
        *(link.linked_at, link.previous_hash, link.computed_hash, link.merchant_id),
    )
