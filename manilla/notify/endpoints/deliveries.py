"""Lists an endpoint's deliveries, resends events, and sends test events."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.job_kinds import JobKind
from manilla.kit import jobs, strict_json, time_limits
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job, NextRun, Work
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import Selection, SortKeys, SortOrder
from manilla.ledger.idempotency import Remember, without_key
from manilla.notify import notification_ids, queries
from manilla.notify.endpoints import store
from manilla.notify.endpoints.destination import attempts_key, job_subject
from manilla.notify.endpoints.endpoint import EndpointDisabled, EndpointStatus, WebhookEndpoint
from manilla.notify.events import kinds
from manilla.notify.queries import DeliveryAttempt

RESEND_CONCURRENCY, RESEND_ROWS = 2, 500
TEST_POLL_SECONDS = 0.25


class DeliveryNotFound(Refusal):
    status, code = 404, "DELIVERY_NOT_FOUND"
    message = "There is no such delivery."


class EndpointDelivery(msgspec.Struct, frozen=True):
    """The delivery of one event to one endpoint."""

    notification_id: str
    trx_id: str
    state: str
    attempts: int
    created_at: datetime
    decided_at: datetime | None
    type: str
    body: bytes  # the body that the endpoint receives


_COLUMNS = columns(EndpointDelivery)
_DELIVERIES = """
    (SELECT d.*, coalesce(n.type, n.event) AS type, n.body
       FROM endpoint_delivery d
       JOIN notification n ON n.merchant_id = d.merchant_id AND n.id = d.notification_id)
    AS delivery"""
_ORDERS = {SortOrder.NEWEST: SortKeys(("notification_id",), tuple[str])}


async def log(
    db: Database, endpoint: WebhookEndpoint, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[EndpointDelivery]:
    key = endpoint.merchant_id, endpoint.id
    wanted = Conditions().add("merchant_id = {} AND endpoint_id = {}", *key)
    selected = Selection(_DELIVERIES, _COLUMNS, _ORDERS, wanted)
    return await selected.page(db, _as_sent, SortOrder.NEWEST, after, limit)


async def find(
    db: Database, endpoint: WebhookEndpoint, notification_id: str
) -> tuple[EndpointDelivery, list[DeliveryAttempt]]:
    """Returns a delivery with the attempts that are still stored."""
    found = await db.record(
        f"SELECT {_COLUMNS} FROM {_DELIVERIES}"
        " WHERE merchant_id = $1 AND endpoint_id = $2 AND notification_id = $3",
        *(endpoint.merchant_id, endpoint.id, notification_id),
    )
    if found is None:
        raise DeliveryNotFound
    key = attempts_key(notification_id, endpoint.id)
    return _as_sent(found), await queries.attempts(db, endpoint.merchant_id, key)


def _as_sent(record: Any) -> EndpointDelivery:
    body = kinds.body_for_endpoint(record["type"], record["body"])
    return EndpointDelivery(**{**record, "body": body})


async def resend_one(db: Database, endpoint: WebhookEndpoint, notification_id: str) -> None:
    """Schedules new attempts to deliver an event under its id, even if it was delivered."""
    _check_enabled(endpoint)
    await find(db, endpoint, notification_id)
    async with db.transaction() as connection:
        await schedule(connection, endpoint, [notification_id])
        await _record(connection, "endpoint.resend_one", endpoint, event=notification_id)


async def resend_since(
    db: Database,
    endpoint: WebhookEndpoint,
    since: datetime,
    *,
    with_delivered: bool = False,
    remember: Remember = without_key,
) -> None:
    """Starts a job that resends all undelivered events, or all events, since this time."""
    _check_enabled(endpoint)
    words = (endpoint.id, since.isoformat(), str(int(with_delivered)))
    async with db.transaction() as connection:
        await jobs.put(connection, endpoint.merchant_id, JobKind.RESEND, " ".join(words))
        await _record(
            connection, "endpoint.resend", endpoint, since=since, with_delivered=with_delivered
        )
        await remember(connection, endpoint)


def _check_enabled(endpoint: WebhookEndpoint) -> None:
    if endpoint.status is not EndpointStatus.ENABLED:
        raise EndpointDisabled


class ResendTasks:
    def __init__(self, db: Database) -> None:
        self._db = db

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.RESEND: Work(self.resend, concurrency=RESEND_CONCURRENCY, is_fair=True)}

    async def resend(self, job: Job) -> NextRun:
        """Schedules the next deliveries, oldest first, and replaces the job with one for the rest.

        Each run is short and is one transaction, so no event is scheduled twice, and other jobs run
        in between.
        """
        endpoint_id, since, with_delivered, *position = job.subject.split(" ")
        first = notification_ids.NOTIFICATION_IDS.floor(datetime.fromisoformat(since))
        last = position[0] if position else first
        endpoint = await store.find_any(self._db, job.merchant_id, endpoint_id)
        if endpoint is None:
            return None
        wanted = await _missed(self._db, endpoint, last, with_delivered=with_delivered == "1")
        async with self._db.transaction() as connection:
            if not await jobs.is_held(connection, job):
                return None  # another worker has claimed the job
            await schedule(connection, endpoint, [id for id, is_wanted in wanted if is_wanted])
            await jobs.delete_unless_changed(connection, job.merchant_id, job.kind, job.subject)
            if len(wanted) == RESEND_ROWS:
                words = (endpoint_id, since, with_delivered, wanted[-1][0])
                await jobs.put(connection, job.merchant_id, job.kind, " ".join(words))
        return None  # the same resend, if it was requested again meanwhile, becomes due


async def _missed(
    db: Database, endpoint: WebhookEndpoint, last: str, *, with_delivered: bool
) -> list[tuple[str, bool]]:
    """Returns the next events in the order of their ids, each with whether it must be sent."""
    records = await db.records(
        """
        SELECT n.id, n.environment = $3 AND n.type IS NOT NULL
               AND $4::text[] && ARRAY['*', split_part(n.type, '.', 1) || '.*', n.type]
               AND ($5 OR NOT EXISTS (
                   SELECT FROM endpoint_delivery d
                    WHERE d.merchant_id = n.merchant_id AND d.endpoint_id = $6
                      AND d.notification_id = n.id AND d.state = 'delivered')) AS is_wanted
          FROM (SELECT * FROM notification WHERE merchant_id = $1 AND id > $2
                 ORDER BY id LIMIT $7) AS n
         ORDER BY n.id""",
        *(endpoint.merchant_id, last, endpoint.environment, endpoint.events),
        *(with_delivered, endpoint.id, RESEND_ROWS),
    )
    return [(record["id"], record["is_wanted"]) for record in records]


async def schedule(
    connection: Connection | Database, endpoint: WebhookEndpoint, notification_ids: Sequence[str]
) -> None:
    records = await connection.records(
        """
        INSERT INTO endpoint_delivery AS d (merchant_id, endpoint_id, notification_id, trx_id)
        SELECT merchant_id, $2, id, trx_id FROM notification
         WHERE merchant_id = $1 AND id = ANY ($3::text[]) ORDER BY id
            ON CONFLICT (merchant_id, endpoint_id, notification_id) DO UPDATE
           SET state = 'waiting', attempts = 0, decided_at = NULL
        RETURNING trx_id""",
        *(endpoint.merchant_id, endpoint.id, list(notification_ids)),
    )
    for trx_id in sorted({record["trx_id"] for record in records}):
        subject = job_subject(trx_id, endpoint.id)
        await jobs.put(connection, endpoint.merchant_id, JobKind.ENDPOINT, subject)


class EndpointTest(msgspec.Struct, frozen=True):
    """The result of a test event. `attempt` is None if the event has not been sent yet."""

    id: str
    state: str
    attempt: DeliveryAttempt | None


async def send_test(
    db: Database, endpoint: WebhookEndpoint, remember: Remember = without_key
) -> str:
    """Sends a test event to this endpoint, with only one attempt. Returns the event's id."""
    event_id = notification_ids.new(endpoint.merchant_id)
    body = {
        "event": kinds.TEST,
        "message": "Test event",
        "status": "test",
        "data": {
            "trx_id": event_id,  # receivers require this field, but no transaction has this id
            "endpoint_id": endpoint.id,
            "environment": endpoint.environment,
        },
        "timestamp": int(time.time()),
    }
    async with db.transaction() as connection:
        await connection.execute(
            """
            INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url,
                                      body, state)
            VALUES ($1, $2, $3, $2, $4, 'test', '', $5, 'not_sent')""",
            *(endpoint.merchant_id, event_id, endpoint.environment, kinds.TEST),
            strict_json.encode(body),
        )
        await schedule(connection, endpoint, [event_id])
        await remember(connection, event_id)
    return event_id


async def outcome(
    db: Database, endpoint: WebhookEndpoint, event_id: str, seconds: float | None = None
) -> EndpointTest:
    """Waits until a test event is delivered, without holding a database connection."""
    limit = time_limits.current.endpoint_test_seconds if seconds is None else seconds
    until = time.monotonic() + limit
    while True:
        delivery, attempts = await find(db, endpoint, event_id)
        if delivery.state != "waiting" or time.monotonic() > until:
            return EndpointTest(event_id, delivery.state, attempts[-1] if attempts else None)
        await asyncio.sleep(TEST_POLL_SECONDS)


async def _record(
    connection: Connection, action: str, endpoint: WebhookEndpoint, **detail: object
) -> None:
    subject = f"endpoint:{endpoint.id}"
    await audit.record(connection, action, subject, merchant_id=endpoint.merchant_id, **detail)
