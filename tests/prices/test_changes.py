"""Administrators' changes of plans and taxes: what is accepted, and why the rest is not."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from manilla.approvals import approvals
from manilla.approvals.approvals import Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import Change
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.kit.database.connections import Database
from manilla.kit.price import PriceTerms
from manilla.prices import checks, input, price, store
from manilla.prices.book import PriceBook
from manilla.prices.changes import PlanAssignment, PlanChange, PlanWithdrawal, TaxAddition
from manilla.prices.checks import BadPrice
from manilla.prices.price import (
    PlanTerms,
    PriceDirection,
    PriceLine,
    Purpose,
    TaxBase,
    TaxBearer,
    Way,
)
from manilla.prices.store import OWN
from manilla.services import Services
from tests.prices.building import CARD, FREE, STAMP_DUTY, line, plan, tax
from tests.support.client import Merchant

TOMORROW = datetime.now(UTC) + timedelta(1)


@pytest.fixture
async def changed(services: Services, owner: Database) -> AsyncIterator[Services]:
    """Deletes all plans and taxes after the test."""
    yield services
    for table in ("price_version", "price_withdrawal", "merchant_plan", "tax_rule"):
        await owner.execute(f"DELETE FROM {table}")


async def _apply(services: Services, change: Change, *, in_production: bool = False) -> Any:
    about = Approvals(services.db, services.keyring, is_production_mode=in_production)
    return await apply_or_ask(about, change)


def _version(*lines: PriceLine, after: int = 0, **columns: Any) -> PlanChange:
    given: dict[str, Any] = {"plan": "standard", "starts_at": TOMORROW, **columns}
    return PlanChange(after=after, content=PlanTerms(title="Standard", lines=lines), **given)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (PriceTerms(percent=Decimal("100.1")), "between 0 and 100"),
        (PriceTerms(percent=Decimal(-1)), "between 0 and 100"),
        (PriceTerms(percent=Decimal("NaN")), "between 0 and 100"),
        (PriceTerms(percent=Decimal("1.23456")), "4 decimals"),
        (PriceTerms(fixed_minor=-1), "negative"),
        (PriceTerms(fixed_minor=10**15 + 1), "above"),
        (PriceTerms(minimum_minor=101, maximum_minor=100), "maximum is below the minimum"),
        (PriceTerms(fixed_minor=101, maximum_minor=100), "maximum is below the fixed part"),
        (PriceTerms(waived_below_minor=100), "no fixed part"),
        (
            PriceTerms(1, Decimal(1), maximum_minor=100, waived_below_minor=10_000),
            "Nobody would ever pay the fixed part",
        ),
        (PriceTerms(step_minor=3), "rounded to 1, 10, 100"),
        (PriceTerms(step_minor=0), "rounded to 1, 10, 100"),
    ],
)
def test_terms_that_cannot_be_meant_are_rejected(terms: PriceTerms, why: str) -> None:
    with pytest.raises(BadPrice, match=why):
        checks.check_plan("standard", plan(line(terms)).content)


@pytest.mark.parametrize(
    ("name", "lines", "why"),
    [
        ("S", [line(CARD)], "code"),
        ("standard", [line(CARD), line(PriceTerms())], "Line 2: another line"),
        ("standard", [line(CARD, currency="QQQ")], "Line 1: 'QQQ' is not"),
        (
            "standard",
            [line(CARD, direction=PriceDirection.PAYOUT, way=Way.CARD)],
            "Only a line for payments",
        ),
        (
            "standard",
            [line(CARD, direction=PriceDirection.DISPUTE)],
            "A dispute costs a fixed amount",
        ),
        ("standard", [line(CARD, method=f"m{number}") for number in range(10_000)], "at most 300"),
    ],
)
def test_plans_that_are_not_valid_are_rejected(name: str, lines: list[Any], why: str) -> None:
    with pytest.raises(BadPrice, match=why):
        checks.check_plan(name, plan(*lines).content)


def test_the_prices_of_the_market_are_valid() -> None:
    lines = [
        line(CARD, way=Way.CARD),
        line(PriceTerms(100_00, Decimal("3.9"))),
        line(PriceTerms(percent=Decimal(100)), currency="XOF"),
    ]

    checks.check_plan("standard", plan(*lines).content)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"percent": Decimal(101)}, "between 0 and 100"),
        ({"percent": None, "fixed_minor": -1}, "negative"),
        ({"fixed_minor": 1}, "percentage or a fixed amount"),
        ({"directions": ()}, "Choose the transactions"),
        ({"directions": (PriceDirection.DISPUTE,)}, "The fee of a dispute cannot be taxed"),
        ({"base": TaxBase.TRANSFER, "included": True}, "Only a tax on the fee"),
        ({"included": True, "borne_by": TaxBearer.PLATFORM}, "whoever pays the fee"),
        ({"included": True, "borne_by": TaxBearer.MERCHANT}, "whoever pays the fee"),
        ({"borne_by": TaxBearer.CUSTOMER}, "Only payments have a customer"),
        ({"exempt": (Purpose.SALARY,)}, "Only payouts and settlements"),
        ({"included": True, "returned": False}, "Only a tax on top"),
    ],
)
def test_taxes_that_contradict_themselves_are_rejected(terms: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPrice, match=why):
        checks.check_tax("vat", tax(**terms).content)


def test_lines_are_read_as_they_are_written() -> None:
    lines = (
        line(CARD, way=Way.CARD),
        line(PriceTerms(step_minor=100, percent=Decimal("0.5"), minimum_minor=7), method="a-ngn"),
        line(PriceTerms(), direction=PriceDirection.PAYOUT, currency="XOF"),
    )

    assert input.read_lines(input.write_lines(lines)) == lines


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("direction,currency\nloan,NGN", "Line 1: direction: 'loan' is none of"),
        ("direction,currency\n,NGN", "Line 1: The direction is one of"),
        ("direction,currency,percent\npayment,NGN,-1", "Line 1: percent"),
        ("direction,currency,fixed\npayment,JPY,1.5", "Line 1: fixed"),
        ("direction,currency,fixed\npayment,NGN,1e5", "Line 1: fixed"),
        ("direction,currency\npayment,NGN,7", "more values than column names"),
        ("direction,currency,bonus\npayment,NGN,7", "'bonus' is not a column"),
        ("dirction,currency", "'dirction' is not a column"),
        ("direction,currency,direction\npayment,NGN,payout", "two columns 'direction'"),
        ("direction,currency\npayment," + "N" * 200_000, "not a CSV file"),
        ("direction,currency\n" + "payment,NGN\n" * 10_000, "at most 300 lines"),
    ],
)
def test_lines_that_cannot_be_read_name_the_line(text: str, why: str) -> None:
    with pytest.raises(BadPrice, match=why):
        input.read_lines(text)


def test_lines_can_have_the_line_ends_of_any_system() -> None:
    [one, other] = input.read_lines("direction,currency\rpayment,NGN\rpayout,NGN")

    assert (one.direction, other.direction) == (PriceDirection.PAYMENT, PriceDirection.PAYOUT)


async def test_a_plan_that_starts_in_the_past_is_rejected(changed: Services) -> None:
    with pytest.raises(BadPrice, match="in the future"):
        await _apply(changed, _version(line(CARD), starts_at=datetime.now(UTC)))


async def test_a_line_for_an_unknown_method_is_rejected(changed: Services) -> None:
    wrong = line(CARD, method="providera_ngn_transfer")  # of payouts

    with pytest.raises(BadPrice, match="There is no deposit method"):
        await _apply(changed, _version(wrong))


async def test_two_changes_in_the_same_second_are_both_kept_and_the_later_counts(
    changed: Services,
) -> None:
    await _apply(changed, _version(line(CARD)))
    await _apply(changed, _version(line(PriceTerms()), after=1))
    await _apply(changed, PlanAssignment(plan="standard", starts_at=TOMORROW))

    found = PriceBook(await store.load(changed.db)).versions(7, TOMORROW)

    assert [each.version for each in found] == [2]


async def test_a_change_of_a_plan_that_somebody_has_changed_meanwhile_is_rejected(
    changed: Services,
) -> None:
    await _apply(changed, _version(line(CARD)))

    with pytest.raises(BadPrice, match="Somebody else"):
        await _apply(changed, _version(line(PriceTerms())))


async def test_a_withdrawn_version_never_starts(changed: Services) -> None:
    await _apply(changed, _version(line(CARD)))
    later = TOMORROW + timedelta(1)
    await _apply(changed, _version(line(FREE), after=1, starts_at=later))
    await _apply(changed, PlanWithdrawal(plan="standard", version=2))

    versions = (await store.load(changed.db)).versions
    in_force = price.in_force(versions, later)
    assert in_force is not None
    assert in_force.version == 1
    with pytest.raises(BadPrice, match="withdrawn already"):
        await _apply(changed, PlanWithdrawal(plan="standard", version=2))
    with pytest.raises(BadPrice, match="no version 3"):
        await _apply(changed, PlanWithdrawal(plan="standard", version=3))
    await _apply(changed, _version(line(CARD), after=2))  # its number stays used


async def test_a_version_that_has_started_is_not_withdrawn(changed: Services) -> None:
    await _apply(changed, _version(line(CARD), starts_at=None))
    with pytest.raises(BadPrice, match="has started"):
        await _apply(changed, PlanWithdrawal(plan="standard", version=1))


async def test_a_withdrawal_needs_a_second_administrator_in_production(changed: Services) -> None:
    await _apply(changed, _version(line(CARD)))
    with acting(Actor(ActorKind.PERSON, 1, "ada")):
        asked = await _apply(
            changed, PlanWithdrawal(plan="standard", version=1), in_production=True
        )
    assert isinstance(asked, ApprovalRequested)
    assert not (await store.load(changed.db)).versions[0].is_withdrawn


async def test_a_plan_of_a_merchant_replaces_the_default_and_none_removes_it(
    changed: Services, production: Merchant
) -> None:
    merchant_id = production.new.id
    await _apply(changed, _version(line(CARD)))
    await _apply(changed, _version(line(CARD), plan="cheap"))
    await _apply(changed, PlanAssignment(plan="standard", starts_at=TOMORROW))
    await _apply(changed, PlanAssignment(merchant_id=merchant_id, plan="cheap", starts_at=TOMORROW))
    later = TOMORROW + timedelta(1)
    await _apply(changed, PlanAssignment(merchant_id=merchant_id, plan=None, starts_at=later))

    book = PriceBook(await store.load(changed.db))

    assert book.plan(merchant_id, TOMORROW - timedelta(hours=1)) is None
    assert book.plan(merchant_id, TOMORROW) == "cheap"
    assert (book.plan(merchant_id, later), book.plan(merchant_id + 1, later)) == (None, "standard")


async def test_exceptions_need_their_merchant(changed: Services, production: Merchant) -> None:
    own: dict[str, Any] = {"plan": OWN, "merchant_id": production.new.id}
    await _apply(changed, _version(line(CARD), **own))

    wrongs: list[dict[str, Any]] = [{"plan": OWN}, {"merchant_id": production.new.id}]
    for wrong in wrongs:
        with pytest.raises(BadPrice, match="exceptions of merchants"):
            await _apply(changed, _version(line(CARD), **wrong))
    with pytest.raises(BadPrice, match="There is no plan"):
        await _apply(changed, PlanAssignment(plan=OWN))


async def test_a_tax_rule_replaces_only_a_rule_for_the_same_transactions(
    changed: Services,
) -> None:
    rule, later = tax().content, TOMORROW + timedelta(1)
    await _apply(changed, TaxAddition(name="vat", content=rule, starts_at=TOMORROW))
    of_payouts = tax(directions=(PriceDirection.PAYOUT,)).content

    with pytest.raises(BadPrice, match="for some of the same transactions"):
        await _apply(changed, TaxAddition(name="vat", content=of_payouts, starts_at=later))
    with pytest.raises(BadPrice, match="for some of the same transactions"):
        await _apply(changed, TaxAddition(name="vat", content=rule, starts_at=TOMORROW))
    ended = tax(percent=Decimal(0)).content
    await _apply(changed, TaxAddition(name="vat", content=ended, starts_at=later))
    await _apply(
        changed,
        TaxAddition(name="vat", content=of_payouts, starts_at=later + timedelta(1)),
    )


async def test_a_tax_rule_that_would_change_what_was_booked_is_rejected(
    changed: Services,
) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)

    with pytest.raises(BadPrice, match="future"):
        await _apply(changed, TaxAddition(name="vat", content=tax().content, starts_at=past))


async def test_a_posting_has_room_for_five_taxes(changed: Services) -> None:
    for number in range(5):
        name = f"tax_{number}"
        await _apply(changed, TaxAddition(name=name, content=STAMP_DUTY.content))

    with pytest.raises(BadPrice, match="at most 5 taxes"):
        await _apply(changed, TaxAddition(name="sixth", content=STAMP_DUTY.content))


@pytest.mark.parametrize(
    "change",
    [
        _version(line(CARD)),
        PlanAssignment(plan=None),
        TaxAddition(name="vat", content=tax().content),
    ],
    ids=lambda change: type(change).__name__,
)
async def test_in_production_a_second_administrator_approves_a_change(
    changed: Services, change: Change
) -> None:
    services = Approvals(changed.db, changed.keyring, is_production_mode=True)
    ada, ben = (Actor(ActorKind.PERSON, number, name) for number, name in ((1, "ada"), (2, "ben")))
    with acting(ada):
        asked = await apply_or_ask(services, change)
    assert isinstance(asked, ApprovalRequested)
    before = await store.load(changed.db)

    with acting(ben):
        await approvals.approve(services, asked.approval_id)

    after = await store.load(changed.db)
    assert (before.versions, before.assignments, before.rules) == ((), (), ())
    assert len(after.versions) + len(after.assignments) + len(after.rules) == 1
