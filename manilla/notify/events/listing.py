"""Lists a merchant's events in an order that lets a reader resume without missing events.

Ids are in the order of creation, but database transactions commit in a different order. An event
can therefore become visible after a reader has seen an event with a later id. Events are ordered by
the database transaction that wrote them, and the list ends before the oldest transaction that is
still open.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from manilla.kit import listing
from manilla.kit.clock import iso_of_sql
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import columns
from manilla.kit.listing import Page
from manilla.kit.listing.sorting import KeyIndex, Selection, SortKeys, SortOrder
from manilla.ledger.scope import Tenant, scope_conditions
from manilla.notify.events.kinds import EventType

# Database transactions that change a status are always shorter than this.
TRANSACTION_MAX = timedelta(minutes=10)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
IS_SETTLED = "(epoch, xid) < (current_event_epoch(), pg_snapshot_xmin(pg_current_snapshot()))"


class Position(NamedTuple):
    """The position of an event in its merchant's list."""

    epoch: int
    xid: int
    id: str


class EventItem(msgspec.Struct, frozen=True):
    id: str
    type: str
    trx_id: str
    ref_trx: str | None
    created_at: str
    body: str


# The subqueries use one index to find each reference by its full key. See `ledger/reader.py`.
_REFERENCE = """
    coalesce((SELECT p.ref_trx FROM payment p
               WHERE p.merchant_id = notification.merchant_id
                 AND p.trx_id BETWEEN notification.trx_id AND notification.trx_id
               ORDER BY p.trx_id LIMIT 1),
             (SELECT p.ref_trx FROM payout p
               WHERE p.merchant_id = notification.merchant_id
                 AND p.trx_id BETWEEN notification.trx_id AND notification.trx_id
               ORDER BY p.trx_id LIMIT 1))"""
_EVENT = columns(
    EventItem,
    ref_trx=_REFERENCE,
    created_at="created_at::text",
    body="convert_from(body, 'UTF8')",
)
_COLUMNS = f"{_EVENT}, epoch, xid"
_ORDERS = {SortOrder.OLDEST: SortKeys(Position._fields, Position, False, is_indexed=True)}


class EventFilter(msgspec.Struct, frozen=True):
    type: EventType | None = None
    since: datetime | None = None


async def page(
    db: Database, tenant: Tenant, wanted: EventFilter, after: Position | None, limit: int
) -> Page[EventItem]:
    """Returns a page of events after a position, oldest first."""
    if after is None and wanted.since is not None:
        after = await _start(db, tenant, wanted.since)
    owned = scope_conditions(tenant).add(IS_SETTLED)
    conditions = owned.copy().add_given("created_at >= {}", wanted.since)
    conditions.add("type IS NOT NULL").add_given("type = {}", wanted.type)
    events = Selection("notification", _COLUMNS, _ORDERS, conditions, KeyIndex(owned))
    start = None if after is None else listing.cursor(after)
    return await events.page(db, _item, SortOrder.OLDEST, start, limit)


def _item(record: Any) -> EventItem:
    event_id, kind, trx_id, ref_trx, created_at, body, _, _ = record
    return EventItem(event_id, kind, trx_id, ref_trx, iso_of_sql(created_at), body)


async def position_of(db: Database, tenant: Tenant, event_id: str) -> Position | None:
    record = await db.record(
        """
        SELECT epoch, xid, id FROM notification
         WHERE merchant_id = $1 AND environment = $2 AND id = $3 AND type IS NOT NULL""",
        *(tenant.merchant_id, tenant.environment, event_id),
    )
    return None if record is None else Position(*record)


class EventReader(msgspec.Struct, frozen=True):
    """A client that waits for an event, with its merchant, filter and list position."""

    tenant: Tenant
    wanted: EventFilter
    after: Position | None


async def have_news(db: Database, readers: Sequence[EventReader]) -> list[bool]:
    """Returns whether there are new events for each reader, with one query for all readers."""
    start = Position(0, 0, "")
    places = [reader.after or start for reader in readers]
    records = await db.records(
        f"""
        SELECT EXISTS (
               SELECT FROM notification
                WHERE merchant_id = reader.merchant_id
                  AND environment = reader.environment::environment
                  AND (epoch, xid, id) > (reader.last_epoch, reader.last_xid, reader.last_id)
                  AND created_at >= reader.since AND {IS_SETTLED}
                  AND type = coalesce(reader.type, type)) AS has_news
          FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::xid8[], $5::text[],
                      $6::timestamptz[], $7::text[]) WITH ORDINALITY
               AS reader (merchant_id, environment, last_epoch, last_xid, last_id, since, type,
                          number)
         ORDER BY reader.number""",
        [reader.tenant.merchant_id for reader in readers],
        [reader.tenant.environment for reader in readers],
        *([getattr(place, name) for place in places] for name in Position._fields),
        [reader.wanted.since or EARLIEST for reader in readers],
        [reader.wanted.type for reader in readers],
    )
    return [record["has_news"] for record in records]


async def _start(db: Database, tenant: Tenant, since: datetime) -> Position | None:
    """Returns a position before all events from this time on.

    A database transaction gets its number (xid) after it starts, and ends within TRANSACTION_MAX.
    An event from more than TRANSACTION_MAX before `since` therefore has a lower number than the
    events of every transaction that started at `since` or later.
    """
    record = await db.record(
        """
        SELECT epoch, xid FROM notification
         WHERE merchant_id = $1 AND created_at < $2
         ORDER BY created_at DESC LIMIT 1""",
        *(tenant.merchant_id, since - TRANSACTION_MAX),
    )
    return None if record is None else Position(record["epoch"], record["xid"], "")
