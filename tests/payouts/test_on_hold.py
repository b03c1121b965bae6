"""A hold delays a merchant's unsent payouts. After the release, each payout is sent once."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.jobs import claims
from manilla.ledger.scope import Everyone
from manilla.merchants import outgoing
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payouts import decisions, queue
from manilla.payouts.decisions import NotToDecide, OnHold
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.platform import settings as platform
from manilla.proofs import restored
from manilla.services import Services
from manilla.transfers import sending
from manilla.transfers.sending import PAYOUTS
from tests.payouts.payout_merchant import MANUAL, RAILS, PayoutMerchant, see_changes
from tests.support.rows import first_short

OFF = {
    "disabled": (
        MerchantUpdate(status=MerchantStatus.DISABLED),
        MerchantUpdate(status=MerchantStatus.APPROVED),
    ),
    "rejected": (
        MerchantUpdate(status=MerchantStatus.REJECTED),
        MerchantUpdate(status=MerchantStatus.APPROVED),
    ),
    "pending": (
        MerchantUpdate(status=MerchantStatus.PENDING),
        MerchantUpdate(status=MerchantStatus.APPROVED),
    ),
    "payouts off": (MerchantUpdate(payouts_enabled=False), MerchantUpdate(payouts_enabled=True)),
}
DISABLE, ENABLE = OFF["disabled"]


@pytest.fixture(autouse=True)
async def _settings_as_before(services: Services) -> AsyncIterator[None]:
    yield
    await platform.change(services.db, "payouts_held", "false")
    await platform.change(services.db, "withdrawals_enabled", "true")
    await see_changes(services)


async def _references(payer: PayoutMerchant, rail: str = "a") -> list[str]:
    return [transfer["reference"] for transfer in await payer.transfers(rail)]


async def _due_at(payer: PayoutMerchant, kind: str, trx_id: str) -> datetime:
    due_at: datetime = await payer.services.db.value(
        "SELECT due_at FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(payer.merchant.new.id, kind, trx_id),
    )
    return due_at


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize("why", OFF)
async def test_an_unsent_payout_waits_for_its_merchant_and_is_then_sent_once(
    payer: PayoutMerchant, services: Services, db: Database, why: str, rail: str
) -> None:
    off, on = OFF[why]
    await outgoing.hold_all(db)
    trx_ids = [await payer.pay_out(rail) for _ in range(2)]
    await payer.change(off)
    await restored.release(db, services.rails)
    for trx_id in trx_ids:
        await payer.check_now(trx_id)
    assert await _references(payer, rail) == []
    assert [(await payer.payout(trx_id)).began_at for trx_id in trx_ids] == [None, None]
    assert await payer.balance() == 800_000
    await payer.change(on)
    for trx_id in trx_ids:
        await payer.check_until(trx_id, "completed")
    assert sorted(await _references(payer, rail)) == sorted(trx_ids)
    assert await payer.balance() == 800_000


async def test_an_unsent_payout_waits_while_withdrawals_are_disabled(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await platform.change(db, "withdrawals_enabled", "false")
    await payer.check_now(trx_id)
    assert await _references(payer) == []
    await platform.change(db, "withdrawals_enabled", "true")
    await payer.check_until(trx_id, "completed")
    assert await _references(payer) == [trx_id]


async def test_enabling_a_merchant_wakes_its_payouts_however_old(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await db.execute(
        "UPDATE payout SET created_at = created_at - interval '9 days' WHERE trx_id = $1", trx_id
    )
    await payer.change(DISABLE)
    await payer.check_now(trx_id)
    assert await _due_at(payer, SEND, trx_id) > datetime.now(UTC)
    await payer.change(ENABLE)
    await payer.simulator.run_jobs()
    assert await _references(payer) == [trx_id]
    assert await payer.cases() == []


async def test_enabling_a_merchant_is_not_lost_on_a_worker_that_just_saw_it_disabled(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await payer.change(DISABLE)
    [job] = await claims.claim(db, {SEND: 1})
    await payer.change(ENABLE)
    await claims.put_off(db, [(job, 3600.0)])
    assert await _due_at(payer, SEND, trx_id) <= datetime.now(UTC)
    await payer.check_until(trx_id, "completed")


async def test_the_statement_that_permits_a_send_reads_the_merchant_itself(
    payer: PayoutMerchant, db: Database
) -> None:
    await payer.pay_out()
    [job] = await claims.claim(db, {SEND: 1})
    await db.execute("UPDATE merchant SET status = 'disabled' WHERE id = $1", payer.merchant.new.id)
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(job)]) == [False]
    await db.execute("UPDATE merchant SET status = 'approved' WHERE id = $1", payer.merchant.new.id)
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(job)]) == [True]


@pytest.mark.parametrize("why", first_short(OFF))
async def test_sent_payouts_are_queried_and_decided(payer: PayoutMerchant, why: str) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.change(OFF[why][0])
    await payer.check_until(trx_id, "completed")


@pytest.mark.parametrize("why", first_short(OFF))
async def test_a_payout_the_provider_lost_is_not_resent_until_its_merchant_is_enabled(
    payer: PayoutMerchant, why: str
) -> None:
    off, on = OFF[why]
    await payer.simulator.control(
        "a/faults", {"next": [{"call": "transfer", "fault": "5xx_before"}]}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.change(off)
    await payer.check_now(trx_id)
    assert await _references(payer) == []
    await payer.change(on)
    await payer.check_until(trx_id, "completed")
    assert await _references(payer) == [trx_id]


@pytest.mark.parametrize("why", first_short(OFF))
async def test_an_administrator_rejects_a_waiting_payout(
    payer: PayoutMerchant, services: Services, db: Database, why: str
) -> None:
    off, on = OFF[why]
    trx_id = await payer.pay_out()
    await payer.change(off)
    await payer.check_now(trx_id)
    await decisions.reject(db, services.rails, trx_id, "The merchant has closed its account.")
    assert await payer.balance() == 1_000_000
    await payer.change(on)
    await payer.simulator.run_jobs()
    assert await _references(payer) == []
    payout = await payer.payout(trx_id)
    assert (payout.status, payout.error_code) == ("canceled", "payout_failed")
    [notified] = await payer.notifications(trx_id)
    assert (notified["status"], notified["message"]) == ("canceled", "Payout Canceled")
    assert notified["refunded_amount"] == 1000


async def test_an_administrator_cannot_reject_a_disabled_merchants_sent_payout(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    await payer.simulator.control(
        "a/faults", {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.change(DISABLE)
    with pytest.raises(NotToDecide, match="provider decides"):
        await decisions.reject(db, services.rails, trx_id, "No.")
    assert await payer.balance() == 900_000


async def test_a_manual_payout_is_paid_only_once_its_merchant_is_enabled(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out(MANUAL)
    await payer.change(DISABLE)
    with pytest.raises(OnHold, match="The merchant is disabled"):
        await decisions.complete(db, trx_id, "BANK-1")
    assert (await payer.payout(trx_id)).status == "pending"
    await payer.change(ENABLE)
    assert (await decisions.complete(db, trx_id, "BANK-1")).status == "completed"


async def test_an_already_paid_manual_payout_can_be_recorded_for_any_merchant(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out(MANUAL)
    await payer.change(DISABLE)
    done = await decisions.complete(db, trx_id, "BANK-1", already_paid=True)
    assert done.status == "completed"
    with pytest.raises(Refusal, match="completed already"):
        await decisions.reject(db, payer.services.rails, trx_id, "No.")
    assert await payer.balance() == 900_000


async def test_a_disabled_merchants_manual_payout_can_be_rejected(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out(MANUAL)
    await payer.change(DISABLE)
    assert (
        await decisions.reject(db, payer.services.rails, trx_id, "Closed.")
    ).status == "canceled"
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("why", first_short(["disabled", "rejected", "payouts off"]))
async def test_a_sandbox_payout_waits_too(sandbox_payer: PayoutMerchant, why: str) -> None:
    payer, (off, on) = sandbox_payer, OFF[why]
    trx_id = await payer.pay_out()
    await payer.change(off)
    await payer.simulator.run_job_now(COMPLETE_IN_SANDBOX, trx_id)
    assert (await payer.payout(trx_id)).status == "pending"
    await payer.change(on)
    await payer.until(trx_id, "completed")


async def test_a_waiting_sandbox_payout_can_be_rejected(
    sandbox_payer: PayoutMerchant, services: Services, db: Database
) -> None:
    before = await sandbox_payer.balance()
    trx_id = await sandbox_payer.pay_out()
    await sandbox_payer.change(DISABLE)
    await decisions.reject(db, services.rails, trx_id, "Closed.")
    assert (await sandbox_payer.payout(trx_id)).status == "canceled"
    assert await sandbox_payer.balance() == before


async def test_operators_see_waiting_payouts_with_the_reason(
    payer: PayoutMerchant, db: Database
) -> None:
    scope = Everyone(payer.merchant.new.id, Environment.PRODUCTION)
    trx_id = await payer.pay_out()
    await payer.change(DISABLE)
    [waiting] = (await queue.on_hold(db, scope)).rows
    assert (waiting.payout.trx_id, waiting.hold) == (trx_id, "merchant_disabled")
    await payer.change(ENABLE)
    assert (await queue.on_hold(db, scope)).rows == []
