"""Writes notifications in the transaction of the status change; a job delivers them later."""

from typing import Any

from manilla.kit import jobs, strict_json
from manilla.kit.db import Connection
from manilla.kit.environment import Environment
from manilla.ledger.job_kinds import JobKind
from manilla.notify import notification_ids

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
    status: str,
) -> str:
    """Queues a notification and returns its id.

    Must be called within the transaction that makes the change.
    """
    notification_id = notification_ids.new(merchant_id)
    await connection.execute(
        """
        INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url, body)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        *(merchant_id, notification_id, environment, trx_id, event, status, url),
        strict_json.encode(payload),
    )
    await jobs.put(connection, merchant_id, DELIVER, trx_id)
    return notification_id
