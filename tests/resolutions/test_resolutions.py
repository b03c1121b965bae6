"""Every resolution of a case is recorded and keeps the ledger balanced."""

import pytest
import structlog

from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction, CaseKind, CaseRefused
from manilla.kit.database.connections import Database
from manilla.payments.suspense import NothingInSuspense
from manilla.reconciliation import balances
from manilla.resolutions import resolutions
from manilla.resolutions.clearing_adjustment import LossNotCovered
from manilla.services import Services
from tests.payments.shop import HOLD, Shop
from tests.payouts.payout_merchant import RAILS, PayoutMerchant, method
from tests.support.rows import first_short

FEES = {"a": 1_000, "b": 0, "c": 1_075}


async def the_case(payer: PayoutMerchant) -> Case:
    [case_id] = [
        record["id"]
        for record in await payer.services.db.records(
            "SELECT id FROM operator_case WHERE merchant_id = $1", payer.merchant.new.id
        )
    ]
    return await cases.find(payer.services.db, case_id)


async def actions(payer: PayoutMerchant) -> list[str]:
    return [way.name for way in await resolutions.options(payer.services.db, await the_case(payer))]


async def resolve(
    payer: PayoutMerchant, action: CaseAction, note: str = "as the bank says"
) -> Case:
    return await resolutions.resolve(payer.services.db, (await the_case(payer)).id, note, action)


async def contradicted(payer: PayoutMerchant, rail: str, was: str, now: str) -> str:
    """Creates a payout of 1,000.00 with a fee of 50.00. The provider reports two final statuses."""
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await payer.simulator.control(f"{rail}/faults", quiet)
    async with method(payer.services, rail, fee_fixed="50"):
        trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.settle(rail, trx_id, was)
    await payer.check_until(trx_id, {"success": "completed"}.get(was, was))
    await report_status(payer, rail, trx_id, now)
    return trx_id


async def report_status(payer: PayoutMerchant, rail: str, trx_id: str, status: str) -> None:
    """Makes the provider report this status, and runs the status query."""
    await payer.settle(rail, trx_id, status, insist=True)
    await payer.services.db.execute(
        "INSERT INTO job (merchant_id, kind, subject, due_at) VALUES ($1, 'transfer', $2, now())",
        *(payer.merchant.new.id, trx_id),
    )
    await payer.simulator.run_jobs()


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize("action", [CaseAction.DEBIT, CaseAction.WRITE_OFF])
async def test_a_payout_delivered_after_all_is_charged_to_the_merchant_or_to_us(
    payer: PayoutMerchant, rail: str, action: CaseAction
) -> None:
    trx_id = await contradicted(payer, rail, "failed", "success")
    assert await actions(payer) == ["debit", "write_off", "nothing"]
    assert await payer.balance() == 1_000_000
    case = await resolve(payer, action)
    assert (case.status, case.resolution) == ("resolved", f"{action}: as the bank says")
    is_debit = action is CaseAction.DEBIT
    assert await payer.balance() == 1_000_000 - (105_000 if is_debit else 0)
    assert await payer.account("payout_fee") == (5_000 if is_debit else 0)
    assert await payer.account(f"clearing:provider{rail}") == 100_000 + FEES[rail]
    assert await payer.account(f"provider_fee:provider{rail}") == -FEES[rail]
    assert (await payer.payout(trx_id)).status == "failed"
    step = (await payer.timeline(trx_id))[-1]
    assert (step.event, step.detail) == (f"case_{action}", f"case {case.id}: as the bank says")
    assert await actions(payer) == []
    found = await balances.compare_all(payer.services.db, payer.services.rails)
    assert not any(trx_id in report.transfers_differ for report in found)


async def test_a_wallet_that_cannot_cover_it_is_not_debited(payer: PayoutMerchant) -> None:
    await contradicted(payer, "a", "failed", "success")
    await payer.pay_out("c", payout_amount=9500)
    with pytest.raises(LossNotCovered):
        await resolve(payer, CaseAction.DEBIT)
    assert (await the_case(payer)).status == "open"
    assert await payer.balance() == 50_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_payout_that_was_returned_after_all_is_settled_as_reversed(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await contradicted(payer, rail, "success", "failed")
    assert await actions(payer) == ["reverse", "nothing"]
    await resolve(payer, CaseAction.REVERSE)
    payout = await payer.payout(trx_id)
    assert (payout.status, payout.is_reversed) == ("failed", True)
    assert await payer.balance() == 1_000_000
    assert await payer.account(f"clearing:provider{rail}") == 0
    messages = [notified["message"] for notified in await payer.notifications(trx_id)]
    assert messages == ["Payout Completed", "Payout Reversed"]


async def test_a_case_can_be_resolved_only_with_its_own_resolutions(payer: PayoutMerchant) -> None:
    await contradicted(payer, "a", "success", "failed")
    with pytest.raises(CaseRefused, match="reverse, nothing"):
        await resolve(payer, CaseAction.WRITE_OFF)
    with pytest.raises(NothingInSuspense):
        await resolve(payer, CaseAction.CREDIT)
    assert (await the_case(payer)).status == "open"
    await resolve(payer, CaseAction.NOTHING)
    assert await payer.balance() == 895_000


async def test_a_contradiction_reopens_when_new_evidence_arrives(payer: PayoutMerchant) -> None:
    trx_id = await contradicted(payer, "a", "success", "failed")
    first = await the_case(payer)
    await resolve(payer, CaseAction.NOTHING, "they correct it")
    await report_status(payer, "a", trx_id, "failed")
    assert (await the_case(payer)).status == "resolved"
    await payer.services.db.execute(
        "UPDATE operator_case SET detail = 'something else' WHERE id = $1", first.id
    )
    with structlog.testing.capture_logs() as logged:
        await cases.open_case(
            *(payer.services.db, CaseKind.CONTRADICTION, trx_id, "The provider says pending."),
            merchant_id=payer.merchant.new.id,
        )
        await report_status(payer, "a", trx_id, "failed")
    again = await the_case(payer)
    assert (again.id, again.status, again.detail) == (
        first.id,
        "open",
        "The provider says pending.",
    )
    assert [line["event"] for line in logged].count("case_opened") == 1
    notified = [(each.event, each.detail) for each in await cases.history(payer.services.db, again)]
    assert notified == [
        ("opened", first.detail),
        ("resolved", "nothing: they correct it"),
        ("reopened", "The provider says pending."),
    ]


async def test_a_resolution_cannot_be_rewritten(db: Database, owner: Database) -> None:
    with pytest.raises(Exception, match="append-only"):
        await owner.execute("DELETE FROM case_event")
    with pytest.raises(Exception, match="denied"):
        await db.execute("UPDATE case_event SET detail = ''")


@pytest.mark.parametrize(
    ("action", "gained", "account"),
    [
        (CaseAction.CREDIT, 90_000, None),
        (CaseAction.RETURN, 0, "clearing:providera"),
        (CaseAction.KEEP, 0, "adjustment"),
    ],
)
async def test_suspense_money_goes_where_an_administrator_decides_and_the_payment_shows_it(
    payer: PayoutMerchant, services: Services, action: CaseAction, gained: int, account: str | None
) -> None:
    shop = Shop(services, payer.simulator, payer.merchant)
    await shop.change(HOLD)
    started = await shop.start()
    charge = await shop.choose(started, "providera_ngn_va")
    await shop.pay(charge, amount=900)
    await shop.until_charge(charge, "suspense")
    before = 0 if account is None else await shop.account(account)
    assert await actions(payer) == ["credit", "return", "keep"]
    with pytest.raises(CaseRefused, match="suspense"):
        await resolve(payer, CaseAction.NOTHING)
    case = await resolve(payer, action)
    assert await shop.account("suspense") == 0
    assert await payer.balance() == 1_000_000 + gained
    if account is not None:
        assert await shop.account(account) == before + 90_000
    step = (await payer.timeline(started.trx_id))[-1]
    assert step.event == f"suspense_{action}"
    assert f"₦900.00, case {case.id}: as the bank says" in (step.detail or "")
    assert await shop.status(started) == "pending"


async def test_a_credited_charge_that_was_never_paid_is_written_off(
    payer: PayoutMerchant, services: Services
) -> None:
    shop = Shop(services, payer.simulator, payer.merchant)
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    await shop.pay(charge, outcome="failed", insist=True)

    async def has_case() -> bool:
        return bool(await shop.cases())

    await shop.simulator.until(has_case)
    assert await actions(payer) == ["write_off", "nothing"]
    adjustment = await shop.account("adjustment")
    await resolve(payer, CaseAction.WRITE_OFF)
    assert await shop.account("adjustment") == adjustment - 100_000
    assert await payer.balance() == 1_100_000
