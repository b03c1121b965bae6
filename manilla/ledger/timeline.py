"""A transaction's timeline: a permanent, ordered record of its events."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.fields import Fields


class TimelineEvent(msgspec.Struct, frozen=True):
    number: int
    at: datetime
    event: str
    from_status: str
    to_status: str
    detail: str | None  # a sentence that administrators see
    facts: dict[str, str]  # the event's details that merchants can see


NO_FACTS: Mapping[str, str] = MappingProxyType({})
FIELDS = Fields(TimelineEvent, status="to_status")


def add_from(source: str, event: str, status: str) -> str:
    """Returns the SQL that adds an event, which changes no status, for each row of `source`.

    `source` has the columns merchant_id, trx_id, detail and facts. Its transactions must be locked.
    """
    return f"""
        INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status, detail,
                              facts)
        SELECT s.merchant_id, s.trx_id,
               (SELECT coalesce(max(t.number), 0) + 1 FROM timeline t
                 WHERE t.merchant_id = s.merchant_id AND t.trx_id = s.trx_id),
               '{event}', '{status}', '{status}', s.detail, s.facts
          FROM {source} AS s"""


async def add(
    connection: Connection,
    merchant_id: int,
    trx_id: str,
    event: str,
    *,
    before: str,
    after: str,
    detail: str | None = None,
    facts: Mapping[str, str] = NO_FACTS,
) -> None:
    """Adds an event to the timeline.

    The caller must hold the lock on the transaction's row, so that the event numbers have no gaps.
    """
    await connection.execute(
        """
        INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status, detail,
                              facts)
        SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4, $5, $6, $7::jsonb
          FROM timeline WHERE merchant_id = $1 AND trx_id = $2""",
        *(merchant_id, trx_id, event, before, after, detail),
        msgspec.json.encode(dict(facts)).decode(),
    )


async def steps(db: Database | Connection, merchant_id: int, trx_id: str) -> list[TimelineEvent]:
    """Returns the timeline's events in order.

    A payout's first event is stored in the payout's row.
    """
    records = await db.records(
        """
        SELECT row_number() OVER (ORDER BY place) AS number, at, event, from_status, to_status,
               detail, facts
          FROM (SELECT 0 AS place, created_at AS at, 'accepted' AS event,
                       'pending' AS from_status, 'pending' AS to_status, accepted_note AS detail,
                       '{}'::jsonb AS facts
                  FROM payout
                 WHERE merchant_id = $1 AND trx_id = $2 AND accepted_note IS NOT NULL
                 UNION ALL
                SELECT number, at, event, from_status, to_status, detail, facts FROM timeline
                 WHERE merchant_id = $1 AND trx_id = $2) AS events
         ORDER BY place""",
        merchant_id,
        trx_id,
    )
    return [
        TimelineEvent(**{**record, "facts": msgspec.json.decode(record["facts"])})
        for record in records
    ]
