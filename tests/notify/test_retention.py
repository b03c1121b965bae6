"""Old notifications are deleted, and the rules about lost notifications know up to when."""

import contextlib
from datetime import timedelta

import asyncpg
import pytest

from manilla.kit.database import expiry
from manilla.kit.database.connections import Database
from manilla.notify import queries, retention
from manilla.payments import invariants
from tests.notify.deliveries import Deliveries

AGE = timedelta(days=3650)
[RULE] = [each for each in invariants.PAYMENTS if each.name == "final_payments_were_told"]


async def _age(owner: Database, trx_id: str, days: int) -> None:
    """Makes a payment older, with its notifications and the attempts to deliver them."""
    aged = timedelta(days=days)
    for table, time in (("notification", "created_at"), ("payment", "created_at")):
        await owner.execute(
            f"UPDATE {table} SET {time} = {time} - $2::interval WHERE trx_id = $1", trx_id, aged
        )
    await owner.execute(
        """
        UPDATE delivery_attempt a SET at = a.at - $2::interval FROM notification n
         WHERE n.merchant_id = a.merchant_id AND n.id = a.notification_id AND n.trx_id = $1""",
        trx_id,
        aged,
    )


class _Undo(Exception):
    pass


async def _found_as_lost(owner: Database, merchant_id: int, lost: str | None = None) -> list[str]:
    """Returns the payments without a notification that the rule reports.

    The notification of the payment `lost` is deleted during the check.
    """
    rows = []
    with contextlib.suppress(_Undo):
        async with owner.transaction() as connection:
            await connection.execute("DELETE FROM notification WHERE trx_id = $1", lost)
            rows = await connection.records(
                f"SELECT trx_id FROM ({RULE.violations}) AS broken WHERE merchant_id = $1",
                merchant_id,
            )
            raise _Undo
    return [row["trx_id"] for row in rows]


async def test_old_notifications_are_deleted_when_their_attempts_are(
    deliveries: Deliveries, db: Database, owner: Database
) -> None:
    old, new = await deliveries.finish_payment(), await deliveries.finish_payment()
    await deliveries.deliver()
    await _age(owner, old, 3651)
    await _age(owner, new, 3649)
    await retention.delete_old(db, AGE)
    assert len(await deliveries.notifications(old)) == 1
    await queries.delete_old_attempts(db, AGE)
    await retention.delete_old(db, AGE)
    assert await deliveries.notifications(old) == []
    assert len(await deliveries.attempts(new)) == 1


async def test_a_notification_that_waits_is_kept(
    deliveries: Deliveries, db: Database, owner: Database
) -> None:
    trx_id = await deliveries.finish_payment()
    await _age(owner, trx_id, 3651)
    await retention.delete_old(db, AGE)
    await deliveries.deliver()
    assert await deliveries.state(trx_id) == "delivered"


async def test_a_later_notification_that_is_lost_is_still_found(
    deliveries: Deliveries, db: Database, owner: Database
) -> None:
    old, new = await deliveries.finish_payment(), await deliveries.finish_payment()
    await deliveries.deliver()
    await _age(owner, old, 3651)
    await queries.delete_old_attempts(db, AGE)
    await retention.delete_old(db, AGE)
    merchant_id = deliveries.merchant.new.id
    assert await _found_as_lost(owner, merchant_id) == []
    assert await _found_as_lost(owner, merchant_id, lost=new) == [new]


async def test_an_old_notification_that_nothing_has_deleted_is_found_as_lost(
    deliveries: Deliveries, owner: Database
) -> None:
    trx_id = await deliveries.finish_payment()
    await _age(owner, trx_id, 3651)
    assert await _found_as_lost(owner, deliveries.merchant.new.id, lost=trx_id) == [trx_id]


async def test_notifications_of_the_last_90_days_cannot_be_deleted(db: Database) -> None:
    with pytest.raises(asyncpg.RaiseError, match="90 days"):
        await retention.delete_old(db, timedelta(days=89))


async def test_all_old_notifications_are_deleted_in_batches(
    deliveries: Deliveries, db: Database, owner: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "ROWS_MAX", 1)
    monkeypatch.setattr(expiry, "ROWS_MAX", 1)  # of attempts
    payments = [await deliveries.finish_payment() for _ in range(3)]
    await deliveries.deliver()
    for trx_id in payments:
        await _age(owner, trx_id, 3651)
    await queries.delete_old_attempts(db, AGE)
    await retention.delete_old(db, AGE)
    assert [await deliveries.notifications(each) for each in payments] == [[], [], []]
