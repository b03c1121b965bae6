"""A settlement account's name is confirmed, and a change takes effect later or is canceled."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.people.roles import Role
from manilla.services import Services
from manilla.settlements import accounts
from manilla.settlements.accounts import SettlementAccount
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.bulk_upload import GTBANK
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.payouts.payout_merchant import MANUAL, new_account
from tests.support.client import Site
from tests.support.freshness import outdate
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import PASSWORD, member

PAGE = "/sandbox/settlement-account"
HOLDER = "SANDBOX BENEFICIARY"


@pytest.fixture(scope="module")
async def simulated(services: Services) -> AsyncIterator[None]:
    async with running_simulator(services):
        yield


@pytest.fixture
async def dashboard(services: Services, site: Site, simulated: None) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def _form(dashboard: MerchantDashboard, number: str, **changed: str) -> dict[str, str]:
    return {
        "method": str(await dashboard.method_id()),
        "bank_code": GTBANK,
        "account_number": number,
        "confirmed_name": HOLDER,
        **changed,
    }


async def _set(dashboard: MerchantDashboard, number: str, **changed: str) -> int:
    return (await dashboard.owner.post(PAGE, await _form(dashboard, number, **changed))).status


def _tenant(dashboard: MerchantDashboard) -> Tenant:
    return Tenant(dashboard.merchant.new.id, Environment.SANDBOX)


async def _in_effect(dashboard: MerchantDashboard) -> SettlementAccount | None:
    tenant, db = _tenant(dashboard), dashboard.services.db
    return await accounts.settlement_account(db, tenant.merchant_id, tenant.environment, "NGN")


async def _numbers(dashboard: MerchantDashboard) -> tuple[str | None, str | None]:
    """Returns the account numbers of the current and of the pending settlement account."""
    known = await _in_effect(dashboard)
    later = await accounts.waiting(dashboard.services.db, _tenant(dashboard), "NGN")
    return known.number if known else None, later.number if later else None


async def _end_wait(dashboard: MerchantDashboard, owner: Database) -> None:
    await owner.execute(
        "UPDATE settlement_account SET effective_at = now() WHERE merchant_id = $1",
        dashboard.merchant.new.id,
    )


async def test_the_first_account_takes_effect_at_once_with_its_resolved_name(
    dashboard: MerchantDashboard,
) -> None:
    number = new_account()
    review = await dashboard.owner.post(f"{PAGE}/new", await _form(dashboard, number))
    assert HOLDER in review.body.decode()
    assert "immediately" in review.body.decode()
    assert await _numbers(dashboard) == (None, None)

    assert await _set(dashboard, number) == 303
    account = await _in_effect(dashboard)
    assert account is not None
    assert (account.number, account.account_name) == (number, HOLDER)
    assert account.bank_name == "Guaranty Trust Bank"
    assert account.set_by == dashboard.owner.email


async def test_a_change_waits_and_the_old_account_stays_in_effect_until_then(
    dashboard: MerchantDashboard, owner: Database
) -> None:
    first, second = new_account(), new_account()
    await _set(dashboard, first)
    await _set(dashboard, second)
    assert await _numbers(dashboard) == (first, second)
    page = (await dashboard.owner.get(PAGE)).body.decode()
    assert first in page
    assert second in page
    await _end_wait(dashboard, owner)
    assert await _numbers(dashboard) == (second, None)


async def test_a_later_change_replaces_the_waiting_one_which_never_takes_effect(
    dashboard: MerchantDashboard, owner: Database
) -> None:
    first, second, third = new_account(), new_account(), new_account()
    for number in (first, second, third):
        await _set(dashboard, number)
    assert await _numbers(dashboard) == (first, third)
    await owner.execute(
        "UPDATE settlement_account SET effective_at = now()"
        " WHERE merchant_id = $1 AND canceled_at IS NOT NULL",
        dashboard.merchant.new.id,
    )
    assert await _numbers(dashboard) == (first, third)


async def test_a_canceled_change_never_takes_effect(
    dashboard: MerchantDashboard, owner: Database
) -> None:
    first, second = new_account(), new_account()
    await _set(dashboard, first)
    await _set(dashboard, second)
    canceled = await dashboard.owner.post(f"{PAGE}/cancel", {"currency": "NGN"})
    assert "Change canceled." in await dashboard.owner.follow(canceled)
    await _end_wait(dashboard, owner)
    assert await _numbers(dashboard) == (first, None)
    again = await dashboard.owner.post(f"{PAGE}/cancel", {"currency": "NGN"})
    assert "There is no change to cancel." in await dashboard.owner.follow(again)


async def test_the_same_account_again_is_rejected_and_cancels_nothing(
    dashboard: MerchantDashboard,
) -> None:
    first, second = new_account(), new_account()
    await _set(dashboard, first)
    await _set(dashboard, second)
    assert await _set(dashboard, first) == 409
    assert await _numbers(dashboard) == (first, second)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"account_number": "0000000002"}, "The account could not be verified."),
        ({"account_number": "12345"}, "The account number must have 10 digits."),
        ({"bank_code": "Zenit Bank"}, "Zenit Bank is not a bank code of providera"),
        ({"bank_code": ""}, "Choose a bank."),
        ({"confirmed_name": "SOMEBODY ELSE"}, f"The account&#39;s name is now {HOLDER}."),
        ({"confirmed_name": ""}, f"The account&#39;s name is now {HOLDER}."),
    ],
)
async def test_an_account_that_is_not_verified_and_confirmed_is_not_set(
    dashboard: MerchantDashboard, changed: dict[str, str], reason: str
) -> None:
    reply = await dashboard.owner.post(PAGE, await _form(dashboard, new_account(), **changed))
    assert reply.status in (400, 422), reply.body
    assert reason in reply.body.decode()
    assert await _numbers(dashboard) == (None, None)


async def test_a_manual_method_has_no_name_to_confirm_and_is_rejected(
    dashboard: MerchantDashboard,
) -> None:
    manual = str(await dashboard.method_id(MANUAL))
    assert await _set(dashboard, new_account(), method=manual) >= 400
    assert await _numbers(dashboard) == (None, None)


async def test_a_pending_merchant_may_set_its_own_account_and_a_disabled_one_may_not(
    dashboard: MerchantDashboard,
) -> None:
    services, merchant_id = dashboard.services, dashboard.merchant.new.id
    number = new_account()
    for status, expected in ((MerchantStatus.PENDING, 303), (MerchantStatus.DISABLED, 403)):
        change = MerchantUpdate(status=status)
        await merchants.change(services.db, services.keyring, merchant_id, change)
        await outdate(services)
        assert await _set(dashboard, number if expected == 303 else new_account()) == expected
    assert await _numbers(dashboard) == (number, None)


async def test_a_change_needs_step_up_and_the_right_role(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    await services.db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1", dashboard.owner.person_id
    )
    asked = await dashboard.owner.post(PAGE, await _form(dashboard, new_account()))
    assert "step_up_secret" in asked.body.decode()
    for role in (Role.DEVELOPER, Role.VIEWER):
        user = await member(services, site, dashboard.merchant.new.id, role)
        assert (await user.post(PAGE, await _form(dashboard, new_account()))).status == 403
    assert await _numbers(dashboard) == (None, None)


async def test_owners_are_notified_and_the_audit_log_hides_the_account_number(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    finance = await member(services, site, dashboard.merchant.new.id, Role.FINANCE)
    await finance.step_up(services)
    number = new_account()
    assert (await finance.post(PAGE, await _form(dashboard, number))).status == 303
    home = (await dashboard.owner.get("/sandbox")).body.decode()
    assert f"{finance.email} set the sandbox settlement account in NGN to {HOLDER}" in home
    assert "set the sandbox settlement account" not in (
        (await finance.get("/sandbox")).body.decode()
    )
    detail: str = await services.db.value(
        "SELECT detail::text FROM audit WHERE merchant_id = $1 AND action = $2",
        *(dashboard.merchant.new.id, "settlement_account.set"),
    )
    assert number[-4:] in detail
    assert number not in detail


async def test_concurrent_changes_leave_at_most_one_waiting(dashboard: MerchantDashboard) -> None:
    await _set(dashboard, new_account())
    account = await _in_effect(dashboard)
    assert account is not None
    numbers = [new_account() for _ in range(4)]
    await asyncio.gather(*(_set(dashboard, number) for number in numbers))
    waiting = await dashboard.services.db.value(
        "SELECT count(*) FROM settlement_account"
        " WHERE merchant_id = $1 AND canceled_at IS NULL AND effective_at > now()",
        dashboard.merchant.new.id,
    )
    assert waiting == 1
    assert (await _numbers(dashboard))[0] == account.number


async def test_lookups_of_names_are_limited(dashboard: MerchantDashboard) -> None:
    fields = [await _form(dashboard, new_account()) for _ in range(8)]
    codes = [(await dashboard.owner.post(f"{PAGE}/new", each)).status for each in fields]
    assert codes[0] == 200
    assert codes[-1] == 429


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
async def test_an_owner_sets_the_account_with_the_keyboard(
    dashboard: MerchantDashboard, browser: Browser, width: int
) -> None:
    number = new_account()
    async with dashboard.open_page(browser, PAGE, width=width) as page:
        assert await accessibility_violations(page) == []
        await page.get_by_role("link", name="Set NGN account").focus()
        await page.keyboard.press("Enter")
        await page.get_by_label("Method").select_option(str(await dashboard.method_id()))
        await page.get_by_role("button", name="Continue").press("Enter")
        # The field is a select element until the page's script replaces it.
        await page.get_by_placeholder("Type a name or code").fill(GTBANK)
        await page.get_by_label("Account number").fill(number)
        assert await accessibility_violations(page) == []
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Confirm settlement account").wait_for()
        assert await accessibility_violations(page) == []
        await page.get_by_role("button", name="Confirm account").press("Enter")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.keyboard.press("Enter")
        await page.get_by_text("Settlement account saved.").wait_for()
        assert await accessibility_violations(page) == []
    assert await _numbers(dashboard) == (number, None)
