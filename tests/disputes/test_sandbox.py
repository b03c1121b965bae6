"""The sandbox disputes a payment whose scenario says so. The evidence decides the dispute."""

import json

import pytest

from manilla.disputes import store
from manilla.disputes.dispute import Dispute, DisputeStatus
from manilla.ledger import invariants
from manilla.ledger.scope import Tenant
from manilla.payments.payment import SANDBOX
from tests.payments.orders import INITIATE, order
from tests.payments.shop import Shop
from tests.support.invariants import ALL


async def _disputed(shop: Shop) -> Dispute:
    body = json.dumps(order(payment_amount=1000)).encode()
    reply = await shop.merchant.call("POST", INITIATE, body, X_Sandbox_Scenario="disputed")
    assert reply.status == 200, reply.body
    trx_id = reply.headers["x-transaction-id"].upper()
    await shop.simulator.run_job_now("payment.sandbox", trx_id)
    [found] = await store.disputes_of(shop.services.db, shop.merchant.new.id, trx_id)
    return found


def _key(shop: Shop, dispute: Dispute) -> tuple[Tenant, str]:
    return Tenant(shop.merchant.new.id, shop.merchant.environment), dispute.trx_id


async def test_the_scenario_opens_a_dispute_after_success(sandbox_shop: Shop) -> None:
    before = await sandbox_shop.balance()
    dispute = await _disputed(sandbox_shop)
    assert (dispute.status, dispute.provider) == (DisputeStatus.NEEDS_RESPONSE, SANDBOX)
    assert await sandbox_shop.balance() == before
    assert await sandbox_shop.account("withheld") == dispute.amount_minor


@pytest.mark.parametrize(
    ("text", "status"),
    [("I have won.", "won"), ("Lost already", "lost"), ("a receipt", "submitted")],
)
async def test_the_evidence_decides_the_dispute(sandbox_shop: Shop, text: str, status: str) -> None:
    dispute = await _disputed(sandbox_shop)
    service, key = sandbox_shop.services.disputes, _key(sandbox_shop, dispute)
    await service.set_evidence(*key, text)
    assert (await service.submit(*key)).status is DisputeStatus.SUBMITTED
    await sandbox_shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await service.get(*key)).status == status


async def test_an_accepted_test_dispute_takes_the_amount(sandbox_shop: Shop) -> None:
    before = await sandbox_shop.balance()
    dispute = await _disputed(sandbox_shop)
    service, key = sandbox_shop.services.disputes, _key(sandbox_shop, dispute)
    await service.accept(*key)
    await sandbox_shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await service.get(*key)).status is DisputeStatus.ACCEPTED
    assert await sandbox_shop.balance() == before
    found = await invariants.check(sandbox_shop.services.db, ALL)
    assert [each.examples for each in found if each.count] == []
