"""The console's bank pages list unmatched codes first. Administrators map codes to banks."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from manilla.audit import audit
from manilla.banks import learning
from manilla.banks.nigeria import BY_CODE
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, overflow
from tests.console.conftest import SCRIPT, PopulatedConsole
from tests.support.freshness import outdate
from tests.web.signed_in_user import SignedInUser

PROVIDER = "kora"
AT = f"/banks/{PROVIDER}"
LISTED = [
    ("044", "Access Bank"),
    ("057", "Zenith Bank"),
    ("501", "Fortis Microfinance Bank"),
    ("X/1?&", f"Odd {SCRIPT}"),
]


@pytest.fixture
async def visitor(services: Services, populated: PopulatedConsole) -> SignedInUser:
    await populated.administrator.step_up(services)
    return populated.administrator


@pytest.fixture(autouse=True)
async def learned(services: Services) -> AsyncIterator[None]:
    """Stores the bank list of a provider account that the simulated providers do not use."""
    await learning.learn(services.db, PROVIDER, LISTED)
    yield
    await services.db.execute("DELETE FROM provider_bank WHERE provider = $1", PROVIDER)


async def test_codes_without_a_bank_come_first_with_the_reason(visitor: SignedInUser) -> None:
    page = (await visitor.get(AT)).body.decode()
    assert page.index("Fortis Microfinance Bank") < page.index("Access Bank")
    assert "The code belongs to FSDH Merchant Bank, but the name does not." in page
    assert "Neither the code nor the bank name is known." in page
    assert SCRIPT not in page
    overview = (await visitor.get("/banks")).body.decode()
    assert overview.index("Kora") < overview.index("Paystack")


async def test_a_code_is_found_by_a_search(visitor: SignedInUser) -> None:
    page = (await visitor.get(f"{AT}?q=zenith")).body.decode()
    assert "Zenith Bank" in page
    assert "Fortis" not in page
    assert "No results" in (await visitor.get(f"{AT}?q=nowhere")).body.decode()


async def test_an_administrator_maps_and_unmaps_a_code(
    services: Services, visitor: SignedInUser
) -> None:
    form = (await visitor.get(f"{AT}?code=X%2F1%3F%26")).body.decode()
    assert "Name at the provider" in form
    mapped = await visitor.post(AT, {"code": "X/1?&", "bank": "50211"})
    assert "now mapped to Kuda Microfinance Bank" in await visitor.follow(mapped)
    await outdate(services)
    await services.watch.ensure_fresh()
    assert services.registry.code_at(PROVIDER, BY_CODE["50211"]) == "X/1?&"
    entry = (await audit.latest(services.db, "bank.map"))[f"provider:{PROVIDER}"]
    assert (entry.detail["after"], entry.actor_id) == ("50211", visitor.person_id)
    unmapped = await visitor.post(AT, {"code": "X/1?&", "bank": "none"})
    assert "now mapped to no bank" in await visitor.follow(unmapped)


async def test_a_mapping_that_cannot_be_is_rejected_with_the_reason(visitor: SignedInUser) -> None:
    unknown = await visitor.post(AT, {"code": "nothing", "bank": "044"})
    assert (unknown.status, b"no code" in unknown.body) == (404, True)
    bad = await visitor.post(AT, {"code": "501", "bank": "nothing"})
    assert (bad.status, b"no bank" in bad.body) == (400, True)
    assert (await visitor.get("/banks/nobody")).status == 404


async def test_only_administrators_may_map(populated: PopulatedConsole) -> None:
    for role in (ConsoleRole.OPERATIONS, ConsoleRole.SUPPORT):
        user = populated.people[role]
        assert "Map a code" not in (await user.get(f"{AT}?code=501")).body.decode()
        assert (await user.post(AT, {"code": "501", "bank": "044"})).status == 403


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
async def test_the_form_is_accessible_on_phone_and_desktop(
    browser: Browser, services: Services, visitor: SignedInUser, width: int
) -> None:
    context = await browser.new_context(viewport={"width": width, "height": 844})
    await visitor.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/console{AT}?code=501")
    assert not await accessibility_violations(page)
    assert await overflow(page, width) <= 0
    field = page.get_by_role("combobox", name="Bank")
    await field.fill("fsdh")
    await field.press("Enter")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_text("now mapped to FSDH Merchant Bank").wait_for()
    await context.close()
