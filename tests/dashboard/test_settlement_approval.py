"""A protected merchant's settlements need a second person, unless the account is trusted."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.bulk import batches
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.people.roles import Role
from manilla.services import Services
from manilla.settlements import store
from manilla.settlements.store import Settlement
from tests.dashboard.bulk_upload import GTBANK
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.settlement_form import settle
from tests.payouts.payout_merchant import new_account, setting
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import SignedInUser, member

SETTLEMENTS, ACCOUNT = "/sandbox/settlements", "/sandbox/settlement-account"
PROTECTION, BULK = "/sandbox/protection", "/sandbox/payouts/bulk"
WALLET = 1_000_000_00


class SettlingTeam(msgspec.Struct, frozen=True):
    """The owner and a finance member of a merchant. The finance member sets the account."""

    dashboard: MerchantDashboard
    finance: SignedInUser

    @property
    def owner(self) -> SignedInUser:
        return self.dashboard.owner

    async def protect(self) -> None:
        form = {"currency": "NGN", "amount": "1000"}
        assert (await self.owner.post(f"{PROTECTION}/threshold", form)).status == 303

    async def set_account(self) -> int:
        form = {
            "method": str(await self.dashboard.method_id()),
            "bank_code": GTBANK,
            "account_number": new_account(),
            "confirmed_name": "SANDBOX BENEFICIARY",
        }
        assert (await self.finance.post(ACCOUNT, form)).status == 303
        number: int = await self.dashboard.services.db.value(
            "SELECT max(id) FROM settlement_account WHERE merchant_id = $1",
            self.dashboard.merchant.new.id,
        )
        return number

    async def let_pass(self, owner: Database, hours: int) -> None:
        await owner.execute(
            "UPDATE settlement_account SET effective_at = effective_at - make_interval(hours => $2)"
            " WHERE merchant_id = $1",
            *(self.dashboard.merchant.new.id, hours),
        )

    async def settle(self) -> Settlement:
        """Settles the balance as the finance member, and runs the jobs."""
        await settle(self.finance)
        await self.dashboard.run_jobs()
        return await self.newest()

    async def newest(self) -> Settlement:
        tenant = Tenant(self.dashboard.merchant.new.id, Environment.SANDBOX)
        found = await store.newest(self.dashboard.services.db, tenant, "NGN")
        assert found is not None
        return found


@pytest.fixture
async def team(services: Services, site: Site) -> AsyncIterator[SettlingTeam]:
    async with running_simulator(services):
        dashboard = await new_dashboard(services, site)
        finance = await member(services, site, dashboard.merchant.new.id, Role.FINANCE)
        await finance.step_up(services)
        yield SettlingTeam(dashboard, finance)


async def test_a_settlement_waits_for_another_person_and_is_paid_once(team: SettlingTeam) -> None:
    await team.set_account()
    await team.protect()
    asked = await team.settle()
    assert (asked.state, asked.trx_id) == ("open", None)
    assert await team.dashboard.balance() == WALLET
    request = f"{BULK}/{asked.batch_id}"
    await team.finance.post(f"{request}/approve", {})
    await team.dashboard.run_jobs()
    assert await team.dashboard.balance() == WALLET, "the requester approved their own settlement"

    for _ in range(2):
        await team.owner.post(f"{request}/approve", {})
    await team.dashboard.run_jobs()
    paid = await team.newest()
    assert (paid.id, paid.state) == (asked.id, "paid")
    assert paid.trx_id is not None
    assert await team.dashboard.count("payout") == 1
    assert await team.dashboard.balance() == 0


async def test_a_refused_settlement_fails_and_moves_no_money(team: SettlingTeam) -> None:
    await team.set_account()
    await team.protect()
    asked = await team.settle()
    await team.owner.post(f"{BULK}/{asked.batch_id}/refuse", {})
    await team.dashboard.run_jobs()
    ended = await team.newest()
    assert (ended.id, ended.state) == (asked.id, "failed")
    assert team.owner.email in (ended.remark or "")
    assert await team.dashboard.count("payout") == 0
    assert await team.dashboard.balance() == WALLET


@pytest.mark.parametrize("has_job", [True, False], ids=["with a job", "without a job"])
async def test_a_settlement_that_nobody_approves_in_time_fails(
    team: SettlingTeam, has_job: bool
) -> None:
    """Earlier releases could delete the job that ends the request, so a settlement needs none."""
    await team.set_account()
    await team.protect()
    asked = await team.settle()
    db = team.dashboard.services.db
    if not has_job:
        await db.execute("DELETE FROM job WHERE subject = $1", asked.batch_id)
    await db.execute("UPDATE payout_batch SET expires_at = now() WHERE id = $1", asked.batch_id)
    await team.dashboard.run_jobs()
    ended = await team.newest()
    assert (ended.id, ended.state, ended.remark) == (asked.id, "failed", batches.EXPIRED)
    assert await team.dashboard.balance() == WALLET


async def test_an_approved_account_is_trusted_after_the_waiting_time(
    team: SettlingTeam, owner: Database
) -> None:
    number = await team.set_account()
    await team.protect()
    approve = f"{ACCOUNT}/{number}/approve"
    assert "another person must" in await team.finance.follow(await team.finance.post(approve, {}))
    assert "Approved by" not in (await team.finance.get(ACCOUNT)).body.decode()
    await team.owner.post(approve, {})
    page = (await team.finance.get(ACCOUNT)).body.decode()
    assert "Approved by" in page
    assert "approval until" in page
    assert (await team.settle()).batch_id is not None, "the account was trusted too early"
    await team.owner.post(f"{BULK}/{(await team.newest()).batch_id}/refuse", {})
    await team.dashboard.run_jobs()

    await team.let_pass(owner, hours=24)
    assert (await team.settle()).state == "paid"
    assert await team.dashboard.balance() == 0


async def test_without_a_waiting_time_approval_is_enough(
    team: SettlingTeam, services: Services
) -> None:
    async with setting(services, "settlement_account_wait_hours", "0"):
        await team.protect()
        number = await team.set_account()
        assert (await team.settle()).batch_id is not None
        await team.owner.post(f"{BULK}/{(await team.newest()).batch_id}/refuse", {})
        await team.dashboard.run_jobs()
        await team.owner.post(f"{ACCOUNT}/{number}/approve", {})
        assert (await team.settle()).state == "paid"


@pytest.mark.parametrize("protection", ["threshold", "lock"])
async def test_the_first_account_of_a_protected_merchant_waits(
    team: SettlingTeam, protection: str
) -> None:
    form = {"currency": "NGN", "amount": "1000", "locked": "yes"}
    await team.owner.post(f"{PROTECTION}/{protection}", form)
    await team.set_account()
    page = (await team.finance.get(ACCOUNT)).body.decode()
    assert "takes effect on" in page
    refused = await settle(team.finance)
    assert "Set a settlement account first." in await team.finance.follow(refused)
    await team.dashboard.run_jobs()
    assert await team.dashboard.balance() == WALLET


async def test_a_settlement_below_the_threshold_needs_nobody(team: SettlingTeam) -> None:
    await team.set_account()
    await team.protect()
    form = {"currency": "NGN", "mode": "manual", "reserve": "999500"}
    await team.finance.post(f"{SETTLEMENTS}/plan", form)
    assert (await team.settle()).state == "paid"
    assert await team.dashboard.balance() == 999_500_00


async def test_the_page_says_from_when_the_first_account_can_be_used(team: SettlingTeam) -> None:
    await team.protect()
    await team.set_account()
    page = (await team.finance.get("/sandbox/settlements")).body.decode()
    assert "SANDBOX BENEFICIARY" in page
    assert "Not set." not in page
    assert "Show account" in page
