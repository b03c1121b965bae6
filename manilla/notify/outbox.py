"""Writes notifications in the transaction of the status change. A job delivers them later.

Each notification is also an event. A database trigger adds the event's deliveries to the merchant's
endpoints.
"""

from typing import Any

from manilla.job_kinds import JobKind
from manilla.kit import jobs, strict_json
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.notify import notification_ids
from manilla.notify.events.kinds import EventType

DELIVER = JobKind.NOTIFY


async def enqueue(
    connection: Connection,
    *,
    merchant_id: int,
    environment: Environment,
    trx_id: str,
    url: str,
    payload: Any,
    event: str,
    type: EventType | None,
    status: str,
) -> str:
    """Queues a notification and returns its id. If the URL is empty, only the event is stored.

    A test notification has no type, because it is not an event. Must be called within the
    transaction that makes the change.
    """
    notification_id = notification_ids.new(merchant_id)
    await connection.execute(
        """
        INSERT INTO notification (merchant_id, id, environment, trx_id, event, type, status, url,
                                  body, state)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)""",
        *(merchant_id, notification_id, environment, trx_id, event, type, status, url),
        *(strict_json.encode(payload), "waiting" if url else "not_sent"),
    )
    if url:
        await jobs.put(connection, merchant_id, DELIVER, trx_id)
    return notification_id


async def has_readers(
    connection: Connection, merchant_id: int, environment: Environment, event_type: EventType
) -> bool:
    """Returns True if one of the merchant's endpoints is subscribed to events of this type."""
    return await connection.has_row(
        """
        SELECT FROM webhook_endpoint
         WHERE merchant_id = $1 AND environment = $2
           AND disabled_at IS NULL AND deleted_at IS NULL
           AND events && ARRAY['*', split_part($3, '.', 1) || '.*', $3]""",
        *(merchant_id, environment, event_type),
    )


def pending(merchant_id: int, event: str, payload: Any) -> dict[str, str]:
    """Returns the event for a new transaction, as fields of the transaction's intake item."""
    return {
        "event_id": notification_ids.new(merchant_id),
        "event": event,
        "event_body": strict_json.encode(payload).decode(),
    }


def notice(
    merchant_id: int, url: str, payload: Any, event: str, event_type: EventType, status: str
) -> dict[str, str]:
    """Returns a notification as fields of its transaction's outcome.

    Without a URL, only the event is stored.
    """
    return {
        "notice_id": notification_ids.new(merchant_id),
        "event": event,
        "event_type": event_type,
        "notice_status": status,
        "ipn_url": url,
        "notice": strict_json.encode(payload).decode(),
    }
