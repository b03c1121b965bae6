"""The console's rails page lists problems first, and an administrator can stop a rail's payouts."""

import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from manilla.audit import audit
from manilla.people.roles import ConsoleRole
from manilla.providers import draining
from manilla.providers.port import Direction, Unknown
from manilla.routing import deliveries
from manilla.routing.outcomes import Outcomes
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, overflow
from tests.console.conftest import SCRIPT, PopulatedConsole
from tests.payouts.payout_merchant import see_changes
from tests.support.provider_simulator import forget_outcomes
from tests.web.signed_in_user import SignedInUser

GTBANK, ACCESS = "058", "044"


@pytest.fixture
async def visitor(services: Services, populated: PopulatedConsole) -> SignedInUser:
    await populated.administrator.step_up(services)
    return populated.administrator


@pytest.fixture(autouse=True)
async def counted(services: Services) -> AsyncIterator[None]:
    """Records failed payouts of provider B to one bank, and delivered payouts of provider A."""
    await forget_outcomes(services)
    good, bad = Outcomes(), Outcomes(failed=3)
    for seconds in (3, 3, 45):
        good.add_delivery(seconds)
    bad.last_error, bad.last_error_at = f"Refused {SCRIPT}", await services.db.value("SELECT now()")
    await deliveries._add(services.db, ("providera", GTBANK), good)
    await deliveries._add(services.db, ("providerb", ACCESS), good)
    await deliveries._add(services.db, ("providerb", GTBANK), bad)
    yield
    await draining.undrain(services.db, "providera")
    await forget_outcomes(services)
    await see_changes(services)


async def test_problems_come_first_with_the_last_error(visitor: SignedInUser) -> None:
    page = (await visitor.get("/rails")).body.decode()
    assert page.index(">Provider B<") < page.index(">Provider A<")
    failing, fine = page.index("Guaranty Trust Bank"), page.index("Access Bank")
    assert failing < fine
    assert "Failing for 1 bank<" in page
    assert "Refused" in page
    assert SCRIPT not in page
    assert "≤ 5 s" in page
    assert "≤ 60 s" in page
    assert "100.0 %" in page


async def test_overview_and_rails_agree_about_a_rail_that_is_down_for_payments(
    services: Services, visitor: SignedInUser
) -> None:
    rail = services.rails.health.rail("providera", Direction.PAY_IN)
    rail._trip()
    await services.rails.health.flush()
    try:
        overview = (await visitor.get("/")).body.decode()
        assert re.search(r'href="/console/rails"[^>]*>(?:(?!</a>).)*\b1\b', overview, re.DOTALL)
        page = (await visitor.get("/rails")).body.decode()
        assert page.index(">Provider A<") < page.index(">Provider B<")
        about = page[page.index(">Provider A<") : page.index(">Provider B<")]
        assert ("Down" in about, "Up" in about) == (True, True)
    finally:
        await services.rails.health.mark_up(rail)


async def test_a_rail_with_few_usable_responses_is_degraded(
    services: Services, visitor: SignedInUser
) -> None:
    rail = services.rails.health.rail("providerb", Direction.PAY_OUT)
    text = "Provider B payouts: 0 % of calls answered"
    for calls in (2, 1):
        assert text not in (await visitor.get("/")).body.decode()
        for _ in range(calls):
            rail.record(Unknown("503"), 0.1)
        await services.rails.health.flush()
    try:
        overview = (await visitor.get("/")).body.decode()
        assert f'<a href="/console/providers/providerb">{text}</a>' in overview
        assert "0 % of 3 calls answered" in (await visitor.get("/rails")).body.decode()
    finally:
        await services.db.execute("DELETE FROM rail_minute WHERE provider = 'providerb'")


async def test_an_administrator_drains_and_undrains_a_rail(
    services: Services, visitor: SignedInUser
) -> None:
    drained = await visitor.post("/rails/providera/drain", {})
    assert "Provider A is drained" in await visitor.follow(drained)
    await see_changes(services)
    assert services.rails.is_drained("providera")
    entry = (await audit.latest(services.db, "rail.drain"))["provider:providera"]
    assert entry.actor_id == visitor.person_id
    permitted = await visitor.post("/rails/providera/undrain", {})
    assert "Provider A is no longer drained" in await visitor.follow(permitted)
    await see_changes(services)
    assert not services.rails.is_drained("providera")
    assert (await visitor.post("/rails/nobody/drain", {})).status == 404


async def test_only_administrators_drain(populated: PopulatedConsole) -> None:
    for role in (ConsoleRole.OPERATIONS, ConsoleRole.SUPPORT):
        user = populated.people[role]
        assert "Drain" not in (await user.get("/rails")).body.decode()
        assert (await user.post("/rails/providera/drain", {})).status == 403


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
async def test_the_page_is_accessible_and_fits(
    services: Services, visitor: SignedInUser, browser: Browser, width: int
) -> None:
    await draining.drain(services.db, "providera")
    context = await browser.new_context(viewport={"width": width, "height": 844})
    await visitor.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/console/rails")
    assert not await accessibility_violations(page)
    assert await overflow(page, width) <= 0
    await context.close()
