"""Deletes old notifications."""

from datetime import timedelta

from manilla.kit.database.connections import Database
from manilla.kit.database.expiry import ROWS_MAX


async def delete_old(db: Database, age: timedelta) -> None:
    """Deletes the notifications of this age that have no delivery and no attempt any more.

    The rules that find lost notifications need to know up to when a merchant's notifications were
    deleted, because a transaction that was created later still has its notifications.
    """
    while await db.value("SELECT notifications_delete($1, $2)", age, ROWS_MAX) == ROWS_MAX:
        pass
