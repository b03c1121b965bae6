"""The commission from quote to ledger, in each environment, paid by merchant or customer."""

import pytest

from manilla.ledger import trx_ids
from manilla.ledger.invariants import check
from manilla.ledger.listing import PostingLine, postings_of
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.invariants import PAYMENTS
from tests.payments.shop import Shop


@pytest.fixture(params=["production", "sandbox"])
def either_shop(request: pytest.FixtureRequest, shop: Shop, sandbox_shop: Shop) -> Shop:
    return shop if request.param == "production" else sandbox_shop


async def _complete(shop: Shop, **changed: object) -> dict[str, object]:
    started = await shop.start(**changed)
    if shop.merchant.environment == "sandbox":
        await shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    else:
        await shop.pay(await shop.choose(started, "providera-ngn"))
        await shop.until(started, "success")
    verified: dict[str, object] = (await shop.verify(started)).json
    notified = await shop.notifications(started)
    assert notified[0]["data"]["commission"] == verified["commission"]
    return verified


async def test_the_customer_pays_the_commission_on_top(either_shop: Shop) -> None:
    shop, is_real = either_shop, either_shop.merchant.environment == "production"
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    before = await shop.balance()
    verified = await _complete(shop, payment_amount=1000)
    assert await shop.balance() - before == 100_000
    assert await shop.account("commission") == 1_500
    commission = verified["commission"]
    assert isinstance(commission, dict)
    trx_id = commission.pop("commission_trx_id")
    assert commission == {
        "base_amount": 1000,
        "commission_fee": 15,
        "commission_bearer": "customer",
        "customer_paid": 1015,
        "merchant_received": 1000,
    }
    assert (trx_id is not None) is is_real
    assert (verified["amount"], verified["fee"], verified["net_amount"]) == (1000, 15, 1000)


async def test_the_merchant_pays_the_commission_from_its_wallet_in_production_only(
    either_shop: Shop,
) -> None:
    shop, is_real = either_shop, either_shop.merchant.environment == "production"
    await shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await shop.fund("15")
    before = await shop.balance()
    verified = await _complete(shop, payment_amount=1000)
    assert await shop.balance() - before == (98_500 if is_real else 100_000)
    assert await shop.account("commission") == (1_500 if is_real else 0)
    commission = verified["commission"]
    assert isinstance(commission, dict)
    assert (commission["customer_paid"], commission["merchant_received"]) == (1000, 1000)
    trx_id = commission["commission_trx_id"]
    assert (str(trx_id).startswith("TXN") and trx_id != verified["trx_id"]) is is_real


@pytest.mark.parametrize("bearer", list(CommissionBearer))
async def test_a_commission_is_posted_under_its_own_id(
    shop: Shop, bearer: CommissionBearer
) -> None:
    await shop.set_commission("1.5", bearer)
    await shop.fund("15")
    commission = (await _complete(shop, payment_amount=1000))["commission"]
    assert isinstance(commission, dict)
    posted = await postings_of(
        shop.services.db, shop.merchant.new.id, [commission["commission_trx_id"]]
    )
    other = "wallet" if bearer is CommissionBearer.MERCHANT else "clearing:providera"
    assert [(each.kind, _moved(each)) for each in posted] == [
        ("commission", {other: -1_500, "commission": 1_500})
    ]


async def test_a_commission_in_the_payments_own_posting_satisfies_the_invariants(
    sandbox_shop: Shop,
) -> None:
    """In earlier versions, the payment's posting included a commission that the customer pays."""
    shop = sandbox_shop
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    trx_id = (await _complete(shop, payment_amount=1000))["trx_id"]
    await shop.services.db.execute(
        "UPDATE payment SET commission_trx_id = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(shop.merchant.new.id, trx_id, trx_ids.new(shop.merchant.new.id)),
    )
    posted = await postings_of(shop.services.db, shop.merchant.new.id, [str(trx_id)])
    assert _moved(posted[0]) == {
        "clearing:sandbox": -101_500,
        "wallet": 100_000,
        "commission": 1_500,
    }
    findings = await check(shop.services.db, PAYMENTS)
    assert [finding.name for finding in findings if finding.count] == []


def _moved(posting: PostingLine) -> dict[str, int]:
    return {entry.account: entry.amount_minor for entry in posting.entries}


async def test_a_zero_commission_has_no_transaction(either_shop: Shop) -> None:
    verified = await _complete(either_shop)
    commission = verified["commission"]
    assert isinstance(commission, dict)
    assert commission["commission_trx_id"] is None
    assert await either_shop.account("commission") == 0


async def test_the_provider_collects_what_the_customer_pays(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    started = await shop.start(payment_amount=43)
    charge = await shop.choose(started, "providera_ngn_va")
    assert charge.amount_minor == 43_65
