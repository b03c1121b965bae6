"""While payouts are on hold, none is sent, but the status of sent payouts is queried.

After the release, each unsent payout is sent once.
"""

from collections.abc import AsyncIterator

import pytest

from manilla.approvals import approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import SettingChange
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.merchants.outgoing import NotHeld
from manilla.payouts import decisions
from manilla.payouts.decisions import NotToDecide
from manilla.platform import settings as platform
from manilla.proofs import restored
from manilla.proofs.restored import FoundTransfer, NotReleased
from manilla.providers.port import Done, TransferOrder, TransferState, TransferStatus
from manilla.refunds import decisions as refund_decisions
from manilla.refunds import initiate
from manilla.services import Services
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import RAILS, PayoutMerchant, clear_credentials, see_changes
from tests.support.rows import first_short

SILENT = {"call": "transfer_status", "fault": "5xx_before", "times": None}


@pytest.fixture(autouse=True)
async def _released_in_the_end(services: Services) -> AsyncIterator[None]:
    yield
    await platform.change(services.db, "payouts_held", "false")
    await see_changes(services)


async def forget_the_send(db: Database, trx_id: str) -> None:
    """Makes a sent payout look unsent, as after restoring a backup from before it was sent."""
    await db.execute(
        "UPDATE payout SET began_at = NULL, accepted_at = NULL WHERE trx_id = $1", trx_id
    )


def transfer(reference: str) -> TransferOrder:
    return TransferOrder(
        reference=reference,
        amount=Money.of("2500", "NGN"),
        bank_code="058",
        account_number="0123456789",
        account_name="ADA",
        narration="Payout",
        customer_email="ada@example.com",
        notification_url="https://pay.example/webhooks/providera",
    )


async def look_at(services: Services, trx_id: str) -> FoundTransfer:
    """Queries the providers about all open payouts, and returns the result for this payout."""
    found = await restored.look(services.db, services.rails)
    return next(each for each in found if each.transfer.trx_id == trx_id)


async def references(payer: PayoutMerchant, rail: str = "a") -> list[str]:
    return [transfer["reference"] for transfer in await payer.transfers(rail)]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_held_payout_is_accepted_and_sent_once_after_release(
    payer: PayoutMerchant, services: Services, db: Database, rail: str
) -> None:
    await payer.order()
    before = await restored.waiting(db)
    await outgoing.hold_all(db)
    trx_id = await payer.pay_out(rail)
    for _ in range(3):
        await payer.check_now(trx_id)
    assert await references(payer, rail) == []
    assert (await payer.payout(trx_id)).began_at is None
    assert await payer.balance() == 900_000
    assert await restored.waiting(db) == before + 1
    await restored.release(db, services.rails)
    await payer.check_until(trx_id, "completed")
    assert await references(payer, rail) == [trx_id]
    assert await payer.balance() == 900_000


async def test_payouts_sent_before_the_hold_are_queried_and_decided(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await outgoing.hold_all(db)
    await payer.check_until(trx_id, "completed")


async def test_a_payout_the_provider_lost_is_not_resent_during_a_hold(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    await payer.simulator.control(
        "a/faults", {"next": [{"call": "transfer", "fault": "5xx_before"}]}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await outgoing.hold_all(db)
    await payer.check_now(trx_id)
    assert await references(payer) == []
    await restored.release(db, services.rails)
    await payer.check_until(trx_id, "completed")
    assert await references(payer) == [trx_id]


async def test_a_send_missing_from_a_restored_database_is_never_repeated(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    """In the restored database the payout is unsent, but the status query finds the transfer."""
    await payer.simulator.control(
        "a/faults", {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await forget_the_send(db, trx_id)
    await outgoing.hold_all(db)
    poor = {"call": "transfer", "fault": "refuse", "message": "Insufficient funds", "times": None}
    await payer.simulator.control("a/faults", {"next": [poor]})
    found = await look_at(services, trx_id)
    assert found.said is not None
    assert found.said.status is TransferStatus.PENDING
    await restored.release(db, services.rails)
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == 900_000
    await payer.settle("a", trx_id, "success")
    await payer.check_until(trx_id, "completed")
    assert await references(payer) == [trx_id]


async def test_the_worker_finds_a_send_missing_from_the_database_during_a_hold(
    payer: PayoutMerchant, db: Database
) -> None:
    await payer.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await forget_the_send(db, trx_id)
    await outgoing.hold_all(db)
    await payer.check_until(trx_id, "completed")
    assert (await payer.payout(trx_id)).began_at is not None
    assert await references(payer) == [trx_id]


async def test_a_release_is_rejected_while_a_provider_cannot_be_queried(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await outgoing.hold_all(db)
    later = await payer.pay_out()  # A payout that was never sent does not prevent the release.
    await payer.simulator.control("a/faults", {"next": [SILENT]})
    with pytest.raises(NotReleased, match="may have been sent"):
        await restored.release(db, services.rails)
    await clear_credentials(services, "a")
    found = await restored.look(db, services.rails)
    problems = {each.transfer.trx_id: each.problem for each in found if each.is_in_doubt}
    assert problems[trx_id] == "providera is not configured"
    assert later not in problems
    assert await outgoing.hold_start(db) is not None


async def test_a_payout_that_may_have_been_sent_is_not_rejected_without_a_query(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    """An administrator can reject a payout without a hold only if the payout was never sent."""
    await payer.simulator.control(
        "a/faults", {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await forget_the_send(db, trx_id)
    await db.execute(
        "UPDATE payout SET created_at = created_at - interval '25 h' WHERE trx_id = $1", trx_id
    )
    await outgoing.hold_all(db)
    await payer.simulator.control("a/faults", {"next": [{**SILENT, "times": 1}]})
    await payer.check_now(trx_id)
    assert await payer.cases() == [("no_answer", trx_id)]
    assert (await payer.payout(trx_id)).began_at is None
    with pytest.raises(NotToDecide, match="transfer is pending"):
        await decisions.reject(db, services.rails, trx_id, "It takes too long.")
    assert await payer.balance() == 900_000
    await payer.settle("a", trx_id, "success")
    await payer.check_until(trx_id, "completed")


async def test_a_release_without_a_hold_is_rejected(services: Services, db: Database) -> None:
    with pytest.raises(NotHeld):
        await restored.release(db, services.rails)


async def test_transfers_missing_from_a_restored_database_are_found_in_the_providers_list(
    payer: PayoutMerchant, services: Services, db: Database
) -> None:
    known, forgotten = await payer.pay_out(), trx_ids.new(payer.merchant.new.id)
    await payer.simulator.run_jobs()
    adapter = services.rails.adapter("providera")
    assert adapter is not None
    assert isinstance(await adapter.send(transfer(forgotten)), Done)
    listed = [known, forgotten, "TXN-NOT-OURS", forgotten]
    found = await restored.missing(db, services.rails, "providera", listed)
    assert [(each.reference, each.merchant_id) for each in found] == [
        (forgotten, payer.merchant.new.id),
        ("TXN-NOT-OURS", 0),
    ]
    sent, nothing = (each.said for each in found)
    assert sent is not None
    assert sent.amount == Money.of("2500", "NGN")
    assert nothing == TransferState(TransferStatus.NOT_FOUND)
    assert [each.has_moved_nothing for each in found] == [False, True]


async def test_a_release_without_a_complete_check_needs_a_second_administrator(
    services: Services, db: Database
) -> None:
    await outgoing.hold_all(db)
    office = approvals.Approvals(db, services.keyring, is_production_mode=True)
    with acting(Actor(ActorKind.COMMAND, None, "ada")):
        asked = await apply_or_ask(office, SettingChange("payouts_held", "false"))
        assert isinstance(asked, ApprovalRequested)
        assert await apply_or_ask(office, SettingChange("payouts_held", "true")) is None
    assert await outgoing.hold_start(db) is not None


@pytest.mark.parametrize(
    ("method", "is_asked"), [("providera-ngn", True), ("providerc-ngn", False)]
)
async def test_refunds_are_held_as_well(
    shop: Shop, services: Services, db: Database, method: str, is_asked: bool
) -> None:
    started = await shop.start()
    await shop.pay(await shop.choose(started, method))
    await shop.until(started, "success")
    refund = await initiate.start(db, started.trx_id, None, "Returned goods")
    await outgoing.hold_all(db)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    rail = method[len("provider")]
    assert (await shop.simulator.read(f"{rail}/refunds"))["refunds"] == []
    [found] = [
        each
        for each in await restored.look(db, services.rails)
        if each.transfer.trx_id == refund.trx_id
    ]
    said = found.said.status if found.said else found.problem
    assert said == ("not_found" if is_asked else "left to an administrator")
    await restored.release(db, services.rails)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    sent = (await shop.simulator.read(f"{rail}/refunds"))["refunds"]
    assert len(sent) == (1 if is_asked else 0)
    assert (await refund_decisions.find(db, refund.trx_id)).by_operator is not is_asked
