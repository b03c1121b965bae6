"""With payout protection, large payouts need a second person, and only saved accounts are paid."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from manilla.bulk import batches
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.people.roles import Role
from manilla.services import Services
from manilla.sql import runner
from tests.dashboard.bulk_upload import GTBANK, draft
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard, redirect_target
from tests.payouts.payout_merchant import INITIATE, new_account, new_reference
from tests.support.client import Reply, Site
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import SignedInUser, member

PROTECTION, PAYOUTS, ACCOUNTS = "/sandbox/protection", "/sandbox/payouts", "/sandbox/accounts"
CHANGES, HERE = "/protection/changes", {"environment": "sandbox"}
WALLET = 1_000_000_00


class Team(msgspec.Struct, frozen=True):
    dashboard: MerchantDashboard
    finance: SignedInUser

    @property
    def owner(self) -> SignedInUser:
        return self.dashboard.owner


@pytest.fixture
async def team(services: Services, site: Site) -> AsyncIterator[Team]:
    async with running_simulator(services):
        dashboard = await new_dashboard(services, site)
        finance = await member(services, site, dashboard.merchant.new.id, Role.FINANCE)
        await finance.step_up(services)
        yield Team(dashboard, finance)


async def _set_threshold(user: SignedInUser, amount: str) -> str:
    reply = await user.post(f"{PROTECTION}/threshold", {"currency": "NGN", "amount": amount})
    assert reply.status == 303
    return (await user.get(PROTECTION)).body.decode()


async def _lock(user: SignedInUser, *, is_on: bool) -> None:
    fields = {"locked": "yes" if is_on else "no"}
    assert (await user.post(f"{PROTECTION}/lock", fields)).status == 303


async def _order(team: Team, amount: str, account: str = "") -> dict[str, str]:
    return {
        "method": str(await team.dashboard.method_id()),
        "bank_code": GTBANK,
        "account_number": account or new_account(),
        "amount": amount,
        "once": new_reference(),
    }


async def _change_id(team: Team) -> int:
    number: int = await team.dashboard.services.db.value(
        "SELECT id FROM approval WHERE merchant_id = $1 AND status = 'waiting'",
        team.dashboard.merchant.new.id,
    )
    return number


async def test_a_payout_above_the_threshold_waits_for_another_person(team: Team) -> None:
    await _set_threshold(team.owner, "5000")
    below = await team.owner.post(PAYOUTS, await _order(team, "4000"))
    assert "/payouts/bulk/" not in redirect_target(below)
    above = await _order(team, "6000")
    asked = [redirect_target(await team.owner.post(PAYOUTS, above)) for _ in range(2)]
    assert asked[0] == asked[1]
    assert await team.dashboard.count("payout") == 1

    own = await team.owner.post(f"{asked[0]}/approve", {})
    assert own.status == 303
    assert await team.dashboard.count("payout") == 1
    waiting = (await team.finance.get(asked[0])).body.decode()
    assert "Waiting for a second person" in waiting
    assert "<table" not in waiting, "one payout needs no table"
    assert (await team.finance.post(f"{asked[0]}/approve", {})).status == 303
    await team.finance.post(f"{asked[0]}/approve", {})
    await team.dashboard.run_jobs()
    assert await team.dashboard.count("payout") == 2
    assert await team.dashboard.balance() == WALLET - 10_000_00
    paid = (await team.finance.get(asked[0])).body.decode()
    assert "<table" not in paid
    for text in (above["account_number"], team.owner.email, "Completed", "View payout"):
        assert text in paid
    [row] = await team.dashboard.rows(PAYOUTS, q=above["once"])
    assert any("approved by" in cell for cell in row)


async def test_a_waiting_payout_is_shown_to_the_requester_and_to_those_who_can_approve(
    team: Team, services: Services, site: Site
) -> None:
    viewer = await member(services, site, team.dashboard.merchant.new.id, Role.VIEWER)
    await _set_threshold(team.owner, "5000")
    order = await _order(team, "6000")
    review = (await team.owner.post(f"{PAYOUTS}/new", order)).body.decode()
    assert "Request approval" in review
    assert "Pay ₦" not in review
    asked = redirect_target(await team.owner.post(PAYOUTS, order))
    assert "Your request needs approval" in (await team.owner.get("/sandbox")).body.decode()
    home = (await team.finance.get("/sandbox")).body.decode()
    assert f"{team.owner.email} asks for your approval" in home
    for user in (team.owner, team.finance):
        listed = (await user.get(PAYOUTS)).body.decode()
        assert listed.index("Waiting for approval") < listed.index("Filter the list")
        assert asked in listed
        menu = (await user.get("/sandbox/wallets")).body.decode()
        assert 'class="nav-count">1<' in menu
    for path in ("/sandbox", PAYOUTS):
        assert order["once"] not in (await viewer.get(path)).body.decode()
        assert "nav-count" not in (await viewer.get(path)).body.decode()

    await team.finance.post(f"{asked}/approve", {})
    for path in ("/sandbox", PAYOUTS):
        page = (await team.owner.get(path)).body.decode()
        assert "needs approval" not in page
        assert "nav-count" not in page


async def test_a_new_member_sees_from_when_to_approve_before_entering_a_password(
    team: Team, db: Database
) -> None:
    await _set_threshold(team.owner, "5000")
    order = await _order(team, "6000")
    asked = redirect_target(await team.owner.post(PAYOUTS, order))
    merchant_id = team.dashboard.merchant.new.id
    await db.execute(
        "UPDATE payout_batch SET environment = 'production' WHERE merchant_id = $1", merchant_id
    )
    await wallets.fund(
        db, merchant_id, Environment.PRODUCTION, Money("NGN", 10_000_00), "for a test"
    )
    await db.execute(
        "UPDATE membership SET approves_from = now() + interval '1 hour' WHERE person_id = $1",
        team.finance.person_id,
    )
    await db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1", team.finance.person_id
    )
    page = asked.replace("/sandbox/", "/production/")
    shown = (await team.finance.get(page)).body.decode()
    button = shown.index("Approve and pay")
    assert shown.index(order["account_number"]) < button
    assert 'disabled aria-describedby="waits"' in shown[:button]
    assert "you can approve from" in shown
    reply = await team.finance.post(f"{page}/approve", {})
    assert reply.status == 303, "the page asks for a password first"
    assert "New members cannot approve yet." in await team.finance.follow(reply)
    assert f"{team.finance.email}, from <time" in (await team.owner.get(page)).body.decode()
    outlasts = (
        "SELECT expires_at > now() + interval '47 hours' FROM payout_batch WHERE merchant_id = $1"
    )
    assert await db.value(outlasts, merchant_id)


async def test_the_button_of_a_file_says_that_a_second_person_is_needed(team: Team) -> None:
    await _set_threshold(team.owner, "1500")
    rows = [f"1000,{GTBANK},{new_account()},,," for _ in range(2)]
    small, large = await draft(team.dashboard, rows[:1]), await draft(team.dashboard, rows)
    assert "Request approval" not in (await team.owner.get(small)).body.decode()
    assert "Request approval" in (await team.owner.get(large)).body.decode()


@pytest.mark.parametrize("ends", ["refused", "expired"])
async def test_a_request_that_ended_can_be_repeated_with_its_reference(
    team: Team, ends: str
) -> None:
    await _set_threshold(team.owner, "5000")
    order = await _order(team, "6000")
    first = redirect_target(await team.owner.post(PAYOUTS, order))
    if ends == "refused":
        await team.finance.post(f"{first}/refuse", {})
        rejected = (await team.owner.get(first)).body.decode()
        assert f"Rejected by {team.finance.email}" in rejected
        assert order["account_number"] in rejected
    else:
        await team.dashboard.services.db.execute(
            "UPDATE payout_batch SET expires_at = now() WHERE id = $1", first.rsplit("/", 1)[1]
        )
    repeated = [redirect_target(await team.owner.post(PAYOUTS, order)) for _ in range(2)]
    assert repeated[0] == repeated[1] != first
    for request in (first, *repeated):
        await team.finance.post(f"{request}/approve", {})
    await team.dashboard.run_jobs()
    assert await team.dashboard.count("payout") == 1
    again = redirect_target(await team.owner.post(PAYOUTS, order))
    await team.finance.post(f"{again}/approve", {})
    await team.dashboard.run_jobs()
    assert await team.dashboard.count("payout") == 1
    assert await team.dashboard.balance() == WALLET - 6_000_00


async def test_a_file_above_the_threshold_waits_and_can_be_refused(team: Team) -> None:
    await _set_threshold(team.owner, "1500")
    rows = [f"1000,{GTBANK},{new_account()},,," for _ in range(2)]
    batch = await draft(team.dashboard, rows)
    await team.owner.post(f"{batch}/confirm", {})
    await team.dashboard.run_jobs()
    assert [row[1] for row in await team.dashboard.rows(batch)] == ["ready"] * 2
    assert batch.rsplit("/", 1)[1] in (await team.finance.get(PROTECTION)).body.decode()
    await team.finance.post(f"{batch}/refuse", {})
    await team.finance.post(f"{batch}/approve", {})
    await team.dashboard.run_jobs()
    assert [row[1] for row in await team.dashboard.rows(batch)] == ["refused"] * 2
    assert await team.dashboard.balance() == WALLET


@pytest.mark.parametrize("is_early", [False, True], ids=["on time", "early"])
async def test_nobody_can_approve_after_the_request_has_expired(team: Team, is_early: bool) -> None:
    await _set_threshold(team.owner, "500")
    batch = await draft(team.dashboard, [f"1000,{GTBANK},{new_account()},,,"])
    await team.owner.post(f"{batch}/confirm", {})
    if is_early:
        # If the worker's clock is behind, the job runs before the request has expired.
        await team.dashboard.run_jobs()
    batch_id = batch.rsplit("/", 1)[1]
    await team.dashboard.services.db.execute(
        "UPDATE payout_batch SET expires_at = now() WHERE id = $1", batch_id
    )
    await team.finance.post(f"{batch}/approve", {})
    await team.dashboard.run_jobs()
    [row] = await team.dashboard.rows(batch)
    assert (row[1], row[2]) == ("refused", batches.EXPIRED)
    assert await team.dashboard.balance() == WALLET


async def test_an_upgrade_ends_requests_whose_job_an_earlier_release_has_deleted(
    team: Team, owner: Database
) -> None:
    await _set_threshold(team.owner, "500")
    rows = [f"1000,{GTBANK},{new_account()},,,"]
    waiting, stuck = [await draft(team.dashboard, rows) for _ in range(2)]
    db = team.dashboard.services.db
    for batch in (waiting, stuck):
        await team.owner.post(f"{batch}/confirm", {})
    stuck_id = stuck.rsplit("/", 1)[1]
    await db.execute("UPDATE payout_batch SET expires_at = now() WHERE id = $1", stuck_id)
    await db.execute("DELETE FROM job WHERE kind = $1 AND subject = $2", batches.PAY, stuck_id)
    await team.dashboard.run_jobs()
    assert [row[1] for row in await team.dashboard.rows(stuck)] == ["ready"]
    [migration] = Path(runner.__file__).parent.glob("migrations/0073_*.sql")
    await owner.execute(migration.read_text())
    await team.dashboard.run_jobs()
    assert [row[1] for row in await team.dashboard.rows(stuck)] == ["refused"]
    assert [row[1] for row in await team.dashboard.rows(waiting)] == ["ready"]


async def test_the_balance_is_checked_again_when_a_request_is_approved(team: Team) -> None:
    await _set_threshold(team.owner, "500000")
    asked = redirect_target(await team.owner.post(PAYOUTS, await _order(team, "900000")))
    assert (await team.owner.post(PAYOUTS, await _order(team, "400000"))).status == 303
    await team.finance.post(f"{asked}/approve", {})
    await team.dashboard.run_jobs()
    assert await team.dashboard.balance() == WALLET - 400_000_00
    assert "Top up ₦300,000.00 first." in (await team.finance.get(asked)).body.decode()


async def test_a_threshold_needs_a_team_and_only_another_person_can_weaken_it(
    team: Team, services: Services, site: Site
) -> None:
    alone = await new_dashboard(services, site)
    page = await _set_threshold(alone.owner, "5000")
    assert "Nobody else on your team may move money" in page
    assert 'value="5000' not in page
    assert 'value="5000' in await _set_threshold(team.owner, "5000")
    # A stricter threshold takes effect immediately.
    assert 'value="4000' in await _set_threshold(team.owner, "4000")
    page = await _set_threshold(team.owner, "")
    assert 'value="4000' in page
    assert "no threshold" in page

    change = f"{CHANGES}/{await _change_id(team)}"
    assert (await alone.owner.post(f"{change}/approve", HERE)).status == 404
    await team.owner.post(f"{change}/approve", HERE)
    assert 'value="4000' in (await team.owner.get(PROTECTION)).body.decode()
    await team.finance.post(f"{change}/approve", HERE)
    assert 'value="4000' not in (await team.owner.get(PROTECTION)).body.decode()


async def test_locked_accounts_limit_payouts_of_the_dashboard_files_and_api(team: Team) -> None:
    saved, other = new_account(), new_account()
    dashboard = team.dashboard
    assert (await team.owner.post(ACCOUNTS, await _order(team, "", saved))).status == 303
    await _lock(team.owner, is_on=True)
    await dashboard.services.directory._refresh(0)

    refused = await team.owner.post(PAYOUTS, await _order(team, "1000", other))
    assert b"only to its saved accounts" in refused.body
    assert (await team.owner.post(PAYOUTS, await _order(team, "1000", saved))).status == 303
    batch = await draft(dashboard, [f"1000,{GTBANK},{account},,," for account in (saved, other)])
    await team.owner.post(f"{batch}/confirm", {})
    await dashboard.run_jobs()
    rows = await dashboard.rows(batch)
    assert [row[1] for row in rows] == ["paid", "refused"]
    assert "only to its saved accounts" in rows[1][2]

    replies = [await _ask_api(team, account) for account in (saved, other)]
    assert [reply.status for reply in replies] == [200, 422]
    assert replies[1].json["error_code"] == "invalid_beneficiary"
    assert await dashboard.balance() == WALLET - 3_000_00


async def _ask_api(team: Team, account: str) -> Reply:
    return await team.dashboard.merchant.post(
        INITIATE,
        {
            "payout_amount": 1000,
            "currency_code": "NGN",
            "ref_trx": new_reference(),
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": await team.dashboard.method_id(),
            "beneficiary": {"bank_code": GTBANK, "account_number": account},
        },
    )


async def test_a_stale_cache_does_not_permit_a_payout_to_another_account(team: Team) -> None:
    services, merchant_id = team.dashboard.services, team.dashboard.merchant.new.id
    assert (await _ask_api(team, new_account())).status == 200  # fills the cache
    await services.db.execute(
        "UPDATE merchant SET accounts_locked = true WHERE id = $1", merchant_id
    )
    refused = await _ask_api(team, new_account())
    assert (refused.status, refused.json["error_code"]) == (422, "invalid_beneficiary")
    assert await team.dashboard.balance() == WALLET - 1_000_00


async def test_a_new_account_of_a_locked_merchant_needs_another_person(team: Team) -> None:
    account = new_account()
    await _lock(team.owner, is_on=True)
    await team.owner.post(ACCOUNTS, await _order(team, "", account))
    assert await team.dashboard.rows(ACCOUNTS, q=account) == []
    page = (await team.finance.get(PROTECTION)).body.decode()
    assert account in page
    change = f"{CHANGES}/{await _change_id(team)}"
    await team.owner.post(f"{change}/approve", HERE)
    assert await team.dashboard.rows(ACCOUNTS, q=account) == []
    await team.finance.post(f"{change}/approve", HERE)
    assert len(await team.dashboard.rows(ACCOUNTS, q=account)) == 1

    await _lock(team.owner, is_on=False)
    assert "Allow any account" in (await team.owner.get(PROTECTION)).body.decode()
    await team.owner.post(f"{CHANGES}/{await _change_id(team)}/refuse", HERE)
    assert "Allow any account" in (await team.owner.get(PROTECTION)).body.decode()
