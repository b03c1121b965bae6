"""Payout reports that have a wrong amount, come from the sandbox, or arrive in the wrong order.

The numbers in the test names refer to docs/faults.md.
"""

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.providers.port import Done, ResolvedAccount, TransferOrder
from tests.faults import transfer_webhooks
from tests.payouts.payout_merchant import ACCOUNT, PayoutMerchant
from tests.support import kinds
from tests.support.client import Site
from tests.support.rows import first_short

FULL, DEBITED = 1_000_000, 900_000


@pytest.fixture(autouse=True)
async def _settle_on_command_without_webhooks(payer: PayoutMerchant, db: Database) -> None:
    mine = payer.merchant.new.id
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", mine)
    for rail in kinds.ALL:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


@pytest.mark.parametrize("rail", first_short(kinds.WITH_TRANSFER_AMOUNTS))
@pytest.mark.parametrize("amount", [99_999, 100_001])
@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_17_a_status_with_a_wrong_amount_opens_a_case_and_moves_nothing(
    payer: PayoutMerchant, rail: str, amount: int, outcome: str
) -> None:
    trx_id = await payer.pay_out(rail)
    await _send_by_other_means(payer, rail, trx_id, Money("NGN", amount))
    await payer.settle(rail, trx_id, outcome)
    await payer.simulator.run_jobs()
    await payer.check_now(trx_id)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("pending", DEBITED)
    assert await payer.notifications(trx_id) == []
    assert await payer.cases() == [("wrong_amount", trx_id)]
    assert await payer.last_answer(trx_id) == {"success": "delivered"}.get(outcome, outcome)


async def _send_by_other_means(
    payer: PayoutMerchant, rail: str, trx_id: str, amount: Money
) -> None:
    """Creates a transfer at the provider with the payout's reference, but a different amount."""
    kind = kinds.BY_RAIL[rail]
    adapter = payer.services.rails.adapter(kind.provider)
    assert adapter is not None
    holder = await adapter.resolve(kind.bank_code, ACCOUNT)
    assert isinstance(holder, Done)
    assert isinstance(holder.value, ResolvedAccount)
    answer = await adapter.send(
        TransferOrder(
            reference=adapter.transfer_reference(trx_id),
            amount=amount,
            bank_code=kind.bank_code,
            account_number=ACCOUNT,
            account_name=holder.value.account_name,
            narration="",
            customer_email="ada@example.com",
            notification_url="https://shop.example/",
        )
    )
    assert isinstance(answer, Done)


@pytest.mark.parametrize("rail", first_short(kinds.WITH_TRANSFER_WEBHOOKS))
async def test_17_a_webhook_about_a_sandbox_payout_moves_nothing(
    sandbox_payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await sandbox_payer.pay_out(rail)
    before = await sandbox_payer.balance()
    message = transfer_webhooks.transfer(rail, trx_id, "failed")
    assert (await transfer_webhooks.send_webhook(site, rail, message)).status == 200
    await sandbox_payer.simulator.run_jobs()
    assert (await sandbox_payer.payout(trx_id)).status == "pending"
    assert await sandbox_payer.balance() == before
    assert await sandbox_payer.cases() == [("unknown_reference", trx_id)]


@pytest.mark.parametrize("rail", first_short(kinds.WITH_TRANSFER_WEBHOOKS))
async def test_15_a_reversal_whose_webhook_arrives_before_the_deliverys_ends_the_same(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    kind = kinds.BY_RAIL[rail]
    word, _ = kind.reversals[-1]
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.settle(rail, trx_id, "success")
    await payer.settle(rail, trx_id, "reversed", provider_status=word)
    for status in ("reversed", "success"):
        message = transfer_webhooks.transfer(rail, trx_id, status)
        assert (await transfer_webhooks.send_webhook(site, rail, message)).status == 200
        await payer.simulator.run_jobs()
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("failed", FULL)
    expected = "Payout Failed" if kind.reverses_failures else "Payout Reversed"
    assert [each["message"] for each in await payer.notifications(trx_id)] == [expected]
    assert await payer.cases() == []
