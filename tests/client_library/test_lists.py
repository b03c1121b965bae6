"""The client's lists, balance and refunds against the real API."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import manilla_client as library
import pytest
from manilla_client import AsyncClient, Client, CompletedPayment, UnfinishedPayment, lists

from tests.client_library.conftest import credentials_of
from tests.client_library.test_calls import due_now, payment, payout
from tests.payments.orders import new_reference
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
def _pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE_ITEMS", 2)


@pytest.mark.usefixtures("_pages_of_two")
async def test_lists_yield_the_items_of_all_pages(
    client: AsyncClient, simulator: ProviderSimulator, site: Site, merchant: Merchant
) -> None:
    made = [(await client.initiate_payment(**payment())).trx_id]
    await due_now(simulator, made[0])
    made += [(await client.initiate_payment(**payment())).trx_id for _ in range(4)]
    found = [item async for item in client.payments()]
    assert [item.trx_id for item in found] == made[::-1]
    assert isinstance(found[-1], CompletedPayment)
    assert isinstance(found[0], UnfinishedPayment)
    assert found[0].created_at is not None
    assert [item async for item in client.payments(status="success")] == found[-1:]
    later = client.payments(since=found[1].created_at, until=datetime.now(UTC))
    assert [item async for item in later] == found[:2]

    def read_all() -> list[str]:
        with Client(f"http://127.0.0.1:{site.port}", credentials_of(merchant)) as synchronous:
            return [item.trx_id for item in synchronous.payments()]

    assert await asyncio.to_thread(read_all) == made[::-1]
    with pytest.raises(TypeError, match="state"):
        client.payments(state="failed")  # type: ignore[call-arg]


async def test_a_refund_is_created_verified_and_listed(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    paid = (await client.initiate_payment(**payment())).trx_id
    await due_now(simulator, paid)
    reference = new_reference()
    refund = await client.initiate_refund(trx_id=paid, amount=Decimal("0.50"), ref_trx=reference)
    assert refund.info.payment_trx_id == paid
    await due_now(simulator, refund.trx_id)
    verified = await client.wait_for_refund(refund.trx_id)
    assert (verified.status, verified.amount) == ("success", Decimal("0.50"))
    assert [item async for item in client.refunds(ref_trx=reference)] == [verified]
    with pytest.raises(library.DuplicateReference) as caught:
        await client.initiate_refund(trx_id=paid, ref_trx=reference)
    assert caught.value.trx_id == refund.trx_id
    with pytest.raises(library.RefundFailed):
        await client.initiate_refund(trx_id=paid, amount=10**6, ref_trx=new_reference())


async def test_the_balance_and_the_statement_agree(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    sent = await client.initiate_payout(**await payout(client))
    (balance,) = [b for b in (await client.balance()).balances if b.currency_code == "NGN"]
    assert balance.in_flight == sent.info.payable_amount
    lines = [line async for line in client.balance_transactions(currency_code="NGN")]
    assert (lines[0].trx_id, lines[0].ref_trx) == (sent.trx_id, sent.info.ref_trx)
    assert lines[0].amount == -sent.info.payable_amount
    assert lines[0].balance_after == balance.available
    assert [item.trx_id async for item in client.payouts(status="pending")] == [sent.trx_id]
