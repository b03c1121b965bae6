"""The pages that a batch of items uses depend neither on planner statistics nor on other rows."""

import asyncio
from functools import partial

import asyncpg
import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from tests.notify.receiver import receiving
from tests.sql.business import Business, State, business, database_in

ROWS, ROWS_LONG = 20_000, 100_000
MERCHANTS = 500
# The largest number is about 50, for a statement that adds three rows for each item.
PAGES_MAX = 100


async def _add_history(owner: asyncpg.Connection, rows: int, merchants: str) -> None:
    """Adds rows of earlier transactions to each growing table. `merchants` is an SQL expression."""
    old = f"(SELECT {merchants} AS m, 'OLD{rows}-' || n AS id FROM generate_series(1, {rows}) AS n)"
    await owner.execute(
        f"""
        INSERT INTO payment (merchant_id, trx_id, environment, ref_trx, currency, amount_minor,
               commission_minor, commission_bearer, ipn_url, allow_payment_methods, is_legacy,
               expires_at)
        SELECT m, id, 'production', id, 'NGN', 1, 0, 'customer', '', '{{}}', false, now()
          FROM {old} AS old;
        INSERT INTO charge (merchant_id, reference, trx_id, number, method_code, provider, currency,
               amount_minor)
        SELECT m, id, id, 1, '', 'providera', 'NGN', 1 FROM {old} AS old;
        INSERT INTO payout (merchant_id, trx_id, environment, ref_trx, status, currency,
               amount_minor, fee_minor, method_id, method_code, method_name, beneficiary, ipn_url,
               provider)
        SELECT m, id, 'production', id, 'completed', 'NGN', 1, 0, 1, '', '', '{{}}', '', 'providera'
          FROM {old} AS old;
        INSERT INTO payout_attempt (merchant_id, trx_id, number, provider, decision)
        SELECT m, id, 1, 'providera', '{{}}' FROM {old} AS old;
        INSERT INTO refund (merchant_id, trx_id, environment, payment_trx_id, currency,
               amount_minor, reason)
        SELECT m, id, 'production', id, 'NGN', 1, '' FROM {old} AS old;
        INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url, body,
               state)
        SELECT m, id, 'production', id, 'endpoint.test', '', '', '', 'delivered' FROM {old} AS old;
        INSERT INTO endpoint_delivery (merchant_id, endpoint_id, notification_id, trx_id, state)
        SELECT m, 'old', id, id, 'delivered' FROM {old} AS old;
        INSERT INTO delivery_attempt (merchant_id, notification_id, number, at, headers,
               milliseconds)
        SELECT m, id, 1, now(), '{{}}', 1 FROM {old} AS old;
        INSERT INTO webhook (merchant_id, provider, digest, kind, reference, body)
        SELECT m, 'providera', sha256(id::bytea), 'transfer', id, '' FROM {old} AS old;
        INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status)
        SELECT m, id, 1, '', '', '' FROM {old} AS old;
        INSERT INTO posting (merchant_id, environment, currency, kind, trx_id)
        SELECT m, 'production', 'NGN', 'payout', id FROM {old} AS old;
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT m, kind, id, 'infinity'
          FROM {old} AS old, unnest('{{transfer,notify,endpoint}}'::text[]) AS kind"""
    )


async def _fill(owner: asyncpg.Connection, *, rows: int, merchants: str = "1") -> None:
    if rows:
        await _add_history(owner, rows, merchants)
    await owner.execute("VACUUM ANALYZE")


async def _empty_queue(owner: asyncpg.Connection) -> None:
    """Leaves one job in a table that had many, as when a queue is empty for a moment."""
    await _add_history(owner, 1000, "1")
    await owner.execute("DELETE FROM job WHERE subject <> 'OLD1000-1000' OR kind <> 'endpoint'")
    await owner.execute("VACUUM ANALYZE")


STATES = [
    pytest.param(_empty_queue, ROWS, id="empty queue"),
    pytest.param(partial(_fill, rows=0), ROWS_LONG, id="empty", marks=pytest.mark.long),
    pytest.param(partial(_fill, rows=40), ROWS_LONG, id="40 rows", marks=pytest.mark.long),
    pytest.param(
        partial(_fill, rows=ROWS_LONG), ROWS_LONG, id="one merchant", marks=pytest.mark.long
    ),
    pytest.param(
        partial(_fill, rows=ROWS_LONG, merchants=f"n % {MERCHANTS}"),
        ROWS_LONG,
        id="many merchants",
        marks=pytest.mark.long,
    ),
]


@pytest.mark.parametrize(("state", "rows"), STATES)
async def test_a_batch_uses_few_pages_for_each_item_in_any_state_of_statistics(
    cluster: Cluster, settings: Settings, state: State, rows: int
) -> None:
    on, log = await database_in(cluster, settings, state)
    async with business(on) as shop, receiving() as receiver:
        await shop.add_endpoint(receiver.url)
        await _live(shop)  # The sessions keep the plans that they make now.
        owner = await asyncpg.connect(on.migration_url)
        try:
            await _add_history(owner, rows + 1, str(shop.payer.merchant.new.id))
        finally:
            await owner.close()
        start = log.position()
        await _live(shop)
    batches = log.batches(start)
    tables = ("UPDATE job", "DELETE FROM job", "UPDATE payout", "UPDATE notification")
    assert all(any(table in each.query for each in batches) for table in tables)
    assert [each for each in batches if each.pages > PAGES_MAX * each.items] == []


async def _live(shop: Business) -> None:
    """Completes payouts, a payment and refunds, and delivers their notifications."""
    await asyncio.gather(*(shop.complete_a_payout() for _ in range(3)))
    await shop.take_and_refund_a_payment()
    await shop.notify()
    await shop.notify_endpoint()
