"""An administrator may reject a payout that the provider never received. No money is lost."""

import asyncio

import pytest

from manilla.kit.database.connections import Database
from manilla.payouts import decisions
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.payout import Payout
from tests.payouts.payout_merchant import MANUAL, RAILS, PayoutMerchant, clear_credentials
from tests.payouts.test_states import send_webhook
from tests.support.client import Site
from tests.support.rows import first_short

REFUSED = {"call": "transfer", "fault": "refuse", "message": "Request refused", "times": None}


@pytest.fixture(autouse=True)
async def _silent(payer: PayoutMerchant) -> None:
    for rail in RAILS:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


async def reject(payer: PayoutMerchant, trx_id: str) -> Payout:
    services = payer.services
    return await decisions.reject(services.db, services.rails, trx_id, "The provider has lost it.")


async def pass_time(db: Database, trx_id: str, age: str) -> None:
    await db.execute(
        f"""
        UPDATE payout
           SET created_at = created_at - interval '{age}', began_at = began_at - interval '{age}',
               last_sent_at = last_sent_at - interval '{age}'
         WHERE trx_id = $1""",
        trx_id,
    )


async def stuck(payer: PayoutMerchant, rail: str = "a") -> str:
    """Creates a day-old payout.

    The first request to the provider was lost, and the provider rejected the later requests.
    """
    lost_send = {"call": "transfer", "fault": "5xx_before"}
    await payer.simulator.control(f"{rail}/faults", {"next": [lost_send, REFUSED]})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await pass_time(payer.services.db, trx_id, "25 h")
    await payer.check_now(trx_id)
    assert await payer.cases() == [("no_answer", trx_id)]
    return trx_id


async def assert_open(payer: PayoutMerchant, trx_id: str) -> None:
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == 900_000
    assert await payer.notifications(trx_id) == []
    free = "SELECT lease IS NULL FROM job WHERE kind = 'transfer' AND subject = $1"
    assert await payer.services.db.value(free, trx_id) is True


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_lost_payout_fails_with_one_refund_and_its_case_is_closed(
    payer: PayoutMerchant, db: Database, rail: str
) -> None:
    trx_id = await stuck(payer, rail)
    await pass_time(db, trx_id, "11 min")
    rejected = await reject(payer, trx_id)
    assert (rejected.status, rejected.error_code) == ("failed", "payout_failed")
    assert await payer.balance() == 1_000_000
    reply = (await payer.verify(trx_id)).json
    assert reply["message"].endswith("The provider has lost it.")
    assert [notified["message"] for notified in await payer.notifications(trx_id)] == [
        "Payout Failed"
    ]
    assert "knows no such transfer" in ((await payer.timeline(trx_id))[-1].detail or "")
    case = "SELECT status FROM operator_case WHERE reference = $1"
    assert await db.value(case, trx_id) == "resolved"
    assert (
        await db.value("SELECT count(*) FROM job WHERE subject = $1", trx_id) == 1
    )  # The only remaining job sends the notification.
    audited = "SELECT count(*) FROM audit WHERE action = 'payout.reject' AND subject = $1"
    assert await db.value(audited, f"payout:{trx_id}") == 1
    with pytest.raises(NotToDecide, match="failed already"):
        await reject(payer, trx_id)


async def test_nothing_is_rejected_while_a_send_may_still_arrive(payer: PayoutMerchant) -> None:
    trx_id = await stuck(payer)
    with pytest.raises(NotToDecide, match="10 minutes"):
        await reject(payer, trx_id)
    await assert_open(payer, trx_id)


async def test_nothing_is_rejected_without_a_case(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out()
    with pytest.raises(NotToDecide, match="provider"):
        await reject(payer, trx_id)
    await assert_open(payer, trx_id)


@pytest.mark.parametrize("says", ["processing", "success", "reversed"])
async def test_nothing_is_rejected_that_the_provider_knows(
    payer: PayoutMerchant, db: Database, says: str
) -> None:
    """The payout cannot be rejected, because the provider has accepted the transfer."""
    trx_id = await stuck(payer)
    await payer.simulator.control("a/faults", {"next": []})
    await payer.check_now(trx_id)
    if says != "processing":
        await payer.settle("a", trx_id, "success")
    if says == "reversed":
        await payer.settle("a", trx_id, "reversed")
    await pass_time(db, trx_id, "11 min")
    with pytest.raises(NotToDecide, match="nothing was changed"):
        await reject(payer, trx_id)
    await assert_open(payer, trx_id)


async def test_a_provider_that_reports_failed_decides_the_payout(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await stuck(payer)
    await payer.simulator.control("a/faults", {"next": []})
    await payer.check_now(trx_id)
    await payer.settle("a", trx_id, "failed")
    await pass_time(db, trx_id, "11 min")
    rejected = await reject(payer, trx_id)
    assert (rejected.status, rejected.error_code) == ("failed", "gateway_payout_failed")
    assert await payer.balance() == 1_000_000


@pytest.mark.parametrize("fault", ["5xx_before", "garbage_after_accept", None])
async def test_nothing_is_rejected_while_the_provider_cannot_be_queried(
    payer: PayoutMerchant, db: Database, fault: str | None
) -> None:
    trx_id = await stuck(payer)
    await pass_time(db, trx_id, "11 min")
    if fault is None:
        await clear_credentials(payer.services, "a")
    else:
        asked = {"call": "transfer_status", "fault": fault}
        await payer.simulator.control("a/faults", {"next": [asked]})
    with pytest.raises(NotToDecide, match=r"answer|queried"):
        await reject(payer, trx_id)
    await assert_open(payer, trx_id)


async def test_nothing_is_rejected_that_a_signed_webhook_mentions(
    payer: PayoutMerchant, db: Database, site: Site
) -> None:
    trx_id = await stuck(payer)
    await pass_time(db, trx_id, "11 min")
    assert (await send_webhook(site, "a", trx_id, "success")).status == 200
    with pytest.raises(NotToDecide, match="webhook"):
        await reject(payer, trx_id)
    await assert_open(payer, trx_id)


async def test_an_unsent_payout_is_rejected_without_a_query(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await clear_credentials(payer.services, "a")
    await pass_time(db, trx_id, "25 h")
    await payer.check_now(trx_id)
    assert (await reject(payer, trx_id)).status == "failed"
    assert await payer.balance() == 1_000_000


async def test_a_payout_a_worker_is_processing_cannot_be_rejected(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await stuck(payer)
    await pass_time(db, trx_id, "11 min")
    await db.execute(
        "UPDATE job SET lease = 1, leased_until = now() + interval '1 min' WHERE subject = $1",
        trx_id,
    )
    with pytest.raises(NotToDecide, match="A worker is processing"):
        await reject(payer, trx_id)
    assert (await payer.payout(trx_id)).status == "pending"


async def test_of_two_concurrent_rejections_one_succeeds(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await stuck(payer)
    await pass_time(db, trx_id, "11 min")
    done = await asyncio.gather(*(reject(payer, trx_id) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(each, Payout) for each in done) == 1
    assert sum(isinstance(each, NotToDecide) for each in done) == 3
    assert await payer.balance() == 1_000_000


async def test_manual_payouts_are_rejected_as_before(payer: PayoutMerchant) -> None:
    assert (await reject(payer, await payer.pay_out(MANUAL))).status == "canceled"
