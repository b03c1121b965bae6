"""Cases: a few legal ways out of each, the books level after it, and nothing forgotten."""

import pytest
import structlog

from manilla.cases import cases
from manilla.cases.cases import Case, CaseRefused, Kind
from manilla.cases.levelling import NotCovered
from manilla.cases.suspense import Action, NothingThere
from manilla.kit.db import Database
from manilla.payouts import disputes, reconcile
from manilla.services import Services
from tests.payments.shop import Shop
from tests.payouts.desk import RAILS, Desk, method

FEES = {"a": 1_000, "b": 0, "c": 1_075}


async def the_case(desk: Desk) -> Case:
    [case_id] = [
        record["id"]
        for record in await desk.services.db.records(
            "SELECT id FROM operator_case WHERE merchant_id = $1", desk.merchant.new.id
        )
    ]
    return await cases.find(desk.services.db, case_id)


async def actions(desk: Desk) -> list[str]:
    return [way.name for way in await cases.ways(desk.services.db, await the_case(desk))]


async def resolve(desk: Desk, action: Action, note: str = "as the bank says") -> Case:
    return await disputes.resolve(desk.services.db, (await the_case(desk)).id, note, action)


async def contradicted(desk: Desk, rail: str, was: str, now: str) -> str:
    """A payout of 1,000.00 with a fee of 50.00 that was decided; then its provider changed its
    mind."""
    quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    await desk.world.control(f"{rail}/faults", quiet)
    async with method(desk.services, rail, fee_fixed="50"):
        trx_id = await desk.pay_out(rail)
    await desk.world.run_jobs()
    await desk.settle(rail, trx_id, was)
    await desk.check_until(trx_id, {"success": "completed"}.get(was, was))
    await say(desk, rail, trx_id, now)
    return trx_id


async def say(desk: Desk, rail: str, trx_id: str, status: str) -> None:
    """The provider says so, and something makes us ask."""
    await desk.settle(rail, trx_id, status, insist=True)
    await desk.services.db.execute(
        "INSERT INTO job (merchant_id, kind, subject, due_at) VALUES ($1, 'transfer', $2, now())",
        *(desk.merchant.new.id, trx_id),
    )
    await desk.world.run_jobs()


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("action", [Action.DEBIT, Action.WRITE_OFF])
async def test_a_payout_delivered_after_all_is_borne_by_the_merchant_or_by_us(
    desk: Desk, rail: str, action: Action
) -> None:
    trx_id = await contradicted(desk, rail, "failed", "success")
    assert await actions(desk) == ["debit", "write_off", "nothing"]
    assert await desk.balance() == 1_000_000
    case = await resolve(desk, action)
    assert (case.status, case.resolution) == ("resolved", f"{action}: as the bank says")
    is_debit = action is Action.DEBIT
    assert await desk.balance() == 1_000_000 - (105_000 if is_debit else 0)
    assert await desk.account("payout_fee") == (5_000 if is_debit else 0)
    assert await desk.account(f"clearing:provider{rail}") == 100_000 + FEES[rail]
    assert await desk.account(f"provider_fee:provider{rail}") == -FEES[rail]
    assert (await desk.payout(trx_id)).status == "failed"
    step = (await desk.timeline(trx_id))[-1]
    assert (step.event, step.detail) == (f"case_{action}", f"case {case.id}: as the bank says")
    assert await actions(desk) == []
    found = await reconcile.reconcile(desk.services.db, desk.services.rails)
    assert not any(trx_id in report.transfers_differ for report in found)


async def test_a_wallet_that_does_not_cover_it_gives_nothing(desk: Desk) -> None:
    await contradicted(desk, "a", "failed", "success")
    await desk.pay_out("c", payout_amount=9500)
    with pytest.raises(NotCovered):
        await resolve(desk, Action.DEBIT)
    assert (await the_case(desk)).status == "open"
    assert await desk.balance() == 50_000


@pytest.mark.parametrize("rail", RAILS)
async def test_a_payout_that_came_back_after_all_is_settled_as_reversed(
    desk: Desk, rail: str
) -> None:
    trx_id = await contradicted(desk, rail, "success", "failed")
    assert await actions(desk) == ["reverse", "nothing"]
    await resolve(desk, Action.REVERSE)
    payout = await desk.payout(trx_id)
    assert (payout.status, payout.is_reversed) == ("failed", True)
    assert await desk.balance() == 1_000_000
    assert await desk.account(f"clearing:provider{rail}") == 0
    messages = [told["message"] for told in await desk.notifications(trx_id)]
    assert messages == ["Payout Completed", "Payout Reversed"]


async def test_a_case_is_resolved_by_its_own_ways_alone(desk: Desk) -> None:
    await contradicted(desk, "a", "success", "failed")
    with pytest.raises(CaseRefused, match="reverse, nothing"):
        await resolve(desk, Action.WRITE_OFF)
    with pytest.raises(NothingThere):
        await resolve(desk, Action.CREDIT)
    assert (await the_case(desk)).status == "open"
    await resolve(desk, Action.NOTHING)
    assert await desk.balance() == 895_000


async def test_a_contradiction_opens_anew_when_something_new_is_said(desk: Desk) -> None:
    trx_id = await contradicted(desk, "a", "success", "failed")
    first = await the_case(desk)
    await resolve(desk, Action.NOTHING, "they correct it")
    await say(desk, "a", trx_id, "failed")
    assert (await the_case(desk)).status == "resolved"
    await desk.services.db.execute(
        "UPDATE operator_case SET detail = 'something else' WHERE id = $1", first.id
    )
    with structlog.testing.capture_logs() as logged:
        await cases.open_case(
            *(desk.services.db, Kind.CONTRADICTION, trx_id, "The provider says pending."),
            merchant_id=desk.merchant.new.id,
        )
        await say(desk, "a", trx_id, "failed")
    again = await the_case(desk)
    assert (again.id, again.status, again.detail) == (
        first.id,
        "open",
        "The provider says pending.",
    )
    assert [line["event"] for line in logged].count("case_opened") == 1
    told = [(each.event, each.detail) for each in await cases.history(desk.services.db, again)]
    assert told == [
        ("opened", first.detail),
        ("resolved", "nothing: they correct it"),
        ("reopened", "The provider says pending."),
    ]


async def test_what_became_of_a_case_is_not_rewritten(db: Database, owner: Database) -> None:
    with pytest.raises(Exception, match="append-only"):
        await owner.execute("DELETE FROM case_event")
    with pytest.raises(Exception, match="denied"):
        await db.execute("UPDATE case_event SET detail = ''")


@pytest.mark.parametrize(
    ("action", "gained", "account"),
    [
        (Action.CREDIT, 90_000, None),
        (Action.RETURN, 0, "clearing:providera"),
        (Action.KEEP, 0, "adjustment"),
    ],
)
async def test_money_in_suspense_goes_where_a_person_says_and_the_payment_tells_of_it(
    desk: Desk, services: Services, action: Action, gained: int, account: str | None
) -> None:
    shop = Shop(services, desk.world, desk.merchant)
    started = await shop.start()
    charge = await shop.choose(started, "providera_ngn_va")
    await shop.pay(charge, amount=900)
    await shop.until_charge(charge, "suspense")
    before = 0 if account is None else await shop.account(account)
    assert await actions(desk) == ["credit", "return", "keep"]
    with pytest.raises(CaseRefused, match="suspense"):
        await resolve(desk, Action.NOTHING)
    case = await resolve(desk, action)
    assert await shop.account("suspense") == 0
    assert await desk.balance() == 1_000_000 + gained
    if account is not None:
        assert await shop.account(account) == before + 90_000
    step = (await desk.timeline(started.trx_id))[-1]
    assert step.event == f"suspense_{action}"
    assert f"900.00 NGN, case {case.id}: as the bank says" in (step.detail or "")
    assert await shop.status(started) == "pending"


async def test_a_credited_charge_that_was_never_paid_is_written_off(
    desk: Desk, services: Services
) -> None:
    shop = Shop(services, desk.world, desk.merchant)
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    await shop.pay(charge, outcome="failed", insist=True)

    async def has_case() -> bool:
        return bool(await shop.cases())

    await shop.world.until(has_case)
    assert await actions(desk) == ["write_off", "nothing"]
    adjustment = await shop.account("adjustment")
    await resolve(desk, Action.WRITE_OFF)
    assert await shop.account("adjustment") == adjustment - 100_000
    assert await desk.balance() == 1_100_000
