"""Redelivers notifications when a user requests it."""

from datetime import datetime

from manilla.audit import audit
from manilla.kit import jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.notify import queries
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import Notification

AT_ONCE_MAX = 100_000


class NotificationNotFound(Refusal):
    status, code = 404, "NOTIFICATION_NOT_FOUND"
    message = "There is no such notification."


class NotificationNotSent(Refusal):
    code = "NOTIFICATION_NOT_SENT"
    message = "This event is not sent to an IPN URL, so it cannot be resent."


async def find(db: Database, notification_id: str) -> Notification:
    found = await queries.notification(db, notification_id)
    if found is None:
        raise NotificationNotFound(f"There is no notification {notification_id}.")
    return found


async def redeliver(db: Database, notification_id: str) -> Notification:
    """Schedules up to three new attempts under the same notification id, even after success."""
    found = await find(db, notification_id)
    if not found.url:
        raise NotificationNotSent
    async with db.transaction() as connection:
        await _send(connection, found)
        await audit.record(
            connection,
            "notification.redeliver",
            f"notification:{found.id}",
            merchant_id=found.merchant_id,
            trx_id=found.trx_id,
            state=found.state,
        )
    return await find(db, notification_id)


async def redeliver_failed(
    db: Database,
    since: datetime,
    merchant_id: int | None = None,
    environment: Environment | None = None,
) -> list[str]:
    """Redelivers all notifications that have failed since this time, and returns their ids."""
    failed = await queries.notifications(
        db, state="failed", decided_since=since, merchant_id=merchant_id, limit=AT_ONCE_MAX
    )
    if environment is not None:
        failed = [each for each in failed if each.environment == environment]
    if failed:
        # Write one audit entry before the notifications are scheduled in many transactions.
        async with db.transaction() as connection:
            await audit.record(
                connection,
                "notification.redeliver_failed",
                "notifications",
                merchant_id=merchant_id,
                since=since,
                count=len(failed),
            )
    # Redeliver the oldest notification first, so that a transaction's notifications are in order.
    for each in reversed(failed):
        async with db.transaction() as connection:
            await _send(connection, each)
    return [each.id for each in failed]


async def _send(connection: Connection, found: Notification) -> None:
    await connection.execute(
        """
        UPDATE notification SET state = 'waiting', attempts = 0, decided_at = NULL
         WHERE merchant_id = $1 AND id = $2""",
        *(found.merchant_id, found.id),
    )
    await jobs.put(connection, found.merchant_id, DELIVER, found.trx_id)
