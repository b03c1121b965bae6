"""Webhooks for two accounts with the same type of provider, forged webhooks, and special cases."""

from collections.abc import AsyncIterator

import pytest

from manilla import metrics
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.providers import accounts, credentials
from manilla.refunds import decisions, initiate
from manilla.refunds.refund import RefundStatus
from manilla.services import Services
from tests.faults import transfer_webhooks
from tests.payments import webhooks
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant, new_account
from tests.support import kinds
from tests.support.client import Site
from tests.support.kinds import TestedKind
from tests.support.rows import first_short

FULL, DEBITED = 1_000_000, 900_000
TELLING = kinds.WITH_TRANSFER_WEBHOOKS


@pytest.fixture(autouse=True)
async def _settle_on_command_without_webhooks(payer: PayoutMerchant, db: Database) -> None:
    mine = payer.merchant.new.id
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", mine)
    for rail in kinds.ALL:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


@pytest.fixture
def kind(rail: str) -> TestedKind:
    return kinds.BY_RAIL[rail]


@pytest.fixture
async def second(services: Services, kind: TestedKind) -> AsyncIterator[str]:
    """Adds a second account of the same provider kind with different keys."""
    name = f"second{kind.rail}"
    if name not in await accounts.load(services.db):
        await accounts.add(services.db, kind.provider, name)
    given = dict(services.rails.credentials(kind.provider).given)
    given[kind.signed_with] = "another-key"
    await credentials.change(services.db, services.keyring, name, given)
    await services.rails.load()
    yield name
    await credentials.clear(services.db, name)
    await services.rails.load()


async def _stored(db: Database, reference: str) -> int:
    return await db.number("SELECT count(*) FROM webhook WHERE reference = $1", reference)


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_16_a_webhook_signed_with_another_accounts_key_is_rejected(
    shop: Shop, site: Site, db: Database, kind: TestedKind, second: str
) -> None:
    charge = await shop.choose(await shop.start(), kind.checkout_method)
    message = kind.paid(charge.reference)
    forged = [
        await webhooks.send(site, kind.provider, message, to=second),
        await webhooks.send(site, kind.provider, message, secret="another-key"),
    ]
    assert [reply.status for reply in forged] == [401, 401]
    assert await _stored(db, charge.reference) == 0


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_17_a_webhook_about_another_accounts_transaction_is_stored_and_ignored(
    shop: Shop, site: Site, db: Database, kind: TestedKind, second: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await shop.pay(charge)
    ignored = metrics.webhooks.labels(second, "ignored")._value
    before = ignored.get()
    reply = await webhooks.send(
        *(site, kind.provider, kind.paid(charge.reference)), to=second, secret="another-key"
    )
    assert reply.status == 200
    assert ignored.get() == before + 1
    assert await _stored(db, charge.reference) == 1
    await shop.simulator.run_jobs()
    assert (await shop.status(started), await shop.balance()) == ("pending", FULL)
    assert await shop.cases() == []


async def _sent(payer: PayoutMerchant, rail: str) -> str:
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    assert len(await payer.transfers(rail)) == 1
    return trx_id


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_16_a_forged_webhook_causes_no_status_query(
    payer: PayoutMerchant, site: Site, db: Database, rail: str
) -> None:
    trx_id = await _sent(payer, rail)
    await payer.settle(rail, trx_id, "success")
    message = transfer_webhooks.transfer(rail, trx_id, "success")
    reply = await transfer_webhooks.send_webhook(site, rail, message, secret="guess")
    assert reply.status == 401
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "pending"
    assert "transfer_status" not in await payer.calls(rail)
    assert await _stored(db, trx_id) == 0


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_15_a_transfer_that_comes_back_before_we_learn_of_its_delivery(
    payer: PayoutMerchant, rail: str
) -> None:
    """The bank returns a delivered transfer, and no webhook reports the delivery or the return."""
    kind = kinds.BY_RAIL[rail]
    trx_id = await _sent(payer, rail)
    word, _ = kind.reversals[-1]
    await payer.settle(rail, trx_id, "success")
    await payer.settle(rail, trx_id, "reversed", provider_status=word)
    await payer.check_now(trx_id)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("failed", FULL)
    expected = "Payout Failed" if kind.reverses_failures else "Payout Reversed"
    assert [each["message"] for each in await payer.notifications(trx_id)] == [expected]
    assert await payer.cases() == []


async def test_16_unsigned_webhooks_of_monnifys_sandbox_settle_nothing(
    payer: PayoutMerchant, site: Site, services: Services, db: Database
) -> None:
    """Anyone can send an unsigned webhook, so it is ignored, and the status is queried instead."""
    test_key = {"api_key": "MK_TEST_SIMULATED"}
    await payer.simulator.control("monnify/account", test_key)
    await credentials.change(services.db, services.keyring, "monnify", test_key)
    await services.rails.load()
    try:
        trx_id = await _sent(payer, "monnify")
        await payer.settle("monnify", trx_id, "success")
        raw = transfer_webhooks.transfer("monnify", trx_id, "success")
        reply = await site.send("POST", "/webhooks/monnify", {}, raw)
        assert (reply.status, await _stored(db, trx_id)) == (200, 0)
        await payer.simulator.run_jobs()
        assert (await payer.payout(trx_id)).status == "pending"
        await payer.check_now(trx_id)
        assert (await payer.payout(trx_id)).status == "completed"
    finally:
        real_key = {"api_key": kinds.BY_RAIL["monnify"].credentials("")["api_key"]}
        await credentials.change(services.db, services.keyring, "monnify", real_key)


@pytest.mark.parametrize("call", ["transfer", "transfer_status"])
async def test_10_a_token_that_ends_between_two_calls_repeats_no_transfer(
    payer: PayoutMerchant, call: str
) -> None:
    """Monnify returns 401, so the outcome is unknown, and we query the status before resending."""
    ended = {"call": call, "fault": "refuse", "status": 401, "message": "Access token has expired"}
    await payer.simulator.control("monnify/faults", {"next": [ended]})
    trx_id = await payer.pay_out("monnify")
    await payer.simulator.run_jobs()
    assert (await payer.calls("monnify")).count("transfer") == 1
    await payer.check_now(trx_id)
    await payer.settle("monnify", trx_id, "success")
    await payer.check_now(trx_id)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("completed", DEBITED)
    [transfer] = await payer.transfers("monnify")
    assert (transfer["reference"], transfer["duplicates"]) == (trx_id, 0)


def _unresolved(rail: str) -> dict[str, str]:
    return {"bank_code": kinds.BY_RAIL[rail].bank_code, "account_number": new_account()}


async def test_10_a_token_that_ends_at_account_resolution_debits_nothing_and_is_renewed(
    payer: PayoutMerchant,
) -> None:
    ended = {"call": "resolve", "fault": "refuse", "status": 401, "message": "Token has expired"}
    await payer.simulator.control("monnify/faults", {"next": [ended]})
    order = await payer.order("monnify", beneficiary=_unresolved("monnify"))
    first = await payer.send(order)
    assert (first.status, first.code) == (503, "SERVICE_UNAVAILABLE")
    assert await payer.balance() == FULL
    second = await payer.send(order)
    assert (second.status, await payer.balance()) == (200, DEBITED)
    calls = [call for call in await payer.calls("monnify") if call in ("token", "resolve")]
    assert calls[-3:] == ["resolve", "token", "resolve"]
    await payer.simulator.run_jobs()
    assert len(await payer.transfers("monnify")) == 1


async def test_10_a_recipient_that_vanished_at_paystack_is_created_again(
    payer: PayoutMerchant,
) -> None:
    first = await _sent(payer, "paystack")
    # Delete the recipients at the simulated Paystack. Manilla keeps their codes.
    await payer.simulator.control("paystack/reset", {})
    await payer.simulator.control("paystack/faults", {"settle_seconds": 3600})
    second = await payer.pay_out("paystack")
    await payer.simulator.run_jobs()
    [transfer] = await payer.transfers("paystack")
    assert (transfer["reference"], transfer["duplicates"]) == (second.lower(), 0)
    assert {(await payer.payout(each)).status for each in (first, second)} == {"pending"}


@pytest.mark.parametrize(
    "fault", first_short(["reset_after_accept", "5xx_after_accept", "5xx_before"])
)
@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_10_11_a_refund_whose_response_is_lost_is_never_paid_twice(
    shop: Shop, kind: TestedKind, fault: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await shop.pay(charge)
    await shop.simulator.run_job_now("charge", charge.reference)
    lost = {"next": [{"call": "refund", "fault": fault}], "settle_seconds": 0.02}
    await shop.simulator.control(f"{kind.rail}/faults", lost)
    refund = await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await shop.simulator.run_jobs()
    arrived = fault != "5xx_before" and kind.refunds

    async def is_done() -> bool:
        await shop.simulator.run_job_now("refund", refund.trx_id)
        is_expected = arrived and kind.queries_refunds
        now = await decisions.find(shop.services.db, refund.trx_id)
        return not is_expected or now.status is RefundStatus.COMPLETED

    for _ in range(4):
        await shop.simulator.until(is_done)
    now = await decisions.find(shop.services.db, refund.trx_id)
    listed = (await shop.simulator.read(f"{kind.rail}/refunds"))["refunds"]
    assert await shop.balance() == FULL
    if arrived and kind.queries_refunds:
        assert now.status is RefundStatus.COMPLETED
    elif not kind.resends_refunds or not kind.refunds:
        assert (now.status, len(listed)) == (RefundStatus.PENDING, 1 if arrived else 0)
    if not (kind.refunds and kind.queries_refunds):
        assert now.by_operator
    assert len(listed) <= 1


@pytest.mark.parametrize("rail", ["paystack"])
@pytest.mark.parametrize("is_listed", [False, True], ids=["lost", "listed"])
async def test_11_only_an_administrator_can_reject_a_refund_that_paystack_does_not_list(
    shop: Shop, kind: TestedKind, is_listed: bool
) -> None:
    """Paystack never receives the refund, so its list cannot show it, and it is not sent again."""
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await shop.pay(charge)
    await shop.simulator.run_job_now("charge", charge.reference)
    fault = "5xx_after_accept" if is_listed else "5xx_before"
    lost = {"next": [{"call": "refund", "fault": fault}], "refunds": "pending"}
    await shop.simulator.control(f"{kind.rail}/faults", lost)
    refund = await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await shop.simulator.run_jobs()
    before = await shop.balance()
    await shop.services.db.execute(
        "UPDATE refund SET sent_at = sent_at - interval '4 days',"
        " first_sent_at = first_sent_at - interval '4 days' WHERE trx_id = $1",
        refund.trx_id,
    )
    await shop.simulator.run_job_now("refund", refund.trx_id)
    key = shop.services.db, shop.services.rails, refund.trx_id, "It never arrived"
    with pytest.raises(Refusal, match="pending" if is_listed else "confirm that you have checked"):
        await decisions.reject(*key)
    if is_listed:
        with pytest.raises(Refusal, match="pending"):
            await decisions.reject(*key, is_checked=True)
        assert await shop.balance() == before
    else:
        rejected = await decisions.reject(*key, is_checked=True)
        assert rejected.status is RefundStatus.FAILED
        assert await shop.balance() == before + refund.amount.minor
