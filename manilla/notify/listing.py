"""Lists notifications, and returns all notifications about one transaction."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import (
    KeyIndex,
    RecordFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
    read_as,
)
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, merchant_condition, scope_conditions
from manilla.ledger.transaction_lists import EARLIEST, LATEST, newest_by
from manilla.notify import notification_ids, queries
from manilla.notify.notification_ids import NOTIFICATION_IDS
from manilla.notify.queries import NOTIFICATION_COLUMNS, DeliveryAttempt, Notification

FIELDS = Fields(Notification)
_BY_ID = {
    **newest_by("id", NOTIFICATION_IDS),
    SortOrder.OLDEST: SortKeys(("id",), tuple[str], is_descending=False),
}
_TIME = ("created_at", "id"), tuple[datetime, str]
_BY_TIME = {
    SortOrder.NEWEST: SortKeys(*_TIME, is_indexed=True),
    SortOrder.OLDEST: SortKeys(*_TIME, is_descending=False),
}


class NotificationState(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"  # the last attempt has failed
    NOT_SENT = "not_sent"  # no `ipn_url` receives the event


class NotificationFilter(RecordFilter, frozen=True, kw_only=True):
    state: NotificationState | None = None
    event: str | None = None
    search: str | None = None  # the id of a notification or transaction
    named: tuple[str, ...] = ()  # ids of the merchant's transactions that match the search


class NotificationWithAttempts(msgspec.Struct, frozen=True):
    """A notification with the delivery attempts that are still stored."""

    notification: Notification
    attempts: list[DeliveryAttempt]


async def notifications(
    db: Reads,
    scope: Scope,
    wanted: NotificationFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Notification]:
    """Lists notifications in the order of their ids, by default newest first."""
    return await _query(scope, wanted).page(db, read_as(Notification), wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: NotificationFilter) -> Totals:
    return await _query(scope, wanted).count(db)


def _query(scope: Scope, wanted: NotificationFilter) -> Selection:
    orders, key = _BY_ID, "id"
    floor: Callable[[datetime], Any] = NOTIFICATION_IDS.floor
    if scope.merchant_id is None:  # for all merchants, the only index is by creation time
        orders, key, floor = _BY_TIME, "created_at", lambda moment: moment
    conditions = (
        scope_conditions(scope)
        .add_given("state = {}", wanted.state)
        .add_given("split_part(event, '.', 1) = {}", wanted.event)
        .add_given(f"{key} >= {{}}", wanted.since and floor(wanted.since))
        .add_given(f"{key} < {{}}", wanted.until and floor(wanted.until))
    )
    bounds = floor(wanted.since or EARLIEST), floor(wanted.until or LATEST)
    index = KeyIndex(merchant_condition(scope), bounds)
    steps = Selection("notification", NOTIFICATION_COLUMNS, orders, conditions, index)
    text = listing.search_text(wanted.search)
    return steps if text is None else _found_by(steps, scope, wanted, text)


async def of_transaction(
    db: Database, merchant_id: int, trx_id: str
) -> list[NotificationWithAttempts]:
    """Returns a transaction's notifications with their attempts, oldest first."""
    found = await db.rows(
        Notification,
        f"SELECT {NOTIFICATION_COLUMNS} FROM notification"
        " WHERE merchant_id = $1 AND trx_id = $2 ORDER BY id",
        *(merchant_id, trx_id),
    )
    return [
        NotificationWithAttempts(each, await queries.attempts(db, merchant_id, each.id))
        for each in found
    ]


async def count_failed(db: Reads, scope: Scope, since: datetime) -> int:
    """Counts notifications that were created since this time and failed after all attempts."""
    conditions = scope_conditions(scope).add("created_at >= {}", since)
    return await db.number(
        f"SELECT count(*) FROM notification WHERE state = 'failed' AND {conditions.sql}",
        *conditions.values,
    )


def _found_by(steps: Selection, scope: Scope, wanted: NotificationFilter, text: str) -> Selection:
    merchant_id = trx_ids.merchant_of(text)
    if merchant_id is None:
        merchant_id = notification_ids.merchant_of(text)
    if wanted.named:
        merchant_id = scope.merchant_id
    found = steps.narrowed("merchant_id = {}", merchant_id).narrowed(
        "(id = {} OR trx_id = ANY({}::text[]))", text, [text, *wanted.named]
    )
    return msgspec.structs.replace(found, index=None)
