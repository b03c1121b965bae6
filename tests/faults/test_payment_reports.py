"""Late, wrong, repeated or forged reports about payments, for all provider kinds.

The numbers in the test names refer to docs/faults.md. `tests/support/kinds.py` lists the
differences between the kinds.
"""

import asyncio
import itertools

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.payments import states
from manilla.payments.payment import Charge
from manilla.providers.port import ChargeState, ReportedChargeStatus
from tests.payments import webhooks
from tests.payments.shop import HOLD, Shop, Started
from tests.support import kinds
from tests.support.client import Site
from tests.support.kinds import TestedKind, WrongPayment
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

BEFORE = 1_000_000  # the merchant's balance before a payment
METHODS = [(rail, method) for rail in kinds.ALL for method in kinds.BY_RAIL[rail].methods]
WITH_ACCOUNTS = [rail for rail in kinds.ALL if kinds.BY_RAIL[rail].wrong_payment]


@pytest.fixture
async def _no_webhooks(simulator: ProviderSimulator) -> None:
    for rail in kinds.ALL:
        await simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})


@pytest.fixture
def kind(rail: str) -> TestedKind:
    return kinds.BY_RAIL[rail]


async def _is_credited_once(shop: Shop, started: Started) -> None:
    assert await shop.status(started) == "success"
    assert await shop.balance() == BEFORE + 100_000
    assert len(await shop.notifications(started)) == 1
    assert await shop.cases() == []


@pytest.mark.usefixtures("_no_webhooks")
@pytest.mark.parametrize(("rail", "method"), first_short(METHODS))
async def test_a_payment_without_a_webhook_is_found_by_a_status_query(
    shop: Shop, rail: str, method: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, method)
    await shop.pay(charge)
    await shop.simulator.run_jobs()
    assert await shop.status(started) == "pending"
    await shop.simulator.run_job_now("charge", charge.reference)
    await _is_credited_once(shop, started)


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
@pytest.mark.usefixtures("_no_webhooks")
async def test_18_a_hundred_copies_of_a_webhook_cause_one_credit(
    shop: Shop, site: Site, kind: TestedKind
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await shop.pay(charge)
    copies = [{**kind.paid(charge.reference), "n": n % 10} for n in range(100)]
    replies = await asyncio.gather(*(webhooks.send(site, kind.provider, copy) for copy in copies))
    # A busy server may respond with 503, and a real provider would then send the webhook again.
    assert {200} <= {reply.status for reply in replies} <= {200, 503}
    await shop.until(started, "success")
    await shop.simulator.run_jobs()
    await _is_credited_once(shop, started)


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
@pytest.mark.usefixtures("_no_webhooks")
async def test_16_forged_webhooks_are_rejected_and_not_stored(
    shop: Shop, site: Site, db: Database, kind: TestedKind
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await shop.pay(charge)
    message, other = kind.paid(charge.reference), kind.paid(charge.reference, 5)
    neighbor = kinds.ALL[kinds.ALL.index(kind.rail) - 1]
    forged = [
        await webhooks.send(site, kind.provider, message, secret="guess"),
        await webhooks.send(site, kind.provider, message, header="x-no-signature"),
        await webhooks.send(site, kinds.BY_RAIL[neighbor].provider, message, to=kind.provider),
    ]
    if kind.signs_body:
        signed = kinds.encoded(other)
        forged.append(await webhooks.send(site, kind.provider, message, signed=signed))
    assert {(reply.status, reply.code) for reply in forged} == {(401, "INVALID_SIGNATURE")}
    stored = await db.value("SELECT count(*) FROM webhook WHERE reference = $1", charge.reference)
    assert stored == 0
    await shop.simulator.run_jobs()
    assert await shop.status(started) == "pending"


@pytest.mark.parametrize(
    ("amount", "currency"),
    [("999.99", "NGN"), ("1000.01", "NGN"), ("1000.00", "USD"), ("1", "NGN")],
)
@pytest.mark.parametrize("rail", first_short(kinds.ALL))
@pytest.mark.usefixtures("_no_webhooks")
async def test_17_a_signed_webhook_with_a_wrong_amount_is_held_for_review(
    shop: Shop, site: Site, kind: TestedKind, amount: str, currency: str
) -> None:
    charge = await shop.choose(await shop.start(), kind.checkout_method)
    await shop.pay(charge)
    message = webhooks.paid(kind.provider, charge.reference, amount, currency)
    assert (await webhooks.send(site, kind.provider, message)).status == 200
    await shop.until_charge(charge, "suspense")
    assert await shop.balance() == BEFORE
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]
    assert await shop.account("suspense") == 100_000


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_19_a_webhook_that_arrives_before_we_save_is_matched_by_reference(
    shop: Shop, db: Database, kind: TestedKind
) -> None:
    """The provider's webhook arrives before we have saved the response to our request."""
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await db.execute("UPDATE charge SET status = 'opening' WHERE reference = $1", charge.reference)
    await shop.pay(charge)
    await shop.until(started, "success")
    await _is_credited_once(shop, started)


def _states(amount: Money) -> dict[str, ChargeState]:
    return {
        "pending": ChargeState(ReportedChargeStatus.PENDING),
        "failed": ChargeState(ReportedChargeStatus.FAILED, reason="declined"),
        "paid": ChargeState(ReportedChargeStatus.PAID, paid=amount),
    }


@pytest.mark.parametrize(
    "order",
    first_short(list(each) for each in itertools.permutations(["pending", "paid", "failed"])),
)
async def test_15_reports_about_two_charges_in_any_order_end_the_same(
    shop: Shop, order: tuple[str, ...]
) -> None:
    """The first charge fails, and the second is paid. All provider kinds send the same reports."""
    started = await shop.start()
    first = await shop.choose(started, "providera-ngn")
    second = await shop.choose(started, "providerc-ngn")
    news = _states(second.amount)
    for name in order:
        charge = first if name == "failed" else second
        await states.conclude(shop.services.db, charge, news[name])
    await _is_credited_once(shop, started)


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_15_a_late_webhook_about_a_declined_charge_changes_nothing(
    shop: Shop, kind: TestedKind
) -> None:
    """The first charge is declined and the second is paid, but the second webhook arrives first."""
    neighbor = kinds.BY_RAIL[kinds.ALL[kinds.ALL.index(kind.rail) - 1]]
    started = await shop.start()
    first = await shop.choose(started, kind.checkout_method)
    second = await shop.choose(started, neighbor.checkout_method)
    await shop.simulator.control(f"{kind.rail}/faults", {"webhooks": {"mode": "hold"}})
    await shop.pay(first, outcome="failed", reason="declined")
    await shop.pay(second)
    await shop.until(started, "success")
    await shop.simulator.control(f"{kind.rail}/webhooks/release", {})
    await shop.simulator.run_job_now("charge", first.reference)
    await shop.until_charge(first, "failed")
    await _is_credited_once(shop, started)


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
@pytest.mark.usefixtures("_no_webhooks")
async def test_20_webhook_return_and_reconciliation_together_cause_one_transition(
    shop: Shop, site: Site, kind: TestedKind
) -> None:
    for number in range(1, 4):
        started = await shop.start()
        charge = await shop.choose(started, kind.checkout_method)
        await shop.pay(charge)
        await asyncio.gather(
            webhooks.send(site, kind.provider, kind.paid(charge.reference)),
            shop.services.checkout.look_again(started.trx_id),
            shop.simulator.run_job_now("charge", charge.reference),
            shop.services.checkout.look_again(started.trx_id),
        )
        await shop.simulator.run_jobs()
        assert len(await shop.notifications(started)) == 1
        assert await shop.balance() == BEFORE + number * 100_000


async def _expire(shop: Shop, started: Started) -> None:
    await shop.simulator.run_job_now("payment.expire", started.trx_id)


@pytest.mark.parametrize(("rail", "method"), first_short(METHODS))
@pytest.mark.parametrize("end", ["expired", "canceled", "declined"])
async def test_22_an_expired_payment_that_is_paid_later_becomes_a_success(
    shop: Shop, kind: TestedKind, method: str, end: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, method)
    if end == "canceled":
        await shop.services.checkout.cancel(started.trx_id)
    else:
        if end == "declined":
            await shop.pay(charge, outcome="failed", reason="declined")
            await shop.simulator.run_job_now("charge", charge.reference)
            await shop.until_charge(charge, "failed")
        await _expire(shop, started)
    assert await shop.status(started) == "failed"
    await shop.pay(charge, insist=end == "declined")
    await shop.until(started, "success")
    assert await shop.balance() == BEFORE + 100_000
    first, second = await shop.notifications(started)
    assert first["status"] == {"canceled": "canceled"}.get(end, "failed")
    assert second["status"] == "completed"
    assert await shop.cases() == []


def _is_kept(kind: TestedKind, amount: float) -> bool:
    """Returns whether the provider keeps this amount if the account expects 1000."""
    is_more = amount > 1000
    return kind.wrong_payment is WrongPayment.KEPT or (
        kind.wrong_payment is WrongPayment.PARTLY_KEPT and is_more
    )


@pytest.mark.parametrize(
    "amount", first_short([999.99, 1000.01, 1, 5000], of_each=lambda amount: amount > 1000)
)
@pytest.mark.parametrize(
    "rail", first_short(WITH_ACCOUNTS, of_each=lambda rail: kinds.BY_RAIL[rail].wrong_payment)
)
async def test_22_a_wrong_amount_is_held_in_suspense_or_returned_by_the_provider(
    shop: Shop, kind: TestedKind, amount: float
) -> None:
    await shop.change(HOLD)
    started = await shop.start()
    charge = await shop.choose(started, kind.account_method)
    if _is_kept(kind, amount):
        await shop.pay(charge, amount=amount)
        await _is_in_suspense(shop, started, charge, amount)
        return
    path = f"{kind.rail}/charges/{charge.reference}/pay"
    assert await shop.simulator.try_control(path, {"amount": amount}) == 409
    await shop.simulator.run_job_now("charge", charge.reference)
    assert await shop.status(started) == "pending"
    assert (await shop.balance(), await shop.account("suspense")) == (BEFORE, 0)
    await shop.pay(charge)
    await shop.until(started, "success")
    await _is_credited_once(shop, started)


async def _is_in_suspense(shop: Shop, started: Started, charge: Charge, amount: float) -> None:
    await shop.until_charge(charge, "suspense")
    assert await shop.status(started) == "pending"
    assert await shop.balance() == BEFORE
    assert await shop.account("suspense") == round(amount * 100)
    assert await shop.cases() == [("wrong_amount", charge.reference)]


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_22_a_second_paid_charge_is_held_in_suspense(shop: Shop, kind: TestedKind) -> None:
    started = await shop.start()
    first = await shop.choose(started, "providera_ngn_va")
    second = await shop.choose(started, kind.checkout_method)
    assert second.reference == f"{started.trx_id}-2"
    await shop.pay(first)
    await shop.until(started, "success")
    await shop.pay(second)
    await shop.until_charge(second, "suspense")
    assert await shop.balance() == BEFORE + 100_000
    assert await shop.cases() == [("second_charge_paid", second.reference)]
    assert len(await shop.notifications(started)) == 1


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_13_a_paid_charge_the_provider_later_calls_failed_moves_nothing(
    shop: Shop, kind: TestedKind
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, kind.checkout_method)
    await shop.pay(charge)
    await shop.until(started, "success")
    await shop.pay(charge, outcome="failed", insist=True)
    await shop.services.db.execute(
        "INSERT INTO job (merchant_id, kind, subject, due_at) VALUES ($1, 'charge', $2, now())"
        " ON CONFLICT DO NOTHING",
        *(charge.merchant_id, charge.reference),
    )

    async def has_case() -> bool:
        return bool(await shop.cases())

    await shop.simulator.until(has_case)
    assert await shop.cases() == [("contradiction", charge.reference)]
    assert await shop.status(started) == "success"
    assert await shop.balance() == BEFORE + 100_000
