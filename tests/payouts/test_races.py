"""Decisions about a payout while another transaction that concerns it has not committed yet."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import Job, claims
from manilla.merchants.merchants import MerchantUpdate
from manilla.payouts import decisions, store
from manilla.payouts.batch_delivery import DeliveredPayouts
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.initiate import SEND
from manilla.payouts.payout import PayoutStatus
from manilla.providers.inbox import WebhookInbox
from manilla.providers.port import TransferState, TransferStatus, WebhookEvent, WebhookSubject
from manilla.transfers import sending
from manilla.transfers.events import event_of
from manilla.transfers.sending import PAYOUTS, Mark
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.waiting import until


@contextlib.asynccontextmanager
async def _open_transaction(db: Database) -> AsyncIterator[Connection]:
    """Opens a transaction that the test ends, as if its commit took long."""
    async with db.connection() as connection:
        await connection.execute("BEGIN")
        try:
            yield connection
        finally:
            await connection.execute("ROLLBACK")


async def _until_waiting(db: Database) -> None:
    await until(lambda: db.value("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))


async def _mark(connection: Connection, job: Job) -> bool:
    class Marking:
        async def records_by_key(self, sql: str, *values: Any) -> list[Any]:
            return await connection.records(sql, *values)

    destination = await connection.value(
        f"SELECT {store.DESTINATION} FROM payout WHERE trx_id = $1", job.subject
    )
    mark = Mark(job, None, "providera", job.subject, destination)
    [is_marked] = await sending.mark(cast(Database, Marking()), PAYOUTS, [mark])
    return is_marked


async def test_a_payout_that_a_stalled_worker_marks_meanwhile_is_not_refunded(
    payer: PayoutMerchant,
) -> None:
    """The worker's lease has ended, so an administrator can hold the job, but the worker sends."""
    trx_id, db = await payer.pay_out("a"), payer.services.db
    balance = await payer.balance()
    [job] = await claims.claim(db, {SEND: 1})
    await db.execute("UPDATE job SET leased_until = now() WHERE subject = $1", trx_id)
    async with _open_transaction(db) as worker:
        assert await _mark(worker, job)
        await payer.change(MerchantUpdate(payouts_enabled=False))
        rejecting = asyncio.create_task(decisions.reject(db, payer.services.rails, trx_id, "no"))
        await _until_waiting(db)
        await worker.execute("COMMIT")
        with pytest.raises(NotToDecide, match="may still arrive"):
            await rejecting
    assert (await payer.payout(trx_id)).status is PayoutStatus.PENDING
    assert await payer.balance() == balance


async def test_an_event_that_arrives_while_a_payout_is_completed_keeps_its_job(
    payer: PayoutMerchant,
) -> None:
    await payer.simulator.control("a/faults", {"settle_seconds": 3600})
    trx_id, db = await payer.pay_out("a"), payer.services.db
    await payer.simulator.run_jobs()
    payout = await payer.payout(trx_id)
    delivered, inbox = DeliveredPayouts(db), WebhookInbox(db)
    reversed_ = WebhookEvent(WebhookSubject.TRANSFER, trx_id, None, TransferStatus.REVERSED)
    async with _open_transaction(db) as other:
        # The function waits for the key of its posting, after it has checked the webhooks.
        await other.execute(
            "INSERT INTO posting (merchant_id, environment, currency, kind, trx_id)"
            " VALUES ($1, 'production', 'NGN', 'payout_delivered', $2)",
            *(payout.merchant_id, trx_id),
        )
        event = event_of(TransferState(TransferStatus.DELIVERED, payout.amount))
        completing = asyncio.create_task(delivered.complete(payout, event))
        await _until_waiting(db)
        await inbox.store("providera", reversed_, b"{}")
        await other.execute("ROLLBACK")
        assert await completing
    assert (await payer.payout(trx_id)).status is PayoutStatus.COMPLETED
    [job] = await claims.claim(db, {SEND: 1})
    assert job.subject == trx_id
