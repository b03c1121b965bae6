"""While a merchant may not send money out, its unsent payouts wait; then each goes out once."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from manilla.kit import jobs
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Everyone
from manilla.merchants.merchants import Change, Status
from manilla.payouts import holding, lost, manual, queue, sending
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.payouts.manual import NotToDecide, OnHold
from manilla.platform import settings as platform
from manilla.services import Services
from tests.payouts.desk import MANUAL, RAILS, Desk, see_changes

OFF = {
    "disabled": (Change(status=Status.DISABLED), Change(status=Status.APPROVED)),
    "rejected": (Change(status=Status.REJECTED), Change(status=Status.APPROVED)),
    "pending": (Change(status=Status.PENDING), Change(status=Status.APPROVED)),
    "payouts off": (Change(payouts_enabled=False), Change(payouts_enabled=True)),
}
DISABLE, ENABLE = OFF["disabled"]


@pytest.fixture(autouse=True)
async def _settings_as_before(services: Services) -> AsyncIterator[None]:
    yield
    await platform.change(services.db, "payouts_held", "false")
    await platform.change(services.db, "withdrawals_enabled", "true")
    await see_changes(services)


async def _references(desk: Desk, rail: str = "a") -> list[str]:
    return [transfer["reference"] for transfer in await desk.transfers(rail)]


async def _due_at(desk: Desk, kind: str, trx_id: str) -> datetime:
    due_at: datetime = await desk.services.db.value(
        "SELECT due_at FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(desk.merchant.new.id, kind, trx_id),
    )
    return due_at


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("why", OFF)
async def test_an_unsent_payout_waits_for_its_merchant_and_is_then_sent_once(
    desk: Desk, services: Services, db: Database, why: str, rail: str
) -> None:
    off, on = OFF[why]
    await holding.hold(db)
    trx_ids = [await desk.pay_out(rail) for _ in range(2)]
    await desk.change(off)
    await holding.release(db, services.rails)
    for trx_id in trx_ids:
        await desk.check_now(trx_id)
    assert await _references(desk, rail) == []
    assert [(await desk.payout(trx_id)).began_at for trx_id in trx_ids] == [None, None]
    assert await desk.balance() == 800_000
    await desk.change(on)
    for trx_id in trx_ids:
        await desk.check_until(trx_id, "completed")
    assert sorted(await _references(desk, rail)) == sorted(trx_ids)
    assert await desk.balance() == 800_000


async def test_an_unsent_payout_waits_while_the_platform_has_no_withdrawals(
    desk: Desk, services: Services, db: Database
) -> None:
    trx_id = await desk.pay_out()
    await platform.change(db, "withdrawals_enabled", "false")
    await desk.check_now(trx_id)
    assert await _references(desk) == []
    await platform.change(db, "withdrawals_enabled", "true")
    await desk.check_until(trx_id, "completed")
    assert await _references(desk) == [trx_id]


async def test_a_merchant_that_is_enabled_wakes_its_payouts_however_old_they_are(
    desk: Desk, db: Database
) -> None:
    trx_id = await desk.pay_out()
    await db.execute(
        "UPDATE payout SET created_at = created_at - interval '9 days' WHERE trx_id = $1", trx_id
    )
    await desk.change(DISABLE)
    await desk.check_now(trx_id)
    assert await _due_at(desk, SEND, trx_id) > datetime.now(UTC)
    await desk.change(ENABLE)
    await desk.world.run_jobs()
    assert await _references(desk) == [trx_id]
    assert await desk.cases() == []


async def test_enabling_is_not_lost_on_a_worker_that_has_just_found_the_merchant_disabled(
    desk: Desk, db: Database
) -> None:
    trx_id = await desk.pay_out()
    await desk.change(DISABLE)
    [job] = await jobs.claim(db, {SEND: 1})
    await desk.change(ENABLE)
    await jobs._put_off(db, [(job, 3600.0)])
    assert await _due_at(desk, SEND, trx_id) <= datetime.now(UTC)
    await desk.check_until(trx_id, "completed")


async def test_the_statement_that_permits_a_send_reads_the_merchant_itself(
    desk: Desk, db: Database
) -> None:
    await desk.pay_out()
    [job] = await jobs.claim(db, {SEND: 1})
    await db.execute("UPDATE merchant SET status = 'disabled' WHERE id = $1", desk.merchant.new.id)
    assert await sending.begin(db, [job]) == [False]
    await db.execute("UPDATE merchant SET status = 'approved' WHERE id = $1", desk.merchant.new.id)
    assert await sending.begin(db, [job]) == [True]


@pytest.mark.parametrize("why", OFF)
async def test_what_was_sent_is_asked_about_and_decided(desk: Desk, why: str) -> None:
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await desk.change(OFF[why][0])
    await desk.check_until(trx_id, "completed")


@pytest.mark.parametrize("why", OFF)
async def test_what_the_provider_lost_is_not_sent_again_before_its_merchant_is_enabled(
    desk: Desk, why: str
) -> None:
    off, on = OFF[why]
    await desk.world.control("a/faults", {"next": [{"call": "transfer", "fault": "5xx_before"}]})
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await desk.change(off)
    await desk.check_now(trx_id)
    assert await _references(desk) == []
    await desk.change(on)
    await desk.check_until(trx_id, "completed")
    assert await _references(desk) == [trx_id]


@pytest.mark.parametrize("why", OFF)
async def test_an_administrator_rejects_a_payout_that_waits(
    desk: Desk, services: Services, db: Database, why: str
) -> None:
    off, on = OFF[why]
    trx_id = await desk.pay_out()
    await desk.change(off)
    await desk.check_now(trx_id)
    await lost.reject(db, services.rails, trx_id, "The merchant has closed its account.")
    assert await desk.balance() == 1_000_000
    await desk.change(on)
    await desk.world.run_jobs()
    assert await _references(desk) == []
    payout = await desk.payout(trx_id)
    assert (payout.status, payout.error_code) == ("canceled", "payout_failed")
    [told] = await desk.notifications(trx_id)
    assert (told["status"], told["message"]) == ("canceled", "Payout Canceled")
    assert told["refunded_amount"] == 1000


async def test_a_sent_payout_of_a_disabled_merchant_is_not_an_administrators_to_reject(
    desk: Desk, services: Services, db: Database
) -> None:
    await desk.world.control("a/faults", {"settle_seconds": 3600, "webhooks": {"mode": "lost"}})
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await desk.change(DISABLE)
    with pytest.raises(NotToDecide, match="provider decides"):
        await lost.reject(db, services.rails, trx_id, "No.")
    assert await desk.balance() == 900_000


async def test_a_manual_payout_is_paid_only_once_its_merchant_is_enabled(
    desk: Desk, db: Database
) -> None:
    trx_id = await desk.pay_out(MANUAL)
    await desk.change(DISABLE)
    with pytest.raises(OnHold, match="The merchant is disabled"):
        await manual.complete(db, trx_id, "BANK-1")
    assert (await desk.payout(trx_id)).status == "pending"
    await desk.change(ENABLE)
    assert (await manual.complete(db, trx_id, "BANK-1")).status == "completed"


async def test_a_manual_payout_that_had_been_paid_is_recorded_whatever_the_merchant_is(
    desk: Desk, db: Database
) -> None:
    trx_id = await desk.pay_out(MANUAL)
    await desk.change(DISABLE)
    done = await manual.complete(db, trx_id, "BANK-1", already_paid=True)
    assert done.status == "completed"
    with pytest.raises(Refusal, match="completed already"):
        await manual.reject(db, trx_id, "No.")
    assert await desk.balance() == 900_000


async def test_a_manual_payout_of_a_disabled_merchant_can_be_rejected(
    desk: Desk, db: Database
) -> None:
    trx_id = await desk.pay_out(MANUAL)
    await desk.change(DISABLE)
    assert (await manual.reject(db, trx_id, "Closed.")).status == "canceled"
    assert await desk.balance() == 1_000_000


@pytest.mark.parametrize("why", ["disabled", "rejected", "payouts off"])
async def test_a_sandbox_payout_waits_too(sandbox_desk: Desk, why: str) -> None:
    desk, (off, on) = sandbox_desk, OFF[why]
    trx_id = await desk.pay_out()
    await desk.change(off)
    await desk.world.run_job_now(COMPLETE_IN_SANDBOX, trx_id)
    assert (await desk.payout(trx_id)).status == "pending"
    await desk.change(on)
    await desk.until(trx_id, "completed")


async def test_a_sandbox_payout_that_waits_can_be_rejected(
    sandbox_desk: Desk, services: Services, db: Database
) -> None:
    before = await sandbox_desk.balance()
    trx_id = await sandbox_desk.pay_out()
    await sandbox_desk.change(DISABLE)
    await lost.reject(db, services.rails, trx_id, "Closed.")
    assert (await sandbox_desk.payout(trx_id)).status == "canceled"
    assert await sandbox_desk.balance() == before


async def test_operators_see_what_waits_and_why(desk: Desk, db: Database) -> None:
    scope = Everyone(desk.merchant.new.id, Environment.PRODUCTION)
    trx_id = await desk.pay_out()
    await desk.change(DISABLE)
    [waiting] = (await queue.on_hold(db, scope)).rows
    assert (waiting.payout.trx_id, waiting.hold) == (trx_id, "merchant_disabled")
    await desk.change(ENABLE)
    assert (await queue.on_hold(db, scope)).rows == []
