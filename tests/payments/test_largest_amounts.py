"""The largest amounts are rejected, credited or posted to the suspense account, and never lost."""

import pytest

from manilla.cases.cases import CaseAction
from manilla.kit.money import Money
from manilla.ledger import balances, posting, trx_ids
from manilla.ledger.posting import Line, Posting
from manilla.payments.suspense import WalletTooFull
from manilla.payouts import decisions
from manilla.posting_kinds import PostingKind
from manilla.resolutions import resolutions
from tests.payments import steps
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Merchant

WALLET_MAX = 9 * 10**18
LARGEST = "99999999999999.99"


async def _fill(shop: Shop, room_minor: int) -> None:
    """Credits the wallet with the largest possible postings until only `room_minor` more fits."""
    missing = WALLET_MAX - room_minor - await shop.balance()
    while missing:
        part = min(missing, 10**17 - 1)
        await _fund(shop, part)
        missing -= part
    assert await shop.balance() == WALLET_MAX - room_minor


async def _fund(shop: Shop, minor: int) -> None:
    merchant = shop.merchant
    [posted] = await posting.post(
        shop.services.db,
        [
            Posting(
                merchant_id=merchant.new.id,
                trx_id=trx_ids.new(merchant.new.id),
                kind=PostingKind.FUNDING,
                environment=merchant.environment,
                wallet=Money("NGN", minor),
                lines=(Line(posting.ADJUSTMENT, -minor),),
                reason="For a test",
            )
        ],
    )
    assert posted.outcome == "posted"


async def test_the_maximum_amount_is_accepted_and_credited_exactly(sandbox: Merchant) -> None:
    reply = await steps.initiate(sandbox, steps.order_of(LARGEST))
    assert reply.status == 200, reply.body
    assert str(steps.exact(reply)["info"]["amount"]) == LARGEST


@pytest.mark.parametrize("amount", ["100000000000000.00", "1e15", "1e16", "1e40"])
@pytest.mark.parametrize("initiate", [steps.initiate, steps.initiate_legacy])
async def test_an_amount_above_the_maximum_is_rejected(
    sandbox: Merchant, amount: str, initiate: object
) -> None:
    reply = await initiate(sandbox, steps.order_of(amount))  # type: ignore[operator]
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT")


async def test_the_maximum_is_shown_with_the_currencys_decimals(sandbox: Merchant) -> None:
    reply = await steps.initiate(sandbox, steps.order_of("100000000000000"))
    assert reply.json["errors"] == {"payment_amount": "The maximum is 99,999,999,999,999.99."}


async def test_a_payment_that_fills_the_wallet_to_its_limit_is_credited(shop: Shop) -> None:
    await _fill(shop, 100_000)
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    assert await shop.balance() == WALLET_MAX


async def test_a_payment_that_would_exceed_the_wallet_limit_goes_to_suspense(shop: Shop) -> None:
    await _fill(shop, 99_999)
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until_charge(charge, "suspense")
    assert await shop.cases() == [("wallet_full", charge.reference)]
    assert await shop.account("suspense") == 100_000
    assert await shop.balance() == WALLET_MAX - 99_999
    failures = await shop.services.db.value(
        "SELECT coalesce(sum(failures), 0) FROM job WHERE merchant_id = $1", shop.merchant.new.id
    )
    assert failures == 0


async def test_held_money_is_credited_once_the_wallet_has_room(shop: Shop) -> None:
    await _fill(shop, 99_999)
    charge = await shop.choose(await shop.start(), "providera-ngn")
    await shop.pay(charge)
    await shop.until_charge(charge, "suspense")
    db, merchant_id = shop.services.db, shop.merchant.new.id
    case_id = await db.value("SELECT id FROM operator_case WHERE merchant_id = $1", merchant_id)
    with pytest.raises(WalletTooFull):
        await resolutions.resolve(db, case_id, "Room was made", CaseAction.CREDIT)
    payer = PayoutMerchant(shop.services, shop.simulator, shop.merchant)
    await payer.pay_out()
    await resolutions.resolve(db, case_id, "Room was made", CaseAction.CREDIT)
    assert await shop.account("suspense") == 0


async def test_returned_money_may_exceed_the_wallet_limit(shop: Shop) -> None:
    """A refunded debit is credited even if the wallet has reached its limit in the meantime."""
    await _fill(shop, 0)
    payer = PayoutMerchant(shop.services, shop.simulator, shop.merchant)
    trx_id = await payer.pay_out("platform")
    await _fill(shop, 0)
    await decisions.reject(shop.services.db, shop.services.rails, trx_id, "Wrong account")
    assert await shop.balance() > WALLET_MAX


async def test_a_sandbox_payment_that_would_exceed_the_wallet_limit_fails(
    sandbox_shop: Shop,
) -> None:
    await _fill(sandbox_shop, 99_999)
    started = await sandbox_shop.start()
    await steps.complete(sandbox_shop.services, sandbox_shop.merchant, started.trx_id)
    assert await sandbox_shop.status(started) == "failed"
    assert await sandbox_shop.balance() == WALLET_MAX - 99_999


async def test_the_ledgers_totals_can_be_larger_than_a_bigint(shop: Shop) -> None:
    """The sum of two full wallets does not fit into a bigint. An earlier test filled one wallet."""
    await _fill(shop, 0)
    found = await balances.balances(shop.services.db)
    total = sum(each.balance_minor for each in found if each.currency == "NGN")
    assert total == 0
    assert max(each.balance_minor for each in found) >= WALLET_MAX
