"""After every resolution, each clearing account matches the provider's statement."""

import pytest

from manilla.cases import cases
from manilla.cases.cases import Case, CaseAction, CaseRefused
from manilla.ledger import statement
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.reconciliation import balances
from manilla.resolutions import resolutions
from tests.payouts.routing.routed import REFUSED, RoutedPayouts
from tests.payouts.test_states import send_webhook
from tests.support.client import Site
from tests.web.signed_in_user import member

FIRST, SECOND = "providera", "providerb"
FEES = {"a": 1_000, "b": 0, "c": 1_075}
AMOUNT, FULL = 100_000, 1_000_000


class MovedPayout:
    """A payout that rail A has rejected, and that has moved to rail B."""

    def __init__(self, routed: RoutedPayouts, site: Site, trx_id: str) -> None:
        self.routed = routed
        self.payer = routed.payer
        self.site = site
        self.trx_id = trx_id

    async def ends(self, status: str) -> None:
        """Settles the transfer at rail B with this status."""
        await self.payer.settle("b", self.trx_id, status)
        ended = "completed" if status == "success" else "failed"
        await self.payer.check_until(self.trx_id, ended)

    async def rail_a_pays(self) -> None:
        await self.routed.send_directly("a", self.trx_id)
        await self.payer.settle("a", self.trx_id, "success")
        assert (await send_webhook(self.site, "a", self.trx_id, "success")).status == 200
        await self.payer.check_now(self.trx_id)

    async def rail_b_changes(self, status: str) -> None:
        await self.payer.settle("b", self.trx_id, status, insist=True)
        await balances.compare(self.routed.services.db, self.routed.services.rails, SECOND)

    async def case(self) -> Case:
        [case] = [
            each
            for each in await cases.cases(self.routed.services.db, include_resolved=True)
            if each.reference == self.trx_id
        ]
        return case

    async def resolve(self, action: CaseAction) -> None:
        case = await self.case()
        await resolutions.resolve(self.routed.services.db, case.id, "as agreed", action)

    async def options(self) -> tuple[str | None, list[str]]:
        case = await self.case()
        ways = await resolutions.options(self.routed.services.db, case)
        return case.provider, [way.name for way in ways]

    async def check_clearing(self) -> None:
        at = await self.routed.transfers(self.trx_id)
        stated = {rail: AMOUNT + FEES[rail] if at.get(rail) == "success" else 0 for rail in FEES}
        ours = {rail: await self.payer.account(f"clearing:provider{rail}") for rail in FEES}
        assert ours == stated


@pytest.fixture
async def moved(routed: RoutedPayouts, site: Site) -> MovedPayout:
    for rail in "abc":
        await routed.simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})
    await routed.plan("a", REFUSED)
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    assert await routed.transfers(trx_id) == {"b": "processing"}
    return MovedPayout(routed, site, trx_id)


@pytest.mark.parametrize("action", [CaseAction.DEBIT, CaseAction.WRITE_OFF])
async def test_a_refunded_payout_that_the_left_rail_paid_is_posted_there(
    moved: MovedPayout, action: CaseAction
) -> None:
    await moved.ends("failed")
    await moved.rail_a_pays()
    assert await moved.options() == (FIRST, ["debit", "write_off", "nothing"])
    await moved.resolve(action)
    await moved.check_clearing()
    is_debit = action is CaseAction.DEBIT
    assert await moved.payer.balance() == FULL - (AMOUNT if is_debit else 0)
    assert (await moved.options())[1] == []


async def test_a_merchant_sees_neither_the_rail_nor_the_note_of_a_debit_in_a_case(
    moved: MovedPayout,
) -> None:
    await moved.ends("failed")
    await moved.rail_a_pays()
    await moved.resolve(CaseAction.DEBIT)
    services, merchant = moved.routed.services, moved.payer.merchant
    owner = await member(services, moved.site, merchant.new.id)
    payout = await moved.payer.payout(moved.trx_id)
    for query in ("", f"?ref_trx={payout.ref_trx}"):
        listed = (await merchant.get(f"/api/v1/balance-transactions{query}")).json["data"]
        assert [each["kind"] for each in listed[:3]] == ["case_debit", "payout_refund", "payout"]
    wallet = "/production/wallets/NGN"
    for path in (wallet, f"{wallet}?kind=case_debit", f"{wallet}?kind=case_debit&format=csv"):
        page = (await owner.get(path)).body.decode()
        assert moved.trx_id in page
        assert FIRST not in page
        assert "as agreed" not in page
    page = (await owner.get(f"/production/payouts/{moved.trx_id}")).body.decode()
    assert "Case debit" in page
    assert f"debit:{FIRST}" not in page
    tenant = Tenant(merchant.new.id, merchant.environment)
    [line] = (
        await statement.lines(services.db, tenant, "NGN", StatementFilter(kind="case_debit"))
    ).rows
    assert (line.rail, line.trx_id) == (FIRST, moved.trx_id)
    assert "as agreed" in (line.reason or "")


async def test_a_payout_that_was_paid_twice_is_written_off_at_the_left_rail(
    moved: MovedPayout,
) -> None:
    await moved.ends("success")
    await moved.rail_a_pays()
    assert await moved.options() == (FIRST, ["write_off", "nothing"])
    with pytest.raises(CaseRefused):
        await moved.resolve(CaseAction.REVERSE)
    await moved.resolve(CaseAction.WRITE_OFF)
    await moved.check_clearing()
    assert await moved.payer.balance() == FULL - AMOUNT
    found = await balances.compare(moved.routed.services.db, moved.routed.services.rails, FIRST)
    assert moved.trx_id not in found.transfers_differ


async def test_a_contradiction_of_each_rail_is_resolved_at_its_own_rail(
    moved: MovedPayout,
) -> None:
    await moved.ends("success")
    await moved.rail_a_pays()
    await moved.resolve(CaseAction.WRITE_OFF)
    await moved.rail_b_changes("failed")
    assert await moved.options() == (SECOND, ["reverse", "nothing"])
    await moved.resolve(CaseAction.REVERSE)
    await moved.check_clearing()
    assert await moved.payer.balance() == FULL


async def test_a_merchant_is_debited_only_once_for_a_payout_that_two_rails_paid(
    moved: MovedPayout,
) -> None:
    await moved.ends("failed")
    await moved.rail_a_pays()
    await moved.resolve(CaseAction.DEBIT)
    await moved.rail_b_changes("success")
    assert await moved.options() == (SECOND, ["write_off", "nothing"])
    await moved.resolve(CaseAction.WRITE_OFF)
    await moved.check_clearing()
    assert await moved.payer.balance() == FULL - AMOUNT


async def test_nothing_is_posted_while_the_payout_is_open(moved: MovedPayout) -> None:
    await moved.rail_a_pays()
    assert await moved.options() == (FIRST, ["nothing"])
    await moved.resolve(CaseAction.NOTHING)
    await moved.ends("success")
    await balances.compare(moved.routed.services.db, moved.routed.services.rails, FIRST)
    assert await moved.options() == (FIRST, ["write_off", "nothing"])
    await moved.resolve(CaseAction.WRITE_OFF)
    await moved.check_clearing()


async def test_the_fee_of_a_transfer_that_was_delivered_after_all_is_posted(
    routed: RoutedPayouts, site: Site
) -> None:
    """The rail rejected the transfer, so the fee is known only after the delivery."""
    await routed.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    await routed.plan("a", REFUSED)
    trx_id = await routed.payer.pay_out("a")
    await routed.simulator.run_jobs()
    payout = MovedPayout(routed, site, trx_id)
    assert (await routed.payer.payout(trx_id)).status == "failed"
    await routed.send_directly("a", trx_id)
    await routed.payer.settle("a", trx_id, "success")
    await balances.compare(routed.services.db, routed.services.rails, FIRST)
    assert await payout.options() == (FIRST, ["debit", "write_off", "nothing"])
    await payout.resolve(CaseAction.WRITE_OFF)
    await payout.check_clearing()
    assert (await routed.payer.payout(trx_id)).provider_fee_minor == FEES["a"]
