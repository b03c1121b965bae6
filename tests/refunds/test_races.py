"""Decisions about a refund while a signed webhook about it arrives."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manilla.cases.cases import CaseKind
from manilla.kit import jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import claims
from manilla.providers.inbox import WebhookInbox
from manilla.providers.port import RefundState, ReportedRefundStatus, WebhookEvent, WebhookSubject
from manilla.refunds import decisions, initiate, states, store
from manilla.refunds.refund import SEND, Refund, RefundStatus
from manilla.transfers.events import event_of
from tests.payments.shop import Shop
from tests.support.waiting import until

PAID = event_of(RefundState(ReportedRefundStatus.PAID))


@contextlib.asynccontextmanager
async def _delayed_posting(db: Database, refund: Refund) -> AsyncIterator[Connection]:
    """Lets a decision wait for its posting, after it has read the webhooks, until the rollback."""
    async with db.connection() as connection:
        await connection.execute("BEGIN")
        await connection.execute(
            "INSERT INTO posting (merchant_id, environment, currency, kind, trx_id)"
            " VALUES ($1, 'production', 'NGN', 'refund_paid', $2)",
            *(refund.merchant_id, refund.trx_id),
        )
        try:
            yield connection
        finally:
            await connection.execute("ROLLBACK")


async def _until_waiting(db: Database) -> None:
    await until(lambda: db.value("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))


async def _refund(shop: Shop, method: str = "providera-ngn") -> Refund:
    """Returns a refund that was sent, if that is possible, and that is not decided yet."""
    started = await shop.start()
    charge = await shop.choose(started, method)
    await shop.pay(charge)
    await shop.until(started, "success")
    await shop.simulator.control("a/faults", {"refunds": "pending", "webhooks": {"mode": "lost"}})
    refund = await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await shop.simulator.run_jobs()
    return await _now(shop, refund)


async def _now(shop: Shop, refund: Refund) -> Refund:
    return await decisions.find(shop.services.db, refund.trx_id)


async def _says(
    shop: Shop, refund: Refund, status: ReportedRefundStatus, provider: str = "providera"
) -> None:
    event = WebhookEvent(WebhookSubject.REFUND, refund.trx_id, None, status)
    await WebhookInbox(shop.services.db).store(provider, event, status.encode())


async def _contradictions(shop: Shop, refund: Refund) -> list[str]:
    records = await shop.services.db.records(
        "SELECT detail FROM operator_case WHERE kind = $1 AND reference = $2",
        *(CaseKind.CONTRADICTION, refund.trx_id),
    )
    return [record["detail"] for record in records]


async def test_a_webhook_that_arrives_while_its_refund_is_completed_opens_a_case(
    shop: Shop,
) -> None:
    refund, db = await _refund(shop), shop.services.db
    async with _delayed_posting(db, refund) as other:
        completing = asyncio.create_task(states.apply_result(db, refund, PAID))
        await _until_waiting(db)
        await _says(shop, refund, ReportedRefundStatus.FAILED)
        await other.execute("ROLLBACK")
        assert await completing
    assert (await _now(shop, refund)).status is RefundStatus.COMPLETED
    [detail] = await _contradictions(shop, refund)
    assert detail == "The refund is completed; a signed webhook says failed. Nothing was moved."


async def test_a_webhook_that_arrives_while_an_administrator_confirms_its_refund_opens_a_case(
    shop: Shop,
) -> None:
    """The administrator has paid a refund that was never sent, but the provider says it paid."""
    refund, db = await _refund(shop), shop.services.db
    await store.leave_to_administrator(db, refund.merchant_id, refund.trx_id, "for a test")
    await db.execute("UPDATE refund SET sent_at = NULL WHERE trx_id = $1", refund.trx_id)
    async with _delayed_posting(db, refund) as other:
        confirming = asyncio.create_task(
            decisions.confirm(db, shop.services.rails, refund.trx_id, "transfer 7")
        )
        await _until_waiting(db)
        storing = asyncio.create_task(_says(shop, refund, ReportedRefundStatus.PAID))
        await until(lambda: db.value("SELECT count(*) > 1 FROM pg_locks WHERE NOT granted"))
        await other.execute("ROLLBACK")
        await confirming
        await storing
    await shop.simulator.run_job_now(SEND, refund.trx_id)  # the provider says that it is pending
    [detail] = await _contradictions(shop, refund)
    assert detail == "The refund was paid from our bank, and a signed webhook says paid."


@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_webhook_that_contradicts_a_final_refund_opens_a_case_although_the_query_agrees(
    shop: Shop, status: str
) -> None:
    refund, db = await _refund(shop), shop.services.db
    is_paid = status == "completed"
    final = ReportedRefundStatus.PAID if is_paid else ReportedRefundStatus.FAILED
    opposite = ReportedRefundStatus.FAILED if is_paid else ReportedRefundStatus.PAID
    event = event_of(RefundState(final))
    assert await states.apply_result(db, refund, event)
    await _says(shop, refund, opposite)
    assert not await states.apply_result(db, refund, event)
    [detail] = await _contradictions(shop, refund)
    assert detail.startswith(f"The refund is {status}; a signed webhook says {opposite}.")


async def test_a_webhook_of_a_charge_that_arrives_while_a_refund_is_completed_keeps_its_job(
    shop: Shop,
) -> None:
    """The webhook does not say which refund has failed, so the provider must be queried again."""
    refund, db = await _refund(shop), shop.services.db
    await db.execute("UPDATE job SET due_at = now() WHERE subject = $1", refund.trx_id)
    [job] = await claims.claim(db, {SEND: 1})
    assert job.subject == refund.trx_id
    assert refund.charge_reference is not None
    about_charge = WebhookEvent(WebhookSubject.CHARGE_REFUNDS, refund.charge_reference, None, None)
    async with _delayed_posting(db, refund) as other:
        completing = asyncio.create_task(states.apply_result(db, refund, PAID))
        await _until_waiting(db)
        await WebhookInbox(db).store("providera", about_charge, b"{}")
        await other.execute("ROLLBACK")
        assert await completing
    await claims.end(db, [job])
    assert await jobs.due_at(db, refund.merchant_id, SEND, refund.trx_id) is not None


async def test_a_contradicting_webhook_opens_a_case_although_the_query_finds_no_final_status(
    shop: Shop,
) -> None:
    refund, db = await _refund(shop), shop.services.db
    assert await states.apply_result(db, refund, PAID)
    await _says(shop, refund, ReportedRefundStatus.FAILED)
    await shop.simulator.run_job_now(SEND, refund.trx_id)  # the provider says that it is pending
    [detail] = await _contradictions(shop, refund)
    assert detail.startswith("The refund is completed; a signed webhook says failed.")


async def test_a_contradicting_webhook_opens_a_case_although_the_provider_has_no_status_query(
    shop: Shop,
) -> None:
    refund, db = await _refund(shop, "providerb-ngn"), shop.services.db
    await decisions.confirm(db, shop.services.rails, refund.trx_id, "transfer 7")
    await _says(shop, refund, ReportedRefundStatus.PAID, "providerb")
    await shop.simulator.run_job_now(SEND, refund.trx_id)
    [detail] = await _contradictions(shop, refund)
    assert detail == "The refund was paid from our bank, and a signed webhook says paid."
