"""Listing and filtering notifications."""

from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.listing import in_pages
from manilla.ledger.scope import Everyone, Tenant
from manilla.notify import listing, queries
from manilla.notify.listing import NotificationFilter, NotificationState
from tests.notify.deliveries import Deliveries


async def test_notifications_are_found_by_every_filter_and_reference(
    db: Database, deliveries: Deliveries
) -> None:
    merchant = deliveries.merchant
    tenant = Tenant(merchant.new.id, merchant.environment)

    async def found(scope: Tenant | Everyone = tenant, **wanted: Any) -> list[str]:
        page = await listing.notifications(db, scope, NotificationFilter(**wanted))
        return [row.trx_id for row in page.rows]

    began = datetime.now(UTC)
    first = await deliveries.finish_payment()
    assert await queries.last_delivered_url(db, merchant.new.id, merchant.environment) is None
    await deliveries.deliver()
    taken_at = await queries.last_delivered_url(db, merchant.new.id, merchant.environment)
    assert taken_at == deliveries.receiver.url
    second = await deliveries.finish_payment()
    third = await deliveries.finish_payment()
    await db.execute(
        "UPDATE notification SET state = 'failed' WHERE merchant_id = $1 AND trx_id = $2",
        *(merchant.new.id, third),
    )
    assert await found() == await found(Everyone(merchant.new.id)) == [third, second, first]
    assert (await found(Everyone()))[:3] == [third, second, first]
    assert await found(Tenant(merchant.new.id, Environment.PRODUCTION)) == []
    assert await found(Tenant(merchant.new.id + 1, merchant.environment), search=first) == []
    assert await found(state=NotificationState.DELIVERED) == [first]
    assert await found(state=NotificationState.FAILED, event="payment") == [third]
    assert await found(event="refund") == await found(search="%") == []
    assert await found(since=began, search=second) == [second]
    assert await found(until=began) == []
    await db.execute(
        "UPDATE notification SET event = 'payment.success' WHERE merchant_id = $1 AND trx_id = $2",
        *(merchant.new.id, second),  # The second notification has the legacy format.
    )
    assert await found(event="payment") == [third, second, first]
    [stored] = await listing.of_transaction(db, merchant.new.id, first)
    assert await found(search=stored.notification.id) == [first]
    assert [attempt.status for attempt in stored.attempts] == [200]
    assert await listing.count_failed(db, tenant, began - timedelta(seconds=5)) == 1
    page = await listing.notifications(db, tenant, NotificationFilter(), limit=2)
    await deliveries.finish_payment()
    rest = await listing.notifications(db, tenant, NotificationFilter(), limit=2, after=page.next)
    assert [row.trx_id for row in page.rows + rest.rows] == [third, second, first]
    whole = in_pages(
        listing.notifications, db, tenant, NotificationFilter(state=NotificationState.FAILED)
    )
    assert [row.trx_id async for rows in whole for row in rows] == [third]
