"""The event list is complete and in order. A client that continues reading misses no event."""

import asyncio
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants import api_keys
from manilla.notify import notification_ids, outbox
from manilla.notify.events import listing, waiting
from manilla.notify.events.kinds import event_type_of
from manilla.notify.events.listing import EventFilter
from manilla.payments.checkout import SandboxOutcome
from manilla.services import Services
from manilla.sql import epochs
from tests.api.test_keys import new_key
from tests.notify.deliveries import Deliveries
from tests.payments.orders import INITIATE, order
from tests.support.client import Merchant, new_merchant
from tests.support.freshness import outdate

EVENTS = "/api/v1/events"


async def _events(merchant: Merchant, query: str = "") -> list[dict[str, Any]]:
    reply = await merchant.get(EVENTS + query)
    assert reply.status == 200, reply.body
    data: list[dict[str, Any]] = reply.json["data"]
    return data


async def _write(connection: Any, merchant_id: int, trx_id: str) -> str:
    return await outbox.enqueue(
        connection,
        merchant_id=merchant_id,
        environment=Environment.SANDBOX,
        trx_id=trx_id,
        url="",
        payload={"event": "payment"},
        event="payment",
        type=event_type_of("payment", "success"),
        status="completed",
    )


async def test_an_event_has_the_exact_body_of_its_notification(deliveries: Deliveries) -> None:
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    [received] = deliveries.receiver.received
    [event] = await _events(deliveries.merchant)
    assert event["body"].encode() == received.body
    secret = deliveries.merchant.credentials.api_secret.encode()
    signature = hmac.digest(secret, event["body"].encode(), "sha256").hex()
    assert signature == received.headers["x-signature"]
    assert (event["id"], event["type"]) == (received.headers["webhook-id"], "payment.success")
    assert (event["trx_id"], event["ref_trx"]) == (trx_id, received.json["data"]["ref_trx"])


async def test_failed_and_canceled_payments_have_one_type(deliveries: Deliveries) -> None:
    for outcome in (SandboxOutcome.DECLINE, SandboxOutcome.CANCEL):
        await deliveries.finish_payment(outcome)
    events = await _events(deliveries.merchant, "?type=payment.failed")
    assert [event["type"] for event in events] == ["payment.failed"] * 2
    assert await _events(deliveries.merchant, "?type=payment.success") == []


async def test_pages_are_oldest_first_and_continue_without_gaps(deliveries: Deliveries) -> None:
    made = [await deliveries.finish_payment() for _ in range(5)]
    reply = await deliveries.merchant.get(EVENTS + "?limit=2")
    seen = [event["trx_id"] for event in reply.json["data"]]
    while reply.json["next_cursor"]:
        reply = await deliveries.merchant.get(
            f"{EVENTS}?limit=2&cursor={reply.json['next_cursor']}"
        )
        seen += [event["trx_id"] for event in reply.json["data"]]
    assert seen == made


async def test_since_is_a_time_inclusive_or_an_event_exclusive(deliveries: Deliveries) -> None:
    made = [await deliveries.finish_payment() for _ in range(3)]
    events = await _events(deliveries.merchant)
    after_first = await _events(deliveries.merchant, f"?since={events[0]['id']}")
    assert [event["trx_id"] for event in after_first] == made[1:]
    since = quote(events[1]["created_at"])
    from_second = await _events(deliveries.merchant, f"?since={since}")
    assert [event["trx_id"] for event in from_second] == made[1:]


async def test_a_shop_that_was_down_for_two_days_gets_everything(
    deliveries: Deliveries, owner: Database
) -> None:
    made = [await deliveries.finish_payment(ipn_url="http://127.0.0.1:1/") for _ in range(3)]
    await owner.execute(
        "UPDATE notification SET created_at = created_at - interval '47 hours'"
        " WHERE merchant_id = $1",
        deliveries.merchant.new.id,
    )
    since = quote((datetime.now(UTC) - timedelta(days=2)).isoformat())
    events = await _events(deliveries.merchant, f"?since={since}")
    assert [event["trx_id"] for event in events] == made


@pytest.mark.parametrize(
    "query",
    [
        *("since=yesterday", "since=2026-01-31T12:00:00", "since=msg_123", "type=payment"),
        *("type=*", "wait=31", "wait=-1", "wait=x", "limit=0", "limit=101", "cursor=abc"),
        *("cursor=", "since=", "type=", "wait=", "limit="),
        *("from=2026-01-31T12:00:00Z", "status=success", "since=msg_" + "0" * 32),
    ],
)
async def test_bad_parameters_are_rejected_by_name(deliveries: Deliveries, query: str) -> None:
    reply = await deliveries.merchant.get(f"{EVENTS}?{query}")
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), reply.body
    assert list(reply.json["errors"]) == [query.partition("=")[0]]


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_extreme_times_are_accepted(deliveries: Deliveries, since: str) -> None:
    await deliveries.finish_payment()
    assert len(await _events(deliveries.merchant, f"?since={since}")) == (since < "2000")


async def test_other_merchants_and_environments_are_not_visible(
    deliveries: Deliveries, services: Services
) -> None:
    await deliveries.finish_payment()
    [event] = await _events(deliveries.merchant)
    other = await new_merchant(deliveries.merchant.site, services.db, services.keyring)
    live = Merchant(other.site, deliveries.merchant.new, Environment.PRODUCTION)
    for stranger in (other, live):
        assert await _events(stranger) == []
        reply = await stranger.get(f"{EVENTS}?since={event['id']}")
        assert reply.status == 400


async def test_a_reader_misses_nothing_when_transactions_commit_out_of_order(
    deliveries: Deliveries, db: Database
) -> None:
    merchant_id = deliveries.merchant.new.id
    async with db.transaction() as early:
        first = await _write(early, merchant_id, "TXN-EARLY")
        async with db.transaction() as late:
            second = await _write(late, merchant_id, "TXN-LATE")
        assert first < second
        # No event may be returned yet, because an earlier transaction has not committed.
        assert await _events(deliveries.merchant) == []
    events = await _events(deliveries.merchant)
    assert [event["id"] for event in events] == [first, second]


async def test_an_event_with_a_lower_id_that_is_committed_later_comes_later(
    deliveries: Deliveries, db: Database
) -> None:
    merchant_id = deliveries.merchant.new.id
    early_id = notification_ids.new(merchant_id)
    async with db.transaction() as late:
        late_id = await _write(late, merchant_id, "TXN-LATE")
    [event] = await _events(deliveries.merchant)
    async with db.transaction() as early:
        written = await _write(early, merchant_id, "TXN-EARLY")
        await early.execute(
            "UPDATE notification SET id = $3 WHERE merchant_id = $1 AND id = $2",
            *(merchant_id, written, early_id),
        )
    assert early_id < late_id
    [later] = await _events(deliveries.merchant, f"?since={event['id']}")
    assert later["id"] == early_id


async def test_after_a_restore_old_events_come_first_and_new_ones_are_visible(
    deliveries: Deliveries, db: Database, owner: Database
) -> None:
    """A new cluster numbers its transactions from one, so restored events have higher numbers."""
    tenant = Tenant(deliveries.merchant.new.id, Environment.SANDBOX)
    restored = [await deliveries.finish_payment() for _ in range(2)]
    await owner.execute(
        "UPDATE notification SET xid = (xid::text::bigint + 1000000000)::text::xid8"
        " WHERE merchant_id = $1",
        tenant.merchant_id,
    )
    last = await db.value("SELECT max(number) FROM event_epoch")
    await owner.execute(
        "UPDATE event_epoch SET system_identifier = 'another cluster' WHERE number = $1", last
    )
    await db.execute(epochs.BEGIN_AFTER_RESTORE)
    await db.execute(epochs.BEGIN_AFTER_RESTORE)
    assert await db.value("SELECT max(number) FROM event_epoch") == last + 1
    made = await deliveries.finish_payment()
    events = await _events(deliveries.merchant)
    assert [event["trx_id"] for event in events] == [*restored, made]
    position = await listing.position_of(db, tenant, events[1]["id"])
    found = await listing.page(db, tenant, EventFilter(), position, 10)
    assert [event.trx_id for event in found.rows] == [made]


async def test_a_reader_that_waits_gets_the_event_when_it_arrives(deliveries: Deliveries) -> None:
    reader = asyncio.create_task(_events(deliveries.merchant, "?wait=30"))
    await asyncio.sleep(0.5)
    trx_id = await deliveries.finish_payment()
    [event] = await reader
    assert event["trx_id"] == trx_id


async def test_a_key_that_is_revoked_during_the_wait_gets_no_event(
    deliveries: Deliveries, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant = deliveries.merchant
    reader = await new_key(services, merchant)

    async def wait(_waiting: object, _reader: object, _seconds: float) -> None:
        await api_keys.revoke(services.db, merchant.new.id, merchant.environment, 1)
        await deliveries.finish_payment()
        await outdate(services)

    monkeypatch.setattr(waiting.EventWaiting, "wait", wait)
    reply = await reader.get(EVENTS + "?wait=20")
    assert (reply.status, reply.code) == (401, "INVALID_CREDENTIALS")


async def test_a_wait_without_an_event_ends_with_an_empty_page(deliveries: Deliveries) -> None:
    reply = await deliveries.merchant.get(EVENTS + "?wait=1")
    assert (reply.status, reply.json) == (200, {"data": [], "next_cursor": None})


async def test_a_reader_beyond_the_limit_gets_429_with_retry_after(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "READERS_PER_MERCHANT_MAX", 0)
    reply = await deliveries.merchant.get(EVENTS + "?wait=20")
    assert (reply.status, reply.code) == (429, "RATE_LIMIT_EXCEEDED")
    assert reply.headers["retry-after"] == "20"
    trx_id = await deliveries.finish_payment()
    [event] = await _events(deliveries.merchant, "?wait=20")  # returns immediately
    assert event["trx_id"] == trx_id


async def test_a_payout_without_ipn_url_and_a_new_payment_are_no_notifications(
    deliveries: Deliveries, services: Services
) -> None:
    """If there is no endpoint, a pending payment creates no event, which saves work."""
    reply = await deliveries.merchant.post(INITIATE, order())
    assert reply.status == 200
    trx_id = urlsplit(reply.json["payment_url"]).path.rsplit("/", 1)[1]
    assert await deliveries.notifications(trx_id) == []
    assert json.loads(reply.body)["info"]["ref_trx"]
