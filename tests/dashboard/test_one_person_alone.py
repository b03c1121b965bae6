"""A finance user tries to pay out more than the threshold alone, with sequences of page actions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from manilla.kit.database.connections import Database
from manilla.people.roles import Role
from manilla.services import Services
from tests.dashboard.bulk_upload import GTBANK, draft
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard, redirect_target
from tests.dashboard.settlement_form import settle
from tests.payouts.payout_merchant import new_account, new_reference, setting
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator
from tests.support.rows import pairs
from tests.web.signed_in_user import SignedInUser, member

WALLET, THRESHOLD = 1_000_000_00, 1_000_00
PAYOUTS, SETTLEMENTS = "/sandbox/payouts", "/sandbox/settlements"
ACCOUNT = "/sandbox/settlement-account"


class Thief(msgspec.Struct, frozen=True):
    """A finance user of a merchant whose payouts above 1,000 need a second person's approval."""

    dashboard: MerchantDashboard
    user: SignedInUser
    schema_owner: Database

    @property
    def merchant_id(self) -> int:
        return self.dashboard.merchant.new.id

    async def pay(self, amount: str, reference: str = "") -> None:
        form = {
            "method": str(await self.dashboard.method_id()),
            "bank_code": GTBANK,
            "account_number": new_account(),
            "amount": amount,
            "reference": reference,
            "once": new_reference(),
        }
        reply = await self.user.post(PAYOUTS, form)
        if "/payouts/bulk/" in reply.headers.get("location", ""):
            await self.user.post(f"{redirect_target(reply)}/approve", {})

    async def pay_file(self, *amounts: str) -> str:
        batch = await draft(
            self.dashboard, [f"{each},{GTBANK},{new_account()},,," for each in amounts]
        )
        await self.user.post(f"{batch}/confirm", {})
        await self.user.post(f"{batch}/approve", {})
        return batch

    async def set_account(self) -> None:
        form = {
            "method": str(await self.dashboard.method_id()),
            "bank_code": GTBANK,
            "account_number": new_account(),
            "confirmed_name": "SANDBOX BENEFICIARY",
        }
        assert (await self.user.post(ACCOUNT, form)).status == 303
        number: int = await self.dashboard.services.db.value(
            "SELECT max(id) FROM settlement_account WHERE merchant_id = $1", self.merchant_id
        )
        await self.user.post(f"{ACCOUNT}/{number}/approve", {})

    async def settle(self) -> None:
        await settle(self.user)
        await self.dashboard.run_jobs()
        await self.approve_settlements()

    async def approve_settlements(self) -> None:
        for record in await self.dashboard.services.db.records(
            "SELECT batch_id FROM settlement WHERE merchant_id = $1 AND batch_id IS NOT NULL",
            self.merchant_id,
        ):
            await self.user.post(f"{PAYOUTS}/bulk/{record['batch_id']}/approve", {})


@pytest.fixture
async def thief(services: Services, site: Site, owner: Database) -> AsyncIterator[Thief]:
    async with running_simulator(services):
        dashboard = await new_dashboard(services, site)
        user = await member(services, site, dashboard.merchant.new.id, Role.FINANCE)
        await user.step_up(services)
        form = {"currency": "NGN", "amount": f"{THRESHOLD // 100}"}
        assert (await dashboard.owner.post("/sandbox/protection/threshold", form)).status == 303
        yield Thief(dashboard, user, owner)


async def _first_account(thief: Thief) -> None:
    await thief.set_account()
    await thief.settle()


async def _account_in_effect_for_years(thief: Thief) -> None:
    """The thief settles to an old account that nobody except the thief has approved."""
    await thief.set_account()
    await thief.schema_owner.execute(
        "UPDATE settlement_account SET effective_at = now() - interval '2 years'"
        " WHERE merchant_id = $1",
        thief.merchant_id,
    )
    await thief.settle()


async def _plan(thief: Thief) -> None:
    await _account_in_effect_for_years(thief)
    await thief.user.post(f"{SETTLEMENTS}/plan", {"currency": "NGN", "mode": "daily"})
    await thief.dashboard.services.db.execute(
        "UPDATE settlement_plan SET set_at = now() - interval '9 days' WHERE merchant_id = $1",
        thief.merchant_id,
    )
    async with setting(thief.dashboard.services, "settlement_hour", "0"):
        await thief.dashboard.run_jobs()
        await thief.approve_settlements()


async def _plan_of_another_person(thief: Thief) -> None:
    form = {"currency": "NGN", "mode": "daily"}
    await thief.dashboard.owner.post(f"{SETTLEMENTS}/plan", form)
    await _plan(thief)


async def _small_payouts(thief: Thief) -> None:
    for _ in range(3):
        await thief.pay("600")


async def _small_payouts_at_the_same_time(thief: Thief) -> None:
    await asyncio.gather(*(thief.pay("900") for _ in range(5)))


async def _growing_payout_with_one_reference(thief: Thief) -> None:
    reference = new_reference()
    for amount in ("1", "900", "5000", "500000"):
        await thief.pay(amount, reference)


async def _payout_with_the_name_of_a_file(thief: Thief) -> None:
    batch = await thief.pay_file("900")
    await thief.pay("900", batch.rsplit("/", 1)[1])
    await thief.pay("900", "SETTLEMENT-1")


async def _files_payouts_and_settlements(thief: Thief) -> None:
    await thief.pay_file("500", "300")
    await thief.pay_file("500", "300")
    await thief.pay("800")
    await thief.set_account()
    await thief.user.post(
        f"{SETTLEMENTS}/plan", {"currency": "NGN", "mode": "manual", "reserve": "999000"}
    )
    await thief.settle()


async def _request_of_his_own(thief: Thief) -> None:
    await thief.pay("500000")
    await thief.pay_file("500000")


async def _weaker_protection(thief: Thief) -> None:
    form = {"currency": "NGN", "amount": ""}
    await thief.user.post("/sandbox/protection/threshold", form)
    number = await thief.dashboard.services.db.value(
        "SELECT max(id) FROM approval WHERE merchant_id = $1", thief.merchant_id
    )
    here = {"environment": "sandbox"}
    await thief.user.post(f"/protection/changes/{number}/approve", here)
    await thief.pay("500000")


async def _other_ways_out(thief: Thief) -> None:
    """The thief tries pages and actions that a finance user may not use."""
    user = thief.user
    everything = {"rights": "payouts", "name": "mine"}
    assert (await user.post("/production/credentials/keys", everything)).status == 403
    assert (await user.post("/production/credentials/rotate", {})).status == 403
    invited = await user.post("/team/invite", {"email": "me@example.com", "role": "finance"})
    assert invited.status == 403
    assert (await user.post("/sandbox/explorer", {"operation": "initiatePayout"})).status == 403


CHAINS: tuple[Callable[[Thief], Awaitable[None]], ...] = (
    _first_account,
    _account_in_effect_for_years,
    _plan,
    _plan_of_another_person,
    _small_payouts,
    _small_payouts_at_the_same_time,
    _growing_payout_with_one_reference,
    _payout_with_the_name_of_a_file,
    _files_payouts_and_settlements,
    _request_of_his_own,
    _weaker_protection,
    _other_ways_out,
)


@pytest.mark.parametrize(("chain", "wait_hours"), pairs(CHAINS, ["24", "0"]))
async def test_one_person_never_pays_out_more_than_the_threshold(
    thief: Thief, chain: Callable[[Thief], Awaitable[None]], wait_hours: str
) -> None:
    async with setting(thief.dashboard.services, "settlement_account_wait_hours", wait_hours):
        await chain(thief)
        await thief.dashboard.run_jobs()
    assert await thief.dashboard.balance() >= WALLET - THRESHOLD
